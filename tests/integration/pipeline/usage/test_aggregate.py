from datetime import timedelta
from decimal import Decimal

import polars as pl
import pytest

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.model.errors import NotFound
from meterlake.model.values import failpoint
from meterlake.model.values.period import Month
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores.lake import quantities
from meterlake.stores.lake.quantity_runs import RunKey
from tests.bills import aggregation, price_egress, use
from tests.databases import need_folder
from tests.homes import a_home, configure

D = Decimal
SEPTEMBER = Month(2026, 9)
KEY = RunKey("MONTHLY", "2026-09")


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        price_egress(opened)
        yield opened


def run(home, month=SEPTEMBER):
    return aggregate(home.organization, month)


def stored(home):
    codes = home.account_codes()
    rows = home.query(
        "SELECT run_id, account_id, value, value_sum, value_count, quantity, units, measurements"
        " FROM lake.quantity WHERE account_id IS NOT NULL ORDER BY computed_at, account_id, quantity"
    )
    return [(row[0], codes[row[1]], *row[2:]) for row in rows]


@pytest.mark.long
def test_quantities_of_a_month_are_kept_with_all_their_digits(home):
    use(home, ("1", "acme", 1), ("2", "acme", 1), ("3", "acme", "8.000000000001"))
    result = run(home)

    assert result.appended
    assert sorted(result.counts.values()) == [1, 1]
    assert stored(home) == [
        (
            result.run_id,
            "acme",
            D("10.000000000001"),
            None,
            None,
            "10.000000000001",
            "10.000000000001",
            3,
        ),
        (
            result.run_id,
            "acme",
            D("3.333333333334"),
            D("10.000000000001"),
            3,
            "3.3333333333336666667",
            "3.3333333333336666667",
            3,
        ),
    ]


@pytest.mark.long
def test_aggregating_again_appends_nothing_until_something_changes(home):
    use(home, ("1", "acme", 1), ("2", "bolt", 2))
    first = run(home)
    again = run(home)
    use(home, ("3", "acme", 1))
    changed = run(home)

    assert (again.appended, again.run_id) == (False, first.run_id)
    assert changed.appended
    assert changed.run_id != first.run_id
    assert len({row[0] for row in stored(home)}) == 2


@pytest.mark.long
def test_a_new_version_of_an_aggregation_is_a_change(home):
    use(home, ("1", "acme", 1))
    run(home)
    price_egress(home, aggregation={"quantityPerUnit": 2})

    assert run(home).appended
    # Both runs stay; which of the two comes first depends on ids.
    units = sorted(row[6] for row in stored(home) if row[5] == "1")
    assert units == ["0.5", "1", "1", "1"]


def test_a_month_without_usage_is_no_run(home):
    result = run(home)

    assert (result.run_id, result.appended, result.quantities) == (None, False, [])
    assert stored(home) == []


@pytest.mark.long
def test_the_newest_run_is_told_by_its_time_even_if_the_clock_stands_still(home):
    for n in range(3):
        use(home, (str(n), "acme", 1))
        newest = run(home)
        home.clock.time -= timedelta(days=1)
    [(run_id,)] = home.query("SELECT arg_max(run_id, (computed_at, run_id)) FROM lake.quantity")

    assert run_id == newest.run_id


@pytest.mark.long
def test_a_run_that_finds_nothing_any_more_replaces_the_one_before(home):
    use(home, ("1", "acme", 1))
    lake, nothing = home.organization.lake, quantities.SCHEMA
    run(home)
    empty = pl.DataFrame(schema=nothing)
    now = home.clock().replace(tzinfo=None)
    gone = quantities.append(lake, KEY, quantities.RunQuantities(empty, lake.snapshot(), now))
    again = quantities.append(lake, KEY, quantities.RunQuantities(empty, lake.snapshot(), now))

    assert (gone.appended, gone.rows) == (True, 0)
    assert (again.appended, again.id) == (False, gone.id)
    assert run(home).appended


@pytest.mark.long
def test_what_was_read_before_the_newest_run_does_not_replace_it(home):
    use(home, ("1", "acme", 1))
    lake = home.organization.lake
    early = lake.snapshot()
    newest = run(home)
    empty = pl.DataFrame(schema=quantities.SCHEMA)
    late = quantities.append(lake, KEY, quantities.RunQuantities(empty, early - 1, home.clock()))

    assert (late.appended, late.id) == (False, newest.run_id)


