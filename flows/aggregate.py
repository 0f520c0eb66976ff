"""The quantities of a month, for many organizations."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.billed import quantities_of
from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, MonthName, Organizations, RunnerName, open_home
from flows.retrying import retrying
from meterlake.pipeline.config.months import month_named, month_text
from meterlake.pipeline.usage.aggregate import aggregate as aggregate_month


@retrying("aggregate {org}")
def aggregate_organization(
    home: Home, org: str, month: str, runner: str | None = None
) -> TaskOutcome:
    """Aggregate a month of one organization."""
    with open_home(home, runner) as stores:
        organization = stores.find_organization(org)
        found = aggregate_month(organization, month_named(organization, month))
    overflows = len(found.overflows)
    summary = {
        "month": found.run.name,
        "quantities": len(found.rows),
        "appended": "yes" if found.appended else "no",
        "snapshot": found.snapshot,
    }
    problems = [f"{overflows} quantities have too many digits"][: overflows > 0]
    return TaskOutcome(summary, {}, problems, [quantities_of(found)])


@flow(name="aggregate", flow_run_name="aggregate {month}", task_runner=a_few_at_once())
def aggregate(
    *,
    home: Home = None,
    org: Organizations = (),
    month: MonthName = "current",
    runner: RunnerName | None = None,
) -> list[Row]:
    """Aggregate a month, organization by organization.

    Doing it again changes nothing, unless measurements, plans or aggregations have changed.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        month: Such as 2026-10; or `last` or `current`, by each organization's own calendar.
        runner: threads, processes, dask, or dask://host:port; what carries the organizations, or the
            parts of the work of a single one.
    """
    what = f"aggregate {month_text(month)}"
    outcomes = for_each_organization(
        aggregate_organization, home, org, month, what=what, runner=runner
    )
    return told("aggregate", outcomes)


if __name__ == "__main__":
    run_as_command(aggregate)
