"""A quantity down to its measurements, with file and row."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.values.period import Month
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.pipeline.usage.explain import QuantityFilter, explain
from tests.bills import aggregation, price_egress, subscribe
from tests.homes import HEADER, a_home, configure, csv_row

SEPTEMBER = Month(2026, 9)


@pytest.fixture(scope="module")
def home(every_lake, tmp_path_factory):  # noqa: ARG001
    with a_home(tmp_path_factory.mktemp("explained")) as opened:
        price_egress(opened, aggregation={"quantityPerUnit": 4, "rounding": "UP"})
        segments = [{"region": "eu"}, {"region": "*"}]
        configure(
            opened.organization,
            aggregations=[
                aggregation("by_region", "SUM", segmentedFields=["region"], segments=segments)
            ],
            accounts=[
                {"code": code, "name": code, "emailAddress": "a@b.example", **fields}
                for code, fields in (
                    ("parent", {}),
                    ("child", {"parentAccountId": "parent"}),
                )
            ],
        )
        subscribe(opened, "parent")
        for name, rows in (
            ("first.csv", [("1", "acme", 1, "eu"), ("2", "acme", 2, "us"), ("3", "bolt", 4, "eu")]),
            ("second.csv", [("4", "acme", 8, "eu"), ("5", "child", 16, "eu")]),
            ("third.csv", [("6", "parent", 32, "us")]),
        ):
            lines = [csv_row(uid, gb, account, region=region) for uid, account, gb, region in rows]
            opened.ingest(name, HEADER + "".join(lines))
        opened.run = aggregate(opened.organization, SEPTEMBER)
        # What comes later is in no explanation of what was.
        opened.ingest("late.csv", HEADER + csv_row("7", 64, "acme"))
        yield opened


def explained(home, account, code, period="2026-09", **more):
    return explain(home.organization, QuantityFilter(account, code, period, **more))


def places(found):
    return [(each["file"], each["row"], each["uid"], each["value"]) for each in found.measurements]


def test_a_quantity_has_its_statement_and_its_measurements_with_file_and_row(home):
    [found] = explained(home, "acme", "sent")
    wire = found.to_wire()

    assert places(found) == [
        ("first.csv", 2, "1", 1),
        ("first.csv", 3, "2", 2),
        ("second.csv", 2, "4", 8),
    ]
    assert (wire["quantity"], wire["units"], wire["unit"]) == (11, 3, "GB")
    assert wire["measurementCount"] == 3
    assert wire["aggregationVersion"] == 1
    assert (wire["snapshot"], wire["snapshotKept"]) == (home.run.snapshot, True)
    assert wire["runId"] == home.run.run_id
    assert f"AT (VERSION => {home.run.snapshot})" in wire["statement"]
    assert not wire["more"]


def test_what_came_later_is_beside_the_quantity_of_whom_it_came_for_alone(home):
    [stored] = explained(home, "acme", "sent")
    others = [
        *(each for code in ("bolt", "parent", "child") for each in explained(home, code, "sent")),
        *explained(home, "bolt", "by_region"),
    ]

    assert stored.now.to_wire() == {
        "quantity": 75,
        "units": 19,
        "measurementCount": 4,
        "measurementsCame": 1,
        "measurementsGone": 0,
    }
    assert len(others) == 4
    assert all(each.now is None for each in others)
    assert "now" not in others[0].to_wire()


def test_a_quantity_whose_measurements_are_all_gone_is_nothing_now(tmp_path):
    with a_home(tmp_path) as home:
        price_egress(home, aggregation={"quantityPerUnit": 1})
        home.ingest("gone.csv", HEADER + csv_row("1", 8) + csv_row("2", 8))
        aggregate(home.organization, SEPTEMBER)
        [[source]] = home.query("SELECT DISTINCT identity FROM lake.source")
        wanted = BackfillSpec(Mode.RETRACT, "wrong", source=source)
        backfill.start(home.organization, Order(wanted, "ann", "b"))
        backfill.apply(home.organization, "b", "ann")
        [applied] = explained(home, "acme", "sent")
        backfill.revert(home.organization, "b", "ann")
        [found] = explained(home, "acme", "sent")

    assert applied.to_wire()["quantity"] == 16
    assert applied.to_wire()["now"] == {
        "quantity": 0,
        "units": 0,
        "measurementCount": 0,
        "measurementsCame": 0,
        "measurementsGone": 2,
    }
    assert found.to_wire()["quantity"] == 16
    assert found.now is None


def test_the_statement_gives_the_same_number_again(home):
    [found] = explained(home, "acme", "sent")
    parameters = json.loads(json.dumps(found.row["parameters"]))
    with home.organization.lake.reader() as connection:
        rows = connection.execute(found.row["sql"], parameters).fetchall()
    [ours] = [row for row in rows if row[0] == found.row["account_id"] and 11 in row]

    assert Decimal(found.row["quantity"]) in ours
    assert found.row["period_start"] in ours


@pytest.mark.long
def test_a_segment_has_the_measurements_that_it_won(home):
    several = explained(home, "acme", "by_region")

    assert [each.to_wire()["segment"] for each in several] == [{"region": "*"}, {"region": "eu"}]
    assert [places(each) for each in several] == [
        [("first.csv", 3, "2", 2)],
        [("first.csv", 2, "1", 1), ("second.csv", 2, "4", 8)],
    ]
    [one] = explained(home, "acme", "by_region", segment={"region": "eu"})
    assert one.to_wire()["quantity"] == 9
    with pytest.raises(NotFound):
        explained(home, "acme", "by_region", segment={"region": "us"})


def test_a_parent_s_quantity_has_the_measurements_of_its_children(home):
    [parent] = explained(home, "parent", "sent")
    [child] = explained(home, "child", "sent")

    assert [row[2] for row in places(parent)] == ["5", "6"]
    assert (parent.to_wire()["quantity"], parent.to_wire()["pooled"]) == (48, "parent")
    assert (child.to_wire()["quantity"], child.to_wire()["pooled"]) == (16, "child")


def test_as_many_measurements_are_listed_as_were_asked_for(home):
    [found] = explained(home, "acme", "sent", limit=2)

    assert (len(found.measurements), found.more) == (2, True)


@pytest.mark.parametrize(
    "wanted",
    [
        ("nobody", "sent", "2026-09"),
        ("acme", "nothing", "2026-09"),
        ("acme", "sent", "2026-08"),
        ("acme", "sent", "what"),
    ],
)
def test_what_is_not_there_is_not_explained(home, wanted):
    with pytest.raises(NotFound):
        explained(home, *wanted)


@pytest.mark.long
def test_a_day_and_a_week_of_the_same_name_are_told_apart(home):
    day = date(2026, 9, 1)
    for frequency in (BillingFrequency.DAILY, BillingFrequency.WEEKLY):
        aggregate(home.organization, PeriodSpec.on(frequency, day + timedelta(days=2)))
        aggregate(home.organization, PeriodSpec.on(frequency, day))

    # Usage was on the third; the week began on the first.
    [week] = explained(home, "bolt", "sent", "2026-09-01")
    assert week.row["frequency"] == "WEEKLY"
    home.ingest("first-day.csv", HEADER + csv_row("8", 1, "bolt", ts="2026-09-01T00:00:00Z"))
    aggregate(home.organization, PeriodSpec.on(BillingFrequency.DAILY, day))
    with pytest.raises(Invalid, match="DAILY, WEEKLY"):
        explained(home, "bolt", "sent", "2026-09-01")
    [found] = explained(home, "bolt", "sent", "2026-09-01", frequency="DAILY")
    assert [row[2] for row in places(found)] == ["8"]


@pytest.mark.long
def test_a_snapshot_that_is_forgotten_is_read_without_what_came_later(tmp_path):
    with a_home(tmp_path) as home:
        price_egress(home)
        home.ingest("a.csv", HEADER + csv_row("1", 1))
        home.ingest("b.csv", HEADER + csv_row("2", 2))
        aggregate(home.organization, SEPTEMBER)
        home.ingest("c.csv", HEADER + csv_row("3", 4))
        home.clock.time = datetime(2026, 12, 1, tzinfo=UTC)
        maintain(home.organization, snapshots_for=timedelta(0), kept_for=timedelta(0))
        [found] = explained(home, "acme", "sent")

    assert not found.snapshot_kept
    assert [row[:3] for row in places(found)] == [("a.csv", 2, "1"), ("b.csv", 2, "2")]


@pytest.mark.long
def test_a_time_weighted_average_has_what_holds_already_when_the_period_begins(tmp_path):
    segments = [{"region": "eu"}, {"region": "*"}]
    weighted = "TIME_WEIGHTED_AVERAGE"
    with a_home(tmp_path) as home:
        price_egress(home)
        configure(
            home.organization,
            aggregations=[
                aggregation("level", weighted),
                aggregation("levels", weighted, segmentedFields=["region"], segments=segments),
            ],
        )
        # Over before the period; held into it by one region, by both; within it; of another one.
        rows = [
            ("1", "2026-08-01", "eu", "acme"),
            ("2", "2026-08-02", "eu", "acme"),
            ("3", "2026-08-03", "us", "acme"),
            ("4", "2026-09-04", "eu", "acme"),
            ("5", "2026-08-31", "eu", "bolt"),
        ]
        lines = [
            csv_row(uid, int(uid), account, region=region, ts=f"{day}T00:00:00Z")
            for uid, day, region, account in rows
        ]
        home.ingest("levels.csv", HEADER + "".join(lines))
        aggregate(home.organization, SEPTEMBER)
        [level] = explained(home, "acme", "level")
        [other, europe] = explained(home, "acme", "levels")
        [lonely] = explained(home, "bolt", "level")

    assert [row[2] for row in places(level)] == ["3", "4"]
    assert [row[2] for row in places(other)] == ["3"]
    assert [row[2] for row in places(europe)] == ["2", "4"]
    assert [row[2:] for row in places(lonely)] == [("5", 5)]
