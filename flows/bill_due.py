"""Bills by the schedule of each organization, and bills that approve themselves."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.assets import MadeAsset
from flows.billed import bills_of
from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, open_home
from flows.retrying import retrying
from meterlake.pipeline.billing.jobs.schedule import whole_bill_round


@retrying("due bills of {org}")
def bill_due_of(home: Home, org: str) -> TaskOutcome:
    """Make the job that is due, run all that wait, and approve what is old enough."""
    made: list[MadeAsset] = []
    with open_home(home) as stores:
        found = whole_bill_round(
            stores.find_organization(org), lambda billed: made.append(bills_of(billed))
        )
    counts: Row = {"due": found.due, "jobs": found.jobs, "approved": found.approved}
    return TaskOutcome(counts, {}, found.failures, made)


@flow(name="bill-due", task_runner=a_few_at_once())
def bill_due(*, home: Home = None, org: Organizations = ()) -> list[Row]:
    """Run the bill jobs that are due or wait, and approve bills whose grace period is over.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
    """
    return told("bill-due", for_each_organization(bill_due_of, home, org, what="bill what is due"))


if __name__ == "__main__":
    run_as_command(bill_due)
