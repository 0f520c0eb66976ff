from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.catalog import Reduce
from meterlake.model.ids import derived_id
from meterlake.model.money import divide
from meterlake.model.period import Month, by_day, zone
from meterlake.stages import aggregate
from tests.billing_world import World
from tests.oracles import ORACLES

BERLIN = zone("Europe/Berlin")
OCTOBER = Month(2026, 10).period(BERLIN)
KINDS = sorted(ORACLES)
SCHEMA = {
    "uid": pl.String,
    "account_id": pl.String,
    "ts": pl.Datetime("us"),
    "measure.n": pl.Decimal(38, 12),
    "what.s": pl.String,
}

# Few instants, so that some are the same; from before the month to after it.
instants = st.sampled_from(
    [
        OCTOBER.start + timedelta(microseconds=shift) + timedelta(hours=6) * step
        for step in range(-2, 130)
        for shift in (-1, 0)
    ]
)
numbers = st.one_of(
    st.none(),
    st.decimals(-(10**6), 10**6, places=12),
    st.decimals(-(10**26) + 1, 10**26 - 1, places=12),
)
texts = st.one_of(
    st.none(), st.sampled_from(["", "x", "X", "é", "e\u0301", "\U00010000", "\uffff"])
)
rows = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), instants, numbers, texts, st.text(max_size=3)),
    max_size=12,
).map(lambda found: [(f"{row[4]}-{n}", *row[:4]) for n, row in enumerate(found)])


@pytest.fixture(scope="module")
def world():
    made = World()
    for kind in KINDS:
        made.aggregation(kind, kind, "s" if kind == Reduce.UNIQUE else "n")
    return made


def folded(world, rows, scope):
    [(meter, aggregations)] = aggregate.by_meter(world.configuration)
    folds = aggregate.folds(meter.entity, aggregations, {"measure.n", "what.s"})
    frame = pl.DataFrame(
        [(uid, account, ts.replace(tzinfo=None), n, s) for uid, account, ts, n, s in rows],
        schema=SCHEMA,
        orient="row",
    )
    with duckdb.connect() as connection:
        connection.register("m", frame.to_arrow())
        try:
            found = connection.execute(*aggregate.query("m", folds, scope)).fetchall()
        except duckdb.OutOfRangeException:
            found = None
        if found is None or aggregate.needs_wide(found):
            wide = aggregate.query("m", folds, scope, wide=True)
            found = connection.execute(*wide).fetchall()
    return list(aggregate.decode(folds, found))


def by_kind(folded_rows):
    kinds = {derived_id("Aggregation", kind): kind for kind in KINDS}
    return {
        (each.account_id, kinds[quantity.aggregation_id]): quantity
        for each in folded_rows
        for quantity in each.quantities
    }


def expected(rows, period):
    groups = {}
    for uid, account, ts, n, s in rows:
        for kind in KINDS:
            value = s if kind == Reduce.UNIQUE else n
            if value is not None and period.start <= ts < period.end:
                groups.setdefault((account, kind), []).append((ts, uid, value))
    return {key: ORACLES[key[1]](found) for key, found in groups.items()}


@given(rows=rows)
@settings(max_examples=100, deadline=None)
def test_every_reducer_is_what_plain_python_makes_of_it(world, rows):
    found = by_kind(folded(world, rows, aggregate.whole(OCTOBER)))
    oracle = expected(rows, OCTOBER)

    assert set(found) == set(oracle)
    for key, quantity in found.items():
        if quantity.mean is None:
            assert Fraction(quantity.value) == oracle[key]
        else:
            total, count = quantity.mean
            assert Fraction(total) / count == oracle[key]
            assert quantity.value == divide(total, Decimal(count))


@given(rows=rows, data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_order_of_measurements_changes_nothing(world, rows, data):
    shuffled = data.draw(st.permutations(rows))

    assert folded(world, rows, aggregate.whole(OCTOBER)) == folded(
        world, shuffled, aggregate.whole(OCTOBER)
    )


@given(rows=rows)
@settings(max_examples=40, deadline=None)
def test_the_sum_over_the_days_is_the_month(world, rows):
    month = by_kind(folded(world, rows, aggregate.whole(OCTOBER)))
    days = folded(world, rows, aggregate.each(by_day(OCTOBER, BERLIN)))
    sums = {}
    for day in days:
        for key, quantity in by_kind([day]).items():
            sums[key] = sums.get(key, Fraction(0)) + Fraction(quantity.value)

    for kind in (Reduce.SUM, Reduce.COUNT):
        assert {key: total for key, total in sums.items() if key[1] == kind} == {
            key: Fraction(each.value) for key, each in month.items() if key[1] == kind
        }


@given(rows=rows, cut=instants.filter(lambda ts: OCTOBER.start < ts < OCTOBER.end))
@settings(max_examples=40, deadline=None)
def test_a_window_is_the_period_that_it_names(world, rows, cut):
    halves = [OCTOBER.intersection(None, cut), OCTOBER.intersection(cut, None)]
    asked = [(account, half) for account in ("a", "b") for half in halves]
    windows = folded(world, rows, aggregate.windows(asked))
    alone = [each for half in halves for each in folded(world, rows, aggregate.whole(half))]

    assert {(each.account_id, each.period): each for each in windows} == {
        (each.account_id, each.period): each for each in alone
    }


def test_instants_lie_around_the_month():
    assert OCTOBER.start == datetime(2026, 9, 30, 22, tzinfo=UTC)
