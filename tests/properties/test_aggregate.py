from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.values.ids import derived_id
from meterlake.model.values.money import divide
from meterlake.model.values.period import Month, zone
from meterlake.stages.usage import aggregate
from tests.billing_world import COLUMNS, World
from tests.days import by_day
from tests.oracles import ORACLES, PERCENTILE, segment_of, time_weighted

BERLIN = zone("Europe/Berlin")
OCTOBER = Month(2026, 10).period(BERLIN)
KINDS = [*sorted(ORACLES), Reduce.TIME_WEIGHTED_AVERAGE]
SEGMENTED = ("s", "r")
SEGMENTS = (
    {"s": "x", "r": "eu"},
    {"s": "x", "r": "*"},
    {"s": "*", "r": "eu"},
    {"s": ""},
    {"s": "*", "r": "us"},
)
SCHEMA = {
    "uid": pl.String,
    "account_id": pl.String,
    "ts": pl.Datetime("us"),
    "measure.n": pl.Decimal(38, 12),
    "what.s": pl.String,
    "where.r": pl.String,
    "ets": pl.Datetime("us"),
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
    st.none(), st.sampled_from(["", "x", "X", "é", "e\u0301", "\U00010000", "\uffff", "*"])
)
regions = st.sampled_from([None, "eu", "us", "EU"])
hours = st.one_of(st.none(), st.sampled_from([0, 1, 5, 6, 400]).map(lambda n: timedelta(hours=n)))
rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]), instants, numbers, texts, regions, hours, st.text(max_size=3)
    ),
    max_size=12,
).map(
    lambda found: [
        (f"{prefix}-{n}", account, ts, number, text, region, None if held is None else ts + held)
        for n, (account, ts, number, text, region, held, prefix) in enumerate(found)
    ]
)


@pytest.fixture(scope="module")
def world():
    made = World()
    for kind in KINDS:
        field = "s" if kind == Reduce.UNIQUE else "n"
        more = {"percentile": PERCENTILE} if kind == Reduce.PERCENTILE else {}
        made.aggregation(kind, kind, field, **more)
        cut = {"segmented_fields": SEGMENTED, "segments": SEGMENTS}
        made.aggregation(f"{kind}_cut", kind, field, **more, **cut)
    return made


def folded(world, rows, scope):
    [(meter, aggregations)] = aggregate.by_meter(world.configuration)
    folds = aggregate.rollups(meter.entity, aggregations, COLUMNS)
    frame = pl.DataFrame(
        [tuple(_naive(value) for value in row) for row in rows], schema=SCHEMA, orient="row"
    )
    connection = world.db
    connection.register("rows", frame.to_arrow())
    try:
        found = connection.execute(*aggregate.query("rows", folds, scope)).fetchall()
    except duckdb.OutOfRangeException:
        found = None
    if found is None or aggregate.needs_wide(found):
        wide = aggregate.query("rows", folds, scope, wide=True)
        found = connection.execute(*wide).fetchall()
    return list(aggregate.decode(folds, found))


def _naive(value):
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def by_kind(folded_rows):
    """Quantities by account, kind and segment; what matches no segment is the segment False."""
    kinds = {derived_id("Aggregation", kind): kind for kind in KINDS}
    kinds |= {derived_id("Aggregation", f"{kind}_cut"): kind for kind in KINDS}
    return {
        (each.account_id, kinds[quantity.aggregation_id], segment): quantity
        for each in folded_rows
        for quantity, segment in [
            *((one, one.segment) for one in each.quantities),
            *((one, False) for one in each.unmatched),
        ]
    }


def expected(rows, period):
    groups = defaultdict(list)
    for row in rows:
        cut = segment_of({"s": row[4], "r": row[5]}, SEGMENTED, SEGMENTS)
        named = False if cut is None else tuple(sorted(cut.items()))
        for kind in KINDS:
            value = row[4] if kind == Reduce.UNIQUE else row[3]
            if value is not None and row[2] < period.end:
                for segment in (None, named):
                    groups[row[1], kind, segment].append((row[2], row[0], value, row[6]))
    found = {key: _oracle(key[1], group, period) for key, group in groups.items()}
    return {key: value for key, value in found.items() if value is not None}


def _oracle(kind, group, period):
    if kind == Reduce.TIME_WEIGHTED_AVERAGE:
        return time_weighted(group, period.start, period.end)
    inside = [row[:3] for row in group if row[0] >= period.start]
    return ORACLES[kind](inside) if inside else None


def same(quantity, oracle):
    if quantity.mean is None:
        return Fraction(quantity.value) == oracle
    total, count = quantity.mean
    assert quantity.value == divide(total, Decimal(count))
    if isinstance(oracle, tuple):
        return (Fraction(total), count) == oracle
    return Fraction(total) / count == oracle


@given(rows=rows)
@settings(max_examples=40, deadline=None)
def test_every_reducer_is_what_plain_python_makes_of_it(world, rows):
    found = by_kind(folded(world, rows, aggregate.whole(OCTOBER)))
    oracle = expected(rows, OCTOBER)

    assert set(found) == set(oracle)
    assert [key for key, quantity in found.items() if not same(quantity, oracle[key])] == []


@given(rows=rows)
@settings(max_examples=12, deadline=None)
def test_measurements_are_counted_by_segment(world, rows):
    for each in folded(world, rows, aggregate.whole(OCTOBER)):
        inside = [
            row
            for row in rows
            if row[1] == each.account_id and OCTOBER.start <= row[2] < OCTOBER.end
        ]
        assert each.measurements == len(inside)
        for quantity in each.quantities:
            cuts = [segment_of({"s": row[4], "r": row[5]}, SEGMENTED, SEGMENTS) for row in inside]
            wanted = [cut for cut in cuts if cut and tuple(sorted(cut.items())) == quantity.segment]
            assert quantity.measurements == len(wanted if quantity.segment else inside)


