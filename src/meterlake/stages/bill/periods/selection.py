"""Which bills a run makes, and what it takes instead of the organization's settings.

Which bills a calculation made, as its bills pin it: without the accounts, which are those of the bills.

What a bill job is asked for, as the bills that its runs make.

Which bill something stands on: by bill date and period, and by what contracts and organizations say.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any, Final, Self

from meterlake.model.bills.jobs import BillJobRequest, BillOrder
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.configuration.organization import (
    PERIOD_SETTINGS,
    BillGroupingKey,
    CurrencyConversion,
    OrganizationConfig,
)
from meterlake.model.customers.contracts import Contract
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Value
from meterlake.model.values.fields import Day, Text
from meterlake.model.values.period import Month
from meterlake.stages.bill.periods.due_periods import BillIdentity, BillingCalendar, BillingPeriod

_ONE_DAY: Final = timedelta(days=1)


class _Pinned(Value):
    """Overrides as a bill has them."""

    timezone: Text | None = None
    year_epoch: Day | None = None
    month_epoch: Day | None = None
    week_epoch: Day | None = None
    day_epoch: Day | None = None
    currency_conversions: tuple[CurrencyConversion, ...] | None = None
    currency: Text | None = None
    due_date: Day | None = None
    external_invoice_date: Day | None = None


@dataclass(frozen=True, slots=True)
class BillOverrides:
    """What one run takes instead of what the organization and its accounts say.

    Attributes:
        settings: Fields of `OrganizationConfig`, such as its time zone, epochs and conversions.
        currency: The billing currency of all accounts.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    currency: str | None = None
    due_date: date | None = None
    external_invoice_date: date | None = None

    @property
    def moves_periods(self) -> bool:
        """Whether a run may have other periods than those of before."""
        return any(each in self.settings for each in PERIOD_SETTINGS)

    def apply(self, configuration: Configuration) -> Configuration:
        """A configuration whose organization has these settings."""
        if not self.settings:
            return configuration
        record = configuration.single(OrganizationConfig)
        entity = record.entity.model_copy(update=dict(self.settings))
        return configuration.replaced(replace(record, entity=entity))

    @classmethod
    def from_wire(cls, pinned: Mapping[str, Any]) -> Self:
        """What a bill pins of them."""
        read = _Pinned.model_validate(pinned, by_alias=True)
        given = read.model_dump(exclude_none=True, exclude={"currency_conversions"})
        if read.currency_conversions is not None:
            given["currency_conversions"] = read.currency_conversions
        own = {
            name: given.pop(name, None)
            for name in ("currency", "due_date", "external_invoice_date")
        }
        return cls(settings=given, **own)

    def to_wire(self) -> dict[str, Any]:
        """What a bill pins of them; nothing if there are none."""
        settings = OrganizationConfig.model_construct(**self.settings).model_dump(
            by_alias=True, include=set(self.settings)
        )
        found = {
            "currency": self.currency,
            "dueDate": self.due_date,
            "externalInvoiceDate": self.external_invoice_date,
        }
        return settings | {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class BillSelection:
    """Which bills a run makes.

    Attributes:
        days: The last days of their billing periods.
        open_day: Beside these, the bills of the periods that are open on this day.
        frequency: Only bills of this frequency; of any if None.
        interval: Only bills of this interval.
        account_ids: Only those of these accounts; of all if None.
        bills: Only these bills; all if None.
    """

    days: Month | DayRange
    open_day: date | None = None
    frequency: BillingFrequency | None = None
    interval: int | None = None
    account_ids: Collection[str] | None = None
    bills: Collection[BillIdentity] | None = None
    overrides: BillOverrides = field(default_factory=BillOverrides)

    def calendar(self, configuration: Configuration) -> BillingCalendar:
        """The calendar of the bills, whose configuration has the overrides."""
        return BillingCalendar(
            self.overrides.apply(configuration),
            self.days,
            frequency=self.frequency,
            open_day=self.open_day,
        )

    @property
    def emptied_day(self) -> date | None:
        """The day whose open bills are made again also if no plan makes them any more.

        None if there is no such day, or if the run has other periods than the organization.
        """
        return None if self.overrides.moves_periods else self.open_day

    def includes(self, key: BillIdentity) -> bool:
        """Whether the run makes a bill that is due."""
        return self.bills is None or key in self.bills


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


_Kind = tuple[BillingFrequency, int]


class BillIdentities:
    """Names the bills of plans, charges and fees."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.consolidated = configuration.single(OrganizationConfig).entity.consolidate_bills

    def of_plan(
        self, account_id: str, period: BillingPeriod, contract_id: str | None
    ) -> BillIdentity:
        """The bill of a plan's billing period."""
        kind = (period.frequency, period.interval)
        return self._identity(account_id, period.bill_date, kind, contract_id)

    def without_plan(
        self, account_id: str, bill_date: date, contract_id: str | None
    ) -> BillIdentity:
        """The bill of what has a date of its own and joins no other."""
        kind = (BillingFrequency.AD_HOC, 1)
        return self._identity(account_id, bill_date, kind, contract_id)

    def grouping_key(self, contract_id: str | None) -> str:
        """What tells bills of contracts apart: an exclusive key stands for its one contract."""
        if contract_id is None:
            return ""
        key_id = self.configuration.get(Contract, contract_id).entity.bill_grouping_key_id
        if key_id is None:
            return ""
        key = self.configuration.get(BillGroupingKey, key_id).entity
        return contract_id if key.exclusive else key_id

    def keeps(self, key: BillIdentity) -> bool:
        """Whether a bill is of the kind that is made now, consolidated or not."""
        return (key.frequency is BillingFrequency.MIXED) == self.consolidated

    def _identity(
        self, account_id: str, bill_date: date, kind: _Kind, contract_id: str | None
    ) -> BillIdentity:
        frequency, interval = (BillingFrequency.MIXED, 1) if self.consolidated else kind
        group = self.grouping_key(contract_id)
        return BillIdentity(account_id, bill_date, frequency, interval, group)


def is_asked_for(
    selection: BillSelection, key: BillIdentity, periods: Collection[BillingPeriod]
) -> bool:
    """Whether a run makes a bill; of a consolidated one, any of its periods may be asked for."""
    kinds = {(each.frequency, each.interval) for each in periods} or {(key.frequency, key.interval)}
    return selection.includes(key) and any(
        selection.frequency in {None, frequency} and selection.interval in {None, interval}
        for frequency, interval in kinds
    )


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


# How often, and every how many.
