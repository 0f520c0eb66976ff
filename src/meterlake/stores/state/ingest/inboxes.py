"""Bucket inboxes, and the claims on their objects, each with its job.

The id of a claim and its job is made of the inbox, the key and the version of the object, so that several pollers
which list the same object want to insert the same row, and one of them does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.model.values.ids import derived_id
from meterlake.model.work.jobs import JobKind
from meterlake.stores.objects import ObjectInfo
from meterlake.stores.state.core.state import State
from meterlake.stores.state.ingest.inbox_tables import INBOX, INBOX_CLAIM
from meterlake.stores.state.jobs import JOB, Job, JobStatus, Lease, takeable
from meterlake.stores.state.jobs.jobs import insert_job, job_of, requeue
from meterlake.stores.state.jobs.table import of_kind

_IDS_AT_ONCE: Final = 500
_DUE_AT_ONCE: Final = 100


class Afterwards(StrEnum):
    """What becomes of an object that was ingested."""

    MOVE = "move"
    TAG = "tag"
    LEAVE = "leave"


class ClaimStatus(StrEnum):
    """How far an object has come."""

    TAKEN = "TAKEN"
    INGESTED = "INGESTED"  # In the lake; not yet moved or tagged.
    DONE = "DONE"
    FAILED = "FAILED"  # It could not be read at all.
    GONE = "GONE"  # Replaced or taken away before it was here.


# Of jobs that have ended.
_ENDS: Final = {
    ClaimStatus.DONE: JobStatus.COMPLETE,
    ClaimStatus.FAILED: JobStatus.FAILED,
    ClaimStatus.GONE: JobStatus.CANCELLED,
}
_STATUS: Final = {status: claim_status for claim_status, status in _ENDS.items()}


@dataclass(frozen=True, slots=True)
class Inbox:
    """A prefix of a bucket (or a folder) whose objects one organization ingests.

    Attributes:
        author: Who added it, or said last what becomes of its objects; None if nobody knows.
    """

    id: str
    org_id: str
    url: str
    afterwards: Afterwards
    created: datetime
    author: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """One version of one object, with its job."""

    job: Job
    inbox_id: str
    key: str
    version: str
    size_bytes: int

    @property
    def id(self) -> str:
        """The id of the job, and of the delivery that the object is."""
        return self.job.id

    @property
    def status(self) -> ClaimStatus:
        """How far it has come; its receipt says whether it is in the lake."""
        going_on = ClaimStatus.INGESTED if self.job.result else ClaimStatus.TAKEN
        return _STATUS.get(self.job.status, going_on)

    @property
    def received(self) -> datetime:
        """When it was first seen."""
        return self.job.created

    @property
    def report(self) -> dict[str, Any]:
        """The receipt, once it is ingested."""
        return self.job.result


def claim_id(inbox: Inbox, info: ObjectInfo) -> str:
    """The id of the claim on one version of an object."""
    return derived_id("inbox-claim", inbox.id, info.key, info.version)


class Inboxes:
    """The inboxes and claims of a home."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(
        self, org_id: str, url: str, afterwards: Afterwards, author: str | None = None
    ) -> Inbox:
        """Add an inbox; one that is there already changes what becomes of its objects."""
        id_, now = derived_id("inbox", org_id, url), self._state.now()
        inbox = Inbox(id_, org_id, url, afterwards, now, author)
        with self._state.writing_home() as connection:
            values = {"afterwards": afterwards.value, "author": author}
            statement = update(INBOX).where(INBOX.c.id == inbox.id).values(values)
            if connection.execute(statement).rowcount == 0:
                row = values | {"id": inbox.id, "org": org_id, "url": url, "created": inbox.created}
                connection.execute(insert(INBOX), row)
                # Claims on its objects get its organization, if nobody knew it any more.
                mine = select(INBOX_CLAIM.c.id).where(INBOX_CLAIM.c.inbox == id_)
                lost = JOB.c.org.is_(None) & JOB.c.id.in_(mine)
                connection.execute(update(JOB).where(lost).values(org=org_id))
        return inbox

    def remove(self, org_id: str, url: str) -> None:
        """Remove an inbox; its claims stay, for the case that it is added again.

        Raises:
            NotFound: There is none.
        """
        mine = (INBOX.c.org == org_id) & (INBOX.c.url == url)
        with self._state.writing_home() as connection:
            if connection.execute(delete(INBOX).where(mine)).rowcount == 0:
                raise NotFound("inbox", url)

    def all(self, org_id: str | None = None) -> list[Inbox]:
        """The inboxes of an organization, or of the whole home; the oldest first."""
        query = select(INBOX).order_by(INBOX.c.created, INBOX.c.url)
        if org_id is not None:
            query = query.where(INBOX.c.org == org_id)
        with self._state.reading_home() as connection:
            return [
                Inbox(
                    *(row.id, row.org, row.url, Afterwards(row.afterwards)),
                    *(row.created, row.author),
                )
                for row in connection.execute(query)
            ]

    def organizations(self) -> list[str]:
        """The organizations that have inboxes."""
        with self._state.reading_home() as connection:
            return list(connection.execute(select(INBOX.c.org).distinct()).scalars())

    def claims(self, ids: Iterable[str]) -> dict[str, Claim]:
        """Those of some claims that exist, by id."""
        wanted, found = list(ids), {}
        with self._state.reading_home() as connection:
            for start in range(0, len(wanted), _IDS_AT_ONCE):
                some = JOB.c.id.in_(wanted[start : start + _IDS_AT_ONCE])
                for row in connection.execute(_claims(some)):
                    found[row.id] = _claim(row)
        return found

    def recent(self, inbox: Inbox, limit: int = 20) -> list[Claim]:
        """The newest claims on objects of an inbox, the newest first."""
        query = _claims(_of_inbox(inbox))
        query = query.order_by(JOB.c.created.desc(), JOB.c.id).limit(limit)
        with self._state.reading_home() as connection:
            return [_claim(row) for row in connection.execute(query)]

    def due(self, inbox: Inbox) -> list[Claim]:
        """Claims that nobody works on any more and that are not finished, the oldest first."""
        # Sorted here: SQLite would walk through all that ever were in the order of an index.
        query = _claims(_of_inbox(inbox), takeable(self._state.now()))
        with self._state.reading_home() as connection:
            found = [_claim(row) for row in connection.execute(query)]
        return sorted(found, key=lambda claim: claim.received)[:_DUE_AT_ONCE]

    def take(self, inbox: Inbox, info: ObjectInfo) -> Claim | None:
        """Claim an object; None if somebody else has done so before."""
        job = Job(claim_id(inbox, info), inbox.org_id, JobKind.INBOX_OBJECT, self._state.now())
        claim = Claim(job.begin(), inbox.id, info.key, info.version, info.size_bytes)
        row = {
            "id": claim.id,
            "inbox": inbox.id,
            "key": claim.key,
            "version": claim.version,
            "size_bytes": claim.size_bytes,
        }
        try:
            with self._state.writing_home() as connection:
                insert_job(connection, job)
                connection.execute(insert(INBOX_CLAIM), row)
        except IntegrityError:
            return None
        return claim

    def note_version(self, inbox: Inbox, claim: Claim, version: str) -> None:
        """Note that the object of a claim has another version, with the same content."""
        info = ObjectInfo(claim.key, claim.size_bytes, version=version)
        made = self.take(inbox, info) if version != claim.version else None
        if made is not None:
            self.finish(made, ClaimStatus.DONE)

    def take_over(self, claim: Claim) -> Claim | None:
        """Begin a new attempt at a claim; None if somebody was faster.

        Args:
            claim: One whose poller is dead, or whose object was gone.
        """
        mine = JOB.c.id == claim.id
        with self._state.writing_home() as connection:
            if claim.status is ClaimStatus.GONE:
                connection.execute(requeue(mine, JOB.c.attempt == claim.job.attempt))
            if Lease.take(connection, claim.id, self._state.now()) is None:
                return None
            return _claim(connection.execute(_claims(mine)).one())

    def note_ingested(self, claim: Claim, report: Mapping[str, Any]) -> Claim:
        """Note that an object is in the lake, with its receipt.

        Raises:
            StaleVersion: Another poller took it over.
        """
        text = wire.dumps_sorted(dict(report))
        with self._state.writing_home() as connection:
            claim.job.lease.renew(connection, self._state.now(), result=text, error=None)
        return replace(claim, job=replace(claim.job, result=wire.loads(text)))

    def finish(self, claim: Claim, status: ClaimStatus) -> None:
        """Write the end of a claim down.

        Raises:
            StaleVersion: Another poller took it over.
        """
        with self._state.writing_home() as connection:
            claim.job.lease.finish(connection, self._state.now(), _ENDS[status], error=None)

    def release(self, claim: Claim, error: str, pause: timedelta) -> None:
        """Give a claim back, to be tried again after a pause."""
        with self._state.writing_home() as connection:
            claim.job.lease.release(connection, self._state.now(), pause, error=error)


def _of_inbox(inbox: Inbox) -> ColumnElement[bool]:
    return of_kind(inbox.org_id, JobKind.INBOX_OBJECT) & (INBOX_CLAIM.c.inbox == inbox.id)


def _claims(*conditions: ColumnElement[bool]) -> Select[Any]:
    table = INBOX_CLAIM.c
    facts = table.inbox, table.key, table.version.label("object_version"), table.size_bytes
    return select(*JOB.c, *facts).join(INBOX_CLAIM, table.id == JOB.c.id).where(*conditions)


def _claim(row: Row[Any]) -> Claim:
    return Claim(job_of(row), row.inbox, row.key, row.object_version, row.size_bytes)
