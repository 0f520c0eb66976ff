from datetime import UTC, datetime
from decimal import Decimal

import duckdb
import pytest

from meterlake.model.catalog import Reduce
from meterlake.model.ids import derived_id
from meterlake.model.period import Period, by_day, zone
from meterlake.stages import aggregate
from meterlake.stages.aggregate import REDUCERS
from tests.billing_world import World
from tests.oracles import ORACLES

D = Decimal
NUMERIC = [each for each in Reduce if each not in {Reduce.UNIQUE, Reduce.CUSTOM_SQL}]


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
        made.aggregation(reduce.lower(), reduce)
    made.aggregation("unique", "UNIQUE", "s")
    made.aggregation("texts", "COUNT", "s")
    for code in ("a", "b"):
        made.account(code)
    return made


def test_every_reducer_has_sql_an_empty_value_and_an_oracle():
    known = set(Reduce) - {Reduce.CUSTOM_SQL}  # which is refused

    assert set(REDUCERS) == set(ORACLES) == known


@pytest.mark.parametrize("reduce", sorted(REDUCERS))
@pytest.mark.parametrize("wide", [False, True])
def test_the_empty_value_is_what_the_sql_gives_for_a_group_without_values(reduce, wide):
    reducer = REDUCERS[reduce]
    sql = (reducer.wide if wide else None) or reducer.sql
    typed = "VARCHAR" if reduce == Reduce.UNIQUE else "DECIMAL(38, 12)"
    rows = f"SELECT NULL::{typed} AS v, TIMESTAMP '2026-01-01' AS ts, 'u' AS uid"
    found = duckdb.sql(f"SELECT {sql.replace('{v}', 'm.v')} FROM ({rows}) AS m").fetchone()[0]

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
            "unique": 2,
            "texts": 2,
        },
        "b": dict.fromkeys(("sum", "min", "max", "latest", "mean"), -4)
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
    folds = aggregate.folds(meter.entity, aggregations, {"measure.n", "what.s"})
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
    assert mean.overflows


def test_sums_of_several_threads_do_not_wrap_around(world):
    # DuckDB adds the threads' sums without looking: two of them can come out negative.
    world.use("a", "2026-10-02T00:00:00Z", "9" * 26)
    world.db.execute(
        "INSERT INTO m SELECT 'v' || i, (SELECT account_id FROM m),"
        " TIMESTAMP '2026-10-03', 0, NULL FROM range(400000) r(i)"
    )
    world.use("a", "2026-10-04T00:00:00Z", "9" * 26)
    world.db.execute("SET threads = 2")

    assert values(world)["a"]["sum"] == D("1" + "9" * 25 + "8")
    assert values(world)["a"]["count"] == 400_002


def test_a_query_says_when_its_sums_cannot_be_relied_on(world):
    def rows():
        [(meter, aggregations)] = aggregate.by_meter(world.configuration)
        folds = aggregate.folds(meter.entity, aggregations, {"measure.n", "what.s"})
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
    folds = aggregate.folds(meter.entity, aggregations, {"what.s"})

    assert {fold.column for fold in folds} == {"what.s"}
    assert aggregate.folds(meter.entity, aggregations, set()) == []


def test_names_that_people_chose_are_quoted():
    assert aggregate.table('x" --', 3) == 'lake."m_x"" --" AT (VERSION => 3)'
