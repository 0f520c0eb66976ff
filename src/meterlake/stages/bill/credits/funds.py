"""What is left of a commitment or a balance when a bill is calculated.

Bills that share a source are calculated in their order: what a bill before drew is gone, what a
bill after drew is not, unless it is locked and keeps it.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import NamedTuple

from meterlake.model.bills.ledger import BillRank, LedgerAccountType, Movement, PostingKind
from meterlake.model.customers.balances import Balance, rollover_of
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import local_date, midnight


class BillMoment(NamedTuple):
    """Which bill draws, and in which time zone its date is a day."""

    rank: BillRank
    zone: tzinfo

    def counts(self, movement: Movement) -> bool:
        """Whether a movement counts for the bill.

        What was applied on or after its bill date does not, nor what it drew itself.
        """
        if movement.kind is not PostingKind.CONSUMPTION:
            applied = movement.applied
            return applied is None or applied < midnight(self.rank.bill_date, self.zone)
        if movement.bill is None:
            return True
        if movement.bill == self.rank:
            return False
        return movement.is_final or movement.bill < self.rank

    def is_before(self, instant: datetime) -> bool:
        """Whether the bill date is before the day of an instant."""
        return self.rank.bill_date < local_date(instant, self.zone)


def first_bill_date(balance: Balance, applied: datetime | None, zone: tzinfo) -> date:
    """The first bill date that a transaction of a balance counts for, as `BillMoment.counts` says."""
    if applied is None:
        return local_date(balance.start_date, zone)
    day = local_date(applied, zone)
    return day if day == date.max else day + timedelta(days=1)


class BalanceFunds(NamedTuple):
    """What is left of a balance and of its rollover; below 0 if it is overdrawn.

    Attributes:
        was_filled: Whether anything ever came in before its end.
        rollover: None if it is not carried over.
        rollover_drawn: What bills before drew of what was carried over.
    """

    left: Decimal
    was_filled: bool
    rollover: Decimal | None
    rollover_drawn: Decimal = ZERO


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

    A balance and its rollover share the money: what one drew is gone for the other. Transactions
    without a date of their own apply from its start; all others count for bills dated later,
    whatever its end: what comes in late pays for the time before the end all the same.
    """
    own, others = count_movements(balance, movements, moment)
    was_filled = any(each.kind is PostingKind.CREDIT and each.change > 0 for each in own)
    with exact():
        credited = sum((each.change for each in own), ZERO)
        gone = sum((each.change for each in others), ZERO)
        left = credited + gone
    if balance.rollover_end_date is None:
        return BalanceFunds(left, was_filled, None)
    carried = rollover_of(balance, max(credited, ZERO))
    with exact():
        return BalanceFunds(left, was_filled, carried + gone, -gone)


def count_movements(
    balance: Balance, movements: Iterable[Movement], moment: BillMoment
) -> tuple[list[Movement], list[Movement]]:
    """The movements of a balance that count for a bill: its own, and those of its rollover."""
    counted = [each for each in movements if _counts(each, balance, moment)]
    own = [each for each in counted if not _is_of_rollover(each)]
    return own, [each for each in counted if _is_of_rollover(each)]


def _counts(movement: Movement, balance: Balance, moment: BillMoment) -> bool:
    is_undated = movement.applied is None and not _is_drawn(movement)
    if is_undated and moment.is_before(balance.start_date):
        return False
    return moment.counts(movement)


def _is_drawn(movement: Movement) -> bool:
    return movement.kind is PostingKind.CONSUMPTION


def _is_of_rollover(movement: Movement) -> bool:
    """Whether a bill drew it for a time after the end."""
    return _is_drawn(movement) and movement.account.type is LedgerAccountType.ROLLOVER
