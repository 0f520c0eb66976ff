"""Which snapshots of a lake have to stay: bills, jobs that may go on and backfills read them."""

from datetime import timedelta
from typing import Final

from sqlalchemy import ColumnElement, String, cast, literal, select

from meterlake.model.work.backfill import BackfillStatus
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.state import State
from meterlake.stores.state.core.tables import BILL
from meterlake.stores.state.ingest.backfills import BACKFILL
from meterlake.stores.state.jobs import AGAIN, JOB, JobStatus, in_status

# Such a backfill needs what was before, and what it left.
_NEEDED: Final = (BackfillStatus.STAGING, BackfillStatus.STAGED, BackfillStatus.APPLIED)
# So long after its end an export that failed can be run again for sure.
RETRIED: Final = timedelta(days=7)


def pinned_snapshots(state: State, org_id: str) -> set[int]:
    """The snapshots that an organization's bills, jobs and backfills read, or may read again.

    Raises:
        Unavailable: The database cannot be reached.
    """
    by_bills = select(member_text(BILL.c.pins, literal("snapshot"))).where(BILL.c.org == org_id)
    by_jobs = select(cast(JOB.c.snapshot, String)).where(
        JOB.c.org == org_id, JOB.c.snapshot.is_not(None), _goes_on(state)
    )
    needed = (BACKFILL.c.org == org_id) & BACKFILL.c.status.in_([each.value for each in _NEEDED])
    by_backfills = [
        select(cast(column, String)).where(needed, column.is_not(None))
        for column in (BACKFILL.c.snapshot, BACKFILL.c.applied)
    ]
    with state.reading_home() as connection:
        found = connection.execute(by_bills.union(by_jobs, *by_backfills)).scalars()
        return {int(snapshot) for snapshot in found if snapshot is not None}


def _goes_on(state: State) -> ColumnElement[bool]:
    """Jobs that run or wait, and exports that somebody may retry."""
    ended = in_status(*AGAIN) & (JOB.c.finished > state.now() - RETRIED)
    return in_status(JobStatus.PENDING, JobStatus.RUNNING) | (JOB.c.kind == JobKind.EXPORT) & ended
