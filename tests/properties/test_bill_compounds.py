"""Compound aggregations and custom SQL on bills, against plain Python."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.billing_world import World
from tests.laws import examples
from tests.oracles import tiered

OCTOBER = datetime(2026, 10, 1, tzinfo=UTC)
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)
BANDS = [(0, 5, 3), (100, 0, 1), (700, 2, Decimal("0.25"))]

instants = st.sampled_from([OCTOBER + timedelta(hours=9) * step for step in range(-4, 86)])
numbers = st.decimals(0, 500, places=2)
uses = st.lists(st.tuples(instants, numbers), max_size=8)


def a_world(uses, change, default, *, evaluates):
    """An account that goes from one plan to another; both price `n + 3 x count`."""
    world = World()
    world.aggregation("total", default_value=default)
    world.aggregation("count", "COUNT")
    world.aggregation(
        "squares", "CUSTOM_SQL", custom_sql="SELECT sum(n * n) FROM measurements WHERE n > 10"
    )
    world.compound(
        "metric",
        "isnull(aggregation.total, 0) + 3 * isnull(aggregation.count, 2)",
        evaluate_null_aggregations=evaluates,
    )
    for plan in ("one", "two"):
        world.plan(plan)
        world.pricing(plan, "metric", BANDS, compound=True)
        world.pricing(plan, "squares", BANDS)
    world.account("acme", "one", end_date=change)
    world.subscribe("acme", "two", start_date=change)
    for ts, n in uses:
        world.use("acme", ts.isoformat(), n)
    return world


def metric(values, default, *, evaluates):
    """What the compound aggregation comes to; None if there is nothing."""
    if evaluates:
        return sum(values) + 3 * len(values) if values else Fraction(default or 0) + 6
    return sum(values) + 3 * len(values) if values else None


@given(uses, instants, st.none() | numbers, st.booleans())
@settings(max_examples=examples(12), deadline=None)
def test_each_plan_is_charged_for_its_own_part_of_the_month(uses, change, default, evaluates):
    world = a_world(uses, change, default, evaluates=evaluates)
    expected = []
    for low, high in ((OCTOBER, min(change, NOVEMBER)), (max(change, OCTOBER), NOVEMBER)):
        if low >= high:
            continue
        values = [Fraction(n) for ts, n in uses if low <= ts < high]
        squares = [n * n for n in values if n > 10]
        found = {"metric": metric(values, default, evaluates=evaluates)}
        found["squares"] = sum(squares) if squares else None
        expected += [
            (name, low, high, value, tiered(value, [tuple(map(Fraction, row)) for row in BANDS]))
            for name, value in found.items()
            if value is not None
        ]
    [bill] = world.bills("2026-10")

    assert [
        (
            line.description,
            line.service_period.start,
            line.service_period.end,
            line.quantity,
            sum(band.subtotal for band in line.bands),
        )
        for line in bill.lines
    ] == expected
    assert {line.to_wire().get("compoundAggregationId") is None for line in bill.lines} <= {
        line.description == "squares" for line in bill.lines
    }


@given(uses, instants, st.none() | numbers, st.booleans())
@settings(max_examples=examples(6), deadline=None)
def test_usage_of_a_part_is_priced_where_its_compound_is(uses, change, default, evaluates):
    world = a_world(uses, change, default, evaluates=evaluates)

    assert world.unpriced("2026-10") == []
