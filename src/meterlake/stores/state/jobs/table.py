"""The table of jobs, their statuses, and filters of it.

What a kind of job has of its own lies in a table by the job's id.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    and_,
    false,
    literal,
    text,
)

from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText, UntrustedText

JOB: Final = Table(
    "job",
    METADATA,
    Column("id", String(36), primary_key=True),
    # Absent where nobody knows it any more: an object of an inbox that was removed.
    Column("org", String(36), ForeignKey("organization.id")),
    Column("kind", String(40), nullable=False),
    Column("status", String(20), nullable=False),
    Column("parameters", StorableText, nullable=False),
    Column("lease_until", InstantText),
    # Nobody takes it before.
    Column("not_before", InstantText),
    Column("attempt", Integer, nullable=False),
    # How often its lease ran out: who gives it back, or ends it, leaves none.
    Column("deaths", Integer, nullable=False, server_default="0"),
    Column("snapshot", BigInteger),
    Column("result", StorableText),
    Column("error", UntrustedText),
    Column("created", InstantText, nullable=False),
    Column("started", InstantText),
    Column("finished", InstantText),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("author", Text),
    Column("schedule_id", String(36)),
    Column("due", InstantText),
    Column("progress", StorableText),
    Column("cancel_asked", Boolean, nullable=False, server_default=false()),
    # Of Prefect, which began the last attempt.
    Column("flow_run", String(36)),
    # No run of a schedule is doubled.
    Index("job_due", "schedule_id", "due", unique=True),
    # What waits.
    Index("job_of_kind", "org", "kind", "status", "created"),
    # What waits of all organizations: those that have ended are not in it.
    Index(
        "job_unfinished",
        *("kind", "status", "org"),
        sqlite_where=text("finished IS NULL"),
        postgresql_where=text("finished IS NULL"),
    ),
    # Lists.
    Index("job_newest", "org", "kind", "created", "id"),
)


class JobStatus(StrEnum):
    """Where a job stands."""

    # It cannot begin yet: the file that it is for did not come.
    AWAITING_FILE = "AWAITING_FILE"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def description(self) -> str:
        """As the end of a sentence about the job."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Final = {
    JobStatus.AWAITING_FILE: "it waits for its file",
    JobStatus.PENDING: "it waits",
    JobStatus.RUNNING: "it is running",
    JobStatus.COMPLETE: "it has succeeded",
    JobStatus.FAILED: "it has failed",
    JobStatus.CANCELLED: "it was cancelled",
}

# Jobs that ended so may be run again.
AGAIN: Final = (JobStatus.FAILED, JobStatus.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilters:
    """Which jobs of a kind are listed; made from `start` on and before `end`.

    Attributes:
        authors: Who asked for them.
        counted: Whether their progress says how much there is to do in `total`; None if any may.
        also: A condition of their kind.
    """

    ids: tuple[str, ...] = ()
    schedule_id: str | None = None
    statuses: tuple[JobStatus, ...] = ()
    authors: tuple[str, ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    counted: bool | None = None
    also: ColumnElement[bool] | None = None

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """What all of them fulfil."""
        among = (
            (JOB.c.id, self.ids),
            (JOB.c.author, self.authors),
            (JOB.c.status, self.statuses),
        )
        for column, values in among:
            if values:
                yield column.in_([str(each) for each in values])
        if self.schedule_id is not None:
            yield JOB.c.schedule_id == self.schedule_id
        if self.start is not None:
            yield JOB.c.created >= self.start
        if self.end is not None:
            yield JOB.c.created < self.end
        if self.counted is not None:
            total = member_text(JOB.c.progress, literal("total"))
            yield total.is_not(None) if self.counted else total.is_(None)
        if self.also is not None:
            yield self.also


def in_status(*statuses: JobStatus) -> ColumnElement[bool]:
    """The jobs that stand so."""
    return JOB.c.status.in_([each.value for each in statuses])


def of_kind(org_id: str, *kinds: str) -> ColumnElement[bool]:
    """The jobs of some kinds of an organization."""
    return and_(JOB.c.org == org_id, JOB.c.kind.in_(kinds))


def one_job(org_id: str, id: str, *kinds: str) -> ColumnElement[bool]:
    """One job, if it is of the organization and of one of the kinds."""
    return and_(JOB.c.id == id, of_kind(org_id, *kinds))
