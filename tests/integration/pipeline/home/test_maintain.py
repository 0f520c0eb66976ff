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
from meterlake.pipeline.config.configure import apply
from meterlake.pipeline.home.maintain import maintain
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores
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


def ingest(stores: Stores, org_id: str, folder: Path, number: int, rows: int = 3) -> None:
    path = folder / f"{number}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["meter", "account", "uid", "ts", "measure.n"])
        for row in range(rows):
            uid = f"{number}-{row}"
            writer.writerow(["requests", "acme", uid, "2026-10-01T00:00:00Z", number])
    receipt = ingest_file(stores, org_id, path, Delivery(f"d{number}", path.name, RECEIVED))
    assert (receipt.accepted, receipt.rejected) == (rows, 0), receipt


def counts(stores: Stores, org_id: str) -> list[tuple[int, ...]]:
    with stores.lake(org_id).reader() as connection:
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
    for number in range(5):
        ingest(stores, org_id, tmp_path, number)
    before = counts(stores, org_id)
    files = len(stores.lake(org_id).files.names())

    done = maintain(stores, org_id, kept_for=timedelta(0))

    assert counts(stores, org_id) == before == [(15, 15), (5, 15)]
    assert done.compacted_files > 0
    assert len(stores.lake(org_id).files.names()) < files


@pytest.mark.long
def test_a_repeat_is_still_recognised_after_a_merge(home, tmp_path):
    stores, org_id = home
    ingest(stores, org_id, tmp_path, 1)
    ingest(stores, org_id, tmp_path, 2)
    maintain(stores, org_id)
    again = tmp_path / "again.csv"
    again.write_bytes(
        (tmp_path / "1.csv").read_bytes() + b"requests,acme,new,2026-10-02T00:00:00Z,7\n"
    )

    receipt = ingest_file(stores, org_id, again, Delivery("again", again.name, RECEIVED))

    assert (receipt.accepted, receipt.repeats) == (1, 3)


@pytest.mark.long
def test_an_orphan_is_removed_and_a_registered_file_is_not(home, tmp_path):
    stores, org_id = home
    ingest(stores, org_id, tmp_path, 1)
    orphan = stores.lake(org_id).files.folder / "main" / "uid_index" / "left-behind.parquet"
    orphan.write_bytes(b"never registered")

    done = maintain(stores, org_id)

    assert done.orphans_removed == 1
    assert not orphan.exists()
    assert counts(stores, org_id) == [(3, 3), (1, 3)]


@pytest.mark.long
def test_nothing_is_merged_or_moved_under_a_reader(home, tmp_path, monkeypatch):
    """A reader that lists files while their entries are replaced would find none of them."""
    need_folder()
    monkeypatch.setattr("meterlake.stores.lake.backends.catalog._TRIES", 3)
    stores, org_id = home
    for number in range(3):
        ingest(stores, org_id, tmp_path, number)
    with open_stores(stores.settings) as elsewhere, elsewhere.lake(org_id).reader() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM lake.uid_index").fetchone()

        assert maintain(stores, org_id).compacted_files == 0
        assert reader.execute("SELECT sum(accepted) FROM lake.source").fetchone() == (9,)

    done = maintain(stores, org_id)
    assert done.compacted_files > 0
    assert done.orphans_removed > 0  # What was written for nothing.
    assert counts(stores, org_id) == [(9, 9), (3, 9)]


@pytest.mark.long
def test_replaced_files_stay_for_those_who_are_reading_them(home, tmp_path):
    stores, org_id = home
    ingest(stores, org_id, tmp_path, 1)
    ingest(stores, org_id, tmp_path, 2)
    snapshot = stores.lake(org_id).snapshot()

    assert maintain(stores, org_id).replaced_removed == 0
    assert maintain(stores, org_id, kept_for=timedelta(0)).replaced_removed > 0

    with stores.lake(org_id).reader() as connection:
        query = f"SELECT count(*) FROM lake.uid_index AT (VERSION => {snapshot})"
        assert connection.execute(query).fetchone() == (6,)


@pytest.mark.long
def test_a_second_run_finds_nothing_to_do(home, tmp_path):
    stores, org_id = home
    ingest(stores, org_id, tmp_path, 1)
    maintain(stores, org_id)

    done = maintain(stores, org_id)

    assert (done.compacted_files, done.orphans_removed, done.staging_removed) == (0, 0, 0)


