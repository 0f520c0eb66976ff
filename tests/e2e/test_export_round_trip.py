"""Usage that is exported and ingested into an empty home: empty texts, fields that came and went."""

import gzip
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from meterlake.cli import run
from meterlake.model.values.period import Month
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.run import export
from meterlake.pipeline.usage.aggregate import aggregate
from tests.bills import aggregation
from tests.homes import EGRESS, a_home, configure, ndjson, wire_row

SEPTEMBER = Month(2026, 9)
REGIONS = ("eu", "", "us", "", "eu")
ROWS = [wire_row(f"u{n}", n / 4, where={"region": region}) for n, region in enumerate(REGIONS)]
D = Decimal
QUANTITIES = {"sent": D("2.5"), "mean": D("0.5"), "told": D(5), "places": D(3)}


@contextmanager
def counted(folder):
    """A home that adds up what is sent, and counts regions and different regions."""
    with a_home(folder) as home:
        region = {"targetField": "region"}
        configure(
            home.organization,
            aggregations=[
                aggregation("sent", "SUM"),
                aggregation("mean", "MEAN"),
                aggregation("told", "COUNT", **region),
                aggregation("places", "UNIQUE", **region),
            ],
        )
        yield home


def quantities(home):
    """The quantities of September by the code of their aggregation."""
    aggregate(home.organization, SEPTEMBER)
    done = export(
        home.organization,
        ExportRequest(source=Source.USAGE, format=Format.CSV, types=("quantities",)),
    )
    [file] = done.manifest["files"]
    header, *lines = gzip.decompress(Path(done.url, file["key"]).read_bytes()).decode().splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    return {row["aggregation"]: D(row["quantity"]) for row in rows}


def exported(home, format):
    """The file of the measurements."""
    home.clock.time = datetime.now(UTC) + timedelta(hours=1)  # behind the making of the accounts
    assert home.ingest("rows.ndjson", ndjson(ROWS)).accepted == len(ROWS)
    request = ExportRequest(source=Source.USAGE, format=format, types=("measurements",))
    done = export(home.organization, request)
    [path] = (Path(done.url, each["key"]) for each in done.manifest["files"] if each["rows"])
    return path


def data_field(category, code):
    return {"category": category, "code": code, "name": code}


def changed(*fields, **changes):
    """The meter with other fields, of which one is calculated."""
    double = data_field("MEASURE", "double") | {"calculation": "gb * 2"}
    return (
        EGRESS
        | {"dataFields": [data_field(*each) for each in fields]}
        | {"derivedFields": [double], **changes}
    )


GB, REGION = ("MEASURE", "gb"), ("WHERE", "region")
# A field comes, another one changes its category, one goes.
LIFE = [
    (changed(GB, REGION, ("OTHER", "old")), {"where": {"region": ""}, "other": {"old": "x"}}),
    (changed(GB, REGION, ("WHAT", "late")), {"where": {"region": "eu"}, "what": {"late": ""}}),
    (
        changed(GB, ("WHO", "region"), ("WHAT", "late")),
        {"what": {"late": 'a"\r\n,'}, "who": {"region": "us"}},
    ),
]


def lived(home):
    """Measurements from three lives of one meter; only the last one has the fields of today."""
    # Commands show what is there at the time of the real clock.
    home.clock.time = datetime.now(UTC) - timedelta(hours=1)
    for number, (meter, fields) in enumerate(LIFE):
        configure(home.organization, meters=[meter])
        row = wire_row(f"u{number}", 1.5, **fields)
        if "who" in fields:
            row.pop("where")
        assert home.ingest(f"{number}.ndjson", ndjson([row])).accepted == 1
        home.clock.advance(seconds=1)


def measured(home):
    """What was measured, without what is calculated of it."""
    return sorted(
        [each for each in fields if each[0] != "measure.double"]
        for _, fields, *_ in home.measurements()
    )


# What is exported in the other formats is ingested again by tests of the pipeline, too.
@pytest.mark.long
@pytest.mark.parametrize(
    "format",
    [
        pytest.param(each, marks=() if each is Format.PARQUET else pytest.mark.slow)
        for each in Format
    ],
)
def test_measurements_older_than_fields_of_their_meter_come_back_with_the_fields_that_they_had(
    tmp_path, format
):
    with a_home(tmp_path) as home:
        lived(home)
        assert measured(home)[0] != measured(home)[1]
        to = ["--format", format.value, "--to", str(tmp_path / "out"), "--type", "measurements"]
        at = ["--home", str(home.stores.home)]
        before = measured(home)
        assert run(["export", "usage", *to, "--meter", "egress", *at]) == 0
    [path] = tmp_path.glob("out/**/*_measurements.*")
    [manifest] = tmp_path.glob("out/**/*_manifest.json")
    assert run(["export", "verify", str(manifest)]) == 0
    with a_home(tmp_path) as other:
        other.clock.time = datetime.now(UTC) + timedelta(hours=2)
        configure(other.organization, meters=[LIFE[-1][0]])
        assert run(["ingest", str(path), "--home", str(other.stores.home), "--json"]) == 0
        found = measured(other)
        [[double]] = other.query('SELECT count("measure.double") FROM lake.' + table(other))

    assert found == before
    assert double == 3


