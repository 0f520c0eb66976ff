"""The law of exports of raw usage: what is ingested into an empty home of the same configuration
is what was exported, in every format, whatever became of the meter meanwhile."""

import gzip
import tempfile
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from meterlake.model.values.period import Month
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.run import export
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from meterlake.pipeline.usage.aggregate import aggregate
from tests.bills import aggregation
from tests.homes import ACCOUNTS, Home, a_home, configure, ndjson

SEPTEMBER = Month(2026, 9)
NUMERIC = ("MEASURE", "INCOME", "COST")
TEXTS = ("WHO", "WHERE", "WHAT", "OTHER", "METADATA")
CODES = ("a", "b", "ä_", "$c")
# Every meter has these, and they are aggregated.
FIXED = (("MEASURE", "gb"), ("WHERE", "region"))
AGGREGATIONS = [
    aggregation("sent", "SUM"),
    aggregation("places", "UNIQUE", targetField="region"),
    aggregation(
        "parts", "SUM", segmentedFields=["region"], segments=[{"region": "eu"}, {"region": "*"}]
    ),
]
# Codes that a spreadsheet or a careless reader of CSV would break.
ACCOUNT_CODES = ("acme", 'x "y", z', "-1", "Müller & Söhne", "'=1")


def field(category: str, code: str) -> dict[str, Any]:
    return {"category": category, "code": code, "name": code}


@st.composite
def meters(draw: Any) -> dict[str, Any]:
    """A meter: two fields that stay, others that come, go and change their category."""
    codes = draw(st.lists(st.sampled_from(CODES), unique=True, max_size=3))
    others = [(draw(st.sampled_from(NUMERIC + TEXTS)), code) for code in codes]
    calculated = draw(st.sampled_from([(), ("MEASURE",), ("WHAT",)]))
    return {
        "code": "egress",
        "name": "Egress",
        "dataFields": [field(*each) for each in (*FIXED, *others)],
        "derivedFields": [
            field(category, "calculated")
            | {"calculation": "gb * 2" if category == "MEASURE" else "region"}
            for category in calculated
        ],
    }


texts = st.sampled_from(["", "eu", " ", '"', '""', "a,b", "a\nb", "a\r\nb", "\r", "=1+1", "NA"])
texts = texts | st.text(
    st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=["Cs"]), max_size=9
)
numbers = st.decimals(-(10**25), 10**25, places=12) | st.sampled_from([Decimal(0), Decimal("0.1")])


@st.composite
def lives(draw: Any) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Versions of a meter, and what was measured with each."""
    life = []
    for version in range(draw(st.integers(1, 4))):
        meter = draw(meters())
        rows = []
        for number in range(draw(st.integers(0, 4))):
            row: dict[str, Any] = {
                "meter": "egress",
                "account": draw(st.sampled_from(ACCOUNT_CODES)),
                "ts": f"2026-09-0{version + 1}T10:00:00.00000{number}Z",
            }
            if draw(st.booleans()):
                row["uid"] = f"{draw(st.sampled_from(['u', '=u', 'ü,']))}{version}-{number}"
            for each in meter["dataFields"]:
                values = numbers if each["category"] in NUMERIC else texts
                members = row.setdefault(each["category"].lower(), {})
                members[each["code"]] = str(draw(values)) if values is numbers else draw(values)
            rows.append(row)
        life.append((meter, rows))
    return life


def configured(home: Home, meter: dict[str, Any]) -> None:
    accounts = ACCOUNTS + [
        {"code": code, "name": code, "emailAddress": "bills@example.com"}
        for code in ACCOUNT_CODES[1:]
    ]
    configure(home.organization, meters=[meter], accounts=accounts)
    configure(home.organization, aggregations=AGGREGATIONS)


def contents(home: Home) -> list[Any]:
    """What was measured, without what is calculated of it."""
    return sorted(
        tuple(each for each in fields if not each[0].endswith(".calculated"))
        for _, fields, *_ in home.measurements()
    )


def quantities(home: Home) -> list[Any]:
    aggregate(home.organization, SEPTEMBER)
    codes = home.account_codes()
    rows = home.query("SELECT account_id, segment, value, measurements FROM lake.quantity")
    return sorted((codes[row[0]], *map(str, row[1:])) for row in rows)


def files_of(home: Home, format: Format) -> list[Path]:
    request = ExportRequest(source=Source.USAGE, format=format, types=("measurements",))
    done = export(home.organization, request)
    return [Path(done.url, each["key"]) for each in done.manifest["files"] if each["rows"]]


def lived(home: Home, life: Any) -> None:
    """All that was measured comes in under the meter of its time."""
    home.clock.time = datetime.now(UTC) + timedelta(hours=1)
    for number, (meter, rows) in enumerate(life):
        configured(home, meter)
        if rows:
            receipt = home.ingest(f"{number}.ndjson", ndjson(rows))
            assert receipt.accepted == len(rows), receipt.sample
        home.clock.advance(seconds=1)


def came_back(life: Any, format: Format, *, plain: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with a_home(Path(folder)) as home:
            lived(home, life)
            files = [(path.name, path.read_bytes()) for path in files_of(home, format)]
            if plain and format is not Format.PARQUET:
                files = [(name[:-3], gzip.decompress(data)) for name, data in files]
            before, measured = contents(home), quantities(home)
            again = [home.ingest(*file) for file in files]
        with a_home(Path(folder)) as other:
            other.clock.time = datetime.now(UTC) + timedelta(days=1)
            configured(other, life[-1][0])
            receipts = [other.ingest(*file) for file in files]
            after, remeasured = contents(other), quantities(other)
            books = check_reconciliation(other.organization)

    total = sum(len(rows) for _, rows in life)
    assert [each.sample for each in receipts if each.rejected] == []
    assert sum(each.accepted for each in receipts) == len(after) == total
    assert after == before
    assert remeasured == measured
    # The first home knows them: equal to the last bit.
    assert [each.sample for each in again if each.rejected] == []
    assert sum(each.repeats for each in again) == total
    assert books.balanced, books.differences


# Every example makes two homes: shrinking one would take minutes.
LIVES = settings(
    max_examples=1,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
MANY = settings(LIVES, max_examples=25)


@LIVES
@given(life=lives(), format=st.sampled_from(Format), plain=st.booleans())
def test_what_is_exported_comes_back_whole_in_an_empty_home(life, format, plain):
    came_back(life, format, plain=plain)


@pytest.mark.slow
@pytest.mark.parametrize("format", list(Format))
@MANY
@given(life=lives(), plain=st.booleans())
def test_what_is_exported_comes_back_whole_in_every_format(format, life, plain):
    came_back(life, format, plain=plain)
