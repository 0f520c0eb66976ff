"""Whether all is as it should be: what went wrong is told, alerts are looked for, books compared."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, RunnerName, open_home
from flows.retrying import retrying
from meterlake.pipeline.home.alerts import check_alerts
from meterlake.pipeline.ingest.reporting import report
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation


@retrying("check {org}")
def check_organization(home: Home, org: str) -> TaskOutcome:
    """Check one organization."""
    with open_home(home) as stores:
        organization = stores.find_organization(org)
        reported = report(organization)
        # First: whether the books balance is among the alerts.
        books = check_reconciliation(organization)
        alerts = check_alerts(organization)
    open_alerts = [
        {"alert": each.name, "about": each.subject, "since": each.since} for each in alerts
    ]
    return TaskOutcome(
        {
            **books.totals,
            "measurements": books.measurements,
            "reported": reported,
            "alerts": len(alerts),
        },
        {"Open alerts": open_alerts},
        [str(each) for each in books.differences],
    )


@flow(name="check", task_runner=a_few_at_once())
def check(
    *, home: Home = None, org: Organizations = (), runner: RunnerName | None = None
) -> list[Row]:
    """Compare what the ledgers say with what is in the lakes, and look for alerts.

    A difference fails the run, after all organizations are checked, and raises an event. Open
    alerts are listed.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        runner: threads, processes, dask, or dask://host:port; what carries the organizations.
    """
    what = "check reconciliation and alerts"
    outcomes = for_each_organization(check_organization, home, org, what=what, runner=runner)
    return told("check", outcomes)


if __name__ == "__main__":
    run_as_command(check)
