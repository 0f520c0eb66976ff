from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Period, zone
from meterlake.stages.usage import aggregate
from meterlake.stages.usage.aggregate import REDUCERS
from meterlake.stores.custom_sql import check_query
from tests.billing_world import COLUMNS, World
from tests.days import by_day
from tests.oracles import ORACLES, segment_of

D = Decimal
DAY = 86_400_000_000  # microseconds
# Of texts, by a query of its own, and by times: they have tests of their own.
APART = {Reduce.UNIQUE, Reduce.CUSTOM_SQL, Reduce.TIME_WEIGHTED_AVERAGE}
NUMERIC = [each for each in Reduce if each not in APART]


def at(day, hour=0):
    return datetime(2026, 10, day, hour, tzinfo=UTC)


def october(world):
    return world.period("2026-10")


def values(world, *scopes):
    """The quantities by account code, then aggregation code."""
    names = {
        record.id: record.entity.code
        for record in world.records.values()
        if hasattr(record.entity, "code")
    }
    return {
        names[folded.account_id]: {
            names[each.aggregation_id]: each.value for each in folded.quantities
        }
        for folded in world.fold(*(scopes or [aggregate.whole(october(world))]))
    }


@pytest.fixture
def world():
    made = World()
    for reduce in NUMERIC:
        share = {"percentile": D(50)} if reduce is Reduce.PERCENTILE else {}
        made.aggregation(reduce.lower(), reduce, **share)
    made.aggregation("unique", "UNIQUE", "s")
    made.aggregation("texts", "COUNT", "s")
    for code in ("a", "b"):
        made.account(code)
    return made


def test_every_reducer_has_sql_an_empty_value_and_an_oracle():
    known = set(Reduce) - {Reduce.CUSTOM_SQL, Reduce.TIME_WEIGHTED_AVERAGE}

    assert set(REDUCERS) == set(ORACLES) == known


@pytest.mark.parametrize("reduce", sorted(REDUCERS))
@pytest.mark.parametrize("wide", [False, True])
def test_the_empty_value_is_what_the_sql_gives_for_a_group_without_values(reduce, wide):
    reducer = REDUCERS[reduce]
    sql = (reducer.wide if wide else None) or reducer.sql
    typed = "VARCHAR" if reduce == Reduce.UNIQUE else "DECIMAL(38, 12)"
    rows = f"SELECT NULL::{typed} AS v, TIMESTAMP '2026-01-01' AS ts, 'u' AS uid"
    sql = sql.replace("{v}", "m.v").replace("{p}", "0.5")
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {sql} FROM ({rows}) AS m").fetchone()[0]

    assert aggregate.narrow(found) == reducer.empty


def test_all_aggregations_of_a_meter_come_from_one_scan(world):
    world.use("a", "2026-10-01T00:00:00Z", "1.5", "x")
    world.use("a", "2026-10-31T23:59:59.999999Z", "2.25", "y")
    world.use("b", "2026-10-15T00:00:00Z", -4, "x")

    assert values(world) == {
        "a": {
            "sum": D("3.75"),
            "min": D("1.5"),
            "max": D("2.25"),
            "count": 2,
            "latest": D("2.25"),
            "mean": D("1.875"),
            "percentile": D("1.5"),
            "unique": 2,
            "texts": 2,
        },
        "b": dict.fromkeys(("sum", "min", "max", "latest", "mean", "percentile"), -4)
        | {"count": 1, "unique": 1, "texts": 1},
    }


def test_a_period_takes_its_start_and_leaves_its_end(world):
    world.use("a", "2026-10-01T00:00:00Z", 1)
    world.use("a", "2026-09-30T23:59:59.999999Z", 10)
    world.use("a", "2026-11-01T00:00:00Z", 100)

    assert values(world)["a"]["sum"] == 1


def test_a_measurement_without_the_field_is_counted_but_is_no_value(world):
    world.use("a", "2026-10-01T00:00:00Z", n=None, s="x")
    [folded] = world.fold(aggregate.whole(october(world)))

    assert folded.measurements == 1
    assert values(world) == {"a": {"unique": 1, "texts": 1}}


