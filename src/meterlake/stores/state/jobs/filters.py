"""Which jobs are meant, as conditions on the table."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, literal

from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.jobs.status import JobStatus
from meterlake.stores.state.jobs.table import JOB


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilters:
    """Which jobs of a kind are listed; made from `start` on and before `end`.

    Attributes:
        counted: Whether their progress says how much there is to do in `total`; None if any may.
        also: A condition of their kind.
    """

    ids: tuple[str, ...] = ()
    schedule_id: str | None = None
    statuses: tuple[JobStatus, ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    counted: bool | None = None
    also: ColumnElement[bool] | None = None

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """What all of them fulfil."""
        if self.ids:
            yield JOB.c.id.in_(self.ids)
        if self.schedule_id is not None:
            yield JOB.c.schedule_id == self.schedule_id
        if self.statuses:
            yield in_status(*self.statuses)
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


def one_job(org_id: str, id: str, kind: str) -> ColumnElement[bool]:
    """One job, if it is of the organization and of the kind."""
    return and_(JOB.c.id == id, of_kind(org_id, kind))
