"""The quantities and the bills of a month, for many organizations."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.billed import bills_of, counts_of, failed_of, left_of, quantities_of, unpriced_of
from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, MonthName, Organizations, RunnerName, open_home
from flows.retrying import retrying
from meterlake.model.bills.jobs import BillOrder
from meterlake.pipeline.billing.currencies import read_currencies
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.pipeline.config.months import month_named, month_text, refuse_future_month
from meterlake.pipeline.usage.aggregate import aggregate


@retrying("bill {org}")
def bill_organization(
    home: Home, org: str, month: str, approve: bool, change: bool, runner: str | None = None
) -> TaskOutcome:
    """Bill a month of one organization, and keep the quantities that its bills are made from."""
    with open_home(home, runner) as stores:
        organization = stores.find_organization(org)
        named = month_named(organization, month)
        refuse_future_month(organization, named)
        order = BillOrder(days=named, approve=approve, keep_approved=not change)
        billed = bill_order(organization, order)
        # Of the same measurements, whatever has come in meanwhile.
        quantities = aggregate(organization, named, billed.snapshot)
        currencies = read_currencies(organization)
    overflows = len(quantities.overflows)
    problems = [
        *failed_of(billed),
        *[f"{overflows} quantities have too many digits"][: overflows > 0],
    ]
    return TaskOutcome(
        {
            "month": str(billed.days),
            "quantities": len(quantities.quantities),
            **counts_of(billed),
        },
        {"Unpriced usage": unpriced_of(billed), "Left as they were": left_of(billed, currencies)},
        problems,
        [quantities_of(quantities), bills_of(billed)],
    )


@flow(name="bill", flow_run_name="bill {month}", task_runner=a_few_at_once())
def bill(
    *,
    home: Home = None,
    org: Organizations = (),
    month: MonthName = "last",
    approve: bool = False,
    change_approved: bool = False,
    runner: RunnerName | None = None,
) -> list[Row]:
    """Aggregate and bill a month, organization by organization.

    Doing it again changes nothing, unless something that is on a bill has changed. An account or
    an organization that cannot be billed fails the run, after all the others are billed. A month
    that has not begun is refused.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        month: Such as 2026-10; or `last` or `current`, by each organization's own calendar.
        approve: Whether the bills are APPROVED right away; PENDING otherwise.
        change_approved: Whether approved bills change, too, and are PENDING again; not beside approve.
        runner: threads, processes, dask, or dask://host:port; what carries the organizations, or the
            parts of the work of a single one.
    """
    what = f"bill {month_text(month)}"
    outcomes = for_each_organization(
        *(bill_organization, home, org, month, approve, change_approved), what=what, runner=runner
    )
    return told("bill", outcomes)


if __name__ == "__main__":
    run_as_command(bill)