def test_latest_is_the_last_value_and_a_tie_goes_to_the_greater_uid(world):
    world.use("a", "2026-10-02T00:00:00Z", 1)  # u000001
    world.use("a", "2026-10-02T00:00:00Z", 2)
    world.use("a", "2026-10-02T00:00:00Z", 3)
    world.use("a", "2026-10-03T00:00:00Z", None, "later, but without a value")
    world.db.execute("UPDATE m SET uid = 'u9' WHERE uid = 'u000002'")

    assert values(world)["a"]["latest"] == 2


def test_some_accounts_only(world):
    for code in ("a", "b"):
        world.use(code, "2026-10-02T00:00:00Z", 1)
    only_b = aggregate.whole(october(world), {derived_id("Account", "b")})

    assert set(values(world, only_b)) == {"b"}
    assert values(world, aggregate.whole(october(world), set())) == {}


def test_windows_are_the_accounts_own(world):
    for day in (1, 10, 20):
        world.use("a", f"2026-10-{day:02}T00:00:00Z", day)
        world.use("b", f"2026-10-{day:02}T00:00:00Z", day)
    a, b = derived_id("Account", "a"), derived_id("Account", "b")
    asked = [(a, Period(at(1), at(10))), (a, Period(at(10), at(20))), (b, Period(at(5), at(31)))]
    sums = {
        (folded.account_id, folded.period): each.value
        for folded in world.fold(aggregate.windows(asked))
        for each in folded.quantities
        if each.aggregation_id == derived_id("Aggregation", "sum")
    }

    assert len(sums) == len(asked)
    assert [sums[each] for each in asked] == [1, 10, 30]


def test_days_are_those_of_the_organization():
    world = World(timezone="Europe/Berlin")
    world.aggregation("sum")
    world.account("a")
    world.use("a", "2026-10-24T22:00:00Z", 1)  # midnight of the 25th, which has 25 hours
    world.use("a", "2026-10-25T22:59:59Z", 2)
    world.use("a", "2026-10-25T23:00:00Z", 4)
    days = by_day(october(world), zone("Europe/Berlin"))
    found = world.fold(aggregate.each(days))

    assert [(days.index(each.period), each.quantities[0].value) for each in found] == [
        (24, 3),
        (25, 4),
    ]


def test_sums_that_the_lake_cannot_hold_are_exact_and_known_as_such(world):
    for _ in range(3):
        world.use("a", "2026-10-02T00:00:00Z", "9" * 26 + ".999999999999")
    world.use("a", "2026-10-02T00:00:00Z", "-" + "9" * 26 + ".999999999999")
    world.use("b", "2026-10-02T00:00:00Z", 1)
    configuration = world.configuration
    [(meter, aggregations)] = aggregate.by_meter(configuration)
    folds = aggregate.rollups(meter.entity, aggregations, COLUMNS)
    scope = aggregate.whole(october(world))
    wide = world.db.execute(*aggregate.query("m", folds, scope, wide=True)).fetchall()
    found = {
        each.aggregation_id: each
        for folded in aggregate.decode(folds, wide)
        if folded.account_id == derived_id("Account", "a")
        for each in folded.quantities
    }
    total = found[derived_id("Aggregation", "sum")]
    mean = found[derived_id("Aggregation", "mean")]

    with pytest.raises(duckdb.OutOfRangeException):
        world.db.execute(*aggregate.query("m", folds, scope)).fetchall()
    assert total.value == D("1" + "9" * 26 + ".999999999998")
    assert total.overflows
    assert mean.value == D("49999999999999999999999999.9999999999995")
    assert not mean.overflows
    assert mean.stored_mean is None


def test_sums_of_several_threads_do_not_wrap_around(world):
    # DuckDB adds the threads' sums without looking: two of them can come out negative.
    world.use("a", "2026-10-02T00:00:00Z", "9" * 26)
    world.db.execute(
        "INSERT INTO m BY NAME SELECT 'v' || i AS uid, (SELECT account_id FROM m) AS account_id,"
        " TIMESTAMP '2026-10-03' AS ts, 0 AS \"measure.n\" FROM range(400000) r(i)"
    )
    world.use("a", "2026-10-04T00:00:00Z", "9" * 26)
    world.db.execute("SET threads = 2")

    assert values(world)["a"]["sum"] == D("1" + "9" * 25 + "8")
    assert values(world)["a"]["count"] == 400_002


