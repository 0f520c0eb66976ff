"""Which bills a run makes, and what it takes instead of the organization's settings."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Self

from meterlake.model.calendar.day_range import DayRange
from meterlake.model.catalog.pricing import BillingFrequency
from meterlake.model.configuration.organization import (
    PERIOD_SETTINGS,
    CurrencyConversion,
    OrganizationConfig,
)
from meterlake.model.values.entity import Configuration, Value
from meterlake.model.values.fields import Day, Text
from meterlake.model.values.period import Month
from meterlake.stages.bill.periods.due import BillIdentity, BillingCalendar


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
