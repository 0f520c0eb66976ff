"""What becomes of a staged backfill: it is applied or dropped; one that is applied is reverted."""

import flows  # noqa: F401

# isort: split
from typing import Literal, TypeAlias

from prefect import flow

from flows.command import run_as_command
from flows.differences import outcome_of
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, open_home
from flows.retrying import retrying
from meterlake.pipeline.backfill import apply, drop, revert

AUTHOR = "flow"
DecisionName: TypeAlias = Literal["apply", "drop", "revert"]


@retrying("{decision} a backfill of {org}")
def carry_out(home: Home, org: str, id: str, decision: DecisionName) -> TaskOutcome:
    """Apply, drop or revert a backfill."""
    verb = {"apply": apply, "drop": drop, "revert": revert}[decision]
    with open_home(home) as stores:
        found = verb(stores.find_organization(org), id, AUTHOR)
        return outcome_of(stores, found)


def decide(home: Home, org: str | None, id: str, decision: DecisionName, what: str) -> list[Row]:
    """Carry a decision out, and leave an artifact of what came of it.

    Raises:
        Incomplete: It could not be done.
    """
    outcomes = for_each_organization(carry_out, home, (org,), id, decision, what=what)
    return told("backfill", outcomes)


@flow(
    name="backfill-decision",
    flow_run_name="{decision} a backfill",
    task_runner=a_few_at_once(),
)
def backfill_decision(
    decision: DecisionName, id: str, *, home: Home = None, org: str | None = None
) -> list[Row]:
    """Apply or drop a backfill that is staged, or revert one that is applied.

    Applying is refused if what the backfill is about has changed since it was staged: run the
    deployment `backfill` again with the same id then.

    Args:
        decision: `apply`, `drop` or `revert`.
        id: The backfill's id; the artifact of the run that staged it names it.
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Code or id of the organization; the only one of the home if empty.
    """
    return decide(home, org, id, decision, what=f"{decision} a backfill")


if __name__ == "__main__":
    run_as_command(backfill_decision)
