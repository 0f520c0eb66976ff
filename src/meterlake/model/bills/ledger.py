"""The ledger of balances and commitments: money goes from one account to another, never alone.

Every posting takes from one account what it gives to another, so that the sum over all accounts is
zero at every moment. What a balance holds, and what is spent of a commitment, are sums of postings.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, NamedTuple

from meterlake.model.customers.recurring_period import usual_days
from meterlake.model.values.money import ZERO, exact


class PostingKind(StrEnum):
    """Why money moves.

    A credit comes from the customer, a manual posting goes back to it; a consumption is what a bill
    draws; what is left at the end of a balance goes to its rollover, or expires. A reversal takes
    back one posting.
    """

    CREDIT = "credit"
    CONSUMPTION = "consumption"
    EXPIRY = "expiry"
    ROLLOVER = "rollover"
    REVERSAL = "reversal"
    MANUAL = "manual"


class LedgerAccountType(StrEnum):
    """What an account of the ledger stands for.

    Of a commitment the ledger has what was drawn: it is below zero by as much as was spent. What
    was agreed on is the amount of the commitment itself.
    """

    CUSTOMER = "customer"
    BALANCE = "balance"
    ROLLOVER = "rollover"
    COMMITMENT = "commitment"
    EXPIRED = "expired"
    REVENUE = "revenue"


# The accounts of a source; the others belong to whom it pays, or who pays it.
SOURCES: Final = frozenset(
    {LedgerAccountType.BALANCE, LedgerAccountType.ROLLOVER, LedgerAccountType.COMMITMENT}
)


class LedgerAccount(NamedTuple):
    """One account of the ledger.

    Attributes:
        id: Of the account, balance, commitment or product that it stands for; empty for what is
            expired, and for revenue without an accounting product.
    """

    type: LedgerAccountType
    id: str = ""

    def __str__(self) -> str:
        return f"{self.type}:{self.id}"

    @classmethod
    def parse(cls, text: str) -> "LedgerAccount":
        """Read what `str` wrote.

        >>> LedgerAccount.parse("balance:7").type
        <LedgerAccountType.BALANCE: 'balance'>
        """
        type_, _, id_ = text.partition(":")
        return cls(LedgerAccountType(type_), id_)


EXPIRED: Final = LedgerAccount(LedgerAccountType.EXPIRED)


class Posting(NamedTuple):
    """Money that went from one account of the ledger to another; it never changes.

    Attributes:
        sequence: The order in which postings were made.
        amount: Never below 0; it is 0 only for a transaction of 0 that somebody asked for.
        source_id: The balance or commitment that it is about.
        bill_version: The version of the bill that was made with it.
        reverses: The posting that it takes back.
        applied: From when on it counts; None for ever since its source is there.
    """

    sequence: int
    id: str
    from_account: LedgerAccount
    to_account: LedgerAccount
    amount: Decimal
    currency: str
    kind: PostingKind
    source_id: str
    created: datetime
    author: str
    bill_id: str | None = None
    bill_version: int | None = None
    job_id: str | None = None
    reverses: str | None = None
    applied: datetime | None = None

    @property
    def change(self) -> Decimal:
        """What it adds to its source; below zero, it takes away; 0 for a rollover."""
        return source_change(self.from_account, self.to_account, self.amount)


class Leftover(NamedTuple):
    """What goes from one account to another when a balance or its rollover ends."""

    from_account: LedgerAccount
    to_account: LedgerAccount
    amount: Decimal
    kind: PostingKind
    applied: datetime


class LeftoverChanges(NamedTuple):
    """What makes of leftovers that were posted those that are right."""

    wrong: list[Posting]
    missing: list[Leftover]


def source_change(
    from_account: LedgerAccount, to_account: LedgerAccount, amount: Decimal
) -> Decimal:
    """What a posting between two accounts adds to the source that it is about."""
    comes, goes = to_account.type in SOURCES, from_account.type in SOURCES
    if comes and goes:
        return ZERO
    # Unlike a minus sign, it keeps every digit everywhere.
    return amount if comes else amount.copy_negate()


def account_sums(postings: Iterable[Posting]) -> dict[tuple[LedgerAccount, str], Decimal]:
    """What each account has by currency; all of a currency add up to zero."""
    sums: dict[tuple[LedgerAccount, str], Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for each in postings:
            sums[each.from_account, each.currency] -= each.amount
            sums[each.to_account, each.currency] += each.amount
    return dict(sums)


class Consumption(NamedTuple):
    """What a bill draws from one account of a source.

    Attributes:
        account: Of the balance, its rollover, or the commitment.
        amount: In the currency of the source; below 0 it goes back.
        product_id: The accounting product of the line, if it has one.
    """

    account: LedgerAccount
    amount: Decimal
    currency: str
    product_id: str | None = None


class BillRank(NamedTuple):
    """Where a bill stands among those of its account, which share sources: they are made in this order.

    It follows from what identifies a bill, not from when which job made it first.

    Attributes:
        length: Shorter periods come before longer ones, and single charges last.
    """

    bill_date: date
    length: int
    frequency: str
    interval: int
    grouping_key: str = ""

    @classmethod
    def of(
        cls, bill_date: date, frequency: str, interval: int, grouping_key: str = ""
    ) -> "BillRank":
        """That of a bill."""
        length = usual_days(frequency, interval)
        return cls(bill_date, length, frequency, interval, grouping_key)


class Movement(NamedTuple):
    """What a posting that was not taken back adds to its source.

    Attributes:
        account: The account of the source.
        bill: The bill that drew it; None if none did, or if there is no such bill any more.
        is_final: Whether that bill is locked, or closed by the lock date.
    """

    account: LedgerAccount
    kind: PostingKind
    change: Decimal
    applied: datetime | None
    bill: BillRank | None = None
    is_final: bool = False
