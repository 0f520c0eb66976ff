"""Which snapshots of a lake have to stay, because bills or running jobs were made from them."""

from sqlalchemy import String, cast, literal, select

from meterlake.stores.state.jobs import JobStatus
from meterlake.stores.state.json_columns import member_text
from meterlake.stores.state.state import State
from meterlake.stores.state.tables import BILL, JOB


def pinned_snapshots(state: State, org_id: str) -> set[int]:
    """The snapshots that an organization's bills and running jobs read.

    Raises:
        Unavailable: The database cannot be reached.
    """
    by_bills = select(member_text(BILL.c.pins, literal("snapshot"))).where(BILL.c.org == org_id)
    running = (JOB.c.org == org_id) & (JOB.c.status == JobStatus.RUNNING.value)
    by_jobs = select(cast(JOB.c.snapshot, String)).where(running, JOB.c.snapshot.is_not(None))
    with state.reading_home() as connection:
        found = connection.execute(by_bills.union(by_jobs)).scalars()
        return {int(snapshot) for snapshot in found if snapshot is not None}
