"""Every aggregation, grouped, segmented, windowed and empty: beside plain Python, and beside Polars.

Both are given the same measurements: whole months of several accounts, exact numbers that floats
cannot hold, values that are missing, that come at the same instant and that hold into the period.
"""

import random
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import polars as pl
import pytest

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Month, Period, naive, zone
from meterlake.stages.usage import aggregate
from tests.billing_world import COLUMNS, World
from tests.oracles import ORACLES, PERCENTILE, segment_of, time_weighted

KINDS = sorted([*ORACLES, Reduce.TIME_WEIGHTED_AVERAGE])
SHAPES = ["grouped", "segmented", "windowed", "empty"]
TOKYO = zone("Asia/Tokyo")
MONTH = Month(2026, 2).period(TOKYO)
FIELDS = ("s", "r")
# Strongest first, as the rule has it: the order in which Polars asks below.
SEGMENTS = (
    {"s": "a,b", "r": "eu"},
    {"s": "a,b", "r": "*"},
    {"s": "'", "r": "*"},
    {"s": "*", "r": "eu"},
)
NUMBERS = [
    "0.1",
    "-0.1",
    "0",
    "0.000000000001",
    "9007199254740993",  # 2^53 + 1
    "-9007199254740993.000000000001",
    "99999999999999999999999.999999999999",
    "-99999999999999999999999.999999999999",
    "7",
]
SCHEMA = {
    "uid": pl.String,
    "account_id": pl.String,
    "ts": pl.Datetime("us"),
    "measure.n": pl.Decimal(38, 12),
    "what.s": pl.String,
    "where.r": pl.String,
    "ets": pl.Datetime("us"),
}
DIGITS = 12
# Numbers times microseconds have more digits than an Int128: they are added up in two parts.
PART = 10**18


def measurements(seed):
    """Some weeks of four accounts; one has no values, one has nothing but a value of before."""
    chance = random.Random(seed)
    found = []
    for n in range(400):
        account = chance.choice(["a", "b", "b", "c", "none"])
        # Few instants, so that many are the same; a fifth of them lies outside of the month.
        ts = naive(MONTH.start) + timedelta(hours=chance.randrange(-80, 32 * 24, 8))
        number = None if chance.random() < 0.2 or account == "none" else chance.choice(NUMBERS)
        held = chance.choice([None, None, None, 0, 3, 8, 500])
        found.append(
            (
                f"{chance.randrange(10**6):06}-{n}",
                account,
                ts,
                None if number is None else Decimal(number),
                None if account == "none" else chance.choice(["a,b", "'", "z", "", "é", None]),
                chance.choice(["eu", "EU", None]),
                None if held is None else ts + timedelta(hours=held),
            )
        )
    ends = [naive(MONTH.start) - timedelta(microseconds=1), naive(MONTH.end)]
    edges = [("before", ends[0]), ("c", naive(MONTH.start)), ("c", ends[0]), ("c", ends[1])]
    found += [
        (f"edge-{n}", account, ts, Decimal("0.1"), "a,b", "eu", None)
        for n, (account, ts) in enumerate(edges)
    ]
    return found


DAYS = [MONTH.start + timedelta(days=n) for n in range(29)]
# Several periods of an account, other ones of the next, one that nothing was measured in.
WINDOWS = [
    ("a", Period(DAYS[0], DAYS[9])),
    ("a", Period(DAYS[9], DAYS[10])),
    ("a", Period(DAYS[10], DAYS[28])),
    ("b", Period(DAYS[3], DAYS[20])),
    ("none", Period(DAYS[0], DAYS[28])),
    ("before", Period(DAYS[27], DAYS[28])),
    ("nobody", Period(DAYS[0], DAYS[28])),
]


def asked(shape, rows):
    """The periods that are folded, as accounts and periods."""
    if shape == "windowed":
        return WINDOWS
    return [(account, MONTH) for account in sorted({row[1] for row in rows})]