@given(rows=rows, data=st.data())
@settings(max_examples=12, deadline=None)
def test_the_order_of_measurements_changes_nothing(world, rows, data):
    shuffled = data.draw(st.permutations(rows))

    assert folded(world, rows, aggregate.whole(OCTOBER)) == folded(
        world, shuffled, aggregate.whole(OCTOBER)
    )


@given(rows=rows)
@settings(max_examples=12, deadline=None)
def test_the_sum_over_the_days_is_the_month(world, rows):
    month = by_kind(folded(world, rows, aggregate.whole(OCTOBER)))
    days = folded(world, rows, aggregate.each(by_day(OCTOBER, BERLIN)))
    sums, held = {}, {}
    for day in days:
        for key, quantity in by_kind([day]).items():
            sums[key] = sums.get(key, Fraction(0)) + Fraction(quantity.value)
            if key[1] == Reduce.TIME_WEIGHTED_AVERAGE:
                total, time = held.get(key, (Fraction(0), 0))
                held[key] = (total + Fraction(quantity.mean[0]), time + quantity.mean[1])

    for kind in (Reduce.SUM, Reduce.COUNT):
        assert {key: total for key, total in sums.items() if key[1] == kind} == {
            key: Fraction(each.value) for key, each in month.items() if key[1] == kind
        }
    assert held == {
        key: (Fraction(each.mean[0]), each.mean[1])
        for key, each in month.items()
        if key[1] == Reduce.TIME_WEIGHTED_AVERAGE
    }


@given(rows=rows, cut=instants.filter(lambda ts: OCTOBER.start < ts < OCTOBER.end))
@settings(max_examples=12, deadline=None)
def test_a_window_is_the_period_that_it_names(world, rows, cut):
    halves = [OCTOBER.intersection(None, cut), OCTOBER.intersection(cut, None)]
    asked = [(account, half) for account in ("a", "b") for half in halves]
    windows = folded(world, rows, aggregate.windows(asked))
    alone = [each for half in halves for each in folded(world, rows, aggregate.whole(half))]

    assert {(each.account_id, each.period): each for each in windows} == {
        (each.account_id, each.period): each for each in alone
    }


def by_polars(frame):
    """The quantities of a month by account and kind, as Polars has them; MEAN as sum and count."""
    n, s = pl.col("measure.n"), pl.col("what.s")
    counted = n.count()
    rank = ((counted * int(PERCENTILE * 10) + 999) // 1000).cast(pl.Int64) - 1
    in_time = n.sort_by("ts", "uid").drop_nulls()
    values = {
        Reduce.SUM: pl.when(counted > 0).then(n.sum()),
        Reduce.MIN: n.min(),
        Reduce.MAX: n.max(),
        Reduce.COUNT: pl.when(counted > 0).then(counted),
        Reduce.LATEST: in_time.last(),
        Reduce.MEAN: pl.when(counted > 0).then(n.sum()),
        Reduce.UNIQUE: pl.when(s.count() > 0).then(s.drop_nulls().n_unique()),
        Reduce.PERCENTILE: pl.when(counted > 0).then(
            n.drop_nulls().sort().get(rank, null_on_oob=True)
        ),
    }
    inside = frame.filter(
        pl.col("ts").is_between(_naive(OCTOBER.start), _naive(OCTOBER.end), closed="left")
    )
    rows = inside.group_by("account_id").agg(counted.alias("n"), **values)
    return {
        (row["account_id"], kind): (row[kind], row["n"]) if kind == Reduce.MEAN else row[kind]
        for row in rows.to_dicts()
        for kind in values
        if row[kind] is not None
    }


@given(
    rows=rows.map(
        lambda found: [
            (*row[:3], None if row[3] is None else row[3] % 1000, *row[4:]) for row in found
        ]
    )
)
@settings(max_examples=12, deadline=None)
def test_polars_comes_to_the_same(world, rows):
    frame = pl.DataFrame(
        [tuple(_naive(value) for value in row) for row in rows], schema=SCHEMA, orient="row"
    )
    found = {
        key[:2]: quantity.mean or quantity.value
        for key, quantity in by_kind(folded(world, rows, aggregate.whole(OCTOBER))).items()
        if key[2] is None and key[1] != Reduce.TIME_WEIGHTED_AVERAGE
    }

    assert found == by_polars(frame)


@given(rows=rows, cut=st.integers(0, 12))
@settings(max_examples=12, deadline=None)
def test_how_measurements_are_cut_into_chunks_changes_nothing(world, rows, cut):
    whole = folded(world, rows, aggregate.whole(OCTOBER))
    [(meter, aggregations)] = aggregate.by_meter(world.configuration)
    folds = aggregate.rollups(meter.entity, aggregations, COLUMNS)
    for name, part in (("first", rows[:cut]), ("second", rows[cut:])):
        frame = pl.DataFrame(
            [tuple(_naive(value) for value in row) for row in part], schema=SCHEMA, orient="row"
        )
        world.db.register(name, frame.to_arrow())
    source = "(FROM second UNION ALL FROM first)"
    query = aggregate.query(source, folds, aggregate.whole(OCTOBER), wide=True)

    assert list(aggregate.decode(folds, world.db.execute(*query).fetchall())) == whole


def test_instants_lie_around_the_month():
    assert OCTOBER.start == datetime(2026, 9, 30, 22, tzinfo=UTC)
