"""Credits that people put on lines of a bill: they lower what sources may pay of these lines."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NamedTuple

from meterlake.model.values.ids import derived_id
from meterlake.stages.bill.periods.due import BillIdentity


class LineCredit(NamedTuple):
    """A credit of a person on a bill, about a line of the same bill.

    Attributes:
        bill_id: Of the bill.
        line_id: Of the line that it refers to, which may be gone.
        amount: What it adds to the bill: below 0.
    """

    bill_id: str
    line_id: str
    amount: Decimal

    def is_about(self, key: str) -> bool:
        """Whether it refers to a line with some key."""
        return derived_id(self.bill_id, key) == self.line_id


# By the bills on which they stand.
LineCredits = Mapping[BillIdentity, Sequence[LineCredit]]
NO_CREDITS: Final[LineCredits] = MappingProxyType({})
