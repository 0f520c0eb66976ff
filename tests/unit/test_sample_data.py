"""The sample data: it is what its maker makes, and the books fit the files."""

import gzip
import io
import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
import zstandard

import sample_data
from sample_data import bills, books, make
from sample_data.usage import Measurement

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def made():
    return make.make()


def content(name: str, data: bytes) -> object:
    """What a file holds, without what its compression or its Parquet writer adds."""
    if name.endswith(".parquet"):
        return pq.read_table(io.BytesIO(data)).to_pylist()
    if name.endswith(".zst"):
        return zstandard.ZstdDecompressor().decompress(data)
    return gzip.decompress(data) if name.endswith(".gz") else data


def test_the_maker_reproduces_the_committed_files(made):
    deliveries, _ = made
    folder = sample_data.MEASUREMENTS

    assert [delivery.name for delivery in deliveries] == sorted(
        path.name for path in folder.iterdir()
    )
    for delivery in deliveries:
        committed = (folder / delivery.name).read_bytes()
        assert content(delivery.name, delivery.data) == content(delivery.name, committed)


def test_the_maker_reproduces_the_committed_books(made):
    assert json.loads(sample_data.EXPECTED.read_text("utf-8")) == made[1]


@pytest.mark.slow
def test_two_runs_give_the_same_bytes(made, tmp_path: Path):
    make.write(tmp_path)

    for delivery in made[0]:
        assert (tmp_path / "measurements" / delivery.name).read_bytes() == delivery.data


def test_received_is_accepted_and_repeats_and_rejected(made):
    for counts in made[1]["files"]:
        assert counts["received"] == sum(
            counts[name] for name in ("accepted", "repeats", "rejected")
        )
        assert sum(counts["reasons"].values()) == counts["rejected"]


def test_every_format_and_compression_occurs():
    suffixes = Counter(path.name.partition(".")[2] for path in sample_data.MEASUREMENTS.iterdir())

    assert {name.split(".")[0] for name in suffixes} == {"csv", "ndjson", "json", "parquet"}
    assert {name.partition(".")[2] for name in suffixes} == {"", "gz", "zst"}


def test_one_file_was_dropped_under_two_names():
    first, again = sorted(sample_data.MEASUREMENTS.glob("*-11-20*"))[:2]

    assert first.read_bytes() == again.read_bytes()


def test_the_files_are_small_enough_to_read():
    size = sum(path.stat().st_size for path in sample_data.MEASUREMENTS.iterdir())

    assert 1_000_000 < size < 3_000_000


def test_references_of_the_configuration_lead_somewhere():
    configuration = make.read_configuration()
    codes = {
        kind: {one["code"] for one in entities}
        for kind, entities in configuration.items()
        if isinstance(entities, list)
    }
    targets = {
        "productId": "products",
        "meterId": "meters",
        "aggregationId": "aggregations",
        "planTemplateId": "planTemplates",
        "planId": "plans",
        "accountId": "accounts",
    }
    for kind, known in codes.items():
        assert len(known) == len(configuration[kind])
        for entity in configuration[kind]:
            for member in targets.keys() & entity.keys():
                assert entity[member] in codes[targets[member]]


@pytest.mark.long
def test_measurements_fit_their_meters(made):
    fields = {
        meter["code"]: {f"{one['category'].lower()}.{one['code']}" for one in meter["dataFields"]}
        for meter in make.read_configuration()["meters"]
    }

    for delivery in made[0]:
        for measurement in delivery.stored:
            assert set(measurement.fields) == fields[measurement.meter]


def test_texts_of_the_configuration_are_texts():
    # Norway's country code is `false` in YAML 1.1.
    for account in make.read_configuration()["accounts"]:
        assert all(isinstance(text, str) for text in account["address"].values())


def test_the_mapping_names_columns_of_its_file():
    mapping = yaml.safe_load((sample_data.MAPPINGS / "edge-gateway.yaml").read_text("utf-8"))
    [path] = sample_data.MEASUREMENTS.glob("*edge-gateway*")
    header = path.read_text("utf-8").split("\n", 1)[0].split(mapping["delimiter"])

    for rule in mapping["measurements"]:
        assert set(rule["fields"].values()) <= set(header)


def test_the_books_know_when_a_month_ends_in_berlin():
    assert datetime(2026, 9, 30, 22, tzinfo=UTC) == books.START
    assert datetime(2026, 10, 31, 23, tzinfo=UTC) == books.END


@pytest.mark.parametrize(
    ("fold", "quantity", "units"),
    [
        ("SUM", "60", "6"),
        ("COUNT", "3", "1"),
        ("MAX", "30", "3"),
        ("MIN", "10", "1"),
        ("MEAN", "20", "2"),
        ("UNIQUE", "3", "1"),
        ("LATEST", "20", "2"),
    ],
)
def test_the_books_fold(fold, quantity, units):
    stored = [
        Measurement("m", "a", f"u{at}", datetime(2026, 10, at, tzinfo=UTC), {"measure.n": value})
        for at, value in ((4, 10), (6, 20), (5, 30))
    ]
    aggregation = {
        "code": "n",
        "meterId": "m",
        "targetField": "n",
        "aggregation": fold,
        "quantityPerUnit": 10,
        "rounding": "UP",
        "unit": "n",
    }

    [found] = books.quantities(stored, [aggregation])

    assert (found["quantity"], found["units"], found["measurements"]) == (quantity, units, 3)


def test_a_bill_is_the_sum_of_its_rounded_lines(made):
    assert len(made[1]["bills"]) == 40
    for bill in made[1]["bills"]:
        assert Decimal(bill["total"]) == sum(Decimal(line[3]) for line in bill["lines"])


@pytest.mark.parametrize(
    ("units", "tiered", "volume"),
    [
        ("0", "0", "0"),
        ("100", "10", "10"),
        ("150", "14", "12"),
        ("300", "31", "29"),
        ("1e3", "87", "85"),
    ],
)
def test_the_books_price_bands(units, tiered, volume):
    bands = [
        {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 0.1},
        {"lowerLimit": 100, "fixedPrice": 0, "unitPrice": 0.08},
        {"lowerLimit": 200, "fixedPrice": 5, "unitPrice": 0.08},
    ]
    priced = [
        bills.price(Fraction(units), {"cumulative": cumulative, "pricingBands": bands})
        for cumulative in (True, False)
    ]

    assert priced == [Fraction(tiered), Fraction(volume)]
