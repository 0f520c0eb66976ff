"""Which months and accounts a change of stored measurements touches."""

from dataclasses import replace

import pytest

from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.values.entity import Configuration
from meterlake.model.values.period import Month
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.backfill.impact import affected_months
from meterlake.pipeline.backfill.priced import World
from meterlake.stores.lake.backfill.changes import MeterChange
from tests.homes import HEADER, configure, csv_row
from tests.integration.pipeline.backfill.test_retract import SUM

AVERAGE = {**SUM, "code": "gb_avg", "aggregation": "TIME_WEIGHTED_AVERAGE"}
SQL = {
    **SUM,
    "code": "gb_sql",
    "aggregation": "CUSTOM_SQL",
    "customSql": "SELECT sum(gb) * 2 FROM measurements",
}


def values(home):
    configure(home.organization, aggregations=[SUM, AVERAGE, SQL])
    home.ingest("a.csv", HEADER + csv_row("a1", 2, ts="2026-08-01T00:00:00Z"))
    home.ingest("b.csv", HEADER + csv_row("b1", 6, ts="2026-08-16T12:00:00Z"))


@pytest.mark.long
def test_values_carried_into_later_months_and_own_sql_are_shown(copies):
    with copies(values) as home:
        [[source]] = home.query("SELECT DISTINCT identity FROM lake.source WHERE name = 'b.csv'")
        wanted = BackfillSpec(Mode.RETRACT, "wrong", source=source)

        found = backfill.start(home.organization, Order(wanted, "ann", "b"))

        now = home.stores.now()
    shown = {
        (each["month"], each["aggregation"]): (
            each["before"] and each["before"]["quantity"],
            each["after"] and each["after"]["quantity"],
        )
        for each in found.summary["quantities"]
    }
    assert shown["2026-08", "gb_sum"] == ("8", "2")
    assert shown["2026-08", "gb_sql"] == ("16", "4")
    assert shown["2026-08", "gb_avg"] == ("4", "2")
    later = [month for month, name in shown if month > "2026-08"]
    assert later[0] == "2026-09"
    assert later[-1] == f"{now:%Y-%m}"
    assert all(shown[month, "gb_avg"] == ("6", "2") for month in later)
    assert found.summary["months"] == ["2026-08", *later]


@pytest.fixture(scope="module")
def unchanged(copies):
    with copies(values) as home:
        yield home


@pytest.mark.parametrize(
    ("timezone", "instant", "month"),
    [
        ("UTC", "2026-09-30T23:59:59.999999", Month(2026, 9)),
        ("UTC+1:07", "2026-09-30T22:52:59", Month(2026, 9)),
        ("UTC+1:07", "2026-09-30T22:53:00", Month(2026, 10)),
        ("UTC-1:07", "2026-10-01T01:06:59", Month(2026, 9)),
        ("UTC-18:00", "2026-03-01T17:59:59", Month(2026, 2)),
        ("UTC-18:00", "2026-02-15T00:00:00", Month(2026, 2)),
        ("America/New_York", "2026-04-15T00:00:00", Month(2026, 4)),
        ("Europe/Berlin", "1890-01-31T23:06:00", Month(1890, 1)),
        ("Europe/Berlin", "1890-01-31T23:06:32", Month(1890, 2)),
    ],
)
def test_the_month_is_the_one_of_the_time_zone(unchanged, timezone, instant, month):
    home = unchanged
    configuration = home.organization.configuration()
    record = configuration.single(OrganizationConfig)
    entity = record.entity.model_copy(update={"timezone": timezone})
    elsewhere = Configuration([replace(record, entity=entity)])
    world = World(home.organization, elsewhere, 0)
    rows = f"(SELECT 'a' AS account_id, TIMESTAMP '{instant}' AS ts)"

    assert affected_months(world, [MeterChange("m", came=rows)]) == {month: ["a"]}
