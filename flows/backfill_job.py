"""One step of a backfill that somebody asks for over the API."""

import flows  # noqa: F401

# isort: split
from prefect import flow, task

from flows.command import run_as_command
from flows.differences import outcome_of
from flows.fan_out import label_run_of
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, open_home
from meterlake.pipeline.backfill.background import run_step


@task(task_run_name="run a step of a backfill")
def run_job(home: Home, job: str) -> TaskOutcome:
    """Run one job; what the world broke is run again by the worker."""
    with open_home(home) as stores:
        return outcome_of(stores, run_step(stores, job))


@flow(name="backfill-job", flow_run_name="{name}")
def backfill_job(*, home: Home = None, org: str, job: str, name: str = "backfill") -> list[Row]:
    """Run one step of a backfill, if it is there and nobody else does.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Code or id of the organization.
        job: The id of the job.
        name: How the run is named: the step and the mode.
    """
    return told("backfill", {label_run_of(home, org, name): run_job(home, job)})


if __name__ == "__main__":
    run_as_command(backfill_job)
