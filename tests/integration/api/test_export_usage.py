"""Exported usage is what the Data Explorer answers, asked for with the SDK."""

import csv
import gzip
import io
import json
import zipfile
from datetime import UTC, datetime
from decimal import Decimal

import httpx
import polars as pl
import pytest

from meterlake.model.measurements.receipt import Delivery
from meterlake.pipeline.export.run import run_export
from meterlake.pipeline.ingest.run import ingest_file
from tests.homes import ACCOUNTS, CALLS, EGRESS, configure, ndjson, wire_row
from tests.served import served

START, END = "2026-09-01T00:00:00Z", "2026-10-01T00:00:00Z"
HUGE = 10**25
ROWS = [
    wire_row("a", 1.5),
    wire_row("b", 2, ts="2026-09-03T23:59:59.999999Z", where={"region": 'u"s,'}),
    wire_row("c", 7, "bolt", ts="2026-09-01T00:00:00Z", where={"region": ""}),
    wire_row("d", HUGE, "bolt", ts="2026-09-30T23:59:59Z"),
    wire_row("e", 9, ts=END),
    {
        "meter": "calls",
        "account": "acme",
        "uid": "f",
        "ts": "2026-09-10T12:00:00Z",
        "measure": {"n": 3},
        "cost": {"own": 0.25},
        "metadata": {"key": "k"},
    },
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("usage") / "home"
    with served(home, limit_explorer=False) as found:
        configure(found.organization, meters=[EGRESS, CALLS], accounts=ACCOUNTS)
        path = home / "rows.ndjson"
        path.write_bytes(ndjson(ROWS))
        delivery = Delivery("d", path.name, datetime.now(UTC))
        assert ingest_file(found.organization, path, delivery).rejected == 0
        yield found


@pytest.fixture(scope="module")
def ids(server):
    with server.http() as http:
        kinds = [http.get(f"/{kind}").json()["data"] for kind in ("meters", "accounts")]
    return {each["code"]: each["id"] for kind in kinds for each in kind}


def answered(server, body):
    """The rows of the API, with all digits."""
    with server.http() as http:
        answer = http.post("/usage/query", json=body).raise_for_status()
    return json.loads(answer.content, parse_float=Decimal)["data"]


def exported(server, body, format="JSONL"):
    """What all files hold that are exported."""
    body = {"exportFileFormat": format, "startDate": START, "endDate": END, **body}
    with server.sdk() as sdk:
        job_id = sdk.data_exports.create_adhoc(source_type="USAGE", extra_body=body).job_id
        run_export(server.stores, job_id)
        content = httpx.get(sdk.data_exports.jobs.get_download_url(job_id).url).content
    if format == "PARQUET":
        return content
    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if name != "manifest.json"]
            content = b"".join(archive.read(name) for name in names)
    return gzip.decompress(content).decode()


def lines(text):
    return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]


def fold(meter, code, function, type="MEASURE"):
    return {"meterId": meter, "fieldCode": code, "fieldType": type, "function": function}


def every_fold(meter):
    numbers = [fold(meter, "gb", each) for each in ("SUM", "MIN", "MAX", "COUNT", "LATEST", "MEAN")]
    texts = [fold(meter, "region", each, "DIMENSION") for each in ("COUNT", "UNIQUE")]
    return {"aggregations": [*numbers, *texts]}


def groups(meter):
    return [
        {"groupType": "ACCOUNT"},
        {"groupType": "DIMENSION", "meterId": meter, "fieldCode": "region"},
        {"groupType": "TIME", "frequency": "DAY"},
    ]


@pytest.mark.parametrize("grouped", [0, 1, 3])
def test_folded_usage_is_what_the_api_answers(server, ids, grouped):
    body = every_fold(ids["egress"]) | {"groups": groups(ids["egress"])[:grouped]}
    expected = answered(server, {"startDate": START, "endDate": END, **body})
    found = lines(exported(server, body))
    with server.sdk() as sdk:
        asked = {"aggregations": body["aggregations"], "groups": body["groups"]}
        seen = sdk.usage.query(start_date=START, end_date=END, extra_body=asked).data

    assert found == expected
    assert [list(row) for row in found] == [list(row) for row in seen]
    assert len(found) == (1, 2, 4)[(0, 1, 3).index(grouped)]
    assert sum(row["measure.gb.COUNT"] for row in found) == 4


@pytest.mark.long
def test_folded_usage_of_every_format_is_the_same(server, ids):
    body = every_fold(ids["egress"]) | {"groups": groups(ids["egress"])}
    # Small numbers only: their sums are numbers in Parquet, too.
    body["accountIds"] = [ids["acme"]]
    expected = lines(exported(server, body))
    cells = list(csv.DictReader(io.StringIO(exported(server, body, "CSV"))))
    table = pl.read_parquet(exported(server, body, "PARQUET"))

    assert [list(row) for row in cells] == [list(row) for row in expected]
    shown = lambda value: "" if value is None else str(value)  # noqa: E731
    assert cells == [{name: shown(value) for name, value in row.items()} for row in expected]
    assert table.columns == list(expected[0])
    kinds = dict(zip(table.columns, table.dtypes, strict=True))
    assert kinds["measure.gb.SUM"] == kinds["measure.gb.MAX"] == pl.Decimal(38, 12)
    assert (kinds["measure.gb.COUNT"], kinds["measure.gb.MEAN"]) == (pl.Int64, pl.String)
    assert kinds["day"] == pl.Datetime("us", "UTC")
    assert table["measure.gb.SUM"].to_list() == [row["measure.gb.SUM"] for row in expected]


@pytest.mark.long
def test_sums_beyond_the_numbers_of_parquet_are_text(server, ids):
    body = {"aggregations": [fold(ids["egress"], "gb", "SUM")]}
    [row] = lines(exported(server, body))
    table = pl.read_parquet(exported(server, body, "PARQUET"))

    assert table["measure.gb.SUM"].to_list() == [str(row["measure.gb.SUM"])]
    assert row["measure.gb.SUM"] == HUGE + Decimal("10.5")


SELECTIONS = {
    "everything": lambda _: {},
    "a meter": lambda ids: {"meterIds": [ids["egress"]]},
    "an account": lambda ids: {"meterIds": [ids["egress"]], "accountIds": [ids["bolt"]]},
    "values": lambda ids: {
        "meterIds": [ids["egress"]],
        "dimensionFilters": [
            {"meterId": ids["egress"], "fieldCode": "region", "values": ['u"s,', "%"]}
        ],
    },
    "a time": lambda ids: {
        "meterIds": [ids["egress"]],
        "startDate": "2026-09-03T10:00:00Z",
        "endDate": "2026-09-03T23:59:59.999999Z",
    },
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_measurements_are_those_of_the_raw_query(server, ids, name):
    body = SELECTIONS[name](ids)
    found = answered(server, {"startDate": START, "endDate": END, **body})
    rows = lines(exported(server, body))

    assert sorted(map(_flat, rows), key=str) == sorted(map(_answer, found), key=str)
    assert len(rows) == {"everything": 5, "a meter": 4, "an account": 2}.get(name, 1)


def _flat(row):
    """A line of a file by the names of the Data Explorer."""
    fixed = {name: row[name] for name in ("meter", "account", "uid", "ts")}
    nested = {k: v for k, v in row.items() if isinstance(v, dict)}
    return fixed | {f"{k}.{code}": v for k, each in nested.items() for code, v in each.items()}


def _answer(row):
    left = {"meterId", "accountId", "ets", "receivedAt"}
    return {name: value for name, value in row.items() if name not in left and value is not None}
