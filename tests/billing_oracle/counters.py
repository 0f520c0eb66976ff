"""Step 2: what counters cost: the value carried into a period, and each change within it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from tests.billing_oracle.charges import Charge, make_charge, plan_details
from tests.billing_oracle.money import exact
from tests.billing_oracle.periods import Clock, Window, read_date
from tests.billing_oracle.quantities import Member, Scope
from tests.billing_oracle.rating import bands_of, is_cumulative, price
from tests.billing_oracle.terms import Book, Terms, product_of, rows_of_plan, template_of
from tests.billing_oracle.usage import windows_within
from tests.billing_oracle.world import Row, World, find, first_set


@dataclass(frozen=True)
class CounterWindow:
    """plan ∩ period ∩ counter pricing, within one regular period."""

    terms: Terms
    plan: Row
    pricing: Row
    number: int
    window: Window

    @property
    def scope(self) -> Scope:
        return self.terms.scope_of(self.plan)

    @property
    def cell(self) -> Window:
        return self.terms.schedule.cell(self.number)

    @property
    def once(self) -> tuple[object, ...]:
        """What is charged once a period: a counter of an account, product by product."""
        product = product_of(self.terms.world, self.plan)["id"]
        account = self.terms.account["id"]
        return (account, product, self.pricing["counterId"], self.cell.start, self.cell.end)

    @property
    def order(self) -> tuple[object, ...]:
        return (self.window.start, *self.terms.order)


def counter_windows(book: Book, until: date) -> list[CounterWindow]:
    """All windows of all account plans of regular periods that begin on or before a day."""
    return [
        CounterWindow(terms, plan, pricing, number, window)
        for terms in book.terms
        for plan in terms.plans
        for pricing, windows in counter_pricings(book, plan)
        for number in terms.schedule.regular_periods(until)
        for window in windows_within(windows, terms.schedule.cell(number) & terms.active)
        if book.clock.days(window.start, window.end)
    ]


def counter_pricings(book: Book, plan: Row) -> list[tuple[Row, list[Window]]]:
    rows = book.world.counter_pricings
    return rows_of_plan(book.clock, plan, rows, ("counterId",))


def counter_charges(book: Book, until: date) -> Iterator[Charge]:
    """Running totals and adjustments of all account plans."""
    windows = counter_windows(book, until)
    first: dict[object, CounterWindow] = {}
    for window in sorted(windows, key=lambda found: found.order):
        first.setdefault(window.once, window)
    for window in windows:
        prorated = is_set(window.pricing, "proRateRunningTotal")
        if prorated or first[window.once] is window:
            yield from running_total(book, window, prorated=prorated)
        yield from adjustments(book, window)


def is_set(pricing: Row, flag: str) -> bool:
    """The switches of a counter pricing are on unless they are turned off."""
    return bool(first_set(pricing.get(flag), True))


def holds_at_end_of(clock: Clock, member: Member, day: date) -> bool:
    """Whether a member counts on a day: a day counts for what holds at its end."""
    return any(
        clock.boundary(window.start) <= day < clock.boundary(window.end)
        for window in member.windows
    )


def own_value(world: World, account: Row, counter_id: str, day: date) -> Fraction:
    """The value that the last adjustment on or before a day gave; 0 before the first one."""
    dated = {
        read_date(row["date"]): exact(row["value"])
        for row in world.counter_adjustments
        if row["accountId"] == account["id"] and row["counterId"] == counter_id
    }
    before = [when for when in dated if when <= day]
    return dated[max(before)] if before else Fraction(0)


def value_on(book: Book, scope: Scope, counter_id: str, day: date) -> Fraction:
    """The counters of the pool, added up."""
    return sum(
        (
            own_value(book.world, member.account, counter_id, day)
            for member in scope.members
            if holds_at_end_of(book.clock, member, day)
        ),
        Fraction(0),
    )


def days_of_change(book: Book, scope: Scope, counter_id: str) -> list[date]:
    """The days on which the value of the pool may change."""
    accounts = {member.account["id"] for member in scope.members}
    found = {
        read_date(row["date"])
        for row in book.world.counter_adjustments
        if row["counterId"] == counter_id and row["accountId"] in accounts
    }
    for member in scope.members:
        for window in member.windows:
            found |= {book.clock.boundary(window.start), book.clock.boundary(window.end)}
    return sorted(found)


def price_value(value: Fraction, pricing: Row) -> Fraction:
    return price(value, bands_of(pricing), cumulative=is_cumulative(pricing))


def share_of_days(book: Book, part: Window, whole: Window) -> Fraction:
    """Active days / days of the full period."""
    return Fraction(book.clock.days(part.start, part.end), book.clock.days(whole.start, whole.end))


def running_total(book: Book, found: CounterWindow, *, prorated: bool) -> Iterator[Charge]:
    """The value carried into the window, priced by the bands, prorated by the days of the window."""
    terms, window = found.terms, found.window
    carried = book.clock.boundary(window.start)
    value = value_on(book, found.scope, found.pricing["counterId"], carried)
    amount = price_value(value, found.pricing)
    if prorated:
        amount *= share_of_days(book, window, found.cell)
    advance = is_set(found.pricing, "runningTotalBillInAdvance")
    schedule = terms.schedule
    if advance:
        when = schedule.advance_date(book.clock.boundary(window.start))
    else:
        when = schedule.bill_date(found.number)
    if amount:
        yield _charge(book, found, ("COUNTER_RUNNING_TOTAL_CHARGE", when, window, amount, value))


def adjustments(book: Book, found: CounterWindow) -> Iterator[Charge]:
    """Each later change within the window from v to w: price(w) - price(v), always in arrears."""
    clock, window = book.clock, found.window
    counter = found.pricing["counterId"]
    first, end = clock.boundary(window.start), clock.boundary(window.end)
    value = value_on(book, found.scope, counter, first)
    for day in days_of_change(book, found.scope, counter):
        if not first < day < end:
            continue
        after = value_on(book, found.scope, counter, day)
        rest = Window(clock.midnight(day), window.end)
        yield from _adjustment(book, found, value, after, rest)
        value = after


def _adjustment(
    book: Book, found: CounterWindow, before: Fraction, after: Fraction, rest: Window
) -> Iterator[Charge]:
    pricing = found.pricing
    rises = after > before
    amount = price_value(after, pricing) - price_value(before, pricing)
    if is_set(pricing, "proRateAdjustmentDebit" if rises else "proRateAdjustmentCredit"):
        amount *= share_of_days(book, rest, found.cell)
    kind = "COUNTER_ADJUSTMENT_DEBIT" if rises else "COUNTER_ADJUSTMENT_CREDIT"
    when = found.terms.schedule.bill_date(found.number)
    if amount:
        yield _charge(book, found, (kind, when, rest, amount, after - before))


def _charge(
    book: Book, found: CounterWindow, what: tuple[str, date, Window, Fraction, Fraction]
) -> Charge:
    kind, when, service, amount, value = what
    counter = find(book.world.counters, found.pricing["counterId"])
    return make_charge(
        book.world,
        kind,
        found.terms.bill(when),
        amount,
        template_of(book.world, found.plan)["currency"],
        **plan_details(found.terms, found.plan),
        item=counter["code"],
        pricing=found.pricing,
        quantity=value,
        units=value,
        service=service,
        period=_billing_period(found),
    )


def _billing_period(found: CounterWindow) -> int:
    """The first regular period of the bill in arrears to which a window belongs."""
    schedule = found.terms.schedule
    numbers = range(schedule.first, found.number + 1)
    when = schedule.bill_date(found.number)
    return next(number for number in numbers if schedule.bill_date(number) == when)
