"""One job of bills that somebody asks for over the API, or that a schedule makes."""

import flows  # noqa: F401

# isort: split
from prefect import flow, task

from flows.billed import bills_of, counts_of, failed_of, unpriced_of
from flows.command import run_as_command
from flows.fan_out import label_run_of
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, open_home
from meterlake.pipeline.billing.jobs.jobs import run_bill_job


@task(task_run_name="run a bill job")
def run_job(home: Home, job: str) -> TaskOutcome:
    """Run one job; what the world broke is run again by the worker."""
    with open_home(home) as stores:
        billed = run_bill_job(stores, job)
    return TaskOutcome(
        counts_of(billed),
        {"Unpriced usage": unpriced_of(billed)},
        failed_of(billed),
        [bills_of(billed)],
    )


@flow(name="bill-job", flow_run_name="{name}")
def bill_job(*, home: Home = None, org: str, job: str, name: str = "bill") -> list[Row]:
    """Run one job of bills, if it is there and nobody else does.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Code or id of the organization.
        job: The id of the job.
        name: How the run is named: what is billed, and of which date.
    """
    return told("bill", {label_run_of(home, org, name): run_job(home, job)})


if __name__ == "__main__":
    run_as_command(bill_job)
