"""What a bill job is asked for, as the bills that its runs make."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

from meterlake.model.bills.jobs import BillJobRequest, BillOrder
from meterlake.model.calendar.day_range import DayRange
from meterlake.model.catalog.pricing import BillingFrequency
from meterlake.model.configuration.organization import (
    PERIOD_SETTINGS,
    OrganizationConfig,
)
from meterlake.model.values import wire
from meterlake.stages.bill.periods.due import BillIdentity
from meterlake.stages.bill.periods.selection import BillOverrides, BillSelection

_ONE_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ChosenBill:
    """A bill that is made again, with what it was made with instead of the organization's settings."""

    key: BillIdentity
    overrides: BillOverrides = field(default_factory=BillOverrides)


def selections_of(
    order: BillOrder, organization: OrganizationConfig, chosen: Iterable[ChosenBill] = ()
) -> list[BillSelection]:
    """What the runs of a job make, one after the other.

    Args:
        order: What the job is asked for.
        organization: The settings without the order's own.
        chosen: The bills of the order's `bill_ids`.
    """
    return select_again(chosen) if order.bill_ids else [_due(order, organization)]


def _due(order: BillOrder, organization: OrganizationConfig) -> BillSelection:
    request = order.request
    frequency, account_ids = request.billing_frequency, order.chosen_accounts
    days = request.days or order.days
    if days is None:
        assert order.open_day is not None
        # No period ends: only those that are open are billed.
        days = DayRange(order.open_day, order.open_day)
    return BillSelection(
        days,
        open_day=order.open_day,
        frequency=None if frequency is None else BillingFrequency(frequency.value),
        interval=request.bill_frequency_interval,
        account_ids=None if account_ids is None else frozenset(account_ids),
        overrides=overrides_of(request, organization),
    )


def overrides_of(request: BillJobRequest, organization: OrganizationConfig) -> BillOverrides:
    """What a request says instead of the settings; its rates stand beside those of other pairs."""
    given = ((name, getattr(request, name)) for name in PERIOD_SETTINGS)
    settings: dict[str, Any] = {name: value for name, value in given if value is not None}
    if request.currency_conversions:
        rates = {
            (each.from_, each.to): each
            for each in (*organization.currency_conversions, *request.currency_conversions)
        }
        settings["currency_conversions"] = tuple(rates.values())
    return BillOverrides(
        settings=settings,
        currency=request.target_currency,
        due_date=request.due_date,
        external_invoice_date=request.external_invoice_date,
    )


def select_again(chosen: Iterable[ChosenBill]) -> list[BillSelection]:
    """Select bills that there are: a run for the bills of one date that were made with the same settings."""
    together: dict[tuple[date, str], list[ChosenBill]] = defaultdict(list)
    for each in chosen:
        together[each.key.bill_date, wire.dumps_sorted(each.overrides.to_wire())].append(each)
    return [
        BillSelection(
            DayRange.of_day(bill_date - _ONE_DAY),
            account_ids=frozenset(each.key.account_id for each in found),
            bills=frozenset(each.key for each in found),
            overrides=found[0].overrides,
        )
        for (bill_date, _), found in sorted(together.items())
    ]
