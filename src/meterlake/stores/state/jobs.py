"""Jobs: what was asked for, who works on it until when, and how it ended.

A job begins at once (`start`), or waits until somebody takes it (`submit`, `take`). Who works on
one says so again and again (`renew`), or takes a lease that is long enough.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Update,
    and_,
    case,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from meterlake.model import wire
from meterlake.model.errors import Busy, Conflict, NotFound, StaleVersion
from meterlake.stores.state.core.engine import Database
from meterlake.stores.state.core.pages import Page, read
from meterlake.stores.state.core.tables import JOB, InstantText

LEASE: Final = timedelta(minutes=15)
# Of an attempt that renews it: one that was silent for so long is dead.
SHORT_LEASE: Final = timedelta(minutes=1)


class JobStatus(StrEnum):
    """Where a job stands."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def said(self) -> str:
        """As the end of a sentence about the job."""
        return _SAID[self]


_SAID: Final = {
    JobStatus.PENDING: "it waits",
    JobStatus.RUNNING: "it is running",
    JobStatus.COMPLETE: "it has succeeded",
    JobStatus.FAILED: "it has failed",
    JobStatus.CANCELLED: "it was cancelled",
}

# Jobs that ended so may be run again.
AGAIN: Final = (JobStatus.FAILED, JobStatus.CANCELLED)


