"""Runs of integrations: written with the event that they follow from, listed newest first."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_, select, true, tuple_

from meterlake.model.configuration.integration_systems import BILL
from meterlake.model.configuration.integrations import RunAction, RunStatus
from meterlake.model.errors import NotFound
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.core.many_rows import chunks_of, insert_rows
from meterlake.stores.state.core.pages import Page, read
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.events.event_tables import EVENT
from meterlake.stores.state.integrations.run_tables import INTEGRATION_RUN
from meterlake.stores.state.jobs import JOB, Job, JobStatus
from meterlake.stores.state.jobs.jobs import job_of

# Databases limit the parameters of a statement.
_CHUNK: Final = 400
# The key of a replay is that of the run that it repeats, and this with an id.
REPLAY_MARK: Final = "#replay-"
_FACTS: Final = [
    each.label(f"run_{each.name}")
    for each in INTEGRATION_RUN.c
    if each not in (INTEGRATION_RUN.c.id, INTEGRATION_RUN.c.org)
]


def deletion_key(config_id: str | None, bill_id: str) -> str:
    """The key of the run that takes a bill back."""
    return f"{config_id} {bill_id} deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContent:
    """What is handed over where, and why.

    Attributes:
        entity_type: `Notification`, `Bill`, or another kind that integrations take.
        entity_id: The notification's configuration, the bill.
        destination: The system, in upper case: `WEBHOOK`, `STRIPE`.
        destination_id: The webhook; None if the configuration says all.
        config_id: The configuration of the integration; None if it was asked for by hand.
        run_key: What makes it unique in its organization: it is handed over once.
        rule_version: The version of the notification that fired.
        parent_id: The run that it is a part of.
        replayed_from: The run that it repeats.
        body: The exact text that is sent; None if it is made at the time.
        action: What is done there, a `RunAction`.
        subject: What the entity is, whatever its id; None if that is its id.
    """

    entity_type: str
    entity_id: str
    destination: str
    run_key: str
    destination_id: str | None = None
    config_id: str | None = None
    config_version: int | None = None
    account_id: str | None = None
    event_id: str | None = None
    rule_version: int | None = None
    parent_id: str | None = None
    replayed_from: str | None = None
    body: str | None = None
    action: str = RunAction.SEND.value
    subject: str | None = None

    @property
    def is_deletion(self) -> bool:
        """Whether it takes back what was sent."""
        return self.action == RunAction.DELETE.value

    @property
    def queue(self) -> str:
        """What it waits in: of one destination, or of one configuration that needs none."""
        return self.destination_id or self.config_id or self.destination

    @property
    def original_key(self) -> str:
        """The key of the run that it repeats, again and again; its own if it repeats none."""
        return self.run_key.partition(REPLAY_MARK)[0]


@dataclass(slots=True)
class IntegrationRun:
    """A run, with its job.

    Attributes:
        status: Where it stands in the words of the API.
        external_id: What the other system calls what it got.
        url: Where one sees it there.
    """

    job: Job
    content: RunContent
    status: RunStatus
    created: datetime
    external_id: str | None = None
    url: str | None = None

    @property
    def id(self) -> str:
        """The id of the run, of its job, and of the delivery that receivers see."""
        return self.job.id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilters:
    """Which runs a list shows; None and empty mean any.

    Attributes:
        after: Made after this instant.
        until: Made before this instant, or at it.
        latest: Of each entity the newest run alone, whatever became of it.
        notifications: The notifications about events of the entities, too.
    """

    entity_type: str | None = None
    entity_ids: tuple[str, ...] = ()
    destination: str | None = None
    destination_id: str | None = None
    config_id: str | None = None
    statuses: tuple[RunStatus, ...] = ()
    after: datetime | None = None
    until: datetime | None = None
    latest: bool = False
    notifications: bool = False

    def conditions(self, org_id: str) -> Iterator[ColumnElement[bool]]:
        """What all of them fulfil."""
        columns = INTEGRATION_RUN.c
        yield columns.org == org_id
        for name in ("destination", "destination_id", "config_id"):
            if (value := getattr(self, name)) is not None:
                yield columns[name] == value
        yield self._about(org_id)
        if self.statuses:
            yield columns.status.in_([each.value for each in self.statuses])
        if self.after is not None:
            yield columns.created > self.after
        if self.until is not None:
            yield columns.created <= self.until
        if self.latest:
            yield ~_newer_run()

    def _about(self, org_id: str) -> ColumnElement[bool]:
        """Whether it hands over one of the entities, or tells of one where that is wanted."""
        columns = INTEGRATION_RUN.c
        found: list[ColumnElement[bool]] = [true()]
        if self.entity_type is not None:
            found.append(columns.entity_type == self.entity_type)
        if self.entity_ids:
            found.append(columns.entity_id.in_(self.entity_ids))
        if not self.notifications:
            return and_(*found)
        of_them = (EVENT.c.org == org_id, EVENT.c.resource_id.in_(self.entity_ids))
        return or_(and_(*found), columns.event_id.in_(select(EVENT.c.id).where(*of_them)))


@dataclass(slots=True)
class NewRuns:
    """Writes runs of an organization down, in a transaction that the caller has open.

    Attributes:
        author: Who asked for them; None if they follow from events.
    """

    connection: Connection
    org_id: str
    now: datetime
    new_id: Callable[[], str]
    author: str | None = None

    def add(self, contents: Sequence[RunContent]) -> list[str]:
        """Have runs wait for their first try; those whose keys there are already are left out.

        Returns:
            The ids of the new runs.
        """
        fresh = {each.run_key: each for each in contents}
        for key in self._known(list(fresh)):
            del fresh[key]
        made = [(self.new_id(), each) for each in fresh.values()]
        insert_rows(
            self.connection,
            JOB,
            [
                {
                    "id": id_,
                    "org": self.org_id,
                    "kind": JobKind.INTEGRATION_RUN.value,
                    "status": JobStatus.PENDING.value,
                    "author": self.author,
                    "parameters": "{}",
                    "attempt": 0,
                    "not_before": self.now,
                    "created": self.now,
                    "version": 1,
                    "cancel_asked": False,
                }
                for id_, _ in made
            ],
        )
        rows = [self._run_row(id_, each) for id_, each in made]
        insert_rows(self.connection, INTEGRATION_RUN, rows)
        return [id_ for id_, _ in made]

    def _known(self, keys: list[str]) -> Iterator[str]:
        column = INTEGRATION_RUN.c.run_key
        for start in range(0, len(keys), _CHUNK):
            some = column.in_(keys[start : start + _CHUNK])
            query = select(column).where(INTEGRATION_RUN.c.org == self.org_id, some)
            yield from self.connection.execute(query).scalars()

    def _run_row(self, id: str, content: RunContent) -> dict[str, Any]:
        facts = {name: getattr(content, name) for name in RunContent.__slots__}
        made = {"id": id, "org": self.org_id, "created": self.now}
        if content.entity_type == BILL:
            # Runs of one bill wait for each other.
            made["subject"] = content.subject or content.entity_id
        waits = {"status": RunStatus.WAITING.value, "queue": content.queue, "due": self.now}
        return {**facts, **made, **waits}


def find_run(connection: Connection, org_id: str, id: str) -> IntegrationRun:
    """One run.

    Raises:
        NotFound: The organization has none of that id.
    """
    row = connection.execute(_runs(org_id, INTEGRATION_RUN.c.id == id)).first()
    if row is None:
        raise NotFound("IntegrationRun", id)
    return run_of(row)


def contents_of_runs(reader: Reader, ids: Iterable[str]) -> dict[str, RunContent]:
    """What some runs hand over, by their ids."""
    found: dict[str, RunContent] = {}
    for some in chunks_of(ids):
        rows = reader.connection.execute(_runs(reader.org_id, INTEGRATION_RUN.c.id.in_(some)))
        found |= {row.id: run_of(row).content for row in rows}
    return found


def sent_entities(reader: Reader, entity_type: str, ids: Sequence[str]) -> set[str]:
    """Those of some entities that another system has, or is about to get."""
    run = INTEGRATION_RUN.c
    failed = [RunStatus.ERROR, RunStatus.AUTH_FAILED, RunStatus.DISABLED]
    has = or_(run.external_id.is_not(None), run.status.not_in([each.value for each in failed]))
    mine = (run.org == reader.org_id, run.entity_type == entity_type, has)
    found: set[str] = set()
    for start in range(0, len(ids), _CHUNK):
        query = select(run.entity_id).where(*mine, run.entity_id.in_(ids[start : start + _CHUNK]))
        found.update(reader.connection.execute(query).scalars())
    return found


def page_of_runs(
    connection: Connection, org_id: str, filters: RunFilters, page: Page
) -> tuple[list[IntegrationRun], str | None]:
    """One page of runs, the newest first if the page says nothing else, and the token of the next."""
    query = _runs(org_id, *filters.conditions(org_id))
    columns = INTEGRATION_RUN.c
    rows, token = read(connection, query, columns.created, columns.id, page)
    return [run_of(row) for row in rows], token


def _newer_run() -> ColumnElement[bool]:
    this, other = INTEGRATION_RUN.c, INTEGRATION_RUN.alias("newer")
    later = tuple_(other.c.created, other.c.id) > tuple_(this.created, this.id)
    same = (getattr(other.c, name) == this[name] for name in ("org", "entity_type", "entity_id"))
    return select(other.c.id).where(*same, later).correlate(INTEGRATION_RUN).exists()


def _runs(org_id: str, *conditions: ColumnElement[bool]) -> Select[Any]:
    query = select(*JOB.c, *_FACTS).join(INTEGRATION_RUN, INTEGRATION_RUN.c.id == JOB.c.id)
    return query.where(INTEGRATION_RUN.c.org == org_id, *conditions)


def run_of(row: Row[Any]) -> IntegrationRun:
    """The run of a row that has all columns of both tables."""
    content = {name: getattr(row, f"run_{name}") for name in RunContent.__slots__}
    return IntegrationRun(
        job_of(row),
        RunContent(**content),
        RunStatus(row.run_status),
        row.run_created,
        row.run_external_id,
        row.run_url,
    )
