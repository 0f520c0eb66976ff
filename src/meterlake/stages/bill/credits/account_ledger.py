"""The ledger of an account's commitments and balances while its bills are made.

Credits that people put on lines of a bill: they lower what sources may pay of these lines.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NamedTuple

from meterlake.model.bills.ledger import Consumption, Movement, PostingKind
from meterlake.model.values.ids import derived_id
from meterlake.stages.bill.credits.credit_sources import NO_MOVEMENTS, Movements
from meterlake.stages.bill.periods.due_periods import BillIdentity


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


class AccountLedger:
    """What came in and went out, as the next bill finds it.

    A bill that is made again draws anew: what it drew before is taken back. One that is locked, or
    may not be made any more, keeps what it drew, whatever it comes to now.

    Attributes:
        read: As it was at first.
        movements: As it is now, by the ids of sources.
    """

    def __init__(
        self,
        movements: Movements = NO_MOVEMENTS,
        is_final: Callable[[BillIdentity], bool] = lambda _: False,
        credits: LineCredits = NO_CREDITS,
    ) -> None:
        """Begin.

        Args:
            movements: As the ledger has them, by the ids of sources.
            is_final: Whether a bill stays as it is.
            credits: What people credit on its bills: nothing pays for that.
        """
        self.credits = credits
        self.read = movements
        self.movements = {id_: list(found) for id_, found in movements.items()}
        self._is_final = is_final

    def note_draws(self, key: BillIdentity, draws: Iterable[Consumption]) -> None:
        """Put what a bill draws in place of what it drew."""
        if self._is_final(key):
            return
        rank = key.rank
        for id_, found in self.movements.items():
            self.movements[id_] = [
                each
                for each in found
                if each.bill != rank or each.kind is not PostingKind.CONSUMPTION
            ]
        for draw in draws:
            change = draw.amount.copy_negate()
            movement = Movement(draw.account, PostingKind.CONSUMPTION, change, None, rank)
            self.movements.setdefault(draw.account.id, []).append(movement)
