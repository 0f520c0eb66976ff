"""Jobs: what is to be done, made, taken by one attempt at a time, ended, cancelled, retried and listed.

A job begins at once (`start`), or waits until somebody takes it (`submit`, `take`). Who works on
one says so again and again (`renew`), or takes a lease that is long enough.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Connection,
    Row,
    Select,
    Update,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from meterlake.model.errors import Busy, Conflict, NotFound
from meterlake.model.values import wire
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.core.engine import Database
from meterlake.stores.state.core.pages import Page, key_token, read
from meterlake.stores.state.core.tables import InstantText
from meterlake.stores.state.jobs.flow_run import current_flow_run
from meterlake.stores.state.jobs.lease import LEASES, Lease, takeable
from meterlake.stores.state.jobs.table import (
    AGAIN,
    JOB,
    JobFilters,
    JobStatus,
    in_status,
    of_kind,
    one_job,
)

# Those that people know as jobs; files and objects have pages of their own.
_SHOWN: Final = (JobKind.BILL, JobKind.EXPORT, JobKind.BACKFILL)


@dataclass(slots=True)
class Job:
    """One job; who runs it puts its result into `result`.

    Attributes:
        parameters: What is to be done.
        attempt: The fencing token: only the latest attempt may finish the job.
        deaths: How many processes died that worked on it, on whichever machine.
        snapshot: The lake snapshot that it reads.
        author: Who asked for it; None if nobody in particular.
        schedule_id: The schedule that made it.
        due: Which of the schedule's runs it is.
        progress: How far it is, as the attempt that works on it last said.
        cancel_asked: Whether it is to stop.
        flow_run: The flow run of Prefect that began the last attempt; None if none did.
    """

    id: str
    org_id: str
    kind: str
    created: datetime
    parameters: dict[str, Any] = field(default_factory=dict)
    status: JobStatus = JobStatus.PENDING
    lease_until: datetime | None = None
    attempt: int = 0
    deaths: int = 0
    started: datetime | None = None
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
    flow_run: str | None = None

    @property
    def lease(self) -> Lease:
        """The lease of the attempt that this is the job of."""
        return Lease(self.id, self.kind, self.attempt)

    def has_died(self, now: datetime) -> bool:
        """Whether a process died that worked on it, counting the one whose lease is over."""
        is_over = self.lease_until is not None and self.lease_until <= now
        return self.deaths > 0 or (self.status is JobStatus.RUNNING and is_over)

    def begin(self, snapshot: int | None = None) -> "Job":
        """Itself as its maker takes it while it is made: nobody else ever sees it waiting."""
        self.status, self.attempt, self.snapshot = JobStatus.RUNNING, 1, snapshot
        self.started, self.lease_until = self.created, self.created + LEASES[self.kind]
        self.flow_run = current_flow_run()
        return self


def insert_job(connection: Connection, job: Job) -> None:
    """Write a job down for the first time."""
    row = {
        "id": job.id,
        "org": job.org_id,
        "kind": job.kind,
        "status": job.status.value,
        "parameters": wire.dumps_sorted(job.parameters),
        "lease_until": job.lease_until,
        "attempt": job.attempt,
        "snapshot": job.snapshot,
        "created": job.created,
        "started": job.started,
        "finished": job.finished,
        "version": job.version,
        "author": job.author,
        "schedule_id": job.schedule_id,
        "due": job.due,
        "flow_run": job.flow_run,
    }
    connection.execute(insert(JOB), row)


def job_of(row: Row[Any]) -> Job:
    """The job of a row that has all columns of the table."""
    return Job(
        id=row.id,
        org_id=row.org,
        kind=row.kind,
        created=row.created,
        parameters=wire.loads(row.parameters),
        status=JobStatus(row.status),
        lease_until=row.lease_until,
        attempt=row.attempt,
        deaths=row.deaths,
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
        flow_run=row.flow_run,
    )


def submit(connection: Connection, job: Job) -> bool:
    """Write a job down; False if there is one of that run of its schedule already."""
    if job.due is not None:
        same = and_(JOB.c.schedule_id == job.schedule_id, JOB.c.due == job.due)
        if connection.execute(select(JOB.c.id).where(same)).first() is not None:
            return False
    insert_job(connection, job)
    return True


def is_known(connection: Connection, id: str) -> bool:
    """Whether there is a job of an id."""
    return connection.execute(select(JOB.c.id).where(JOB.c.id == id)).first() is not None


def unfinished_jobs(connection: Connection, org_id: str, kind: str) -> list[Job]:
    """The jobs of a kind that wait or run."""
    unfinished = in_status(JobStatus.PENDING, JobStatus.RUNNING)
    query = select(JOB).where(of_kind(org_id, kind), unfinished)
    return [job_of(row) for row in connection.execute(query)]


def finish_job(
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
    job.lease.finish(
        connection,
        now,
        job.status,
        snapshot=job.snapshot,
        result=wire.dumps_sorted(job.result),
        progress=wire.dumps_sorted(job.progress),
        error=error,
    )
    job.version += 1


def requeue(*jobs: Any) -> Update:
    """Have jobs that failed, or were cancelled, wait once more, if they are `jobs`."""
    values = {
        "status": JobStatus.PENDING.value,
        "error": None,
        "finished": None,
        "progress": None,
        "cancel_asked": False,
        "deaths": 0,
        "version": JOB.c.version + 1,
    }
    return update(JOB).where(*jobs, in_status(*AGAIN)).values(values)


def newest_due(connection: Connection, schedule_id: str) -> datetime | None:
    """The last run of a schedule that there is a job of; None if there is none."""
    query = select(JOB.c.due).where(JOB.c.schedule_id == schedule_id, JOB.c.due.is_not(None))
    return connection.execute(query.order_by(JOB.c.due.desc()).limit(1)).scalar()


def count_jobs(connection: Connection, org_id: str, kind: str, filters: JobFilters) -> int:
    """How many jobs of a kind there are."""
    query = select(func.count()).where(of_kind(org_id, kind), *filters.conditions())
    return connection.execute(query).scalar_one()


@cache
def _waiting(kinds: tuple[str, ...]) -> Select[Any]:
    """The statement is asked all the time; making it takes longer than its answer."""
    now = bindparam("now", type_=InstantText)
    waits = or_(in_status(JobStatus.AWAITING_FILE), takeable(now))
    # The index has those that have not ended, as its condition says it.
    query = select(JOB.c.org).where(JOB.c.finished.is_(None), JOB.c.kind.in_(kinds), waits)
    return query.where(JOB.c.org.is_not(None)).distinct()


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
        job = Job(self._new_id(), org_id, kind, self._now(), dict(parameters)).begin(snapshot)
        with self._database.writing() as connection:
            insert_job(connection, job)
        return self.get(job.id)

    def take(
        self, id: str, snapshot: int | None, parameters: Mapping[str, Any] | None = None
    ) -> Job:
        """Begin an attempt at a job that waits, or whose executor is dead; it is to be renewed.

        Args:
            id: The job.
            snapshot: The lake snapshot that it reads, unless an earlier attempt pinned one; None
                if it reads none, or ever the newest.
            parameters: The first attempt's: what it was asked for, and what was left open. All
                later ones have the same.

        Raises:
            NotFound: There is no such job.
            Busy: It has ended, or somebody works on it.
        """
        values: dict[str, Any] = {
            "snapshot": func.coalesce(JOB.c.snapshot, literal(snapshot, BigInteger())),
        }
        if snapshot is not None or parameters is not None:
            # An attempt that pins nothing changes nothing that people see of the job.
            values["version"] = JOB.c.version + 1
        if parameters is not None:
            first = (JOB.c.attempt == 0, wire.dumps_sorted(dict(parameters)))
            values["parameters"] = case(first, else_=JOB.c.parameters)
        with self._database.writing() as connection:
            lease = Lease.take(connection, id, self._now(), **values)
            job = read_job(connection, id)
        if lease is None:
            ends = f"its lease ends {job.lease_until}"
            raise Busy(f"job {id!r}", f"{job.status.description}, {ends}; try again after that")
        return job

    def renew(self, job: Job) -> bool:
        """Say that the attempt goes on, and how far it is.

        Returns:
            Whether it is to stop.

        Raises:
            StaleVersion: Another attempt took the job over, or it has ended.
        """
        progress = wire.dumps_sorted(job.progress)
        with self._database.writing() as connection:
            return job.lease.renew(connection, self._now(), progress=progress)

    def release(self, job: Job, pause: timedelta | None = None) -> None:
        """End an attempt without a result; the next one can begin at once, or after a pause."""
        progress = wire.dumps_sorted(job.progress)
        with self._database.writing() as connection:
            job.lease.release(connection, self._now(), pause, progress=progress)

    def finish(
        self, job: Job, *, error: str | None = None, status: JobStatus | None = None
    ) -> None:
        """Write the end of a job down: its result, or why it has none.

        Args:
            job: The job, with its result, and how far it came.
            error: Why it failed.
            status: Of how it ended; it follows from the error if None.

        Raises:
            StaleVersion: Another attempt took the job over, or it has ended.
        """
        with self._database.writing() as connection:
            finish_job(connection, job, self._now(), error=error, status=status)

    def retry(self, org_id: str, id: str, kind: str) -> Job:
        """Have a job that failed, or was cancelled, taken once more.

        Raises:
            NotFound: The organization has no such job.
            Conflict: It waits, is worked on, or is complete.
        """
        with self._database.writing() as connection:
            changed = connection.execute(requeue(one_job(org_id, id, kind))).rowcount
        job = self.find(org_id, id, kind)
        if not changed:
            raise Conflict(
                f"the job {id} has not failed: {job.status.description}; only what failed"
                " can run again: begin another one"
            )
        return job

    def reopen(self, org_id: str, id: str, kind: str, parameters: Mapping[str, Any]) -> bool:
        """Have a job that is complete begin anew, with other parameters; False if it is not complete.

        What it came to is forgotten.
        """
        values = {
            "status": JobStatus.PENDING.value,
            "parameters": wire.dumps_sorted(dict(parameters)),
            "finished": None,
            "result": None,
            "progress": None,
            "snapshot": None,
            "deaths": 0,
            "version": JOB.c.version + 1,
        }
        complete = (one_job(org_id, id, kind), in_status(JobStatus.COMPLETE))
        with self._database.writing() as connection:
            return bool(connection.execute(update(JOB).where(*complete).values(values)).rowcount)

    def cancel(self, org_id: str, id: str, kind: str, *, running: bool = True) -> Job:
        """End a job that waits, or tell the one who works on it to stop.

        Args:
            org_id: The organization.
            id: The job.
            kind: Its kind.
            running: Whether who works on it can be told.

        Raises:
            NotFound: The organization has no such job.
            Conflict: It has ended, or runs and nobody can be told.
        """
        mine = update(JOB).where(one_job(org_id, id, kind))
        waits = mine.where(JOB.c.status == JobStatus.PENDING.value)
        runs = mine.where(JOB.c.status == JobStatus.RUNNING.value)
        version = {"version": JOB.c.version + 1}
        end = {"status": JobStatus.CANCELLED.value, "finished": self._now(), **version}
        with self._database.writing() as connection:
            changed = connection.execute(waits.values(end)).rowcount
            if running:
                changed += connection.execute(runs.values(cancel_asked=True, **version)).rowcount
        job = self.find(org_id, id, kind)
        if not changed and job.status is JobStatus.RUNNING:
            raise Conflict(f"the job {id} runs already and ends by itself; wait for its end")
        if not changed:
            raise Conflict(
                f"the job {id} has ended already: {job.status.description};"
                " nothing is left to cancel"
            )
        return job

    def find(self, org_id: str, id: str, *kinds: str) -> Job:
        """One job of an organization, of one of some kinds.

        Raises:
            NotFound: The organization has no such job.
        """
        query = select(JOB).where(one_job(org_id, id, *kinds))
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotFound(f"{kinds[0]} job" if len(kinds) == 1 else "run", id)
        return job_of(row)

    def page(
        self, org_id: str, kind: str, filters: JobFilters, page: Page
    ) -> tuple[list[Job], str | None]:
        """One page of jobs, the newest first, and the token of the next page."""
        query = select(JOB).where(of_kind(org_id, kind), *filters.conditions())
        with self._database.reading() as connection:
            rows, token = read(connection, query, JOB.c.created, JOB.c.id, page)
        return [job_of(row) for row in rows], token

    def page_of_kinds(
        self, org_id: str, kinds: Iterable[str], filters: JobFilters, page: Page
    ) -> tuple[list[Job], str | None]:
        """One page of the jobs of several kinds, and the token of the next page."""
        found: list[Row[Any]] = []
        has_more = False
        # By kind, as the index has them: one kind may have millions of jobs.
        with self._database.reading() as connection:
            for kind in kinds:
                query = select(JOB).where(of_kind(org_id, kind), *filters.conditions())
                rows, token = read(connection, query, JOB.c.created, JOB.c.id, page)
                found += rows[: page.size]
                has_more |= token is not None
        found.sort(key=lambda row: (row.created, row.id), reverse=not page.oldest_first)
        has_more |= len(found) > page.size
        jobs = [job_of(row) for row in found[: page.size]]
        return jobs, key_token(jobs[-1].created, jobs[-1].id) if has_more else None

    def waiting(self, org_id: str, kind: str) -> list[Job]:
        """The jobs that somebody could take now, the oldest first."""
        # Sorted here: SQLite would walk through all that ever were in the order of an index.
        query = select(JOB).where(of_kind(org_id, kind), takeable(self._now()))
        with self._database.reading() as connection:
            found = [job_of(row) for row in connection.execute(query)]
        return sorted(found, key=lambda job: (job.created, job.id))

    def count_unfinished(self, org_ids: Sequence[str]) -> dict[tuple[str, str], int]:
        """How many jobs of organizations wait or run, by kind and status."""
        # By organization, kind and status, as the index has them: millions may have ended.
        unfinished = in_status(JobStatus.PENDING, JobStatus.RUNNING)
        conditions = JOB.c.org.in_(org_ids), JOB.c.kind.in_(list(LEASES)), unfinished
        columns = JOB.c.kind, JOB.c.status
        query = select(*columns, func.count()).where(*conditions).group_by(*columns)
        with self._database.reading() as connection:
            return {(kind, status): count for kind, status, count in connection.execute(query)}

    def organizations_waiting(self, *kinds: str) -> list[str]:
        """The organizations whose jobs of some kinds somebody could take now, or wait for files."""
        with self._database.reading() as connection:
            rows = connection.execute(_waiting(kinds), {"now": self._now()})
            return [row.org for row in rows]

    def get(self, id: str) -> Job:
        """One job.

        Raises:
            NotFound: There is none.
        """
        with self._database.reading() as connection:
            return read_job(connection, id)

    def recent(self, org_id: str, kind: str | None = None, limit: int = 20) -> list[Job]:
        """The newest jobs of an organization, the newest first."""
        query = select(JOB).order_by(JOB.c.created.desc(), JOB.c.id).limit(limit)
        found: list[Job] = []
        with self._database.reading() as connection:
            # By kind, as the index has them: there may be millions of another one.
            for each in (kind,) if kind else _SHOWN:
                found += map(job_of, connection.execute(query.where(of_kind(org_id, each))))
        found.sort(key=lambda job: job.id)
        return sorted(found, key=lambda job: job.created, reverse=True)[:limit]


def read_job(connection: Connection, id: str) -> Job:
    """One job, within what else is read or written.

    Raises:
        NotFound: There is none.
    """
    row = connection.execute(select(JOB).where(JOB.c.id == id)).first()
    if row is None:
        raise NotFound("job", id)
    return job_of(row)
