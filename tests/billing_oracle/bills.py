"""Whole bills: every charge on its bill, every bill in its order, every line in its step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from tests.billing_oracle.charges import Charge, bill_currency
from tests.billing_oracle.counters import counter_charges
from tests.billing_oracle.credits import apply_credits, eligible_amounts
from tests.billing_oracle.drawdowns import DrawDown, cut, draw_line
from tests.billing_oracle.fees import ad_hoc_charges, length_of, plan_fees
from tests.billing_oracle.ledger import Ledger, Posting, Source, SourceState, close, sources_of
from tests.billing_oracle.minimums import minimum_charges
from tests.billing_oracle.money import to_decimal
from tests.billing_oracle.overage import (
    is_separate,
    separate_overage,
    surcharges,
    uncovered_usage,
)
from tests.billing_oracle.periods import DAY, Clock, zone_of
from tests.billing_oracle.standing import standing_charges
from tests.billing_oracle.terms import BillKey, Book, Terms
from tests.billing_oracle.usage import usage_charges
from tests.billing_oracle.world import World, find


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line. Quantities are exact; `end` is exclusive; `source_id` is a commitment or balance."""

    type: str
    plan_code: str | None
    item_code: str | None
    segment: tuple[tuple[str, str], ...]
    child_code: str | None
    quantity: Fraction
    units: Fraction
    currency: str
    subtotal: Decimal
    conversion_rate: Fraction
    converted_subtotal: Decimal
    start: datetime
    end: datetime
    source_id: str | None


@dataclass(frozen=True, kw_only=True)
class Bill:
    """One bill; consolidated and ad hoc bills have no interval."""

    account_code: str
    date: date
    frequency: str
    interval: int | None
    grouping_key: str | None
    currency: str
    lines: tuple[Line, ...]

    @property
    def total(self) -> Decimal:
        """The sum of the rounded lines."""
        return sum((line.converted_subtotal for line in self.lines), Decimal(0))


@dataclass(frozen=True)
class Billing:
    """Bills by date and account, what became of each source, and the ledger behind it."""

    bills: tuple[Bill, ...]
    sources: tuple[SourceState, ...]
    postings: tuple[Posting, ...]


def bills(world: World, first_day: date, after: date) -> Billing:
    """All bills whose last day lies in [first_day, after), of every account and frequency.

    Earlier bills are calculated first, from the beginning, since they share the sources.
    """
    clock = Clock(zone_of(world.organization.get("timezone") or "UTC"))
    book = Book(world, clock)
    ledger = Ledger(book)
    found = [
        bill
        for key, charges in in_order(world, bill_charges(book, after))
        if (bill := make_bill(ledger, key, charges)) is not None
    ]
    chosen = tuple(bill for bill in found if first_day <= bill.date - DAY < after)
    return Billing(chosen, tuple(close(ledger, after)), tuple(ledger.postings))


Charged = dict[BillKey, list[Charge]]


def bill_charges(book: Book, until: date) -> Charged:
    """Steps 1 to 5 of all bills dated on or before a day; due bills without charges are there, too."""
    charges = [charge for terms in book.terms for charge in usage_charges(book, terms, until)]
    charges += counter_charges(book, until)
    charges += [*standing_charges(book, until), *minimum_charges(book, charges, until)]
    charges += plan_fees(book)
    due = due_bills(book, until) | {charge.bill for charge in charges if has_line(charge)}
    charges += ad_hoc_charges(book, due)
    found: Charged = {key: [] for key in due}
    for charge in charges:
        if has_line(charge):
            found.setdefault(charge.bill, []).append(charge)
    return {key: rows for key, rows in found.items() if key.date <= until}


def has_line(charge: Charge) -> bool:
    """A usage line may be 0; others of amount 0 are not made."""
    return charge.type == "USAGE" or charge.amount != 0


