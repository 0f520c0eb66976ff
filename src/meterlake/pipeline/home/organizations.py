"""All organizations of a home, a few at once: each is a task of a fan-out."""

from collections.abc import Callable
from typing import Any

from meterlake.model.bills.jobs import BillOrder
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.work.jobs import FanOutRunner, RunnerKind
from meterlake.pipeline.billing.currencies import read_currencies
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.pipeline.billing.shown_bills import approve_shown_bills, days_of
from meterlake.pipeline.config.months import refuse_future_month
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores import Stores
from meterlake.stores.fan_out import FanOutTask, TaskEnd, open_fan_out, runner_of


def aggregate_organizations(stores: Stores, period: PeriodSpec) -> list[TaskEnd]:
    """Aggregate a period of all organizations; what became of each, in their order.

    Raises:
        NotAvailable, Unavailable: There is nothing that carries the tasks.
    """
    return _each(stores, aggregate_organization, period)


def bill_organizations(stores: Stores, order: BillOrder, author: str) -> list[TaskEnd]:
    """Make the bills of an order for all organizations; what became of each, in their order.

    Raises:
        NotAvailable, Unavailable: There is nothing that carries the tasks.
    """
    return _each(stores, bill_organization, order, author)


def approve_organizations(stores: Stores, order: BillOrder, author: str) -> list[TaskEnd]:
    """Approve the bills of an order that were shown, of all organizations, in their order.

    Raises:
        NotAvailable, Unavailable: There is nothing that carries the tasks.
    """
    return _each(stores, approve_organization, order, author)


def _each(stores: Stores, work: Callable[..., dict[str, Any]], *arguments: Any) -> list[TaskEnd]:
    organizations = stores.state.organizations()
    tasks = [FanOutTask(each.code, work, (each.id, *arguments)) for each in organizations]
    runner = runner_of(stores) or FanOutRunner(RunnerKind.THREADS)
    with open_fan_out(stores, runner, len(tasks)) as fan_out:
        return sorted(fan_out.run(tasks), key=lambda end: end.number)


def aggregate_organization(stores: Stores, org_id: str, period: PeriodSpec) -> dict[str, Any]:
    """Aggregate a period of one organization, as a task: what it came to, in short."""
    found = aggregate(stores.organization(org_id), period)
    return {
        "period": found.run.name,
        "quantities": len(found.rows),
        "failed": len(found.overflows) + len(found.failures),
        "appended": found.appended,
    }


def bill_organization(stores: Stores, org_id: str, order: BillOrder, author: str) -> dict[str, Any]:
    """Make the bills of one organization, as a task: what they came to, in short."""
    organization = stores.organization(org_id)
    refuse_future_month(organization, order.days)
    found = bill_order(organization, order, author, shown=True)
    currencies = read_currencies(organization)
    return {
        "bills": len(found.bills),
        "left": sum(each.would_be is not None for each in found.bills),
        "failed": len(found.failures),
        "total": currencies.sums(found.totals),
    }


def approve_organization(
    stores: Stores, org_id: str, order: BillOrder, author: str
) -> dict[str, Any]:
    """Approve the bills of one organization that were shown, as a task: how many, in short."""
    organization = stores.organization(org_id)
    found = approve_shown_bills(organization, order, author)
    totals, currencies = found.result(days_of(order)).totals, read_currencies(organization)
    return {
        "approved": len(found.approved),
        "failed": len(found.not_shown),
        "total": currencies.sums(totals),
    }
