"""Commitments and balances as a ledger: each movement is one posting between two of its accounts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from tests.billing_oracle.money import exact
from tests.billing_oracle.periods import Clock, Window
from tests.billing_oracle.terms import BillKey, Book, time_of
from tests.billing_oracle.world import Row, World, find, is_in_hierarchy

COMMITMENT, BALANCE, ROLLOVER = "COMMITMENT", "BALANCE", "ROLLOVER"
KINDS = {"PREPAYMENT": COMMITMENT, "BALANCE": BALANCE}
LINE_TYPES = (
    "STANDING_CHARGE",
    "USAGE",
    "MINIMUM_SPEND",
    "COUNTER_RUNNING_TOTAL_CHARGE",
    "COUNTER_ADJUSTMENT_DEBIT",
)


@dataclass(frozen=True)
class Source:
    """What lines can be drawn from: a commitment, a balance, or what a balance rolls over."""

    kind: str
    row: Row
    window: Window
    number: int

    @property
    def identity(self) -> tuple[str, str]:
        return (self.kind, self.row["id"])

    @property
    def order(self) -> tuple[Any, ...]:
        """Within a kind: by end, start, creation."""
        return (self.window.end, self.window.start, self.number)

    @property
    def line_types(self) -> tuple[str, ...]:
        """The types of lines it may draw: those it names, else all."""
        every = LINE_TYPES if self.kind == COMMITMENT else (*LINE_TYPES, "AD_HOC")
        return tuple(self.row.get("lineItemTypes") or every)

    @property
    def has_overdraft(self) -> bool:
        return self.kind == BALANCE and bool(self.row.get("allowOverdraft"))

    def holds(self, part: Window) -> bool:
        """Whether it holds in all of a part of a line (the part is an instant if it has no length)."""
        if part.start >= part.end:
            return self.window.start <= part.start < self.window.end
        return self.window.start <= part.start and part.end <= self.window.end


def sources_of(book: Book, account_id: str) -> list[Source]:
    """The sources of an account in the order in which lines are drawn from them."""
    found: list[Source] = []
    for name in credit_order_of(book.world, account_id):
        alike = [
            source
            for source in _all_sources(book)
            if source.row["accountId"] == account_id and _is_kind(source, KINDS[name])
        ]
        found += sorted(alike, key=lambda source: source.order)
    return found


def _is_kind(source: Source, kind: str) -> bool:
    return source.kind == kind or (kind == BALANCE and source.kind == ROLLOVER)


def credit_order_of(world: World, account_id: str) -> list[str]:
    """creditApplicationOrder of the account, else of the organization; fixed in a hierarchy."""
    both = ["PREPAYMENT", "BALANCE"]
    if is_in_hierarchy(world, account_id):
        return both
    own = find(world.accounts, account_id).get("creditApplicationOrder")
    return list(own or world.organization.get("creditApplicationOrder") or both)


def _all_sources(book: Book) -> Iterator[Source]:
    for number, row in enumerate(book.world.commitments):
        yield Source(COMMITMENT, row, time_of(book.clock, row), number)
    for number, row in enumerate(book.world.balances):
        time = time_of(book.clock, row)
        yield Source(BALANCE, row, time, number)
        if row.get("rolloverEndDate"):
            end = book.clock.instant(row["rolloverEndDate"])
            if end > time.end:
                yield Source(ROLLOVER, row, Window(time.end, end), number)


@dataclass(frozen=True)
class Posting:
    """An amount that goes from one account of the ledger to another."""

    giver: tuple[str, str]
    taker: tuple[str, str]
    amount: Fraction
    currency: str
    bill: BillKey | None = None


@dataclass
class Ledger:
    """What was drawn so far; what is left follows from it."""

    book: Book
    postings: list[Posting] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        return self.book.clock

    def draw(self, source: Source, amount: Fraction, bill: BillKey) -> None:
        """A bill consumes some of a source."""
        revenue = ("REVENUE", bill.account_id)
        currency = source.row["currency"]
        self.postings.append(Posting(source.identity, revenue, amount, currency, bill))

    def drawn(self, kind: str, identifier: str) -> Fraction:
        return sum(
            (row.amount for row in self.postings if row.giver == (kind, identifier)), Fraction(0)
        )

    def counts(self, balance: Row, transaction: Row, when: date) -> bool:
        """A transaction counts for bills dated after its `appliedDate`; else from the balance's start."""
        applied = transaction.get("appliedDate")
        if applied:
            return self.clock.midnight(when) > self.clock.instant(applied)
        return when >= self.clock.local_day(self.clock.instant(balance["startDate"]))

    def transactions(self, balance: Row, when: date) -> list[Fraction]:
        return [
            exact(row["amount"])
            for row in balance.get("transactions") or ()
            if self.counts(balance, row, when)
        ]

    def capacity(self, source: Source, when: date) -> Fraction:
        """All that a source ever had for the bill of a date, whether it is drawn or not."""
        if source.kind == COMMITMENT:
            return exact(source.row["amount"])
        credited = sum(self.transactions(source.row, when), Fraction(0))
        if source.kind == BALANCE:
            return credited
        left = max(Fraction(0), credited - self.drawn(BALANCE, source.row["id"]))
        limit = source.row.get("rolloverAmount")
        return left if limit is None else min(left, exact(limit))

    def left(self, source: Source, when: date) -> Fraction:
        """What can still be drawn: in rollover at most `rolloverAmount`; a balance shares its money with it."""
        left = self.capacity(source, when) - self.drawn(*source.identity)
        if source.kind == BALANCE:
            left -= self.drawn(ROLLOVER, source.row["id"])
        return left

    def had_something(self, source: Source, when: date) -> bool:
        """Whether a source ever had something: else it is empty, but not exhausted."""
        if source.kind == BALANCE:
            return any(amount > 0 for amount in self.transactions(source.row, when))
        # What a rollover gave it had, also if the balance was overdrawn since.
        return self.capacity(source, when) > 0 or self.drawn(*source.identity) > 0


