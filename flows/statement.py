"""Statements of bills that somebody asks for over the API, or that are due with an approval."""

import flows  # noqa: F401

# isort: split
from prefect import flow, task

from flows.command import run_as_command
from flows.fan_out import label_run_of
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, open_home
from flows.turn import is_over
from meterlake.pipeline.jobs.waiting import run_all_waiting
from meterlake.pipeline.statements.jobs import STATEMENT_JOBS


@task(task_run_name="make the statements that wait")
def run_jobs(home: Home, org: str) -> TaskOutcome:
    """Run the jobs that wait; what the world broke is run again by the worker."""
    outcome = TaskOutcome({"statements": 0})
    with open_home(home) as stores:
        org_id = stores.state.organization(org).id
        ran = list(run_all_waiting(stores.organization(org_id), STATEMENT_JOBS, is_over))
    outcome.summary["statements"] = sum(each.error is None for each in ran)
    for each in ran:
        if each.error is not None and each.waits:
            raise each.error
        if each.error is not None:
            outcome.problems.append(f"statement job {each.job.id}: {each.error}")
    return outcome


@flow(name="statement", flow_run_name="{name}")
def statement(*, home: Home = None, org: str, name: str = "statements") -> list[Row]:
    """Make the statements of an organization that wait. One that fails does not hold up the others.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Code or id of the organization.
        name: How the run is named: how many there are.
    """
    return told("statement", {label_run_of(home, org, name): run_jobs(home, org)})


if __name__ == "__main__":
    run_as_command(statement)