def test_a_query_says_when_its_sums_cannot_be_relied_on(world):
    def rows():
        [(meter, aggregations)] = aggregate.by_meter(world.configuration)
        folds = aggregate.rollups(meter.entity, aggregations, COLUMNS)
        return world.db.execute(
            *aggregate.query("m", folds, aggregate.whole(october(world)))
        ).fetchall()

    world.use("a", "2026-10-02T00:00:00Z", 10**15)
    world.use("a", "2026-10-02T00:00:00Z", None, "x")
    assert not aggregate.needs_wide(rows())
    world.use("b", "2026-10-02T00:00:00Z", f"-{10**15}.000000000001")
    assert aggregate.needs_wide(rows())


def test_what_the_lake_has_no_column_for_has_no_value(world):
    [(meter, aggregations)] = aggregate.by_meter(world.configuration)
    folds = aggregate.rollups(meter.entity, aggregations, {"what.s"})

    assert {fold.column for fold in folds} == {"what.s"}
    assert aggregate.rollups(meter.entity, aggregations, set()) == []


def test_names_that_people_chose_are_quoted():
    assert aggregate.table('x" --', 3) == 'lake."m_x"" --" AT (VERSION => 3)'


SEGMENTS = {
    "segmented_fields": ("s", "r"),
    "segments": ({"s": "x", "r": "eu"}, {"s": "x", "r": "*"}, {"r": "eu", "s": "*"}, {"s": "y"}),
}


def by_segment(folded):
    return {
        tuple(value for _, value in quantity.segment): (quantity.value, quantity.measurements)
        for quantity in folded.quantities
    }


def test_an_exact_value_beats_a_wildcard_and_more_exact_fields_beat_fewer():
    world = World()
    world.aggregation("cut", **SEGMENTS)
    world.account("a")
    for n, (s, r) in enumerate(
        [("x", "eu"), ("x", "us"), ("x", None), ("z", "eu"), (None, "eu"), ("y", "eu")]
    ):
        world.use("a", "2026-10-02T00:00:00Z", 10**n, s, r)
    [folded] = world.fold(aggregate.whole(october(world)))

    # The names of a segment are sorted: r, then s. Between two with one exact field, the one that is
    # exact in the earlier segmented field wins: y, not eu.
    assert by_segment(folded) == {
        ("eu", "x"): (1, 1),
        ("*", "x"): (110, 2),
        ("eu", "*"): (11_000, 2),
        ("y",): (100_000, 1),
    }
    assert folded.unmatched == []


def test_what_matches_no_segment_is_told_and_in_no_quantity():
    world = World()
    world.aggregation("cut", **SEGMENTS)
    world.aggregation("all")
    world.account("a")
    world.use("a", "2026-10-02T00:00:00Z", 1, "x", "eu")
    world.use("a", "2026-10-02T00:00:00Z", 10, "X", "eU")
    world.use("a", "2026-10-02T00:00:00Z", 100)
    [folded] = world.fold(aggregate.whole(october(world)))
    kept = {each.segment: each.value for each in folded.quantities}
    [unmatched] = folded.unmatched

    assert folded.measurements == 3
    assert kept == {None: 111, (("r", "eu"), ("s", "x")): 1}
    assert (unmatched.value, unmatched.measurements, unmatched.segment) == (110, 2, None)
    assert unmatched.aggregation_id == derived_id("Aggregation", "cut")


def test_a_thousand_segments_of_five_fields_are_one_query():
    world = World()
    segments = tuple({"s": f"s{n}", "r": "*" if n % 2 else f"r{n}"} for n in range(1000))
    world.aggregation("cut", segmented_fields=("s", "r"), segments=segments)
    world.account("a")
    for n in (0, 1, 2, 999):
        world.use("a", "2026-10-02T00:00:00Z", n, f"s{n}", "r2")
    [folded] = world.fold(aggregate.whole(october(world)))

    assert by_segment(folded) == {
        ("*", "s1"): (1, 1),
        ("r2", "s2"): (2, 1),
        ("*", "s999"): (999, 1),
    }
    assert [each.value for each in folded.unmatched] == [0]


