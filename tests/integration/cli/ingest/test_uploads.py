"""`meterlake uploads ingest`: the files that wait, without a worker."""

import json
import re

import pytest

from meterlake.cli.app import run
from meterlake.pipeline.ingest.receiving import receiving
from meterlake.pipeline.ingest.uploads import announce
from tests.homes import a_home, wire_row

TYPE = "text/json"


@pytest.fixture
def home(tmp_path, monkeypatch):
    with a_home(tmp_path) as made:
        monkeypatch.setenv("METERLAKE_HOME", str(made.stores.home))
        yield made


def upload(home, name, data):
    body = {"fileName": name, "contentType": TYPE, "contentLength": len(data)}
    made = announce(home.organization, "test", body, "https://here.example")
    headers = {key.lower(): value for key, value in made["headers"].items()}
    with receiving(home.stores, made["url"].rpartition("/")[2], headers) as file:
        file.write(data)
        file.finish()


def ingest(capsys):
    code = run(["uploads", "ingest", "--json"])
    printed = capsys.readouterr()
    return code, [json.loads(line) for line in printed.out.splitlines()], printed.err


def test_nothing_waits_where_nothing_was_uploaded(home, capsys):
    assert ingest(capsys) == (0, [], "")
    assert home.uids() == []


def test_what_was_uploaded_is_ingested_once(home, capsys):
    upload(home, "a.json", json.dumps([wire_row("a"), wire_row("b")]).encode())

    code, [receipt], _ = ingest(capsys)

    assert (code, receipt["name"], receipt["accepted"]) == (0, "a.json", 2)
    assert ingest(capsys)[:2] == (0, [])
    assert len(home.uids()) == 2


@pytest.mark.long
def test_a_file_that_cannot_be_read_is_told_and_stops_no_other(home, capsys):
    upload(home, "a.json", b"no json")
    upload(home, "b.json", json.dumps([wire_row("b")]).encode())

    code, receipts, errors = ingest(capsys)

    assert code == 1
    assert {each["name"]: each["status"] for each in receipts} == {
        "a.json": "failed",
        "b.json": "done",
    }
    assert "a.json" in errors
    assert len(home.uids()) == 1


def test_a_template_of_a_meter_is_a_file_that_one_ingests(home, capsys):
    assert run(["template", "egress"]) == 0
    head, example = capsys.readouterr().out.splitlines()
    assert head == "meter,account,uid,ts,measure.gb,where.region"
    row = example.replace("customer-code", "acme")
    # The home's clock is behind that of the command.
    row = re.sub(r"\d{4}-\d\d-\d\dT\d\d", "2026-09-05T10", row)
    assert home.ingest("usage.csv", f"{head}\n{row}\n").accepted == 1
    assert run(["template", "nothing"]) != 0
