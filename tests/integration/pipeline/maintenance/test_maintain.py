"""Upkeep: many small commits become few files, and no row is lost or doubled by it."""

import csv
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from meterlake.model.measurements.receipt import Delivery
from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.settings import Settings
from meterlake.stores import Organization, open_stores
from meterlake.stores.state.core.tables import BILL
from tests.databases import need_folder
from tests.organizations import prepare_home

RECEIVED = datetime(2026, 10, 20, tzinfo=UTC)
METER = {
    "name": "Requests",
    "code": "requests",
    "dataFields": [{"category": "MEASURE", "code": "n", "name": "n"}],
    "derivedFields": [],
}


@pytest.fixture
def home(tmp_path: Path):
    settings = Settings(home=prepare_home(tmp_path / "home"))
    made = initialize(settings, "Acme")
    with open_stores(settings) as stores:
        apply(stores.state, made.org_id, [Document("test", {"meters": [METER]})], "test")
        yield stores, made.org_id


def ingest(organization: Organization, folder: Path, number: int, rows: int = 3) -> None:
    path = folder / f"{number}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["meter", "account", "uid", "ts", "measure.n"])
        for row in range(rows):
            uid = f"{number}-{row}"
            writer.writerow(["requests", "acme", uid, "2026-10-01T00:00:00Z", number])
    receipt = ingest_file(organization, path, Delivery(f"d{number}", path.name, RECEIVED))
    assert (receipt.accepted, receipt.rejected) == (rows, 0), receipt


def counts(organization: Organization) -> list[tuple[int, ...]]:
    with organization.lake.reader() as connection:
        return [
            connection.execute(query).fetchone()
            for query in (
                "SELECT count(*), count(DISTINCT uid) FROM lake.uid_index",
                "SELECT count(*), sum(accepted) FROM lake.source",
            )
        ]


@pytest.mark.long
def test_small_files_are_merged_and_no_row_changes(home, tmp_path):
    stores, org_id = home
    organization = stores.organization(org_id)
    for number in range(5):
        ingest(organization, tmp_path, number)
    before = counts(organization)
    files = len(organization.lake.files.names())

    done = maintain(organization, kept_for=timedelta(0))

    assert counts(organization) == before == [(15, 15), (5, 15)]
    assert done.compacted_files > 0
    assert len(organization.lake.files.names()) < files


@pytest.mark.long
def test_a_repeat_is_still_recognised_after_a_merge(home, tmp_path):
    stores, org_id = home
    organization = stores.organization(org_id)
    ingest(organization, tmp_path, 1)
    ingest(organization, tmp_path, 2)
    maintain(organization)
    again = tmp_path / "again.csv"
    again.write_bytes(
        (tmp_path / "1.csv").read_bytes() + b"requests,acme,new,2026-10-02T00:00:00Z,7\n"
    )

    receipt = ingest_file(organization, again, Delivery("again", again.name, RECEIVED))

    assert (receipt.accepted, receipt.repeats) == (1, 3)


@pytest.mark.long
def test_an_orphan_is_removed_and_a_registered_file_is_not(home, tmp_path):
    stores, org_id = home
    organization = stores.organization(org_id)
    ingest(organization, tmp_path, 1)
    orphan = organization.lake.files.folder / "main" / "uid_index" / "left-behind.parquet"
    orphan.write_bytes(b"never registered")

    done = maintain(organization)

    assert done.orphans_removed == 1
    assert not orphan.exists()
    assert counts(organization) == [(3, 3), (1, 3)]


@pytest.mark.long
def test_nothing_is_merged_or_moved_under_a_reader(home, tmp_path, monkeypatch):
    """A reader that lists files while their entries are replaced would find none of them."""
    need_folder()
    monkeypatch.setattr("meterlake.stores.lake.backends.catalog._TRIES", 3)
    stores, org_id = home
    organization = stores.organization(org_id)
    for number in range(3):
        ingest(organization, tmp_path, number)
    with open_stores(stores.settings) as elsewhere, elsewhere.lake(org_id).reader() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM lake.uid_index").fetchone()

        assert maintain(organization).compacted_files == 0
        assert reader.execute("SELECT sum(accepted) FROM lake.source").fetchone() == (9,)

    done = maintain(organization)
    assert done.compacted_files > 0
    assert done.orphans_removed > 0  # What was written for nothing.
    assert counts(organization) == [(9, 9), (3, 9)]


@pytest.mark.long
def test_replaced_files_stay_for_those_who_are_reading_them(home, tmp_path):
    stores, org_id = home
    organization = stores.organization(org_id)
    ingest(organization, tmp_path, 1)
    ingest(organization, tmp_path, 2)
    snapshot = organization.lake.snapshot()

    assert maintain(organization).replaced_removed == 0
    assert maintain(organization, kept_for=timedelta(0)).replaced_removed > 0

    with organization.lake.reader() as connection:
        query = f"SELECT count(*) FROM lake.uid_index AT (VERSION => {snapshot})"
        assert connection.execute(query).fetchone() == (6,)


@pytest.mark.long
def test_a_second_run_finds_nothing_to_do(home, tmp_path):
    stores, org_id = home
    organization = stores.organization(org_id)
    ingest(organization, tmp_path, 1)
    maintain(organization)

    done = maintain(organization)

    assert (done.compacted_files, done.orphans_removed, done.staging_removed) == (0, 0, 0)


