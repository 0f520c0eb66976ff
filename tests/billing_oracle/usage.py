"""Step 1: usage lines; and the amounts of credit pricings, which step 6 caps."""

from collections.abc import Iterator
from datetime import date, datetime
from fractions import Fraction

from tests.billing_oracle.charges import Charge
from tests.billing_oracle.hierarchy import metric_row, share_usage
from tests.billing_oracle.periods import Window
from tests.billing_oracle.quantities import is_compound, is_segmented
from tests.billing_oracle.rating import bands_of, is_cumulative, price, units_of
from tests.billing_oracle.terms import Book, Terms, rows_of_plan
from tests.billing_oracle.world import CannotBill, Row

CREDITS = ("PRODUCT_CREDIT", "GLOBAL_CREDIT")
_METRICS = ("aggregationId", "compoundAggregationId")


def metric_of(book: Book, pricing: Row) -> Row:
    """The aggregation or compound aggregation that is priced."""
    metric = metric_row(book.world, pricing)
    if not is_compound(metric) and is_segmented(metric) != bool(pricing.get("segment")):
        raise CannotBill("a segmented aggregation is priced segment by segment")
    return metric


def plan_pricings(book: Book, plan: Row) -> list[tuple[Row, list[Window]]]:
    """The pricings that apply to a plan with their times."""
    return rows_of_plan(book.clock, plan, book.world.pricings, _METRICS)


def windows_within(windows: list[Window], limit: Window) -> list[Window]:
    """The parts of windows within another one; the empty ones left out."""
    return [part for window in windows if not (part := window & limit).is_empty]


def price_units(units: Fraction, pricing: Row) -> Fraction:
    return price(units, bands_of(pricing), cumulative=is_cumulative(pricing))


def rate_window(
    book: Book, terms: Terms, plan: Row, pricing: Row, window: Window
) -> tuple[Fraction, Fraction, Fraction] | None:
    """Quantity, units and amount of one window; None: no usage and no default, so no line.

    Each window has its own quantity, its own bands from zero and its own default value.
    With `tiersSpanPlan`: the price of all since the plan's start until the window's end,
    less the price until the window's start.
    """
    metric = metric_of(book, pricing)
    segment = pricing.get("segment")
    quantity = book.usage.quantity(metric, segment, terms.scope_of(plan), window)
    if quantity is None:
        return None
    if not pricing.get("tiersSpanPlan"):
        units = units_of(quantity, metric)
        return quantity, units, price_units(units, pricing)
    before, after = (
        units_since_start(book, terms, plan, pricing, end) for end in (window.start, window.end)
    )
    amount = price_units(after, pricing) - price_units(before, pricing)
    return quantity, after - before, amount


def units_since_start(book: Book, terms: Terms, plan: Row, pricing: Row, end: datetime) -> Fraction:
    """The units from the plan's start until an instant; 0 if there are none."""
    metric = metric_of(book, pricing)
    window = Window(terms.active.start, end)
    if window.is_empty:
        return Fraction(0)
    found = book.usage.quantity(metric, pricing.get("segment"), terms.scope_of(plan), window)
    return units_of(found, metric) if found is not None else Fraction(0)


def usage_charges(book: Book, terms: Terms, until: date) -> Iterator[Charge]:
    """Usage and credit charges of an account plan: per billing period, pricing and window."""
    for numbers in terms.schedule.billing_periods(until):
        limit = terms.schedule.span(numbers) & terms.active
        for plan in terms.plans:
            for pricing, windows in plan_pricings(book, plan):
                for window in windows_within(windows, limit):
                    yield from _charges_of_window(book, terms, plan, pricing, (numbers, window))


def _charges_of_window(
    book: Book, terms: Terms, plan: Row, pricing: Row, place: tuple[list[int], Window]
) -> Iterator[Charge]:
    numbers, window = place
    rated = rate_window(book, terms, plan, pricing, window)
    if rated is None:
        return
    when = terms.schedule.bill_date(numbers[0])
    charges = share_usage(book, terms, plan, pricing, (when, window, rated))
    for charge in charges:
        charge.period = numbers[0]
        yield charge
