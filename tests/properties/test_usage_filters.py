"""Usage filters of contracts: what one contract includes and another one excludes is all there is."""

from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.customers.contracts import UsageFilter
from meterlake.model.customers.usage_selection import select_usage
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Month, zone
from tests.billing_world import World
from tests.laws import examples

pytestmark = pytest.mark.long

OCTOBER = Month(2026, 10).period(zone("UTC"))
REDUCES = ("SUM", "COUNT", "MIN", "MAX", "LATEST", "MEAN", "UNIQUE", "TIME_WEIGHTED_AVERAGE")
FIELDS = ("s", "r")

# Values that break text which is put together carelessly.
values = st.sampled_from(["a", "b", "it's", '"q"', "$1", "", " a", "A", "ä", "\\"])
filter_values = values.filter(bool)
filters = st.lists(
    st.fixed_dictionaries(
        {
            "dimension_code": st.sampled_from(FIELDS),
            "value": filter_values,
            "mode": st.sampled_from(["INCLUDE", "EXCLUDE"]),
        }
    ),
    max_size=5,
)
uses = st.lists(
    st.tuples(
        st.integers(0, 743),
        st.decimals(-100, 1000, places=3),
        st.one_of(st.none(), values),
        st.one_of(st.none(), values),
    ),
    max_size=12,
)


def passes(row, rows):
    """The rule in plain words, without anything of the code."""
    found = dict(zip(FIELDS, row[2:], strict=True))
    for code in FIELDS:
        included = {
            f["value"] for f in rows if (f["dimension_code"], f["mode"]) == (code, "INCLUDE")
        }
        excluded = {
            f["value"] for f in rows if (f["dimension_code"], f["mode"]) == (code, "EXCLUDE")
        }
        if (included and found[code] not in included) or found[code] in excluded:
            return False
    return True


def at(hour):
    return (datetime(2026, 10, 1) + timedelta(hours=hour)).isoformat() + "Z"


def world_of(rows, *contracts, reduces=("SUM",)):
    """Account `acme` on a plan for each contract; without a contract if that is None."""
    world = World()
    for reduce in reduces:
        world.aggregation(reduce.lower(), reduce)
    world.account("acme")
    for number, usage_filters in enumerate(contracts):
        world.plan(f"p{number}")
        for reduce in reduces:
            world.pricing(f"p{number}", reduce.lower(), [(0, 0, 1)])
        contract = None if usage_filters is None else f"c{number}"
        if contract:
            world.contract("acme", contract, usage_filters=usage_filters)
        world.subscribe("acme", f"p{number}", contract=contract)
    for hour, n, s, r in rows:
        world.use("acme", at(hour), n, s, r)
    return world


def quantities(world):
    """What each plan is billed for: quantities by plan and aggregation."""
    return {
        (line.plan_id, line.aggregation_id): line.quantity
        for bill in world.bills("2026-10")
        for line in bill.lines
    }


def of_plan(found, number):
    plan_id = derived_id("Plan", f"p{number}")
    return {aggregation: n for (plan, aggregation), n in found.items() if plan == plan_id}


@pytest.mark.long
@given(uses, filters, filters)
@settings(max_examples=examples(40), deadline=None)
def test_a_filtered_quantity_is_that_of_the_measurements_that_pass(rows, first, second):
    """Every plan has the quantities that it would have if only those measurements were there."""
    found = quantities(world_of(rows, first, None, second, reduces=REDUCES))
    for number, usage_filters in ((0, first), (1, []), (2, second)):
        kept = [row for row in rows if passes(row, usage_filters)]
        alone = world_of(kept, None, reduces=REDUCES)
        assert of_plan(found, number) == of_plan(quantities(alone), 0)


@given(uses, filters)
@settings(max_examples=examples(10), deadline=None)
def test_custom_sql_reads_the_measurements_that_pass(rows, usage_filters):
    world = world_of(rows, usage_filters, reduces=())
    sql = "SELECT sum(n) FROM measurements WHERE n > 0"
    world.aggregation("own", "CUSTOM_SQL", custom_sql=sql)
    world.pricing("p0", "own", [(0, 0, 1)])

    kept = [row[1] for row in rows if row[1] > 0 and passes(row, usage_filters)]
    assert sum(quantities(world).values(), Decimal(0)) == sum(kept, Decimal(0))


@given(uses, st.sampled_from(FIELDS), filter_values)
@settings(max_examples=examples(25), deadline=None)
def test_what_is_included_and_the_rest_add_up_to_all(rows, code, value):
    one = {"dimension_code": code, "value": value}
    world = world_of(rows, [one | {"mode": "INCLUDE"}], [one | {"mode": "EXCLUDE"}], None)
    billed = quantities(world)
    found = [sum(of_plan(billed, n).values(), Decimal(0)) for n in range(3)]

    assert found[0] + found[1] == found[2] == sum((row[1] for row in rows), Decimal(0))
    assert not world.unpriced("2026-10")


@given(uses, filters.filter(bool), filters.filter(bool))
@settings(max_examples=examples(40), deadline=None)
def test_usage_that_passes_no_filter_is_reported_and_never_lost(rows, first, second):
    world = world_of(rows, first, second)
    lost = [row for row in rows if not passes(row, first) and not passes(row, second)]

    reported = world.unpriced("2026-10")
    assert [(each.quantity, each.measurements) for each in reported] == (
        [(sum((row[1] for row in lost), Decimal(0)), len(lost))] if lost else []
    )
    assert {each.reason.value for each in reported} <= {"UsageFilters"}


@given(uses, filters.filter(bool), st.integers(0, 744), st.integers(0, 744))
@settings(max_examples=examples(25), deadline=None)
def test_in_each_part_of_the_month_the_filters_of_then_hold(rows, usage_filters, start, end):
    """A filtered plan in a part of the month, and no other one: the rest and what is before it."""
    world = World()
    world.aggregation("sum")
    world.plan("p0")
    world.pricing("p0", "sum", [(0, 0, 1)])
    world.account("acme")
    world.contract("acme", "c0", usage_filters=usage_filters)
    start, end = sorted((start, end))
    times = {
        "start_date": OCTOBER.start + timedelta(hours=start),
        "end_date": OCTOBER.start + timedelta(hours=end),
    }
    world.subscribe("acme", "p0", contract="c0", **times)
    for hour, n, s, r in rows:
        world.use("acme", at(hour), n, s, r)

    billed = sum(quantities(world).values(), Decimal(0))
    reported = sum((each.quantity for each in world.unpriced("2026-10")), Decimal(0))
    held = [row for row in rows if start <= row[0] < end and passes(row, usage_filters)]
    assert billed == sum((row[1] for row in held), Decimal(0))
    assert billed + reported == sum((row[1] for row in rows), Decimal(0))


@given(filters, st.randoms())
def test_filters_in_another_order_or_twice_select_the_same(rows, random):
    again = [*rows, *rows[:2]]
    random.shuffle(again)
    first, second = ([UsageFilter(**each) for each in found] for found in (rows, again))
    assert select_usage(first) == select_usage(second)
