"""Whether bills still are what comes out of what they were made from."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, open_home
from flows.retrying import retrying
from meterlake.pipeline.billing.verification.verify import verify_regularly


@retrying("verify bills of {org}")
def verify_organization(home: Home, org: str) -> TaskOutcome:
    """Verify bills of one organization."""
    with open_home(home) as stores:
        found = verify_regularly(stores.find_organization(org))
    counts: Row = {
        "verified": found.verified,
        "unpinned": len(found.unpinned),
        "otherCode": found.other_code,
    }
    return TaskOutcome(counts, {}, [str(each) for each in found.differences])


@flow(name="verify", task_runner=a_few_at_once())
def verify(*, home: Home = None, org: Organizations = ()) -> list[Row]:
    """Calculate bills again that were approved lately, and a sample of all others, and compare.

    A difference fails the run, after all organizations are verified, and raises an event.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
    """
    what = "verify bills"
    return told("verify", for_each_organization(verify_organization, home, org, what=what))


if __name__ == "__main__":
    run_as_command(verify)
