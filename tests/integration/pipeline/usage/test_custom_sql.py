"""Aggregations with SQL of their own, from the lake to quantities."""

import os
from decimal import Decimal

import pytest

from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.custom_sql import grammar
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.period import Month, zone
from meterlake.pipeline.config import entities
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.pipeline.usage.meter_rollup import MeterSource, aggregate_custom_sql, trial
from meterlake.stages.usage.aggregate import whole
from meterlake.stores import open_stores
from meterlake.stores.custom_sql import SqlLimits, checker, limits_of
from tests.bills import price_egress, use
from tests.homes import HEADER, a_home, configure, csv_row

D = Decimal
SEPTEMBER = Month(2026, 9)
OWN = {
    "name": "Own SQL",
    "code": "own",
    "meterId": "egress",
    "targetField": "gb",
    "aggregation": "CUSTOM_SQL",
    "rounding": "NONE",
    "quantityPerUnit": 1,
    "unit": "GB",
}


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        price_egress(opened)
        use(opened, ("1", "acme", "0.1"), ("2", "acme", "0.2"), ("3", "bolt", 5), ("4", "bolt", 0))
        yield opened


@pytest.fixture(scope="module")
def unused_home(every_lake, tmp_path_factory):  # noqa: ARG001
    with a_home(tmp_path_factory.mktemp("unused")) as opened:
        price_egress(opened)
        yield opened


def own(home, sql, **more):
    configure(home.organization, aggregations=[OWN | {"customSql": sql} | more])


def found(home, result):
    codes = home.account_codes()
    [record] = [
        each
        for each in home.organization.configuration().all(Aggregation)
        if each.entity.code == "own"
    ]
    return {
        codes[each.account_id]: each.value
        for each in result.quantities
        if each.aggregation_id == record.id
    }


def again(home, statement):
    """What a statement that was kept gives on the lake."""
    with home.organization.lake.reader() as connection:
        return connection.execute(statement.sql, statement.parameters).fetchall()


@pytest.mark.long
def test_every_account_is_asked_by_itself_and_the_sql_stays_with_the_number(home):
    own(home, "SELECT sum(gb) * 10 FROM measurements HAVING sum(gb) > 0")
    result = aggregate(home.organization, SEPTEMBER)

    assert found(home, result) == {"acme": D(3), "bolt": D(50)}
    [row] = [row for row in result.rows if row.quantity.value == 50]
    assert row.quantity.measurements == 2
    assert again(home, row.statement) == [(50,)]
    assert "HAVING sum(gb) > 0" in row.statement.sql
    assert f"AT (VERSION => {result.snapshot})" in row.statement.sql


@pytest.mark.long
def test_an_error_of_one_account_stops_no_other_and_takes_no_default(home):
    # 1 / 0 is NULL in DuckDB; a text that is no number is an error.
    sql = (
        "SELECT sum(CAST(CASE WHEN gb = 5 THEN 'many' ELSE '7' END AS DECIMAL(9, 0)))"
        " FROM measurements"
    )
    own(home, sql, defaultValue=1)
    result = aggregate(home.organization, SEPTEMBER)

    assert found(home, result) == {"acme": D(14)}
    [failure] = result.failures
    assert home.account_codes()[failure.account_id] == "bolt"
    assert failure.detail.startswith("aggregation 'own' of account ")
    assert "many" in failure.detail


@pytest.mark.long
def test_null_is_no_usage(home):
    own(home, "SELECT max(gb) FROM measurements WHERE gb > 1")
    result = aggregate(home.organization, SEPTEMBER)

    assert found(home, result) == {"bolt": D(5)}
    assert not result.failures