@dataclass(slots=True)
class Job:
    """One job; who runs it puts its result into `result`.

    Attributes:
        attempt: The fencing token: only the latest attempt may finish the job.
        snapshot: The lake snapshot that it reads.
        author: Who asked for it; None if nobody in particular.
        schedule_id: The schedule that made it.
        due: Which of the schedule's runs it is.
        progress: How far it is, as the attempt that works on it last said.
        cancel_asked: Whether it is to stop.
    """

    id: str
    org_id: str
    kind: str
    status: JobStatus
    parameters: dict[str, Any]
    lease_until: datetime | None
    attempt: int
    created: datetime
    started: datetime | None
    snapshot: int | None = None
    result: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    finished: datetime | None = None
    version: int = 1
    author: str | None = None
    schedule_id: str | None = None
    due: datetime | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    cancel_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that waits to be taken, or one that its maker has taken already.

    Attributes:
        created: When it was asked for.
        schedule_id: The schedule that makes it, if one does.
        due: Which of the schedule's runs it is; there is one job of each.
        taken: The lake snapshot that it reads, if its maker works on it at once: then nobody else
            ever sees it waiting. It is to be renewed.
    """

    id: str
    org_id: str
    kind: str
    parameters: Mapping[str, Any]
    created: datetime
    author: str | None = None
    schedule_id: str | None = None
    due: datetime | None = None
    taken: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilters:
    """Which jobs of a kind are listed; made from `start` on and before `end`."""

    ids: tuple[str, ...] = ()
    schedule_id: str | None = None
    statuses: tuple[JobStatus, ...] = ()
    start: datetime | None = None
    end: datetime | None = None


def submit(connection: Connection, job: Submitted) -> bool:
    """Write a job down, with a lease if it is taken; False if there is one of that run already."""
    if job.due is not None:
        same = and_(JOB.c.schedule_id == job.schedule_id, JOB.c.due == job.due)
        if connection.execute(select(JOB.c.id).where(same)).first() is not None:
            return False
    row = {
        "id": job.id,
        "org": job.org_id,
        "kind": job.kind,
        "status": JobStatus.PENDING.value,
        "parameters": wire.dumps_sorted(dict(job.parameters)),
        "attempt": 0,
        "created": job.created,
        "author": job.author,
        "schedule_id": job.schedule_id,
        "due": job.due,
    }
    if job.taken is not None:
        row |= {
            "status": JobStatus.RUNNING.value,
            "attempt": 1,
            "snapshot": job.taken,
            "started": job.created,
            "lease_until": job.created + SHORT_LEASE,
        }
    connection.execute(insert(JOB), row)
    return True


def ended(
    connection: Connection,
    job: Job,
    now: datetime,
    *,
    error: str | None = None,
    status: JobStatus | None = None,
) -> None:
    """Write the end of a job down, together with what else is written; see `Jobs.finish`.

    Raises:
        StaleVersion: Another attempt took the job over, or it has ended.
    """
    job.status = status or (JobStatus.COMPLETE if error is None else JobStatus.FAILED)
    job.error, job.finished, job.lease_until = error, now, None
    values = {
        "status": job.status.value,
        "snapshot": job.snapshot,
        "result": wire.dumps_sorted(job.result),
        "progress": wire.dumps_sorted(job.progress),
        "error": error,
        "finished": now,
        "lease_until": None,
        "version": job.version + 1,
    }
    if connection.execute(_held(job).values(values)).rowcount != 1:
        query = select(JOB.c.attempt).where(JOB.c.id == job.id)
        stored = connection.execute(query).scalar()
        if stored is None:
            raise NotFound("job", job.id)
        raise StaleVersion("job", job.id, stored, job.attempt)
    job.version += 1


def newest_due(connection: Connection, schedule_id: str) -> datetime | None:
    """The last run of a schedule that there is a job of; None if there is none."""
    query = select(JOB.c.due).where(JOB.c.schedule_id == schedule_id, JOB.c.due.is_not(None))
    return connection.execute(query.order_by(JOB.c.due.desc()).limit(1)).scalar()


class Jobs:
    """The jobs of all organizations."""

    def __init__(
        self, database: Database, now: Callable[[], datetime], new_id: Callable[[], str]
    ) -> None:
        self._database = database
        self._now = now
        self._new_id = new_id

    @contextmanager
    def running(
        self, org_id: str, kind: str, parameters: Mapping[str, Any], snapshot: int | None = None
    ) -> Iterator[Job]:
        """Run the body as a job: complete with its `result`, or failed with what it raises."""
        job = self.start(org_id, kind, parameters, snapshot)
        try:
            yield job
        except BaseException as error:
            self.finish(job, error=f"{type(error).__name__}: {error}")
            raise
        self.finish(job)

    def start(
        self, org_id: str, kind: str, parameters: Mapping[str, Any], snapshot: int | None = None
    ) -> Job:
        """Write a job down as running, with a lease."""
        now = self._now()
        row = {
            "id": self._new_id(),
            "org": org_id,
            "kind": kind,
            "status": JobStatus.RUNNING.value,
            "parameters": wire.dumps_sorted(dict(parameters)),
            "lease_until": now + LEASE,
            "attempt": 1,
            "snapshot": snapshot,
            "created": now,
            "started": now,
        }
        with self._database.writing() as connection:
            connection.execute(insert(JOB), row)
        return self.get(str(row["id"]))

    def take_over(self, id: str) -> Job:
        """Begin a new attempt at a job whose executor is dead; a late end of the old one is refused.

        Raises:
            NotFound: There is no such job.
            Busy: It has ended, or its lease has not.
        """
        now = self._now()
        due = (JOB.c.status == JobStatus.RUNNING.value) & (JOB.c.lease_until <= now)
        statement = update(JOB).where(JOB.c.id == id, due)
        values = {"attempt": JOB.c.attempt + 1, "lease_until": now + LEASE, "started": now}
        with self._database.writing() as connection:
            taken = connection.execute(statement.values(values)).rowcount == 1
        job = self.get(id)
        if not taken:
            raise Busy(f"job {id!r}", f"{job.status.said}, its lease ends {job.lease_until}")
        return job

    def take(self, id: str, snapshot: int, parameters: Mapping[str, Any] | None = None) -> Job:
        """Begin an attempt at a job that waits, or whose executor is dead; it is to be renewed.

        Args:
            id: The job.
            snapshot: The lake snapshot that it reads, unless an earlier attempt pinned one.
            parameters: The first attempt's: what it was asked for, and what was left open. All
                later ones have the same.

        Raises:
            NotFound: There is no such job.
            Busy: It has ended, or somebody works on it.
        """
        now = self._now()
        values = {
            "status": JobStatus.RUNNING.value,
            "attempt": JOB.c.attempt + 1,
            "lease_until": now + SHORT_LEASE,
            "started": func.coalesce(JOB.c.started, literal(now, InstantText())),
            "snapshot": func.coalesce(JOB.c.snapshot, literal(snapshot, BigInteger())),
            "version": JOB.c.version + 1,
        }
        if parameters is not None:
            first = (JOB.c.attempt == 0, wire.dumps_sorted(dict(parameters)))
            values["parameters"] = case(first, else_=JOB.c.parameters)
        statement = update(JOB).where(JOB.c.id == id, _takeable(now))
        with self._database.writing() as connection:
            taken = connection.execute(statement.values(values)).rowcount == 1
        job = self.get(id)
        if not taken:
            raise Busy(f"job {id!r}", f"{job.status.said}, its lease ends {job.lease_until}")
        return job

    def renew(self, job: Job, progress: Mapping[str, Any] | None = None) -> bool:
        """Say that the attempt goes on, and how far it is.

        Returns:
            Whether it is to stop.

        Raises:
            StaleVersion: Another attempt took the job over, or it has ended.
        """
        values: dict[str, Any] = {"lease_until": self._now() + SHORT_LEASE}
        if progress is not None:
            values["progress"] = wire.dumps_sorted(dict(progress))
        with self._database.writing() as connection:
            done = connection.execute(_held(job).values(values)).rowcount == 1
        stored = self.get(job.id)
        if not done:
            raise StaleVersion("job", job.id, stored.attempt, job.attempt)
        return stored.cancel_asked

    def release(self, job: Job) -> None:
        """End an attempt without a result, so that the next one can begin at once."""
        values = {"lease_until": self._now(), "progress": wire.dumps_sorted(job.progress)}
        with self._database.writing() as connection:
            connection.execute(_held(job).values(values))

    def finish(
        self, job: Job, *, error: str | None = None, status: JobStatus | None = None
    ) -> None:
        """Write the end of a job down: its result, or why it has none.

        Args:
            job: The job, with its result, and how far it came.
            error: Why it failed.
            status: Of how it ended; it follows from the error if None.

        Raises:
            NotFound: There is no such job.
            StaleVersion: Another attempt took the job over, or it has ended.
        """
        with self._database.writing() as connection:
            ended(connection, job, self._now(), error=error, status=status)

    def retry(self, org_id: str, id: str, kind: str) -> Job:
        """Have a job that failed, or was cancelled, taken once more.

        Raises:
            NotFound: The organization has no such job.
            Conflict: It waits, is worked on, or is complete.
        """
        values = {
            "status": JobStatus.PENDING.value,
            "error": None,
            "finished": None,
            "progress": None,
            "cancel_asked": False,
            "version": JOB.c.version + 1,
        }
        over = update(JOB).where(_one(org_id, id, kind), in_status(*AGAIN))
        with self._database.writing() as connection:
            changed = connection.execute(over.values(values)).rowcount
        job = self.find(org_id, id, kind)
        if not changed:
            raise Conflict(f"the job {id} has not failed: {job.status.said}")
        return job

    def cancel(self, org_id: str, id: str, kind: str) -> Job:
        """End a job that waits, or tell the one who works on it to stop.

        Raises:
            NotFound: The organization has no such job.
            Conflict: It has ended.
        """
        mine = update(JOB).where(_one(org_id, id, kind))
        waits = mine.where(JOB.c.status == JobStatus.PENDING.value)
        runs = mine.where(JOB.c.status == JobStatus.RUNNING.value)
        version = {"version": JOB.c.version + 1}
        ended = {"status": JobStatus.CANCELLED.value, "finished": self._now(), **version}
        with self._database.writing() as connection:
            changed = connection.execute(waits.values(ended)).rowcount
            changed += connection.execute(runs.values(cancel_asked=True, **version)).rowcount
        job = self.find(org_id, id, kind)
        if not changed:
            raise Conflict(f"the job {id} has ended already: {job.status.said}")
        return job

    def find(self, org_id: str, id: str, kind: str) -> Job:
        """One job of an organization.

        Raises:
            NotFound: The organization has no such job.
        """
        query = select(JOB).where(_one(org_id, id, kind))
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotFound(f"{kind} job", id)
        return _job(row)

    def listed(
        self, org_id: str, kind: str, filters: JobFilters, page: Page
    ) -> tuple[list[Job], str | None]:
        """One page of jobs, the newest first, and the token of the next page."""
        query = select(JOB).where(_of_kind(org_id, kind))
        if filters.ids:
            query = query.where(JOB.c.id.in_(filters.ids))
        if filters.schedule_id is not None:
            query = query.where(JOB.c.schedule_id == filters.schedule_id)
        if filters.statuses:
            query = query.where(in_status(*filters.statuses))
        if filters.start is not None:
            query = query.where(JOB.c.created >= filters.start)
        if filters.end is not None:
            query = query.where(JOB.c.created < filters.end)
        with self._database.reading() as connection:
            rows, token = read(connection, query, JOB.c.created, JOB.c.id, page)
        return [_job(row) for row in rows], token

    def waiting(self, org_id: str, kind: str) -> list[Job]:
        """The jobs that somebody could take now, the oldest first."""
        query = select(JOB).where(_of_kind(org_id, kind), _takeable(self._now()))
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(JOB.c.created, JOB.c.id)).all()
        return [_job(row) for row in rows]

    def get(self, id: str) -> Job:
        """One job.

        Raises:
            NotFound: There is none.
        """
        with self._database.reading() as connection:
            row = connection.execute(select(JOB).where(JOB.c.id == id)).first()
        if row is None:
            raise NotFound("job", id)
        return _job(row)

    def recent(self, org_id: str, kind: str | None = None, limit: int = 20) -> list[Job]:
        """The newest jobs of an organization, the newest first."""
        query = select(JOB).where(JOB.c.org == org_id)
        if kind is not None:
            query = query.where(JOB.c.kind == kind)
        query = query.order_by(JOB.c.created.desc(), JOB.c.id).limit(limit)
        with self._database.reading() as connection:
            return [_job(row) for row in connection.execute(query)]


def in_status(*statuses: JobStatus) -> ColumnElement[bool]:
    """The jobs that stand so."""
    return JOB.c.status.in_([each.value for each in statuses])


def _of_kind(org_id: str, kind: str) -> ColumnElement[bool]:
    return and_(JOB.c.org == org_id, JOB.c.kind == kind)


def _one(org_id: str, id: str, kind: str) -> ColumnElement[bool]:
    return and_(JOB.c.id == id, _of_kind(org_id, kind))


def _takeable(now: datetime) -> ColumnElement[bool]:
    """Jobs that wait, and those whose executor is dead."""
    left = and_(JOB.c.status == JobStatus.RUNNING.value, JOB.c.lease_until <= now)
    return or_(JOB.c.status == JobStatus.PENDING.value, left)


def _held(job: Job) -> Update:
    return update(JOB).where(
        JOB.c.id == job.id,
        JOB.c.attempt == job.attempt,
        JOB.c.status == JobStatus.RUNNING.value,
    )


def _job(row: Row[Any]) -> Job:
    return Job(
        id=row.id,
        org_id=row.org,
        kind=row.kind,
        status=JobStatus(row.status),
        parameters=wire.loads(row.parameters),
        lease_until=row.lease_until,
        attempt=row.attempt,
        created=row.created,
        started=row.started,
        snapshot=row.snapshot,
        result=wire.loads(row.result) if row.result else {},
        error=row.error,
        finished=row.finished,
        version=row.version,
        author=row.author,
        schedule_id=row.schedule_id,
        due=row.due,
        progress=wire.loads(row.progress) if row.progress else {},
        cancel_asked=row.cancel_asked,
    )
