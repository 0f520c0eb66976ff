"""Transactions of a balance → what came of it; what a new transaction would make of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from meterlake.model.bills.ledger import LedgerAccountType, Posting
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
