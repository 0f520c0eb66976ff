"""Quantities with what is kept beside them, and what the SQL of aggregations gave."""

from collections import defaultdict
from dataclasses import dataclass, field

from meterlake.model.bills.bill import MeterUsage, Quantity, Query, Segment
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.usage.quantity import Pooled
from meterlake.model.values.period import Period


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A quantity with what is kept beside it.

    Attributes:
        statement: What gave it; None for a default value.
        pooled: A child's quantity is for information only, it is in the parent's already.
        compound: Whether a compound aggregation gave it; its `meter_id` is empty then.
    """

    quantity: Quantity
    statement: Query | None = None
    pooled: Pooled | None = None
    compound: bool = False


@dataclass(frozen=True, slots=True)
class SqlFailure:
    """A quantity that there is not, because the SQL gave none."""

    aggregation_id: str
    account_id: str
    period: Period
    segment: Segment | None
    detail: str
    selection: UsageSelection | None = None


@dataclass(frozen=True, slots=True)
class SqlUsage:
    """What custom SQL gave.

    Attributes:
        by_meter: By the id of the meter; each with the quantities of one aggregation.
        failures: The quantities that are missing, and why.
    """

    by_meter: dict[str, list[MeterUsage]] = field(default_factory=lambda: defaultdict(list))
    failures: list[SqlFailure] = field(default_factory=list)