def due_bills(book: Book, until: date) -> set[BillKey]:
    """A plan that holds in a period has a bill, also without lines; so have children that it bills."""
    found = set()
    for terms in book.terms:
        for numbers in terms.schedule.billing_periods(until):
            when = terms.schedule.bill_date(numbers[0])
            found.add(terms.bill(when))
            found |= set(_bills_of_children(terms, numbers, when))
    return found


def _bills_of_children(terms: Terms, numbers: list[int], when: date) -> Iterator[BillKey]:
    if terms.mode != "CHILD":
        return
    period = terms.schedule.span(numbers) & terms.schedule.active
    for member in terms.children:
        if any(not (window & period).is_empty for window in member.windows):
            yield terms.bill(when, member.account)


def in_order(world: World, charged: Charged) -> list[tuple[BillKey, list[Charge]]]:
    """Bills by date and account; of one day the one with the shortest period first."""

    def order(key: BillKey) -> tuple[object, ...]:
        code = find(world.accounts, key.account_id)["code"]
        return (key.date, code, length_of(key), key.grouping_key or "")

    return [(key, charged[key]) for key in sorted(charged, key=order)]


def make_bill(ledger: Ledger, key: BillKey, charges: Sequence[Charge]) -> Bill | None:
    """Steps 6 to 8 of a bill; None if it would be empty and empty bills are suppressed."""
    world = ledger.book.world
    credited = [charge for charge in charges if charge.type == "USAGE_CREDIT"]
    lines = sorted((c for c in charges if c.type != "USAGE_CREDIT"), key=lambda c: c.order)
    lines += apply_credits(lines, credited)
    lines = settle(ledger, key, lines)
    if not lines and world.organization.get("suppressedEmptyBills"):
        return None
    return Bill(
        account_code=find(world.accounts, key.account_id)["code"],
        date=key.date,
        frequency=key.frequency,
        interval=key.interval,
        grouping_key=key.grouping_key,
        currency=bill_currency(world, key),
        lines=tuple(make_line(line) for line in lines),
    )


def settle(ledger: Ledger, key: BillKey, lines: list[Charge]) -> list[Charge]:
    """Steps 7 and 8: what sources pay, and what happens to usage that they no longer do."""
    sources = sources_of(ledger.book, key.account_id)
    down = open_draw_down(ledger, key, lines, sources)
    draws = down.run()
    uncovered = uncovered_usage(down)
    consumed = [
        draw_line(ledger.book.world, key, draw, number) for number, draw in enumerate(draws)
    ]
    extra = surcharges(down, uncovered)
    separated = {id(part.line) for part, source in uncovered if is_separate(source, part.line)}
    overage = separate_overage(down, uncovered)
    kept = [line for line in lines if id(line) not in separated or line.amount or line.units]
    return [*kept, *filter(has_line, [*consumed, *extra, *overage])]


def open_draw_down(
    ledger: Ledger, key: BillKey, lines: list[Charge], sources: Sequence[Source]
) -> DrawDown:
    """What is eligible of each line, cut into parts."""
    eligible = eligible_amounts(ledger.book.world, lines)
    parts = [
        part
        for line in lines
        if eligible[id(line)] > 0 and line.type != "USAGE_CREDIT"
        for part in cut(ledger, line, eligible[id(line)], sources)
    ]
    return DrawDown(ledger, key, sources, parts)


def make_line(charge: Charge) -> Line:
    return Line(
        type=charge.type,
        plan_code=charge.plan["code"] if charge.plan else None,
        item_code=charge.item,
        segment=tuple(sorted((charge.segment or {}).items())),
        child_code=charge.child,
        quantity=charge.quantity,
        units=charge.units,
        currency=charge.currency,
        subtotal=to_decimal(charge.subtotal),
        conversion_rate=charge.rate,
        converted_subtotal=to_decimal(charge.amount),
        start=charge.service.start,
        end=charge.service.end,
        source_id=charge.source_id,
    )