@pytest.mark.long
def test_what_dead_jobs_staged_is_removed_after_a_while(home):
    stores, org_id = home
    organization = stores.organization(org_id)
    stale = organization.lake.staging / "dead"
    export = stores.home / "staging" / "exports" / "dead"
    fresh = organization.lake.staging / "alive"
    for folder in (stale, export, fresh):
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "rows.parquet").write_bytes(b"x")
    for path in [*stale.rglob("*"), stale, *export.rglob("*"), export]:
        os.utime(path, (1_000_000_000, 1_000_000_000))

    assert maintain(organization).staging_removed == 2

    assert (stale.exists(), export.exists(), fresh.exists()) == (False, False, True)


def snapshots(organization: Organization) -> list[int]:
    with organization.lake.reader() as connection:
        query = "SELECT snapshot_id FROM ducklake_snapshots('lake') ORDER BY 1"
        return [row[0] for row in connection.execute(query).fetchall()]


def rows_at(organization: Organization, snapshot: int) -> tuple[int, ...]:
    with organization.lake.reader() as connection:
        query = f"SELECT count(*) FROM lake.uid_index AT (VERSION => {snapshot})"
        return connection.execute(query).fetchone()


@pytest.mark.long
def test_snapshots_expire_except_the_newest_and_those_that_are_pinned(home, tmp_path):
    stores, org_id = home
    organization = stores.organization(org_id)
    ingest(organization, tmp_path, 1)
    of_a_job = organization.lake.snapshot()
    stores.state.jobs.start(org_id, "export", {}, of_a_job)
    ingest(organization, tmp_path, 2)
    of_nobody = organization.lake.snapshot()
    ended = stores.state.jobs.start(org_id, "export", {}, of_nobody)
    stores.state.jobs.finish(ended)
    ingest(organization, tmp_path, 3)
    of_a_bill = organization.lake.snapshot()
    keep_bill(organization, of_a_bill)
    ingest(organization, tmp_path, 4)
    newest = organization.lake.snapshot()

    assert maintain(organization).snapshots_expired == 0
    for _ in range(2):
        maintain(organization, kept_for=timedelta(0), snapshots_for=timedelta(0))

    left = snapshots(organization)
    assert {of_a_job, of_a_bill} <= set(left)
    assert not {of_nobody, newest} & set(left)  # Newer ones came from maintaining.
    assert rows_at(organization, of_a_job) == (3,)
    assert rows_at(organization, of_a_bill) == (9,)
    assert counts(organization) == [(12, 12), (4, 12)]
    again = tmp_path / "1.csv"
    receipt = ingest_file(organization, again, Delivery("again", again.name, RECEIVED))
    assert (receipt.accepted, receipt.repeats) == (0, 3)


def keep_bill(organization: Organization, snapshot: int) -> None:
    """A row of a bill of which nothing but its pins matters."""
    columns = {column.name: "x" for column in BILL.columns if not column.nullable}
    columns |= {
        "id": str(snapshot),
        "org": organization.id,
        "interval": 1,
        "version": 1,
        "locked": False,
    }
    columns |= {"bill_date": date(2026, 10, 1), "created": RECEIVED, "modified": RECEIVED}
    columns["pins"] = json.dumps({"snapshot": snapshot, "versions": {}, "code": "1"})
    with organization.state.writing_home() as connection:
        connection.execute(insert(BILL), columns)


def upkeep(home: Settings, org_id: str, over: threading.Event) -> None:
    with open_stores(home) as stores:
        while not over.wait(0.05):
            maintain(stores.organization(org_id))


def read(home: Settings, org_id: str, over: threading.Event) -> list[tuple[int, ...]]:
    """In one transaction each: uids, distinct uids, and what the ledger says."""
    seen = []
    with open_stores(home) as stores:
        while not (over.is_set() and seen):
            with stores.lake(org_id).reader() as connection:
                connection.execute("BEGIN")
                found = connection.execute(
                    "SELECT (SELECT count(*) FROM lake.uid_index),"
                    " (SELECT count(DISTINCT uid) FROM lake.uid_index),"
                    " (SELECT sum(accepted) FROM lake.source)"
                )
                seen.append(found.fetchone())
                connection.execute("COMMIT")
    return seen


@pytest.mark.slow
def test_it_runs_beside_ingest_and_readers(home, tmp_path):
    stores, org_id = home
    organization = stores.organization(org_id)
    over = threading.Event()
    ingest(organization, tmp_path, 0)
    with ThreadPoolExecutor(2) as pool:
        maintained = pool.submit(upkeep, stores.settings, org_id, over)
        looked = pool.submit(read, stores.settings, org_id, over)
        try:
            for number in range(1, 4):
                ingest(organization, tmp_path, number)
        finally:
            over.set()
        maintained.result()
        seen = looked.result()

    # Every look found what some commit had left, and never less than the one before it.
    assert {len(set(row)) for row in seen} == {1}
    assert {row[0] % 3 for row in seen} == {0}
    assert seen == sorted(seen)
    assert counts(organization) == [(12, 12), (4, 12)]
    with organization.lake.reader() as connection:
        [table] = [name for name in organization.lake.tables() if name.startswith("m_")]
        query = f'SELECT sum("measure.n") FROM lake."{table}"'
        assert connection.execute(query).fetchone() == (18,)
