"""Jobs: what was asked for, who works on it until when, and how it ended."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Row, insert, select, update

from meterlake.model import wire
from meterlake.model.errors import Busy, NotFound, StaleVersion
from meterlake.stores.state.engine import Database
from meterlake.stores.state.tables import JOB

LEASE: Final = timedelta(minutes=15)


class JobStatus(StrEnum):
    """Where a job stands."""

    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"


@dataclass(slots=True)
class Job:
    """One job; who runs it puts its result into `result`.

    Attributes:
        attempt: The fencing token: only the latest attempt may finish the job.
        snapshot: The lake snapshot that it reads.
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
            raise Busy(f"job {id!r}", f"it is {job.status}, its lease ends {job.lease_until}")
        return job

    def finish(self, job: Job, *, error: str | None = None) -> None:
        """Write the end of a job down: its result, or why it failed.

        Raises:
            NotFound: There is no such job.
            StaleVersion: Another attempt took the job over, or it has ended.
        """
        job.status = JobStatus.COMPLETE if error is None else JobStatus.FAILED
        job.error, job.finished, job.lease_until = error, self._now(), None
        mine = (JOB.c.attempt == job.attempt) & (JOB.c.status == JobStatus.RUNNING.value)
        statement = update(JOB).where(JOB.c.id == job.id, mine)
        values = {
            "status": job.status.value,
            "snapshot": job.snapshot,
            "result": wire.dumps_sorted(job.result),
            "error": error,
            "finished": job.finished,
            "lease_until": None,
        }
        with self._database.writing() as connection:
            done = connection.execute(statement.values(values)).rowcount == 1
        if not done:
            raise StaleVersion("job", job.id, self.get(job.id).attempt, job.attempt)

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
    )
