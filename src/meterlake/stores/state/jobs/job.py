"""One job: what is to be done, who works on it until when, how far it is, how it ended."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert

from meterlake.model.values import wire
from meterlake.stores.state.jobs.lease import LEASES, Lease
from meterlake.stores.state.jobs.table import JOB, JobStatus


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
    )
