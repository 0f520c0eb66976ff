"""Files of others through mappings: instants, blanks, case, nested records; those of the page, too."""

import json
import re
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from meterlake.model.errors import UnreadableMapping
from meterlake.model.measurements.mapping import parse_mapping
from meterlake.model.values.documents import parse
from tests.homes import a_home, configure

PAGE = Path(__file__).parents[4] / "docs" / "file-formats.md"
TRAFFIC = {
    "code": "traffic",
    "name": "Traffic",
    "dataFields": [
        {"category": "MEASURE", "code": "bytes", "name": "Sent"},
        {"category": "WHERE", "code": "region", "name": "Region"},
    ],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with a_home(tmp_path_factory.mktemp("foreign")) as found:
        configure(found.organization, meters=[TRAFFIC])
        yield found


def written(text, **told):
    """Reads a column `at` of instants, and one of regions."""
    return parse_mapping(
        {
            "account": {"column": "who", "trim": True, "case": "lower"},
            "ts": {"column": "at", **told},
            "nulls": ["", "NA"],
            "measurements": [
                {
                    "meter": "traffic",
                    "fields": {"where.region": {"column": "region", "trim": True, "case": "upper"}},
                    "constants": {"measure.bytes": parse("m", b"n: 1.50")["n"]},
                }
            ],
        },
        text,
    )


def stored(home, name):
    [[identity]] = home.query(f"SELECT identity FROM lake.source WHERE name = '{name}'")
    [table] = home.query(
        "SELECT table_name FROM duckdb_columns() WHERE database_name = 'lake'"
        " AND table_name LIKE 'm\\_%' ESCAPE '\\' AND column_name = 'measure.bytes'"
    )
    return home.query(
        f'SELECT account_id, ts, ets, "measure.bytes", "where.region" FROM lake."{table[0]}"'
        f" WHERE source = '{identity}' ORDER BY row"
    )


def examples():
    """Records and mappings of the page, by name."""
    blocks = re.findall(r"^```(json|yaml)\n(.+?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return {
        parse("m", mapping.encode())["name"]: (record, parse("m", mapping.encode()))
        for (kind, record), (other, mapping) in pairwise(blocks)
        if (kind, other) == ("json", "yaml")
    }


def test_the_page_has_a_record_of_kafka_and_a_span():
    assert set(examples()) >= {"kafka", "spans"}


@pytest.mark.parametrize(
    ("name", "ts", "ets"),
    [
        ("kafka", datetime(2026, 10, 1, 10, 0, 0, 123000), None),
        ("spans", datetime(2026, 10, 1, 10), datetime(2026, 10, 1, 10, 0, 0, 250000)),
    ],
)
def test_the_records_of_the_page_come_in(home, name, ts, ets):
    record, mapping = examples()[name]
    home.clock.time = home.clock.time.replace(month=10, day=2)
    receipt = home.ingest(f"{name}.ndjson", record, parse_mapping(mapping, name))

    assert (receipt.accepted, receipt.rejected) == (1, 0)
    [[account, *values]] = stored(home, f"{name}.ndjson")
    assert home.account_codes()[account] == "acme"
    assert values == [ts, ets, 2048, "eu"]


@pytest.mark.parametrize(
    ("told", "text", "instant"),
    [
        ({"epoch": "s"}, "1788000000", "2026-08-29T10:40:00"),
        ({"epoch": "s"}, "1788000000.25", "2026-08-29T10:40:00.250000"),
        ({"epoch": "ms"}, " 1788000000123 ", "2026-08-29T10:40:00.123000"),
        ({"epoch": "us"}, "1788000000123456", "2026-08-29T10:40:00.123456"),
        ({"epoch": "µs"}, "1788000000123456", "2026-08-29T10:40:00.123456"),
        ({"epoch": "ns"}, "1788000000123456789", "2026-08-29T10:40:00.123456"),
        ({"epoch": "ns"}, "-1", "1969-12-31T23:59:59.999999"),
        ({"format": "%d.%m.%Y %H:%M"}, "29.08.2026 10:40", "2026-08-29T10:40:00"),
        ({"format": "%d %b %Y"}, "29 Aug 2026", "2026-08-29T00:00:00"),
        (
            {"format": "%d.%m.%Y %H:%M", "zone": "Europe/Berlin"},
            "29.08.2026 12:40",
            "2026-08-29T10:40:00",
        ),
        (
            {"format": "%Y-%m-%d %H:%M %z", "zone": "Europe/Berlin"},
            "2026-08-29 10:40 +0000",
            "2026-08-29T10:40:00",
        ),
        ({"zone": "Europe/Berlin"}, "2026-08-29T12:40:00", "2026-08-29T10:40:00"),
        ({"zone": "Europe/Berlin"}, "2026-08-29T12:40:00Z", "2026-08-29T12:40:00"),
        # The hour that comes twice, and the one that the clock skips.
        ({"zone": "Europe/Berlin"}, "2025-10-26T02:30:00", "2025-10-26T00:30:00"),
        ({"zone": "Europe/Berlin"}, "2026-03-29T02:30:00", "2026-03-29T01:30:00"),
    ],
)
def test_an_instant_is_read_as_the_mapping_says(home, request, told, text, instant):
    name = f"{abs(hash(request.node.name))}.csv"
    # Beside one of another length, so that no column is read as one.
    data = f'who,at,region,{name}\n" Acme","{text}"," eu ",\nACME,{text.strip()},NA,\n'

    receipt = home.ingest(name, data, written(name, **told))

    assert (receipt.accepted, receipt.rejected) == (1, 1)
    assert {reason.value for reason in receipt.reasons} == {"MissingField"}
    [[account, ts, _, constant, region]] = stored(home, name)
    assert (home.account_codes()[account], region, constant) == ("acme", "EU", 1.5)
    assert ts.isoformat() == instant


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"epoch": "ms"}, "2026-08-29T10:40:00Z"),
        ({"epoch": "s"}, "1788000000000000"),
        ({"epoch": "s"}, "NaN"),
        ({"epoch": "ns"}, "1e40"),
        ({"format": "%d.%m.%Y"}, "08/29/2026"),
        ({"format": "%d.%m.%Y"}, "31.02.2026"),
        ({"zone": "Europe/Berlin"}, "yesterday"),
    ],
)
def test_an_instant_of_another_form_is_rejected_with_its_text(home, request, told, text):
    name = f"{abs(hash(request.node.name))}.csv"
    receipt = home.ingest(name, f"who,at,region,{name}\nacme,{text},eu,\n", written(name, **told))

    [row] = receipt.sample
    assert (row.reason, receipt.accepted) == ("InvalidTimestamp", 0)
    assert text in row.detail


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ("a.b", None),
        ('a."b.c"', "x"),
        ("a.b.c", "x"),
        ("list[1].n", "2"),
        ("list[7].n", None),
        ("list[n=zz].m", None),
        ('list[name="a [b]"].n', "3"),
        ("text.inner.deep", "y"),
        ("text[0]", None),
        ("flat[ms]", "z"),
    ],
)
def test_a_path_leads_to_a_value_or_to_none(home, column, found):
    record = {
        "a": {"b.c": "x"},
        "list": [{"n": 1}, {"n": 2}, {"name": "a [b]", "n": 3}],
        "text": '{"inner": {"deep": "y"}}',
        "flat[ms]": "z",
        "who": "acme",
        "at": "2026-08-29T10:40:00Z",
        "of": column,
    }
    mapping = parse_mapping(
        {
            "format": "ndjson",
            "account": {"column": "who"},
            "ts": "at",
            "measurements": [
                {
                    "meter": "traffic",
                    "fields": {"where.region": column},
                    "constants": {"measure.bytes": 1},
                }
            ],
        },
        column,
    )
    name = f"{abs(hash(column))}.ndjson"
    receipt = home.ingest(name, json.dumps(record) + "\n", mapping)

    if found is None:
        assert {reason.value for reason in receipt.reasons} == {"MissingField"}
    else:
        assert [row[-1] for row in stored(home, name)] == [found]


@pytest.mark.parametrize(
    ("told", "rule"),
    [
        ({"epoch": "msec"}, "ts.epoch"),
        ({"epoch": "ms", "zone": "UTC"}, "an epoch has neither"),
        ({"format": "%d.%m"}, "a year, a month and a day"),
        ({"format": "%Y-%m-%d %Q"}, "%Q of a format is none of"),
        ({"zone": "Europe/Berlinn"}, "Europe/Berlinn"),
        ({"colunm": "x"}, "ts.colunm"),
    ],
)
def test_what_says_nothing_of_an_instant_is_refused(told, rule):
    with pytest.raises(UnreadableMapping, match=re.escape(rule)):
        written("m", **told)