ODD = [
    "",
    " ",
    ",",
    "'",
    '"',
    "\n",
    "\\",
    "NaN",
    "null",
    "None",
    "x,y",
    "x",
    "X",
    "é",
    "e\u0301",
    "日本",
    "**",
]


@pytest.mark.parametrize("wide", [False, True])
def test_segments_of_odd_values_are_what_plain_python_says(wide):
    world = World()
    segments = (
        *({"s": each, "r": "*"} for each in ODD[:12]),
        *({"s": "*", "r": each} for each in ODD[6:]),
        *({"s": each, "r": each} for each in ODD[:5]),
    )
    cut = {"segmented_fields": ("s", "r"), "segments": segments}
    for kind in ("SUM", "LATEST", "COUNT"):
        world.aggregation(kind, kind)
        world.aggregation(f"{kind}_cut", kind, **cut)
    world.aggregation("UNIQUE", "UNIQUE", "s")
    world.aggregation("r_cut", "UNIQUE", "r", segmented_fields=("r",), segments=({"r": "x"},))
    world.account("a")
    # Sums of 0.1 and of numbers that no float can tell apart; the wide ones need 38 digits.
    step = D("9" * 25 + ".1") if wide else D("9007199254740.993")
    pairs = [(s, r) for s in [*ODD, None] for r in (ODD[0], ODD[7], None, s)]
    for n, (s, r) in enumerate(pairs):
        world.use("a", "2026-10-02T00:00:00Z", D("0.1") * n - step, s, r)
    [folded] = world.fold(aggregate.whole(october(world)))
    names = {derived_id("Aggregation", code): code for code in ("SUM", "SUM_cut", "LATEST_cut")}
    names |= {derived_id("Aggregation", code): code for code in ("UNIQUE", "r_cut", "COUNT_cut")}
    found = {
        (names[each.aggregation_id], each.segment): each.value
        for each in [*folded.quantities, *folded.unmatched]
        if each.aggregation_id in names
    }
    groups = {}
    for n, (s, r) in enumerate(pairs):
        best = segment_of({"s": s, "r": r}, ("s", "r"), segments)
        name = None if best is None else tuple(sorted(best.items()))
        groups.setdefault(name, []).append(Fraction(n, 10) - Fraction(step))

    assert found.pop(("SUM", None)) == sum(D("0.1") * n for n in range(len(pairs))) - step * len(
        pairs
    )
    assert found.pop(("UNIQUE", None)) == len(ODD)
    assert found.pop(("r_cut", (("r", "x"),))) == 1
    assert found.pop(("r_cut", None)) == len({r for _, r in pairs} - {None, "x"})
    assert {key: Fraction(value) for key, value in found.items()} == {
        (f"{kind}_cut", name): fold(group)
        for name, group in groups.items()
        for kind, fold in (("SUM", sum), ("LATEST", lambda each: each[-1]), ("COUNT", len))
    }


def test_a_segmented_field_that_the_lake_has_no_column_for_matches_wildcards_only():
    world = World()
    world.aggregation("cut", **SEGMENTS)
    [(meter, aggregations)] = aggregate.by_meter(world.configuration)
    [fold] = aggregate.rollups(meter.entity, aggregations, {"measure.n", "what.s"})

    assert fold.segment_filter.columns == ("what.s", None)
    statement = aggregate.query("m", [fold], aggregate.whole(october(world)))
    assert world.db.execute(*statement).fetchall() == []


def test_a_percentile_is_the_nearest_rank_exactly():
    world = World()
    shares = {"0.000000000001": 1, "10": 100, "33.3": 333, "33.31": 334, "50": 500, "99.999": 1000}
    for n, share in enumerate([*shares, "100"]):
        world.aggregation(f"p{n}", "PERCENTILE", percentile=D(share))
    world.account("a")
    world.use("a", "2026-10-02T00:00:00Z", 1)
    world.db.execute(
        "INSERT INTO m BY NAME SELECT 'v' || i AS uid, (SELECT account_id FROM m) AS account_id,"
        " TIMESTAMP '2026-10-02' AS ts, i AS \"measure.n\" FROM range(2, 1001) r(i)"
    )

    assert list(dict(sorted(values(world)["a"].items())).values()) == [*shares.values(), 1000]