def rows_of(shape):
    if shape != "empty":
        return measurements(20260201)
    # Nothing but measurements without the field, and without any place in the month.
    return [
        ("u1", "a", naive(MONTH.start), None, None, "eu", None),
        ("u2", "b", naive(MONTH.end), Decimal(1), "a,b", "eu", None),
        ("u3", "c", naive(MONTH.start) - timedelta(days=1), None, "a,b", "eu", None),
        ("u4", "b", naive(DAYS[3]), None, None, None, None),
    ]


@pytest.fixture(scope="module")
def folded():
    """By shape: by kind, account, period and segment what meterlake makes of the measurements."""
    return {shape: calculated(shape) for shape in SHAPES}


def calculated(shape):
    world = World()
    cut = {"segmented_fields": FIELDS, "segments": SEGMENTS} if shape == "segmented" else {}
    for kind in KINDS:
        share = {"percentile": PERCENTILE} if kind == Reduce.PERCENTILE else {}
        world.aggregation(kind, kind, "s" if kind == Reduce.UNIQUE else "n", **share, **cut)
    rows = rows_of(shape)
    world.db.register("given", frame_of(rows).to_arrow())
    world.db.execute("INSERT INTO m BY NAME FROM given")
    scope = aggregate.windows(WINDOWS) if shape == "windowed" else aggregate.whole(MONTH)
    kinds = {derived_id("Aggregation", kind): kind for kind in KINDS}
    found = defaultdict(dict)
    for each in world.fold(scope):
        listed = [(one, one.segment) for one in each.quantities]
        for quantity, segment in [*listed, *((one, False) for one in each.unmatched)]:
            kind = kinds[quantity.aggregation_id]
            found[kind][each.account_id, each.period, segment] = exactly(quantity)
    return found


def exactly(quantity):
    """A value, or the sum and the count of one that is divided."""
    if quantity.mean is None:
        return Fraction(quantity.value)
    return Fraction(quantity.mean[0]), quantity.mean[1]


