"""Bands that span a plan: all its bills add up to the price of all that was used on it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.billing_world import World
from tests.laws import examples
from tests.oracles import tiered, volume

MONTHS = ("2026-08", "2026-09", "2026-10", "2026-11")
FIRST = datetime(2026, 8, 1, tzinfo=UTC)
AFTER = datetime(2026, 12, 1, tzinfo=UTC)

# In steps of seven hours, and at the edges of months.
instants = st.sampled_from(
    [
        *(FIRST + timedelta(hours=7) * step for step in range(418)),
        *(datetime(2026, month, 1, tzinfo=UTC) for month in (8, 9, 10, 11)),
    ]
)
numbers = st.decimals(-10, 1000, places=3)
prices = st.decimals(0, 100, places=3)
bands = st.lists(st.tuples(prices, prices), min_size=1, max_size=3).map(
    lambda found: [(200 * n, fixed, unit) for n, (fixed, unit) in enumerate(found)]
)


def a_world(rows, uses, time, *, cumulative, reduce="SUM", default=None):
    world = World()
    world.aggregation("used", reduce, default_value=default)
    world.plan("plan")
    world.pricing("plan", "used", rows, cumulative=cumulative, tiers_span_plan=True)
    world.account("acme", "plan", start_date=time[0], end_date=time[1])
    # Began at another time: shares the plan, but not the position in its bands.
    world.account("bolt", "plan", start_date=FIRST - timedelta(days=20))
    for ts, n in uses:
        world.use("acme", ts.isoformat(), n)
        world.use("bolt", ts.isoformat(), n)
    return world


def charged(world, account):
    """The exact amounts of an account's lines, with their quantities."""
    lines = [
        line
        for month in MONTHS
        for bill in world.bills(month)
        if bill.account_code == account
        for line in bill.lines
    ]
    for line in lines:
        assert sum(band.unit_subtotal + band.fixed_price for band in line.bands) == sum(
            band.subtotal for band in line.bands
        )
    return [(line.quantity, sum(Fraction(band.subtotal) for band in line.bands)) for line in lines]


@given(bands, st.lists(st.tuples(instants, numbers), max_size=8), instants, instants, st.booleans())
@settings(max_examples=examples(15), deadline=None)
def test_the_bills_of_a_plan_add_up_to_the_price_of_the_total(rows, uses, one, other, cumulative):
    start, end = min(one, other), max(one, other) + timedelta(hours=1)
    world = a_world(rows, uses, (start, end), cumulative=cumulative)
    price = tiered if cumulative else volume
    fractions = [tuple(map(Fraction, row)) for row in rows]
    for account, begin, until in (("acme", start, end), ("bolt", FIRST, AFTER)):
        used = [Fraction(n) for ts, n in uses if begin <= ts < until]
        found = charged(world, account)

        assert sum(quantity for quantity, _ in found) == sum(used)
        assert sum(amount for _, amount in found) == (price(sum(used), fractions) if used else 0)


@given(bands, st.lists(st.tuples(instants, numbers), min_size=1, max_size=8), st.booleans())
@settings(max_examples=examples(8), deadline=None)
def test_a_maximum_is_charged_where_it_rises(rows, uses, cumulative):
    world = a_world(rows, uses, (FIRST, None), cumulative=cumulative, reduce="MAX")
    price = tiered if cumulative else volume
    fractions = [tuple(map(Fraction, row)) for row in rows]
    highest = max(Fraction(n) for _, n in uses)

    assert sum(amount for _, amount in charged(world, "acme")) == price(highest, fractions)


def test_a_default_value_counts_once():
    world = a_world([(0, 3, 2)], [], (FIRST, None), cumulative=True, default=Decimal(5))

    assert charged(world, "acme") == [(5, 13), (5, 0), (5, 0), (5, 0)]