def test_a_time_weighted_average_holds_values_until_the_next_one():
    world = World()
    world.aggregation("level", "TIME_WEIGHTED_AVERAGE")
    for code in ("a", "b", "c"):
        world.account(code)
    # 10 from before the month for a day, 20 for 9 days, 5 to the end; an ets ends a value itself.
    world.use("a", "2026-09-20T00:00:00Z", 10)
    world.use("a", "2026-10-02T00:00:00Z", 1)
    world.use("a", "2026-10-02T00:00:00Z", 20)  # the same instant, the greater uid
    world.use("a", "2026-10-05T00:00:00Z", None, "no value ends none")
    world.use("a", "2026-10-11T00:00:00Z", 5)
    world.use("b", "2026-10-01T00:00:00Z", 4, ets="2026-10-01T06:00:00Z")
    world.use("b", "2026-10-01T12:00:00Z", 8, ets="2026-10-01T14:00:00Z")
    world.use("c", "2026-09-01T00:00:00Z", 7, ets="2026-10-01T00:00:00Z")  # over before it begins
    found = {folded.account_id: folded for folded in world.fold(aggregate.whole(october(world)))}
    a, b = (found[derived_id("Account", code)] for code in ("a", "b"))

    assert a.quantities[0].mean == ((10 + 9 * 20 + 21 * 5) * DAY, 31 * DAY)
    assert a.quantities[0].value == D("9.5161290322580645161")
    assert a.measurements == a.quantities[0].measurements == 4
    assert b.quantities[0].value == 5
    assert derived_id("Account", "c") not in found


def test_a_value_that_is_only_held_is_a_quantity_without_measurements():
    world = World()
    world.aggregation("level", "TIME_WEIGHTED_AVERAGE")
    world.aggregation("sum")
    world.account("a")
    world.use("a", "2026-08-02T00:00:00Z", "0.1")
    [folded] = world.fold(aggregate.whole(october(world)))

    assert folded.measurements == 0
    assert [(each.value, each.measurements) for each in folded.quantities] == [(D("0.1"), 0)]


def test_time_weighted_averages_of_the_largest_numbers_are_exact():
    world = World()
    world.aggregation("level", "TIME_WEIGHTED_AVERAGE")
    world.account("a")
    world.use("a", "2026-10-01T00:00:00Z", "9" * 26 + ".999999999999")
    world.use("a", "2026-10-02T00:00:00Z", "-" + "9" * 26 + ".999999999999")
    [folded] = world.fold(aggregate.whole(october(world)))
    total, time = folded.quantities[0].mean

    assert (Fraction(total), time) == (-29 * DAY * Fraction("9" * 26 + ".999999999999"), 31 * DAY)
    assert not folded.quantities[0].overflows


@pytest.mark.parametrize(
    ("numbers", "total"),
    [
        (["0.1"] * 10, "1.0"),
        (["9007199254740993", "0.000000000001"], "9007199254740993.000000000001"),
        (["9" * 25 + ".999999999999", "0.000000000001"], "1" + "0" * 25),
        (["1" + "0" * 25, "-" + "9" * 25 + ".999999999999"], "0.000000000001"),
    ],
)
def test_sums_are_exact_where_floats_are_not(world, numbers, total):
    for number in numbers:
        world.use("a", "2026-10-02T00:00:00Z", number)

    assert values(world)["a"]["sum"] == D(total)


def test_sql_that_an_older_version_saved_is_left_out_with_its_reason():
    world = World()
    world.aggregation("own", "CUSTOM_SQL", custom_sql="SELECT getenv('HOME')")
    world.aggregation("fine", "CUSTOM_SQL", custom_sql="SELECT sum(n) FROM measurements")
    [(record, reason)] = aggregate.not_calculated(world.configuration, check_query)

    assert record.entity.code == "own"
    assert reason == "its SQL is not allowed: function 'getenv' is not allowed, at character 8"
    assert aggregate.by_meter(world.configuration)[0][1] == []
