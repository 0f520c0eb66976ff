"""The quantities and the bills of a month, for many organizations."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, MonthName, Organizations, open_home
from flows.retrying import retrying
from meterlake.model.quantity_unit import quantity_text, units_text
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.billing.run import bill as bill_month
from meterlake.pipeline.config.months import month_named, month_text
from meterlake.pipeline.usage.aggregate import AggregateResult, aggregate


@retrying("bill {org}")
def bill_organization(home: Home, org: str, month: str, approve: bool) -> TaskOutcome:
    """Aggregate and bill a month of one organization."""
    with open_home(home) as stores:
        org_id = stores.state.organization(org).id
        named = month_named(stores, org_id, month)
        quantities = aggregate(stores, org_id, named)
        billed = bill_month(stores, org_id, named, approve=approve)
    return TaskOutcome(
        _summary(quantities, billed),
        {"Unpriced usage": _unpriced(billed)},
        _problems(quantities, billed),
    )


def _summary(quantities: AggregateResult, billed: BillResult) -> Row:
    counts: Row = {}
    for each in billed.bills:
        counts[each.stored.value] = counts.get(each.stored.value, 0) + 1
    return {
        "month": str(billed.days),
        "quantities": len(quantities.quantities),
        "bills": len(billed.bills),
        "of which": ", ".join(f"{count} {stored}" for stored, count in sorted(counts.items())),
        "total": ", ".join(f"{total:,f} {currency}" for currency, total in billed.totals.items()),
        "failed accounts": len(billed.failures),
        "unpriced": len(billed.unpriced),
        "snapshot": billed.snapshot,
        "job": billed.job_id,
    }


def _unpriced(billed: BillResult) -> list[Row]:
    return [
        {
            "account": each.account_code or each.account_id,
            "meter": each.meter_code,
            "aggregation": each.aggregation_code,
            "quantity": quantity_text(each.quantity, each.quantity_unit),
            "units to price": units_text(each.units, each.unit),
            "measurements": each.measurements,
            "unpriced because": each.why,
        }
        for each in billed.unpriced
    ]


def _problems(quantities: AggregateResult, billed: BillResult) -> list[str]:
    failed = [f"account {each.account_code}: {each.reason}" for each in billed.failures]
    overflows = len(quantities.overflows)
    return [*failed, *[f"{overflows} quantities have too many digits"][: overflows > 0]]


@flow(name="bill", flow_run_name="bill {month}", task_runner=a_few_at_once())
def bill(
    *,
    home: Home = None,
    org: Organizations = (),
    month: MonthName = "last",
    approve: bool = False,
) -> list[Row]:
    """Aggregate and bill a month, organization by organization.

    Doing it again changes nothing, unless something that is on a bill has changed. An account or
    an organization that cannot be billed fails the run, after all the others are billed.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        month: Such as 2026-10; or `last` or `current`, by each organization's own calendar.
        approve: Whether the bills are APPROVED right away; PENDING otherwise.
    """
    what = f"bill {month_text(month)}"
    outcomes = for_each_organization(bill_organization, home, org, month, approve, what=what)
    return told("bill", outcomes)


if __name__ == "__main__":
    run_as_command(bill)
