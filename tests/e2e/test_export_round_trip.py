"""Usage with empty texts that is exported and ingested into an empty home."""

import gzip
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from meterlake.model.export_request import ExportRequest, Format, Source
from meterlake.model.period import Month
from meterlake.pipeline.aggregate import aggregate
from meterlake.pipeline.export import export
from tests.bills import aggregation
from tests.homes import a_home, configure, ndjson, wire_row

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
            home.stores,
            home.org_id,
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
    aggregate(home.stores, home.org_id, SEPTEMBER)
    done = export(
        home.stores,
        home.org_id,
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
    done = export(home.stores, home.org_id, request)
    [path] = (Path(done.url, each["key"]) for each in done.manifest["files"] if each["rows"])
    return path


def test_csv_tells_an_empty_text_from_none_but_the_drop_folder_does_not(tmp_path):
    with a_home(tmp_path) as home:
        path = exported(home, Format.CSV)
    with a_home(tmp_path) as other:
        receipt = other.ingest(path.name, path.read_bytes())
        rejected = [row[-1] for row in other.rejected()]

    assert gzip.decompress(path.read_bytes()).decode().count(',"",') == 2
    # A measurement has to have all fields of its meter. That it has not is told, not forgotten.
    assert (receipt.received, receipt.accepted) == (5, 3)
    assert rejected == ["MissingField"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("format", [Format.JSONL, Format.PARQUET])
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
