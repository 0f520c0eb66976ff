"""What the report shows: numbers that are added up, and few of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, Literal

# However much there is, a page has this much of it.
METERS_MAX: Final = 8
FIELDS_MAX: Final = 4
ACCOUNTS_MAX: Final = 10
POINTS_MAX: Final = 400
ROWS_MAX: Final = 200

Step = Literal["day", "week", "month"]
_DAYS_MAX: Final = 100
_WEEKS_MAX: Final = 800


@dataclass(frozen=True, slots=True)
class Series:
    """One number over time; `values` has a value, or None, for every step of the usage."""

    name: str
    unit: str | None
    values: Sequence[Decimal | int | None]


@dataclass(frozen=True, slots=True)
class Usage:
    """One meter.

    Attributes:
        meter: Its code.
        name: Its name.
        steps: The first day of each day, week or month with usage.
        series: Its measurements, and then its numeric fields: added up, or of gauges the latest,
            largest or smallest value.
        ranked_by: What accounts are ranked by.
        accounts: The accounts with most of it: code and how much.
    """

    meter: str
    name: str
    steps: Sequence[str]
    series: Sequence[Series]
    ranked_by: str
    accounts: Sequence[tuple[str, Decimal | int]]


@dataclass(frozen=True, slots=True)
class Freshness:
    """How new the measurements of a meter are; instants are aware UTC."""

    meter: str
    measurements: int
    last: datetime | None
    received: datetime | None


@dataclass(frozen=True, slots=True)
class Day:
    """What arrived on a day (UTC), and what became of it."""

    day: str
    accepted: int
    repeats: int
    rejected: int


@dataclass(frozen=True, slots=True)
class Total:
    """The quantities of one aggregation in one month.

    Attributes:
        unit: What one unit is called.
        total: The sum of the quantities; None if those of accounts do not add up.
        quantity_unit: What the quantities are numbers of; None if nothing says so.
        units: The sum of the units that are priced; None as with `total`.
    """

    month: str
    aggregation: str
    unit: str | None
    accounts: int
    total: Decimal | None
    quantity_unit: str | None = None
    units: Decimal | None = None


@dataclass(frozen=True, slots=True)
class BilledMonth:
    """What the bills of a month come to in one currency.

    Attributes:
        month: The billed month.
        bills: How many there are.
        approved: How many of them are approved.
        total: What all of them come to.
        approved_total: What those come to that are approved.
        decimals: Those of the currency.
    """

    month: str
    currency: str
    bills: int
    approved: int
    total: Decimal
    approved_total: Decimal
    decimals: int


@dataclass(frozen=True, slots=True)
class Report:
    """All of a report; instants are aware UTC, days those of `timezone`."""

    organization: str
    code: str
    timezone: str
    first: datetime | None
    last: datetime | None
    month: str | None
    snapshot: int
    made: datetime
    step: Step
    accounts: int
    usage: Sequence[Usage]
    meters: Sequence[Freshness]
    rejected: Sequence[tuple[str, int]]
    days: Sequence[Day]
    totals: Sequence[Total]
    billed: Sequence[BilledMonth] = ()

    @property
    def listed_meters(self) -> Sequence[Freshness]:
        """The meters that have a row each; the sums are of all."""
        return self.meters[:ROWS_MAX]


def step_of(first: datetime, last: datetime) -> Step:
    """How finely a time is divided so that a chart stays readable."""
    days = (last - first).days
    if days <= _DAYS_MAX:
        return "day"
    return "week" if days <= _WEEKS_MAX else "month"
