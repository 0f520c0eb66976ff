"""Which snapshots of a lake have to stay: bills, running jobs and backfills read them."""

from typing import Final

from sqlalchemy import String, cast, literal, select

from meterlake.model.backfill import BackfillStatus
from meterlake.stores.state.backfills import BACKFILL
from meterlake.stores.state.jobs import JobStatus
from meterlake.stores.state.json_columns import member_text
from meterlake.stores.state.state import State
from meterlake.stores.state.tables import BILL, JOB

# Such a backfill needs what was before, and what it left.
_NEEDED: Final = (BackfillStatus.STAGING, BackfillStatus.STAGED, BackfillStatus.APPLIED)


def pinned_snapshots(state: State, org_id: str) -> set[int]:
    """The snapshots that an organization's bills, running jobs and backfills read.

    Raises:
        Unavailable: The database cannot be reached.
    """
    by_bills = select(member_text(BILL.c.pins, literal("snapshot"))).where(BILL.c.org == org_id)
    running = (JOB.c.org == org_id) & (JOB.c.status == JobStatus.RUNNING.value)
    by_jobs = select(cast(JOB.c.snapshot, String)).where(running, JOB.c.snapshot.is_not(None))
    needed = (BACKFILL.c.org == org_id) & BACKFILL.c.status.in_([each.value for each in _NEEDED])
    by_backfills = [
        select(cast(column, String)).where(needed, column.is_not(None))
        for column in (BACKFILL.c.snapshot, BACKFILL.c.applied)
    ]
    with state.reading_home() as connection:
        found = connection.execute(by_bills.union(by_jobs, *by_backfills)).scalars()
        return {int(snapshot) for snapshot in found if snapshot is not None}
