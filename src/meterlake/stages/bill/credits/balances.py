"""Transactions of a balance → what came of it; what a new transaction would make of it.

What is left of a balance at its end: it goes to the rollover, and what does not expires.

Both follow from what came in and was drawn. What a bill draws for time before the end is taken from
what was left, whenever it is calculated: so leftovers are worked out anew, and those that stand and
are no longer right are taken back.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

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

_MOMENT: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a transaction adds to its balance, and when; below zero, it takes away."""

    amount: Decimal
    applied: datetime


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of a balance until an instant.

    Attributes:
        credits: All that came in.
        debits: All that went out, as a positive number.
        initial_credit: What came in first.
        expired: What was left at the end and is not carried over.
        balance_consumed: What went out before the end as long as there was something.
        rollover_consumed: The same of what was carried over; None if nothing ever is.
    """

    credits: Decimal
    debits: Decimal
    initial_credit: Decimal
    expired: Decimal
    balance_consumed: Decimal
    rollover_consumed: Decimal | None

    def to_wire(self) -> dict[str, Any]:
        """The summary as `BalanceTransactionsSummary`."""
        document = {
            "totalCreditAmount": self.credits,
            "totalDebitAmount": self.debits,
            "initialCreditAmount": self.initial_credit,
            "expiredBalanceAmount": self.expired,
            "balanceConsumed": self.balance_consumed,
        }
        if self.rollover_consumed is not None:
            document["rolloverConsumed"] = self.rollover_consumed
        return document


def entry_of(posting: Posting, balance: Balance) -> Entry:
    """What a posting adds to its balance.

    What a bill draws from the balance itself is for a time before its end, whenever it is billed;
    what it draws of what was carried over is for a time after that, and before its end.
    """
    applied, end = posting.applied or posting.created, balance.rollover_end_date
    if posting.bill_id is None:
        return Entry(posting.change, applied)
    if LedgerAccountType.BALANCE in {posting.from_account.type, posting.to_account.type}:
        applied = min(applied, balance.end_date - _MOMENT)
    elif end is not None:
        applied = min(max(applied, balance.end_date), end - _MOMENT)
    return Entry(posting.change, applied)


def summarize(balance: Balance, entries: Iterable[Entry], now: datetime) -> Summary:
    """Sum up what has been applied to a balance until now."""
    applied = _in_order(entry for entry in entries if entry.applied <= now)
    credits_ = [entry.amount for entry in applied if entry.amount > 0]
    before = [entry for entry in applied if entry.applied < balance.end_date]
    after = [entry for entry in applied if entry.applied >= balance.end_date]
    consumed, left = _drawn_down(ZERO, before)
    carried = rollover_of(balance, left)
    with exact():
        end = balance.rollover_end_date
        if end is None:
            rollover_consumed = None
        else:
            debits = (entry for entry in after if entry.amount < 0 and entry.applied < end)
            rollover_consumed = _drawn_down(carried, debits)[0]
        return Summary(
            credits=sum(credits_, ZERO),
            debits=-sum((entry.amount for entry in applied if entry.amount < 0), ZERO),
            initial_credit=credits_[0] if credits_ else ZERO,
            expired=left - carried if now >= balance.end_date else ZERO,
            balance_consumed=consumed,
            rollover_consumed=rollover_consumed,
        )


def overdrawn(entries: Iterable[Entry], new: Entry) -> bool:
    """Whether a balance would be below zero because of a new transaction, then or later."""
    if new.amount >= 0:
        return False
    total = ZERO
    with exact():
        for entry in _in_order([*entries, new]):
            total += entry.amount
            if total < 0 and entry.applied >= new.applied:
                return True
    return False


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    """By time; at one instant, money comes in before it goes out."""
    return sorted(entries, key=lambda entry: (entry.applied, entry.amount < 0))


def _drawn_down(start: Decimal, entries: Iterable[Entry]) -> tuple[Decimal, Decimal]:
    """What is consumed of an amount that never counts below zero, and what is left of it."""
    total, consumed = start, ZERO
    with exact():
        for entry in entries:
            if entry.amount < 0:
                consumed += min(-entry.amount, max(total, ZERO))
            total += entry.amount
    return consumed, max(total, ZERO)


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