@pytest.mark.long
def test_every_segment_is_asked_by_itself(home):
    rows = [csv_row(uid, "1", "acme", region=region) for uid, region in (("5", "us"), ("6", "ap"))]
    home.ingest("regions.csv", HEADER + "".join(rows))
    segments = {"segmentedFields": ["region"], "segments": [{"region": "eu"}, {"region": "us"}]}
    own(home, "SELECT count(*) * 100 + count(DISTINCT region) FROM measurements", **segments)
    result = aggregate(home.organization, SEPTEMBER)
    codes = home.account_codes()

    assert {
        (codes[each.account_id], each.segment, each.value)
        for each in result.quantities
        if each.segment
    } == {
        ("acme", (("region", "eu"),), D(201)),
        ("bolt", (("region", "eu"),), D(201)),
        ("acme", (("region", "us"),), D(101)),
    }
    [unmatched] = result.unmatched
    assert (codes[unmatched.account_id], unmatched.value) == ("acme", 101)
    kept = [row for row in result.rows if row.quantity.segment]
    assert [again(home, row.statement) for row in kept] == [[(row.quantity.value,)] for row in kept]


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("SELECT sum(gb FROM measurements", "at character 15"),
        ("SELECT sum(bytes) FROM measurements", "no column 'bytes', at character 12"),
        ("SELECT count(*) FROM read_csv('x')", "table function is not allowed, at character 22"),
        ("SELECT avg(gb) FROM measurements", "DOUBLE"),
        ("SELECT sum(uid) FROM measurements", "No function matches"),
    ],
)
def test_what_cannot_run_is_not_saved(unused_home, sql, sentence):
    with pytest.raises(Invalid, match=f"customSql.*{sentence}"):
        own(unused_home, sql)


def test_a_field_that_sql_reads_stays(unused_home):
    home = unused_home
    own(home, "SELECT sum(gb) FROM measurements")
    [meter] = [
        each.entity.to_wire()
        for each in home.organization.configuration().all(Meter)
        if each.entity.code == "egress"
    ]
    other = [{"category": "MEASURE", "code": "mb", "name": "MB"}]

    with pytest.raises(Invalid, match=r"aggregation .* reads it|does not fit any more"):
        configure(home.organization, meters=[meter | {"dataFields": other}])


def bomb():
    rows = "SELECT 1 AS x" + " UNION ALL SELECT 1" * 30
    read = ", ".join(f"t AS t{n}" for n in range(8))
    return f"WITH t AS NOT MATERIALIZED ({rows}) SELECT count(*) FROM {read}"


def test_saving_runs_no_sql(unused_home):
    # It would take hours, within a transaction that nobody else can write beside.
    home = unused_home
    own(home, bomb())
    configuration = home.organization.configuration()
    [record] = [each for each in configuration.all(Aggregation) if each.entity.code == "own"]
    document = {**record.entity.to_wire(), "code": "other", "name": "Other"}
    resource = BY_ENTITY[Aggregation]
    place = entities.ResourceRef(resource, {})
    entities.create(home.organization, "test", place, document)
    two = {**document, "code": "two", "customSql": "SELECT 1, 2 FROM measurements"}
    with pytest.raises(Invalid, match=r"customSql.*gives 2 columns, not one"):
        entities.create(home.organization, "test", place, two)

    meter = configuration.get(Meter, record.entity.meter_id)
    place = entities.ResourceRef(BY_ENTITY[Meter], {}, meter.id)
    changed = {**meter.entity.to_wire(), "version": meter.version}
    changed["dataFields"] = [
        *changed["dataFields"],
        {"category": "MEASURE", "code": "more", "name": "More"},
    ]
    entities.update(home.organization, "test", place, changed)
    for code in ("own", "other"):
        found = home.organization.configuration().find(Aggregation, code)
        assert found is not None
        place = entities.ResourceRef(resource, {}, found.id)
        entities.delete(home.organization, "test", place)


BOMB = "SELECT " + "(SELECT " * 40 + "1" + ")" * 40


@pytest.mark.long
def test_what_is_planned_for_long_is_refused_when_it_is_saved(unused_home, monkeypatch):
    # The check knows this one; without it, it stands for those that it does not know.
    monkeypatch.setattr(grammar, "check_parts", lambda _: None)
    monkeypatch.setattr(checker, "_PLAN_S", 0.5)
    with pytest.raises(Invalid, match=r"customSql.*SELECT \(SELECT.*longer than 0\.5 s"):
        own(unused_home, BOMB)
    monkeypatch.undo()
    own(unused_home, "SELECT count(*) FROM measurements")


@pytest.mark.long
def test_saving_takes_as_much_memory_as_a_run(unused_home):
    home = unused_home
    own(home, "SELECT count(*) FROM measurements")
    found = home.organization.configuration().find(Aggregation, "own")
    place = entities.ResourceRef(BY_ENTITY[Aggregation], {}, found.id)
    document = {**found.entity.to_wire(), "version": found.version}
    settings = home.stores.settings.model_copy(update={"custom_sql_memory": "96MB"})
    with open_stores(settings) as stores:
        entities.update(stores.organization(home.org_id), "test", place, document)
    assert checker._WAITING[os.getpid()].memory == "96MB"


