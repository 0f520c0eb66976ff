"""What accounts used of all that bills charge for, and what of it is not known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from meterlake.model.billing import MeterUsage, Quantity, Segment
from meterlake.model.period import Period
from meterlake.model.usage_selection import UsageSelection


class MissingQuantity(NamedTuple):
    """A quantity that there is not, because it could not be calculated."""

    account_id: str
    aggregation_id: str
    period: Period
    segment: Segment | None
    detail: str
    selection: UsageSelection | None = None


@dataclass(frozen=True, slots=True)
class BilledUsage:
    """The quantities that bills are made of.

    Attributes:
        by_meter: By the id of the meter, what each account used.
        compounds: What compound aggregations come to where bills charge for them.
        missing: The quantities that single accounts lack, and why: their bills cannot be made.
        left_out: By the ids of aggregations that are not calculated for anybody, the reason.
    """

    by_meter: Mapping[str, Sequence[MeterUsage]] = field(default_factory=dict)
    compounds: Sequence[Quantity] = ()
    missing: Sequence[MissingQuantity] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