def frame_of(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def segment_named(values):
    found = segment_of(values, FIELDS, SEGMENTS)
    return False if found is None else tuple(sorted(found.items()))


def by_python(kind, shape):
    rows = rows_of(shape)
    found = {}
    for account, period in asked(shape, rows):
        start, end = naive(period.start), naive(period.end)
        groups = defaultdict(list)
        for uid, of, ts, number, text, region, ets in rows:
            value = text if kind == Reduce.UNIQUE else number
            if of == account and ts < end and value is not None:
                segment = None
                if shape == "segmented":
                    segment = segment_named({"s": text, "r": region})
                groups[segment].append((ts, uid, value, ets))
        for segment, group in groups.items():
            value = python_value(kind, group, start, end)
            if value is not None:
                found[account, period, segment] = value
    return found


def python_value(kind, group, start, end):
    if kind == Reduce.TIME_WEIGHTED_AVERAGE:
        return time_weighted(group, start, end)
    inside = [row[:3] for row in group if row[0] >= start]
    if not inside:
        return None
    if kind == Reduce.MEAN:
        return ORACLES[Reduce.SUM](inside), len(inside)
    return ORACLES[kind](inside)


def by_polars(kind, shape):
    rows = rows_of(shape)
    windows = pl.DataFrame(
        [(of, naive(each.start), naive(each.end)) for of, each in asked(shape, rows)],
        schema={"account_id": pl.String, "start": pl.Datetime("us"), "end": pl.Datetime("us")},
        orient="row",
    )
    # Whole numbers, which Polars adds and multiplies exactly.
    number = pl.col("measure.n").to_physical().alias("n")
    frame = frame_of(rows).with_columns(number, polars_segment(shape).alias("segment"))
    joined = frame.join(windows, on="account_id").filter(pl.col("ts") < pl.col("end"))
    keys = ["account_id", "start", "end", "segment"]
    if kind == Reduce.TIME_WEIGHTED_AVERAGE:
        values = polars_held(joined, keys)
    else:
        inside = joined.filter(pl.col("ts") >= pl.col("start"))
        values = inside.group_by(keys).agg(**polars_values(kind))
    names = {n: tuple(sorted(each.items())) for n, each in enumerate(SEGMENTS)}
    return {
        (
            row["account_id"],
            Period(DAY_OF[row["start"]], DAY_OF[row["end"]]),
            {None: None, -1: False, **names}[row["segment"]],
        ): polars_number(kind, row)
        for row in values.to_dicts()
        if row["count"]
    }


DAY_OF = {naive(day): day for day in DAYS}


def polars_segment(shape):
    if shape != "segmented":
        return pl.lit(None, pl.Int64)
    s, r = pl.col("what.s"), pl.col("where.r")
    return (
        pl.when((s == "a,b") & (r == "eu"))
        .then(0)
        .when(s == "a,b")
        .then(1)
        .when(s == "'")
        .then(2)
        .when(r == "eu")
        .then(3)
        .otherwise(-1)
    )


def polars_values(kind):
    n, s = pl.col("n"), pl.col("what.s")
    counted = n.count()
    rank = ((counted * int(PERCENTILE * 10) + 999) // 1000).cast(pl.Int64) - 1
    values = {
        Reduce.SUM: n.sum(),
        Reduce.MIN: n.min(),
        Reduce.MAX: n.max(),
        Reduce.COUNT: counted,
        Reduce.LATEST: n.sort_by("ts", "uid").drop_nulls().last(),
        Reduce.MEAN: n.sum(),
        Reduce.UNIQUE: s.drop_nulls().n_unique(),
        Reduce.PERCENTILE: n.drop_nulls().sort().get(rank, null_on_oob=True),
    }
    return {"value": values[kind], "count": s.count() if kind == Reduce.UNIQUE else counted}


def polars_held(joined, keys):
    """Values times microseconds, and microseconds."""
    last = (
        joined.filter(pl.col("n").is_not_null())
        .sort("ts", "uid")
        .group_by(*keys, "ts", maintain_order=True)
        .last()
    )
    upcoming = pl.col("ts").shift(-1).over(keys, order_by="ts")
    until = pl.min_horizontal(pl.coalesce("ets", upcoming, "end"), "end")
    begun = pl.max_horizontal("ts", "start")
    held = (until - begun).dt.total_microseconds().clip(lower_bound=0).cast(pl.Int128)
    return (
        last.with_columns(held=held)
        .group_by(keys)
        .agg(
            value=(pl.col("n") // PART * pl.col("held")).sum(),
            rest=(pl.col("n") % PART * pl.col("held")).sum(),
            count=pl.col("held").sum(),
        )
    )


def polars_number(kind, row):
    if kind in {Reduce.COUNT, Reduce.UNIQUE}:
        return Fraction(row["value"])
    whole = row["value"] * PART + row["rest"] if "rest" in row else row["value"]
    value = Fraction(whole, 10**DIGITS)
    divided = {Reduce.MEAN, Reduce.TIME_WEIGHTED_AVERAGE}
    return (value, row["count"]) if kind in divided else value


@pytest.mark.parametrize("oracle", [by_python, by_polars], ids=["python", "polars"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_aggregation_is_what_others_make_of_it(folded, kind, shape, oracle):
    expected = oracle(kind, shape)
    # "Empty" has one text and one value of the month before in all; everything else has plenty.
    assert bool(expected) == (shape != "empty")

    assert folded[shape].get(kind, {}) == expected


def test_the_measurements_are_what_is_told_of_them():
    rows = rows_of("grouped")
    accounts = {row[1] for row in rows}
    inside = [row for row in rows if MONTH.start <= row[2].replace(tzinfo=MONTH.start.tzinfo)]

    assert accounts == {"a", "b", "c", "none", "before"}
    assert 0 < len(inside) < len(rows)
    assert {str(row[3]) for row in rows if row[3] is not None} >= {"9007199254740993", "0.1"}
    assert len({row[2] for row in rows}) < len(rows) / 3
    assert isinstance(rows[0][2], datetime)
    assert set(COLUMNS) < set(SCHEMA)
