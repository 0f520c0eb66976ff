"""The lease: what one attempt has of a job, of whatever kind, until it is over."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self

from sqlalchemy import ColumnElement, Connection, and_, case, func, literal, or_, select, update

from meterlake.model.errors import NotFound, StaleVersion
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.core.tables import InstantText
from meterlake.stores.state.jobs.flow_run import current_flow_run
from meterlake.stores.state.jobs.table import JOB, JobStatus, in_status

# Who renews its lease says so often enough that one which was silent for so long is dead.
_RENEWED: Final = timedelta(minutes=1)

LEASES: Final[Mapping[str, timedelta]] = {
    JobKind.BILL: _RENEWED,
    JobKind.STATEMENT: _RENEWED,
    JobKind.EXPORT: _RENEWED,
    JobKind.BACKFILL: _RENEWED,
    JobKind.CLOSING: _RENEWED,
    JobKind.CLOSING_STEP: _RENEWED,
    JobKind.UPLOAD: _RENEWED,
    JobKind.LOOKUP: _RENEWED,
    # Pollers may be on several machines, whose clocks differ.
    JobKind.INBOX_OBJECT: timedelta(minutes=5),
    JobKind.BILL_LETTER: _RENEWED,
    JobKind.BILL_DOCUMENTS: _RENEWED,
    JobKind.QUANTITIES: _RENEWED,
    JobKind.INTEGRATION_RUN: _RENEWED,
}


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one attempt to write about its job; nobody else takes the job meanwhile.

    Every write is fenced: it counts only while the job runs and no later attempt has begun. All of
    them go into the transaction that the caller has open, with whatever else is to be kept or not.

    Attributes:
        attempt: The fencing token.
    """

    job_id: str
    kind: str
    attempt: int

    @classmethod
    def take(cls, connection: Connection, job_id: str, now: datetime, **values: Any) -> Self | None:
        """Begin an attempt at a job; None if it has ended, waits for something, or is worked on.

        Args:
            connection: The transaction.
            job_id: The job.
            now: Where the lease begins.
            values: What else is written with it.

        Raises:
            NotFound: There is no such job.
        """
        kind = connection.scalar(select(JOB.c.kind).where(JOB.c.id == job_id))
        if kind is None:
            raise NotFound("job", job_id)
        query = update(JOB).where(JOB.c.id == job_id, takeable(now))
        query = query.values(**begun(now, LEASES[kind]), **values)
        attempt = connection.scalar(query.returning(JOB.c.attempt))
        return None if attempt is None else cls(job_id, kind, attempt)

    @property
    def duration(self) -> timedelta:
        """How long it lasts from its beginning, and from each time that it is renewed."""
        return LEASES[self.kind]

    def renew(self, connection: Connection, now: datetime, **values: Any) -> bool:
        """Say that the attempt goes on.

        Returns:
            Whether it is to stop, because somebody cancelled the job.

        Raises:
            StaleVersion: Another attempt took the job over, or it has ended.
        """
        return self._write(connection, {"lease_until": now + self.duration, **values})

    def release(
        self, connection: Connection, now: datetime, pause: timedelta | None = None, **values: Any
    ) -> None:
        """End the attempt without a result; the next one can begin at once, or after a pause.

        If there is a next one already, or the job has ended, nothing is left to be given back.
        """
        until = None if pause is None else now + pause
        with suppress(StaleVersion):
            self._write(connection, {"lease_until": None, "not_before": until, **values})

    def finish(
        self, connection: Connection, now: datetime, status: JobStatus, **values: Any
    ) -> None:
        """Write the end of the job down.

        Raises:
            StaleVersion: Another attempt took the job over, or it has ended.
        """
        end = {
            "status": status.value,
            "finished": now,
            "lease_until": None,
            "version": JOB.c.version + 1,
        }
        self._write(connection, {**end, **values})

    def _write(self, connection: Connection, values: Mapping[str, Any]) -> bool:
        mine = (JOB.c.id == self.job_id) & (JOB.c.attempt == self.attempt)
        runs = JOB.c.status == JobStatus.RUNNING.value
        query = update(JOB).where(mine, runs).values(values).returning(JOB.c.cancel_asked)
        row = connection.execute(query).first()
        if row is None:
            stored = connection.scalar(select(JOB.c.attempt).where(JOB.c.id == self.job_id))
            # A job that was forgotten meanwhile has no attempt.
            raise StaleVersion("job", self.job_id, stored or 0, self.attempt)
        return bool(row.cancel_asked)


def begun(now: datetime, duration: timedelta) -> dict[str, Any]:
    """What is written to a job that is taken; a lease that ran out is the death of who had it.

    Args:
        now: Where the lease begins.
        duration: How long it lasts.
    """
    ran_out = and_(JOB.c.status == JobStatus.RUNNING.value, JOB.c.lease_until.is_not(None))
    return {
        "status": JobStatus.RUNNING.value,
        "attempt": JOB.c.attempt + 1,
        "deaths": JOB.c.deaths + case((ran_out, 1), else_=0),
        "lease_until": now + duration,
        "not_before": None,
        "flow_run": current_flow_run(),
        "started": func.coalesce(JOB.c.started, literal(now, InstantText())),
    }


def takeable(now: datetime | ColumnElement[datetime]) -> ColumnElement[bool]:
    """Jobs that somebody may take: they wait, were given back, or their executor is dead.

    And no pause is left.
    """
    # As a list of statuses, which the index has: of those that have ended there may be millions.
    unfinished = in_status(JobStatus.PENDING, JobStatus.RUNNING)
    waits = JOB.c.status == JobStatus.PENDING.value
    free = or_(waits, JOB.c.lease_until.is_(None), JOB.c.lease_until <= now)
    rested = or_(JOB.c.not_before.is_(None), JOB.c.not_before <= now)
    return and_(unfinished, free, rested)