@pytest.mark.long
def test_what_dead_jobs_staged_is_removed_after_a_while(home):
    stores, org_id = home
    stale = stores.lake(org_id).staging / "dead"
    export = stores.home / "staging" / "exports" / "dead"
    fresh = stores.lake(org_id).staging / "alive"
    for folder in (stale, export, fresh):
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "rows.parquet").write_bytes(b"x")
    for path in [*stale.rglob("*"), stale, *export.rglob("*"), export]:
        os.utime(path, (1_000_000_000, 1_000_000_000))

    assert maintain(stores, org_id).staging_removed == 2

    assert (stale.exists(), export.exists(), fresh.exists()) == (False, False, True)


def snapshots(stores: Stores, org_id: str) -> list[int]:
    with stores.lake(org_id).reader() as connection:
        query = "SELECT snapshot_id FROM ducklake_snapshots('lake') ORDER BY 1"
        return [row[0] for row in connection.execute(query).fetchall()]


def rows_at(stores: Stores, org_id: str, snapshot: int) -> tuple[int, ...]:
    with stores.lake(org_id).reader() as connection:
        query = f"SELECT count(*) FROM lake.uid_index AT (VERSION => {snapshot})"
        return connection.execute(query).fetchone()


@pytest.mark.long
def test_snapshots_expire_except_the_newest_and_those_that_are_pinned(home, tmp_path):
    stores, org_id = home
    ingest(stores, org_id, tmp_path, 1)
    of_a_job = stores.lake(org_id).snapshot()
    stores.state.jobs.start(org_id, "export", {}, of_a_job)
    ingest(stores, org_id, tmp_path, 2)
    of_nobody = stores.lake(org_id).snapshot()
    ended = stores.state.jobs.start(org_id, "export", {}, of_nobody)
    stores.state.jobs.finish(ended)
    ingest(stores, org_id, tmp_path, 3)
    of_a_bill = stores.lake(org_id).snapshot()
    keep_bill(stores, org_id, of_a_bill)
    ingest(stores, org_id, tmp_path, 4)
    newest = stores.lake(org_id).snapshot()

    assert maintain(stores, org_id).snapshots_expired == 0
    for _ in range(2):
        maintain(stores, org_id, kept_for=timedelta(0), snapshots_for=timedelta(0))

    left = snapshots(stores, org_id)
    assert {of_a_job, of_a_bill} <= set(left)
    assert not {of_nobody, newest} & set(left)  # Newer ones came from maintaining.
    assert rows_at(stores, org_id, of_a_job) == (3,)
    assert rows_at(stores, org_id, of_a_bill) == (9,)
    assert counts(stores, org_id) == [(12, 12), (4, 12)]
    again = tmp_path / "1.csv"
    receipt = ingest_file(stores, org_id, again, Delivery("again", again.name, RECEIVED))
    assert (receipt.accepted, receipt.repeats) == (0, 3)


def keep_bill(stores: Stores, org_id: str, snapshot: int) -> None:
    """A row of a bill of which nothing but its pins matters."""
    columns = {column.name: "x" for column in BILL.columns if not column.nullable}
    columns |= {"id": str(snapshot), "org": org_id, "interval": 1, "version": 1, "locked": False}
    columns |= {"bill_date": date(2026, 10, 1), "created": RECEIVED, "modified": RECEIVED}
    columns["pins"] = json.dumps({"snapshot": snapshot, "versions": {}, "code": "1"})
    with stores.state.writing_home() as connection:
        connection.execute(insert(BILL), columns)


def upkeep(home: Settings, org_id: str, over: threading.Event) -> None:
    with open_stores(home) as stores:
        while not over.wait(0.05):
            maintain(stores, org_id)


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
    over = threading.Event()
    ingest(stores, org_id, tmp_path, 0)
    with ThreadPoolExecutor(2) as pool:
        maintained = pool.submit(upkeep, stores.settings, org_id, over)
        looked = pool.submit(read, stores.settings, org_id, over)
        try:
            for number in range(1, 4):
                ingest(stores, org_id, tmp_path, number)
        finally:
            over.set()
        maintained.result()
        seen = looked.result()

    # Every look found what some commit had left, and never less than the one before it.
    assert {len(set(row)) for row in seen} == {1}
    assert {row[0] % 3 for row in seen} == {0}
    assert seen == sorted(seen)
    assert counts(stores, org_id) == [(12, 12), (4, 12)]
    with stores.lake(org_id).reader() as connection:
        [table] = [name for name in stores.lake(org_id).tables() if name.startswith("m_")]
        query = f'SELECT sum("measure.n") FROM lake."{table}"'
        assert connection.execute(query).fetchone() == (18,)
