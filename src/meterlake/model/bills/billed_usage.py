"""What accounts used of all that bills charge for, and what of it is not known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from meterlake.model.bills.bill import MeterUsage, Quantity, Segment
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.values.period import Period


class UsageWindows(NamedTuple):
    """Of whom, and of which periods, bills need quantities.

    Attributes:
        parts: Whose usage, by id, and when.
        aggregation_ids: The aggregations that they are needed of.
        selections: For each of the parts, which measurements count; empty if all do.
        pools: If those ids are not of accounts: id, account id, and a time in which the
            measurements of the account count.
    """

    parts: list[tuple[str, Period]]
    aggregation_ids: frozenset[str]
    selections: tuple[UsageSelection, ...] = ()
    pools: tuple[tuple[str, str, Period], ...] = ()


class UsageOwner(NamedTuple):
    """Whose custom fields count for usage that is not all that one account used.

    Attributes:
        account_id: Whose own.
        planned_id: Whose plans'.
    """

    account_id: str
    planned_id: str


UsageOwners = Mapping[str, UsageOwner]


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