@dataclass(frozen=True)
class SourceState:
    """A commitment or a balance after the last bill.

    Attributes:
        credited: The commitment's amount, or the sum of the balance's transactions.
        drawn: What bills drew in its own time.
        rolled_over: What a balance carried into its rollover, and of it `rollover_drawn`.
        expired: What can no longer be drawn.
        left: What still can be, or what is owed after an overdraft.
    """

    kind: str
    id: str
    code: str | None
    currency: str
    credited: Fraction
    drawn: Fraction
    rolled_over: Fraction
    rollover_drawn: Fraction
    expired: Fraction
    left: Fraction


def close(ledger: Ledger, after: date) -> list[SourceState]:
    """Post credits, rollovers and expiries up to a day, and say how the sources stand."""
    found = _all_sources(ledger.book)
    return [_close(ledger, source, after) for source in found if source.kind != ROLLOVER]


def _close(ledger: Ledger, source: Source, after: date) -> SourceState:
    now, row = ledger.clock.midnight(after), source.row
    credited = ledger.capacity(source, after)
    drawn, rollover_drawn = ledger.drawn(*source.identity), ledger.drawn(ROLLOVER, row["id"])
    kept = max(Fraction(0), credited - drawn)
    ended = now >= source.window.end
    # What the rollover paid was carried over, also if a debit or an overdraft came later.
    rolled = max(_rolled_over(source, kept), rollover_drawn) if ended else Fraction(0)
    expired = _expired(ledger, source, now, (kept, rolled, rollover_drawn))
    customer, currency = ("CUSTOMER", row["accountId"]), row["currency"]
    ledger.postings.append(Posting(customer, source.identity, credited, currency))
    lost = max(Fraction(0), kept - rolled) if ended else Fraction(0)
    for taker, amount in (((ROLLOVER, row["id"]), rolled), (("EXPIRED", row["id"]), lost)):
        if amount:
            ledger.postings.append(Posting(source.identity, taker, amount, currency))
    late = expired - lost
    if late:
        giver = (ROLLOVER, row["id"])
        ledger.postings.append(Posting(giver, ("EXPIRED", row["id"]), late, currency))
    return SourceState(
        kind=source.kind,
        id=row["id"],
        code=row.get("code"),
        currency=currency,
        credited=credited,
        drawn=drawn,
        rolled_over=rolled,
        rollover_drawn=rollover_drawn,
        expired=expired,
        left=credited - drawn - rollover_drawn - expired,
    )


def _rolled_over(source: Source, kept: Fraction) -> Fraction:
    row = source.row
    if source.kind == COMMITMENT or not row.get("rolloverEndDate"):
        return Fraction(0)
    limit = row.get("rolloverAmount")
    return kept if limit is None else min(kept, exact(limit))


def _expired(
    ledger: Ledger, source: Source, now: datetime, amounts: tuple[Fraction, Fraction, Fraction]
) -> Fraction:
    """What is beyond the rollover at the end, and what the rollover leaves at its own end."""
    kept, rolled, rollover_drawn = amounts
    if now < source.window.end:
        return Fraction(0)
    end = source.row.get("rolloverEndDate")
    over = not end or now >= ledger.clock.instant(end)
    return max(Fraction(0), kept - rolled) + (rolled - rollover_drawn if over else 0)
