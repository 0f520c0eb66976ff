"""What is left of a commitment or a balance when a bill is calculated.

Bills that share a source are calculated in the order of bill date, creation and id: what a bill
before drew is gone, what a bill after drew is not, unless it is locked and keeps it.
"""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from meterlake.model.balances import Balance
from meterlake.model.ledger import BillRank, LedgerAccountType, Movement, PostingKind
from meterlake.model.money import ZERO, exact


class BillMoment(NamedTuple):
    """Which bill draws, and when.

    Attributes:
        start: The instant at which its bill date begins.
    """

    rank: BillRank
    start: datetime

    def counts(self, movement: Movement) -> bool:
        """Whether a movement counts for the bill.

        What was applied on or after its bill date does not, nor what it drew itself.
        """
        if movement.kind is not PostingKind.CONSUMPTION:
            return movement.applied is None or movement.applied < self.start
        if movement.bill is None:
            return True
        if movement.bill.id == self.rank.id:
            return False
        return movement.is_final or movement.bill < self.rank


class BalanceFunds(NamedTuple):
    """What is left of a balance and of its rollover; below 0 if it is overdrawn.

    Attributes:
        was_filled: Whether anything ever came in before its end.
        rollover: None if it is not carried over.
    """

    left: Decimal
    was_filled: bool
    rollover: Decimal | None
    rollover_was_filled: bool = False


def left_of_commitment(
    amount: Decimal, movements: Iterable[Movement], moment: BillMoment
) -> Decimal:
    """What is left of a commitment's amount for a bill."""
    with exact():
        return amount + sum((each.change for each in movements if moment.counts(each)), ZERO)


def left_of_balance(
    balance: Balance, movements: Iterable[Movement], moment: BillMoment
) -> BalanceFunds:
    """What is left of a balance for a bill.

    Transactions that apply to a time after its end never come back into it; below 0 they lower
    its rollover.
    """
    counted = [each for each in movements if moment.counts(each)]
    own = [each for each in counted if _is_own(each, balance)]
    late = [each for each in counted if not _is_own(each, balance) and each.change < 0]
    was_filled = any(each.kind is PostingKind.CREDIT and each.change > 0 for each in own)
    with exact():
        left = sum((each.change for each in own), ZERO)
        if balance.rollover_end_date is None:
            return BalanceFunds(left, was_filled, None)
        carried = max(left, ZERO)
        if balance.rollover_amount is not None:
            carried = min(carried, balance.rollover_amount)
        rest = carried + sum((each.change for each in late), ZERO)
        return BalanceFunds(left, was_filled, rest, carried > 0)


def _is_own(movement: Movement, balance: Balance) -> bool:
    """Whether it is of the balance itself, before its end."""
    if movement.kind is PostingKind.CONSUMPTION:
        return movement.account.type is LedgerAccountType.BALANCE
    return movement.applied is None or movement.applied < balance.end_date
