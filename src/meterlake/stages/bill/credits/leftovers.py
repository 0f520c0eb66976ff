"""What is left of a balance at its end: it goes to the rollover, and what does not expires.

Both follow from what came in and was drawn. What a bill draws for time before the end is taken from
what was left, whenever it is calculated: so leftovers are worked out anew, and those that stand and
are no longer right are taken back.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from meterlake.model.bills.ledger import (
    EXPIRED,
    LedgerAccount,
    LedgerAccountType,
    Leftover,
    LeftoverChanges,
    Movement,
    Posting,
    PostingKind,
)
from meterlake.model.customers.balances import Balance, rollover_of
from meterlake.model.values.money import ZERO, exact


def count_ends(balance: Balance, now: datetime) -> int:
    """How many ends of a balance are over: its own, and that of its rollover if it has one."""
    ends = (balance.end_date, balance.rollover_end_date)
    return sum(1 for end in ends if end is not None and end <= now)


def find_leftovers(
    balance_id: str, balance: Balance, movements: Iterable[Movement], now: datetime
) -> list[Leftover]:
    """What has gone from a balance by now because it ended.

    What comes in after the end goes the same way. What it is owed stays.

    Args:
        balance_id: The balance.
        balance: What it says.
        movements: What came into it and its rollover and was drawn; none that follows from them.
        now: What applies later does not count yet.
    """
    if now < balance.end_date:
        return []
    counted = [each for each in movements if each.applied is None or each.applied <= now]
    with exact():
        left = max(sum((e.change for e in counted if not _is_of_rollover(e)), ZERO), ZERO)
        drawn = sum((e.change for e in counted if _is_of_rollover(e)), ZERO)
        carried = rollover_of(balance, left)
        expired, rest = left - carried, max(carried + drawn, ZERO)
    own = LedgerAccount(LedgerAccountType.BALANCE, balance_id)
    rollover = LedgerAccount(LedgerAccountType.ROLLOVER, balance_id)
    end, last = balance.end_date, balance.rollover_end_date
    found = [
        Leftover(own, rollover, carried, PostingKind.ROLLOVER, end),
        Leftover(own, EXPIRED, expired, PostingKind.EXPIRY, end),
    ]
    if last is not None and last <= now:
        found.append(Leftover(rollover, EXPIRED, rest, PostingKind.EXPIRY, last))
    return [each for each in found if each.amount]


def correct_leftovers(standing: Sequence[Posting], due: Iterable[Leftover]) -> LeftoverChanges:
    """Compare what was posted with what is right.

    Args:
        standing: What was posted and not taken back.
        due: What is right.
    """
    missing = Counter(due)
    wrong = []
    for posting in standing:
        assert posting.applied is not None, posting
        accounts = (posting.from_account, posting.to_account)
        found = Leftover(*accounts, posting.amount, posting.kind, posting.applied)
        if missing[found]:
            missing[found] -= 1
        else:
            wrong.append(posting)
    return LeftoverChanges(wrong, list(missing.elements()))


def _is_of_rollover(movement: Movement) -> bool:
    return movement.account.type is LedgerAccountType.ROLLOVER