@pytest.mark.long
def test_a_run_of_many_rows_is_a_file_of_the_lake(home):
    need_folder()
    use(home, *[(str(n), f"new-{n}", n) for n in range(600)])
    result = run(home)
    files = list((home.organization.lake.files.folder / "main" / "quantity").glob("*.parquet"))

    assert len(result.quantities) == len(stored(home)) == 1200
    assert [file.stem for file in files] == [result.run_id]
    assert not run(home).appended
    assert list(home.organization.lake.staging.iterdir()) == []


@pytest.mark.long
def test_sums_beyond_the_lakes_numbers_are_told_and_not_stored(home):
    use(home, ("1", "acme", "9" * 26), ("2", "acme", "9" * 26), ("3", "bolt", 1))
    result = run(home)

    [mean] = [row for row in stored(home) if row[1] == "acme"]
    assert {each.value for each in result.overflows} == {D("1" + "9" * 25 + "8")}
    # The mean itself fits, the sum that it was divided from does not.
    assert mean[2:5] == (D("9" * 26), None, None)


@pytest.mark.long
def test_a_field_that_came_later_has_no_values_before(home):
    use(home, ("1", "acme", 1))
    configure(
        home.organization,
        meters=[
            {
                "code": "egress",
                "name": "Egress",
                "dataFields": [
                    {"category": "MEASURE", "code": "gb", "name": "Sent"},
                    {"category": "WHERE", "code": "region", "name": "Region"},
                    {"category": "MEASURE", "code": "late", "name": "Late"},
                ],
                "derivedFields": [],
            }
        ],
    )
    configure(
        home.organization,
        aggregations=[
            {
                "code": "late",
                "name": "Late",
                "meterId": "egress",
                "targetField": "late",
                "aggregation": "COUNT",
                "rounding": "NONE",
                "quantityPerUnit": 1,
                "unit": "x",
            }
        ],
    )

    assert len(run(home).quantities) == 2


@pytest.mark.slow
@pytest.mark.parametrize("step", ["quantities.staged", "lake.before_commit", "quantities.done"])
def test_a_run_that_dies_is_made_by_the_next_one(home, step, monkeypatch):
    use(home, ("1", "acme", 1))

    def die(name):
        if name == step:
            raise KeyboardInterrupt

    monkeypatch.setattr(failpoint, "hook", die)
    with pytest.raises(KeyboardInterrupt):
        run(home)
    monkeypatch.setattr(failpoint, "hook", None)
    result = run(home)

    assert result.appended is (step != "quantities.done")
    assert len(stored(home)) == 2


def test_an_organization_that_is_not_there(home):
    with pytest.raises(NotFound):
        aggregate(home.stores.organization("00000000-0000-4000-8000-000000000000"), SEPTEMBER)


@pytest.mark.long
def test_sql_of_its_own_is_one_more_kind_of_aggregation(home):
    configure(
        home.organization,
        aggregations=[
            aggregation(
                "own",
                "CUSTOM_SQL",
                customSql="SELECT CAST(CASE WHEN sum(gb) = 3 THEN 'no' ELSE '5' END"
                " AS DECIMAL(38, 12)) FROM measurements",
                defaultValue=0,
            )
        ],
        compoundAggregations=[
            {
                "code": "plus",
                "name": "Plus",
                "calculation": "aggregation.own + 1",
                "rounding": "NONE",
                "quantityPerUnit": 1,
                "unit": "x",
            }
        ],
    )
    use(home, ("1", "acme", 5), ("2", "bolt", 3))
    result = run(home)
    codes = home.account_codes()
    around = home.organization.configuration()
    own, plus = (
        {codes[q.account_id]: q.value for q in result.quantities if q.aggregation_id == id_}
        for id_ in (
            around.find(Aggregation, "own").id,
            around.find(CompoundAggregation, "plus").id,
        )
    )

    assert (own["acme"], plus["acme"]) == (5, 6)
    # What fails for one account is neither its default nor what it is calculated with.
    assert [codes[each.account_id] for each in result.failures] == ["bolt"]
    assert "bolt" not in own
    assert "bolt" not in plus
