"""Step 4: minimum spends of pricings, of plans or templates, of plan groups, in this order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any

from tests.billing_oracle.charges import COUNTER_TYPES, Charge, make_charge, plan_details
from tests.billing_oracle.counters import share_of_days
from tests.billing_oracle.hierarchy import amount_for_account
from tests.billing_oracle.money import exact, rate_between, round_money
from tests.billing_oracle.periods import Window
from tests.billing_oracle.terms import (
    Book,
    Terms,
    currency_of,
    in_advance,
    setting,
    template_of,
)
from tests.billing_oracle.usage import CREDITS, metric_of, plan_pricings, windows_within
from tests.billing_oracle.world import CannotBill, Row

FLAG = "minimumSpendBillInAdvance"
PRICING, PLAN, GROUP = (0, 0), (0, 1), (1, 0)


@dataclass(frozen=True, kw_only=True)
class Minimum:
    """A minimum spend of one billing period.

    Attributes:
        amount: Its prorated amount in the pricing currency: the sum over the regular periods.
        covers: The lines of its own service period, on whichever bill they stand.
        lower: What lower minimums add to them.
    """

    terms: Terms
    numbers: list[int]
    level: tuple[int, int]
    plan: Row | None
    pricing: Row | None
    item: str | None
    currency: str
    amount: Fraction
    service: Window
    advance: bool
    covers: Sequence[Charge]
    lower: Fraction = Fraction(0)


def minimum_charges(book: Book, charges: Sequence[Charge], until: date) -> Iterator[Charge]:
    """The minimum spends of all account plans, given their usage and counter charges."""
    for terms in book.terms:
        for numbers in _periods(terms, until):
            own = [
                charge
                for charge in charges
                if charge.terms is terms and charge.period == numbers[0]
            ]
            yield from _of_period(book, terms, numbers, own)


def _periods(terms: Terms, until: date) -> list[list[int]]:
    """The billing periods that have begun by a day: a minimum in advance is due at the start."""
    schedule = terms.schedule
    groups: dict[date, list[int]] = {}
    if schedule.first_bill and schedule.first_bill > until:
        return []
    for number in schedule.regular_periods(until):
        groups.setdefault(schedule.bill_date(number), []).append(number)
    return list(groups.values())


def _of_period(
    book: Book, terms: Terms, numbers: list[int], own: Sequence[Charge]
) -> Iterator[Charge]:
    group_lower = Fraction(0)
    for plan in terms.plans:
        of_plan = [charge for charge in own if charge.plan is plan and counts(charge)]
        lower = Fraction(0)
        for minimum in _of_pricings(book, terms, numbers, plan, of_plan):
            yield from _lines(book, minimum)
            lower += top_up(book, minimum)
        group_lower += lower
        for minimum in _of_plan(book, terms, numbers, plan, (of_plan, lower)):
            yield from _lines(book, minimum)
            group_lower += top_up(book, minimum)
    for minimum in _of_group(book, terms, numbers, (list(filter(counts, own)), group_lower)):
        yield from _lines(book, minimum)


def counts(charge: Charge) -> bool:
    """Usage and counters count towards a minimum; standing charges, fees, ad hoc lines never do."""
    return charge.type == "USAGE" or charge.type in COUNTER_TYPES


def prorated(
    book: Book, terms: Terms, numbers: list[int], amount: Any, windows: list[Window]
) -> tuple[Fraction, Window | None]:
    """The minimum of each regular period by its active days, summed; and the time that it is for."""
    total, parts = Fraction(0), []
    for number in numbers:
        cell = terms.schedule.cell(number)
        for part in windows_within(windows, cell & terms.active):
            if share := share_of_days(book, part, cell):
                total += exact(amount) * share
                parts.append(part)
    return total, Window(parts[0].start, parts[-1].end) if parts else None


def _of_pricings(
    book: Book, terms: Terms, numbers: list[int], plan: Row, own: Sequence[Charge]
) -> Iterator[Minimum]:
    template = template_of(book.world, plan)
    for pricing, windows in plan_pricings(book, plan):
        if not pricing.get("minimumSpend"):
            continue
        if (pricing.get("type") or "DEBIT") in CREDITS:
            raise CannotBill("a credit pricing has no minimum spend")
        in_time = sorted(windows, key=lambda window: window.start)
        amount, service = prorated(book, terms, numbers, pricing["minimumSpend"], in_time)
        if service is not None:
            yield Minimum(
                terms=terms,
                numbers=numbers,
                level=PRICING,
                plan=plan,
                pricing=pricing,
                item=metric_of(book, pricing)["code"],
                currency=template["currency"],
                amount=amount,
                service=service,
                advance=in_advance(book.world, FLAG, pricing, plan, template),
                covers=[charge for charge in own if charge.pricing is pricing],
            )


def _of_plan(
    book: Book,
    terms: Terms,
    numbers: list[int],
    plan: Row,
    below: tuple[Sequence[Charge], Fraction],
) -> Iterator[Minimum]:
    template = template_of(book.world, plan)
    wanted = setting(book.world, plan, "minimumSpend") or 0
    amount, service = prorated(book, terms, numbers, wanted, [terms.active])
    if amount and service is not None:
        yield Minimum(
            terms=terms,
            numbers=numbers,
            level=PLAN,
            plan=plan,
            pricing=None,
            item=None,
            currency=template["currency"],
            amount=amount,
            service=service,
            advance=in_advance(book.world, FLAG, plan, template),
            covers=below[0],
            lower=below[1],
        )


def _of_group(
    book: Book, terms: Terms, numbers: list[int], below: tuple[Sequence[Charge], Fraction]
) -> Iterator[Minimum]:
    """The group's minimum comes on top of its plans', so that the greater holds."""
    group: Any = terms.group or {}
    wanted = group.get("minimumSpend") or 0
    amount, service = prorated(book, terms, numbers, wanted, [terms.active])
    if amount and service is not None:
        yield Minimum(
            terms=terms,
            numbers=numbers,
            level=GROUP,
            plan=None,
            pricing=None,
            item=None,
            currency=group["currency"],
            amount=amount,
            service=service,
            advance=in_advance(book.world, FLAG, group),
            covers=below[0],
            lower=below[1],
        )


def covered(book: Book, minimum: Minimum) -> Fraction:
    """What the lines come to in the billing currency, never less than 0, and what lower minimums add."""
    billed = minimum.terms.billed
    currency = currency_of(book.world, billed)
    amounts = [amount_for_account(book.world, line, billed, currency) for line in minimum.covers]
    return max(Fraction(0), sum(amounts, Fraction(0))) + minimum.lower


def in_billing_currency(book: Book, minimum: Minimum) -> Fraction:
    """The minimum, converted and rounded like a line."""
    currency = currency_of(book.world, minimum.terms.billed)
    rate = rate_between(book.world, minimum.currency, currency)
    return round_money(book.world, minimum.amount * rate, currency)


def top_up(book: Book, minimum: Minimum) -> Fraction:
    """What a minimum adds: max(0, minimum - covered), whether it is billed in advance or not."""
    return max(Fraction(0), in_billing_currency(book, minimum) - covered(book, minimum))


def _lines(book: Book, minimum: Minimum) -> Iterator[Charge]:
    """In arrears the shortfall; in advance the whole, and later a refund of what was covered."""
    schedule = minimum.terms.schedule
    arrears = schedule.bill_date(minimum.numbers[0])
    billing = currency_of(book.world, minimum.terms.billed)
    if not minimum.advance:
        rows = [("MINIMUM_SPEND", arrears, top_up(book, minimum), billing)]
    else:
        start = schedule.advance_date(book.clock.boundary(minimum.service.start))
        refund = -min(covered(book, minimum), in_billing_currency(book, minimum))
        rows = [
            ("MINIMUM_SPEND", start, minimum.amount, minimum.currency),
            ("MINIMUM_SPEND_REFUND", arrears, refund, billing),
        ]
    for kind, when, amount, currency in rows:
        if amount:
            yield _line(book, minimum, (kind, when, amount, currency))


def _line(book: Book, minimum: Minimum, what: tuple[str, date, Fraction, str]) -> Charge:
    kind, when, amount, currency = what
    return make_charge(
        book.world,
        kind,
        minimum.terms.bill(when),
        amount,
        currency,
        **plan_details(minimum.terms, minimum.plan),
        item=minimum.item,
        pricing=minimum.pricing,
        segment=(minimum.pricing or {}).get("segment"),
        service=minimum.service,
        level=minimum.level[0],
        rank=minimum.level[1],
        covers=minimum.covers,
    )
