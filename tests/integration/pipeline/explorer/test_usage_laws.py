"""Laws of quantities, from files to the runs of a real lake, for aggregations of every kind.

Order, files and formats change nothing; what is withdrawn and comes in again, or is withdrawn again
after it was reverted, gives the quantities that were there.
"""

import io
import json
import random
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Reduce
from meterlake.model.values.period import Month, format_instant
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.usage.aggregate import aggregate
from tests.bills import aggregation
from tests.homes import HEADER, a_home, configure, csv_row, ndjson, wire_row, zst

SEPTEMBER = Month(2026, 9)
MORE = {
    Reduce.PERCENTILE: {"percentile": 90},
    Reduce.UNIQUE: {"targetField": "region"},
    Reduce.CUSTOM_SQL: {"customSql": "SELECT sum(gb) - min(gb) FROM measurements"},
}
SEGMENTS = {
    "segmentedFields": ["region"],
    "segments": [{"region": "eu"}, {"region": "us, east"}, {"region": "*"}],
}
NUMBERS = ["0.1", "9007199254740993", "-0.000001", "12345678901234.5", "0", "3"]


def rows_of_a_month():
    """Two accounts, some instants twice, two values that begin before the month."""
    chance = random.Random(5)
    start = datetime(2026, 8, 31, 12, tzinfo=UTC)
    return [
        {
            "uid": f"u{n:03}",
            "account": chance.choice(["acme", "bolt"]),
            "ts": format_instant(start + timedelta(hours=12 * (n // 2 and chance.randrange(60)))),
            "gb": chance.choice(NUMBERS),
            "region": chance.choice(["eu", "us, east", "asia"]),
        }
        for n in range(60)
    ]


ROWS = rows_of_a_month()


def kinds():
    for kind in Reduce:
        for suffix, cut in (("", {}), ("_cut", SEGMENTS)):
            made = aggregation(f"{kind.value.lower()}{suffix}", kind.value, **cut)
            yield made | MORE.get(kind, {})


@contextmanager
def world(folder):
    with a_home(folder) as opened:
        opened.clock.time = datetime(2026, 10, 1, tzinfo=UTC)
        configure(
            opened.organization,
            aggregations=list(kinds()),
            compoundAggregations=[
                {
                    "code": "spread",
                    "name": "Spread",
                    "calculation": "aggregation.max - aggregation.min",
                    "rounding": "NONE",
                    "quantityPerUnit": 1,
                    "unit": "GB",
                }
            ],
        )
        yield opened


@pytest.fixture
def home(tmp_path):
    with world(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The quantities of one CSV file in its order."""
    with world(tmp_path_factory.mktemp("whole")) as opened:
        ingest(opened, ROWS)
        return quantities(opened)


def as_csv(rows):
    quoted = [{**row, "region": f'"{row["region"]}"'} for row in rows]
    return HEADER + "".join(csv_row(**row) for row in quoted)


def as_ndjson(rows):
    return zst(ndjson(list(map(sent, rows))))


def as_json(rows):
    return json.dumps(list(map(sent, rows)))


def sent(row):
    # Texts: a JSON number would pass through a float here.
    more = {"where": {"region": row["region"]}, "ts": row["ts"]}
    return wire_row(row["uid"], row["gb"], row["account"], **more)


def as_parquet(rows):
    out = io.BytesIO()
    columns = {
        "meter": ["egress"] * len(rows),
        **{name: [row[name] for row in rows] for name in ("account", "uid", "ts")},
        "measure.gb": [Decimal(row["gb"]) for row in rows],
        "where.region": [row["region"] for row in rows],
    }
    pl.DataFrame(columns, schema_overrides={"measure.gb": pl.Decimal(38, 12)}).write_parquet(out)
    return out.getvalue()


def ingest(home, rows, name="usage.csv", written=as_csv):
    receipt = home.ingest(name, written(rows))
    assert (receipt.accepted, receipt.rejected) == (len(rows), 0)


def quantities(home):
    """Every quantity of a run, and how many measurements are behind it."""
    result = aggregate(home.organization, SEPTEMBER)
    assert result.failures == []
    around = home.organization.configuration()
    names = {
        each.id: each.entity.code
        for kind in (Aggregation, CompoundAggregation)
        for each in around.all(kind)
    }
    codes = home.account_codes()
    return {
        (codes[each.account_id], names[each.aggregation_id], each.segment): (
            each.value,
            each.measurements,
        )
        for each in (row.quantity for row in result.rows)
    }


@pytest.mark.long
def test_every_kind_has_quantities(whole):
    plain = {name for _, name, segment in whole if segment is None}

    assert plain == {kind.value.lower() for kind in Reduce} | {"spread"}
    assert {name for _, name, segment in whole if segment} == {
        f"{kind.value.lower()}_cut" for kind in Reduce
    }
    counted = whole["acme", "count", None][0] + whole["bolt", "count", None][0]
    assert counted == len([row for row in ROWS if row["ts"] >= "2026-09"]) < len(ROWS)


def shuffled(rows, seed):
    mixed = list(rows)
    random.Random(seed).shuffle(mixed)
    return mixed


PERMUTED = shuffled(ROWS, 1)
DELIVERIES = {
    "permuted": [(PERMUTED, "usage.csv", as_csv)],
    "in chunks": [(PERMUTED[n : n + 15], f"{n}.csv", as_csv) for n in (45, 0, 30, 15)],
    "NDJSON": [(PERMUTED, "usage.ndjson.zst", as_ndjson)],
    "JSON": [(ROWS, "usage.json", as_json)],
    "Parquet": [(PERMUTED, "usage.parquet", as_parquet)],
    "mixed": [
        (PERMUTED[:20], "1.parquet", as_parquet),
        (PERMUTED[20:40], "2.ndjson.zst", as_ndjson),
        (PERMUTED[40:], "3.csv", as_csv),
    ],
}


@pytest.mark.long
@pytest.mark.parametrize(
    "delivery",
    [
        # The last one mixes all that the others do singly.
        pytest.param(each, marks=[] if each == "mixed" else pytest.mark.slow)
        for each in DELIVERIES
    ],
)
def test_order_chunks_and_formats_change_no_quantity(home, whole, delivery):
    for rows, name, written in DELIVERIES[delivery]:
        ingest(home, rows, name, written)

    assert quantities(home) == whole


@pytest.mark.slow
def test_withdrawn_and_given_in_again_or_reverted_quantities_are_as_they_were(home, whole):
    ingest(home, PERMUTED[:40], "kept.csv")
    ingest(home, PERMUTED[40:], "gone.csv")
    [[identity]] = home.query("SELECT identity FROM lake.source WHERE name = 'gone.csv'")
    order = Order(BackfillSpec(Mode.RETRACT, "law", source=identity), "ann", "law")
    backfill.start(home.organization, order)
    assert quantities(home) == whole

    backfill.apply(home.organization, "law", "ann")
    without = quantities(home)
    backfill.revert(home.organization, "law", "ann")
    assert quantities(home) == whole != without

    backfill.restart(home.organization, "law", "ann")
    backfill.apply(home.organization, "law", "ann")
    assert quantities(home) == without

    ingest(home, PERMUTED[40:], "gone.csv")
    assert quantities(home) == whole