def custom(home, limits):
    """What the SQL gives, by the codes of accounts, and of whom it gives nothing."""
    configuration = home.organization.configuration()
    lake = home.organization.lake
    period = SEPTEMBER.period(zone("UTC"))
    usage = aggregate_custom_sql(
        lake, configuration, lake.snapshot(), lambda _: [whole(period)], limits
    )
    codes = home.account_codes()
    values = {
        codes[folded.account_id]: [each.value for each in folded.quantities]
        for found in usage.by_meter.values()
        for folded in found
    }
    return values, {codes[each.account_id]: each.detail for each in usage.failures}


CUBE = (
    "SELECT count(*) FROM measurements a, measurements b, measurements c WHERE a.gb + b.gb > c.gb"
)


@pytest.fixture
def crowd(tmp_path):
    """A hundred accounts, of which one has far more measurements than the others."""
    with a_home(tmp_path) as opened:
        price_egress(opened)
        many = [(f"x{n}", "acme", n) for n in range(2_500)]
        use(opened, *many, *((f"u{n}", f"account{n}", 1) for n in range(99)))
        yield opened


@pytest.mark.slow
def test_one_of_a_hundred_accounts_over_the_limit_stops_no_other(crowd):
    own(crowd, CUBE)
    values, failures = custom(crowd, SqlLimits("256MB", 1))

    assert values == {f"account{n}": [D(1)] for n in range(99)}
    assert list(failures) == ["acme"]
    assert failures["acme"].endswith("it takes longer than 1 s")


@pytest.mark.slow
def test_a_run_that_takes_too_long_ends_with_a_reason_for_whoever_is_left(crowd):
    own(crowd, CUBE)
    values, failures = custom(crowd, SqlLimits("256MB", 60, 1))

    assert failures["acme"].endswith("longer than 1 s for all accounts of the run together")
    assert len(values) + len(failures) == 100
    assert len({detail.partition(":")[2] for detail in failures.values()}) == 1


@pytest.mark.long
def test_a_trial_keeps_nothing(home):
    own(home, "SELECT sum(gb) FROM measurements")
    usage = trial(home.organization, "own", SEPTEMBER, "SELECT count(*) FROM measurements")
    [folded] = usage.by_meter.values()

    assert [each.quantities[0].value for each in folded] == [2, 2]
    assert home.query("SELECT count(*) FROM lake.quantity") == [(0,)]
    with pytest.raises(NotFound):
        trial(home.organization, "nothing", SEPTEMBER)
    with pytest.raises(Invalid, match="not allowed"):
        trial(home.organization, "own", SEPTEMBER, "SELECT getenv('HOME')")


@pytest.mark.long
def test_something_else_is_read_in_the_place_of_the_lake(home):
    # As a backfill asks: what would the numbers be without the largest measurement?
    own(home, "SELECT sum(gb) * 10 FROM measurements")
    configuration = home.organization.configuration()
    lake = home.organization.lake
    [meter] = [each for each in configuration.all(Meter) if each.entity.code == "egress"]
    change = f'(FROM lake."{meter_table(meter.id)}" WHERE "measure.gb" < 5)'
    codes = home.account_codes()

    def sums(instead):
        usage = aggregate_custom_sql(
            lake,
            configuration,
            lake.snapshot(),
            lambda _: [whole(SEPTEMBER.period(zone("UTC")))],
            limits_of(home.stores.settings),
            instead,
        )
        assert not usage.failures
        return {
            codes[folded.account_id]: [
                (each.value, each.measurements) for each in folded.quantities
            ]
            for folded in usage.by_meter.get(meter.id, [])
        }

    fixed = {"account_id", "uid", "ts", "ets", "received_at"}
    assert sums({}) == {"acme": [(D(3), 2)], "bolt": [(D(50), 2)]}
    assert sums({meter.id: MeterSource(change, {*fixed, "measure.gb"})}) == {
        "acme": [(D(3), 2)],
        "bolt": [(D(0), 1)],
    }
    # A change may know fewer fields than the meter, or have no table at all.
    assert sums({meter.id: MeterSource(change, fixed)}) == {"acme": [], "bolt": []}
    assert sums({meter.id: MeterSource(change, set())}) == {}
    assert sums({"another": MeterSource("nothing", {"x"})}) == sums({})
