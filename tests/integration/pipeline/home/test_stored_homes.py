"""Homes that earlier versions made and left, as files: this version opens them and goes on.

Each was made by the commands `init`, `config apply sample_data/configuration`, `ingest` of two files
of `sample_data/measurements` (11 and 07), `aggregate 2026-10` and `bill --month 2026-10` of a version
whose State had the revision that the file is named by. `key.json` is what `init` printed.
"""

import json
import tarfile
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import pytest
import zstandard
from sqlalchemy import text

from meterlake.cli import run
from meterlake.stores import open_stores
from meterlake.stores.processes import free_port
from meterlake.stores.state.core.engine import HEAD, sqlite_url
from tests.homes import settings
from tests.migrations import changing, lost_rows, rows, rows_of_tables
from tests.served import Served, running

ROOT = Path(__file__).parents[4]
HOMES = sorted((ROOT / "tests" / "data" / "homes").glob("*.tar.zst"))
# What every one of them has; its own version said so when it made it.
BILLS = 40
TOTALS = {"EUR": "11,040.47 EUR", "USD": "2,789.87 USD"}
QUANTITIES = 131
SEATS = 720
LLM_TOKENS = 26
REJECTED = 11


@pytest.fixture(params=HOMES, ids=lambda path: path.name.split(".")[0])
def stored(request, tmp_path):
    """A home of an earlier version."""
    data = zstandard.ZstdDecompressor().stream_reader(request.param.read_bytes()).read()
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        archive.extractall(tmp_path / "home", filter="data")
    return tmp_path / "home"


def revision_of(home: Path) -> str:
    [[found]] = rows(sqlite_url(home / "state.sqlite"), "SELECT version_num FROM alembic_version")
    return str(found)


def counted(organization) -> list[tuple[int, ...]]:
    """Measurements by the ledger, by the index and by quantities, and rejected rows."""
    with organization.lake.reader() as connection:
        return connection.execute(
            "SELECT (SELECT sum(accepted)::INT FROM lake.source),"
            " (SELECT count(*) FROM lake.uid_index), (SELECT count(*) FROM lake.rejected)"
        ).fetchall()


def test_there_are_homes_of_several_revisions():
    assert len(HOMES) >= 2
    assert all(path.name < f"revision-{HEAD}" for path in HOMES)


def test_a_home_of_a_newer_version_is_refused(stored, capsys):
    with changing(sqlite_url(stored / "state.sqlite")) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    assert run(["status", "--home", str(stored)]) == 1
    assert "a revision that this version knows" in capsys.readouterr().err
    assert revision_of(stored) == "9999"


@pytest.mark.long
def test_a_home_of_an_earlier_version_is_migrated_and_has_what_it_had(stored, capsys):
    assert revision_of(stored) < HEAD
    state = sqlite_url(stored / "state.sqlite")
    before = rows_of_tables(state)
    with open_stores(settings(stored)) as stores:
        [organization] = stores.state.organizations()
        assert organization.code == "halvorsen-cloud"
        all_ = SEATS + LLM_TOKENS
        assert counted(stores.organization(organization.id)) == [(all_, all_, REJECTED)]
    assert revision_of(stored) == HEAD
    assert lost_rows(before, rows_of_tables(state)) == {}
    assert run(["check", "reconciliation", "--home", str(stored)]) == 0
    assert f"{all_} measurements in the lake" in capsys.readouterr().out


@pytest.mark.slow
def test_a_home_of_an_earlier_version_bills_the_same_and_goes_on(stored, capsys):
    home = ("--home", str(stored))
    for line in (
        ("aggregate", "2026-10"),
        ("bill", "--month", "2026-10"),
        ("check", "books"),
        ("ingest", str(ROOT / "sample_data" / "measurements" / "07-seats-days-01-20.csv.zst")),
        ("maintain",),
        ("publish",),
        ("check", "reconciliation"),
    ):
        assert run([*line, *home]) == 0, line
    out = capsys.readouterr().out
    assert f"{QUANTITIES} quantities unchanged" in out
    assert f"2026-10: {BILLS} bills" in out
    assert "created" not in out
    assert all(total in out for total in TOTALS.values())
    # The file is known: nothing of it comes in twice.
    assert f"{SEATS + LLM_TOKENS} measurements in the lake" in out


@pytest.mark.slow
def test_the_key_of_an_earlier_version_signs_in_and_reads_its_bills(stored):
    options, known = settings(stored), json.loads((stored / "key.json").read_text())
    key = known["orgId"], known["accessKeyId"], known["apiSecret"]
    with open_stores(options) as stores, running(options, free_port()) as url:
        with Served(url, *key, options, stores).http() as http:
            answer = http.get("/bills", params={"pageSize": 100, "includeBillTotal": "true"})
        bills = json.loads(answer.content, parse_float=Decimal)["data"]

    assert len(bills) == BILLS
    for currency, total in TOTALS.items():
        amounts = [bill["billTotal"] for bill in bills if bill["currency"] == currency]
        assert f"{sum(amounts):,} {currency}" == total