def table(home):
    [name] = [each for each in home.organization.lake.tables() if each.startswith("m_")]
    return f'"{name}"'


def test_without_the_fields_that_they_had_they_are_rejected(tmp_path):
    """`meterFields` says so; what does not say it has to have the fields of today."""
    row = wire_row("u1")
    late = changed(GB, REGION, ("WHAT", "late"))
    with a_home(tmp_path) as home:
        configure(home.organization, meters=[late])
        receipt = home.ingest(
            "rows.ndjson",
            ndjson(
                [
                    row,
                    row | {"uid": "u2", "meterFields": "measure.gb where.region"},
                    row | {"uid": "u3", "meterFields": "measure.gb"},
                    row | {"uid": "u4", "meterFields": "measure.gb where.region other.gone"},
                    row | {"uid": "u5", "meterFields": "measure.gb  where.region"},
                    row | {"uid": "u6", "meterFields": "measure.gb where.region measure.double"},
                    row | {"uid": "u7", "meterFields": "measure.gb where.region where.Region"},
                    row | {"uid": "u8", "meterFields": 5},
                ]
            ),
        )

    assert receipt.accepted == 1
    assert [(each.uid, each.reason, each.field) for each in receipt.sample] == [
        ("u1", "MissingField", "what.late"),
        ("u3", "UnknownField", "where.region"),
        ("u4", "MissingField", "other.gone"),
        ("u5", "UnknownField", "meterFields"),
        ("u6", "UnknownField", "meterFields"),
        ("u7", "UnknownField", "meterFields"),
        (None, "UnknownField", "meterFields"),
    ]


def test_nobody_fills_a_table_with_columns(tmp_path):
    """Fields that a meter does not have are kept, but not without end."""
    rows = [
        wire_row(
            f"u{n}",
            other={f"f{n}_{k}": "x" for k in range(10)},
            meterFields=" ".join(
                ["measure.gb", "where.region", *(f"other.f{n}_{k}" for k in range(10))]
            ),
        )
        for n in range(11)
    ]
    with a_home(tmp_path) as home:
        few = home.ingest("few.ndjson", ndjson(rows[:6]))
        many = home.ingest("many.ndjson", ndjson(rows[6:]))

    assert few.accepted == 6
    assert (many.status, many.reason) == ("failed", "UnknownField")
    assert "at most 100 fields that meter 'egress' has no more" in many.detail


def test_an_empty_text_in_quotes_is_a_value_and_nothing_is_none(tmp_path):
    header = "meter,account,uid,ts,ets,measure.gb,where.region,metadata.key\n"
    rows = [
        # Whoever quotes everything quotes columns of other meters, too, and uids that are none.
        '"egress","acme","","2026-09-03T10:00:00Z","","1","",""\n',
        '"egress","acme","u2","2026-09-03T10:00:00Z","","1",,""\n',
        '"egress","acme","u3","2026-09-03T10:00:00Z","","","eu",""\n',
        '"egress","acme","u4","2026-09-03T10:00:00Z","","1","eu","k"\n',
    ]
    with a_home(tmp_path) as home:
        receipt = home.ingest("rows.csv", header + "".join(rows))
        [(_, fields)] = home.measurements()

    assert dict(fields)["where.region"] == ""
    assert [(each.row, each.reason, each.field) for each in receipt.sample] == [
        (3, "MissingField", "where.region"),
        (4, "MissingField", "measure.gb"),
        (5, "UnknownField", "metadata.key"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("format", list(Format))
def test_empty_texts_are_counted_in_another_home_as_in_the_first(tmp_path, format):
    with counted(tmp_path) as home:
        path = exported(home, format)
        before, stored = quantities(home), home.measurements()
    with counted(tmp_path) as other:
        receipt = other.ingest(path.name, path.read_bytes())
        after, found = quantities(other), other.measurements()

    assert (receipt.received, receipt.accepted) == (5, 5)
    assert found == stored
    assert after == before == QUANTITIES
