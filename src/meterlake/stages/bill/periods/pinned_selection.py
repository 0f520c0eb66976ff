"""Which bills a calculation made, as its bills pin it: without the accounts, which are those of the bills."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from meterlake.model.calendar.day_range import DayRange
from meterlake.model.catalog.pricing import BillingFrequency
from meterlake.model.values.period import Month
from meterlake.stages.bill.periods.due import BillIdentity
from meterlake.stages.bill.periods.selection import BillOverrides, BillSelection


def selection_to_wire(selection: BillSelection) -> dict[str, Any]:
    """A selection as plain data; nothing of what is not restricted."""
    days, bills = selection.days, selection.bills
    month = str(days) if isinstance(days, Month) else None
    found = {
        "month": month,
        "first": None if month else days.first,
        "after": None if month else days.after,
        "openDay": selection.open_day,
        "frequency": selection.frequency and selection.frequency.value,
        "interval": selection.interval,
        "bills": None if bills is None else [_bill_to_wire(each) for each in sorted(bills)],
        "overrides": selection.overrides.to_wire() or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def selection_from_wire(pinned: Mapping[str, Any]) -> BillSelection:
    """The selection again, of all accounts."""
    month, bills, open_day = pinned.get("month"), pinned.get("bills"), pinned.get("openDay")
    frequency, interval = pinned.get("frequency"), pinned.get("interval")
    return BillSelection(
        days=Month.parse(month)
        if month
        else DayRange(*(date.fromisoformat(pinned[name]) for name in ("first", "after"))),
        open_day=date.fromisoformat(open_day) if open_day else None,
        frequency=BillingFrequency(frequency) if frequency else None,
        interval=None if interval is None else int(interval),
        bills=None if bills is None else frozenset(map(_bill_from_wire, bills)),
        overrides=BillOverrides.from_wire(pinned.get("overrides", {})),
    )


def _bill_to_wire(key: BillIdentity) -> list[Any]:
    day, frequency = key.bill_date.isoformat(), key.frequency.value
    return [key.account_id, day, frequency, key.interval, key.grouping_key]


def _bill_from_wire(pinned: list[Any]) -> BillIdentity:
    account_id, day, frequency, interval, grouping_key = pinned
    kind = BillingFrequency(frequency), int(interval)
    return BillIdentity(account_id, date.fromisoformat(day), *kind, grouping_key)
