"""What others met with DuckLake, PostgreSQL and buckets, tried here: see docs/troubles.md."""

import calendar
import re
import shutil
import subprocess
import time
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import meterlake
from meterlake.model.errors import Busy, Invalid, Unavailable
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.stores.lake.backends.location import open_lake
from meterlake.stores.lake.backends.postgres_catalog import PostgresCatalog
from meterlake.stores.lake.connection import is_invalidated, translate_errors
from meterlake.stores.lake.maintenance import live_files, remove_orphans
from tests.homes import HEADER, a_home, csv_row
from tests.integration.stores.test_lakes_in_buckets import cut_sessions, other_machine
from tests.postgres import Server, missing

LAKE = Path(meterlake.__file__).parent / "stores" / "lake"
BUCKETS = pytest.mark.parametrize(
    "lake_location", ["s3", pytest.param("gcs", marks=pytest.mark.slow)], indirect=True
)
ALL = pytest.mark.parametrize(
    "lake_location",
    [pytest.param("folder", id=pytest.HIDDEN_PARAM)]
    + [pytest.param(each, marks=pytest.mark.slow) for each in ("s3", "gcs")],
    indirect=True,
)


@pytest.fixture
def home(lake_location, tmp_path):  # noqa: ARG001
    with a_home(tmp_path) as made:
        yield made


def rows(*uids, **more) -> str:
    return HEADER + "".join(csv_row(uid, **more) for uid in uids)


def retraction(folder: Path, uid: str) -> Path:
    """A file with one row of that table."""
    path = folder / f"{uid}.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT '{uid}' AS uid, 'b' AS backfill) TO '{path}'")
    return path


# One writer


@pytest.mark.long
@BUCKETS
def test_of_two_that_believe_to_hold_the_lock_one_commits_its_files(home):
    """The first one has registered its files, and stops before the commit."""
    ours, theirs = home.organization.lake, other_machine(home)
    files = [retraction(home.stores.home, name) for name in ("ours", "theirs")]
    refused = pytest.raises(Unavailable, match=r"replaced|serialize")
    with refused, ours.lock(), ours.transaction() as connection:
        ours.register(connection, "retraction", files[0], "ours.parquet")
        cut_sessions(home)
        with theirs.lock(), theirs.transaction() as other:
            theirs.register(other, "retraction", files[1], "theirs.parquet")

    for lake in (ours, theirs):
        with lake.reader() as reader:
            found = reader.execute("SELECT uid FROM lake.retraction").fetchall()
        assert found == [("theirs",)]
    theirs.close()


@pytest.mark.parametrize("lake_location", ["folder"], indirect=True)
def test_in_a_folder_nobody_else_gets_the_lock_between_files_and_commit(home):
    ours, theirs = home.organization.lake, other_machine_of_a_folder(home)
    with ours.lock(), ours.transaction() as connection:
        connection.execute("INSERT INTO lake.retraction (uid) VALUES ('ours')")
        with pytest.raises(Busy), theirs.lock(0):
            pass
    with theirs.lock(0), theirs.reader() as reader:
        assert reader.execute("SELECT uid FROM lake.retraction").fetchall() == [("ours",)]
    theirs.close()


def other_machine_of_a_folder(home):
    return open_lake(home.stores.settings, home.org_id)


@pytest.mark.long
@BUCKETS
def test_ducklake_tries_a_commit_a_hundred_times_for_two_seconds(home):
    with closing(home.organization.lake.connect(read_only=False)) as connection:
        found = dict(
            connection.execute(
                "SELECT name, value FROM duckdb_settings() WHERE name LIKE 'ducklake_%retr%'"
            ).fetchall()
        )
    assert int(found["ducklake_max_retry_count"]) == 100
    assert float(found["ducklake_retry_backoff"]) == 1
    assert int(found["ducklake_retry_wait_ms"]) == 20


@pytest.mark.parametrize("error", [duckdb.InternalException, duckdb.FatalException])
def test_a_failed_assertion_of_ducklake_may_be_tried_again(error):
    with pytest.raises(Unavailable) as caught, translate_errors():
        raise error("INTERNAL Error: Attempted to dereference unique_ptr that is NULL!")

    assert is_invalidated(caught.value)


@pytest.mark.parametrize(
    "reason",
    [
        "TransactionContext Error: Current transaction is aborted (please ROLLBACK)",
        "IO Error: server closed the connection unexpectedly",
    ],
)
def test_a_result_of_a_query_that_failed_in_the_catalog_says_why(reason):
    nothing = "Invalid Input Error: Attempting to fetch from an unsuccessful query result"
    with pytest.raises(Unavailable) as caught, translate_errors():
        raise duckdb.InvalidInputException(f"{nothing}\nError: {reason}\nmore")

    assert str(caught.value) == f"lake is unavailable: {reason}; try again in a minute"


def test_a_wrong_input_is_no_trouble_of_the_world():
    with pytest.raises(duckdb.InvalidInputException), translate_errors():
        raise duckdb.InvalidInputException("Invalid Input Error: no such option")


@pytest.mark.long
@ALL
def test_a_commit_whose_answer_is_lost_is_found_in_the_ledger(home, monkeypatch):
    def lose(name):
        if name == "lake.after_commit":
            raise Unavailable("lake", "the connection to the server was lost")

    home.drop("a.csv", rows("u1", "u2"))
    monkeypatch.setattr("meterlake.model.values.failpoint.hook", lose)
    with pytest.raises(Unavailable):
        home.work()
    monkeypatch.undo()
    home.work()

    assert home.ledger() == [("a.csv", 1, "done", 2, 2, 0, 0)]
    home.check_rows()


# Statements


def test_no_statement_replaces_a_table_of_the_lake():
    statements = re.compile(r"CREATE OR REPLACE (TABLE|VIEW) *\{?lake")
    found = [path for path in LAKE.parents[1].rglob("*.py") if statements.search(path.read_text())]

    assert found == []


@pytest.mark.long
@BUCKETS
def test_ingest_makes_no_table_once_it_has_one(home):
    """Statements that make tables take up sessions of the scanner, and each reader looks at all."""
    lake = home.organization.lake
    home.ingest("0.csv", rows("u0"))
    before = names_of_relations(lake.catalog)
    for number in range(1, 4):
        home.ingest(f"{number}.csv", rows(f"u{number}", f"v{number}"))

    assert names_of_relations(lake.catalog) == before
    assert len(before) > 20


def names_of_relations(catalog: PostgresCatalog) -> list[str]:
    with catalog._session() as session:
        found = session.exec_driver_sql(
            "SELECT oid::text || relname FROM pg_class WHERE relnamespace = %s::regnamespace",
            (catalog.schema,),
        )
        return sorted(name for [name] in found)


@pytest.mark.long
@BUCKETS
def test_credentials_are_secrets_and_no_settings(home):
    """Settings such as `s3_access_key_id` are another way in CHECKPOINT than in a query."""
    lake = home.organization.lake
    home.ingest("a.csv", rows("u1"))
    with lake.reader() as connection:
        found = connection.execute("SELECT name, scope FROM duckdb_secrets() ORDER BY name")
        secrets = dict(found.fetchall())
    assert secrets.keys() >= {"meterlake_catalog"}
    assert "meterlake_files" not in secrets or secrets["meterlake_files"] == [lake.files.root]
    for path in LAKE.parents[1].rglob("*.py"):
        assert not re.search(r"SET (GLOBAL )?s3_", path.read_text()), path


# Files


@pytest.mark.long
@ALL
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1)),
        min_size=1,
        max_size=4,
    )
)
def test_the_path_of_a_file_is_the_partition_of_its_rows(home, times):
    texts = [f"{each:%Y-%m-%dT%H:%M:%S.%f}Z" for each in times]
    home.ingest("a.csv", HEADER + "".join(csv_row(str(uuid4()), ts=each) for each in texts))
    home.ingest(
        "edge.csv", HEADER + "".join(csv_row(str(uuid4()), ts=edge(each)) for each in times)
    )

    lake = home.organization.lake
    with lake.reader() as reader:
        for path in sorted(live_files(reader, lake)):
            partition = re.search(r"/year=(\d+)/month=(\d+)/", path)
            if partition is None:
                continue
            found = reader.execute(
                "SELECT DISTINCT year(ts), month(ts) FROM"
                f" read_parquet('{path}', hive_partitioning => false)"
            ).fetchall()
            assert found == [tuple(map(int, partition.groups()))]


def edge(time_: datetime) -> str:
    """The last microsecond of a month."""
    last = calendar.monthrange(time_.year, time_.month)[1]
    return f"{time_.year:04}-{time_.month:02}-{last:02}T23:59:59.999999Z"


@pytest.mark.slow
@pytest.mark.parametrize("lake_location", ["folder", "s3"], indirect=True)
def test_the_last_files_of_many_are_registered_as_fast_as_the_first(home):
    """Each is registered by a call of its own: one call for 24,000 files takes 1,000 seconds."""
    lake, seconds = home.organization.lake, []
    paths = [home.stores.home / f"{number}.parquet" for number in range(400)]
    for path in paths:
        shutil.copy(retraction(home.stores.home, "u"), path)
    with lake.lock(), lake.transaction() as connection:
        for part in range(4):
            began = time.process_time()
            some = paths[part * 100 : part * 100 + 100]
            lake.register_all(connection, [("retraction", path, path.name) for path in some])
            seconds.append(time.process_time() - began)

    assert home.query("SELECT count(*) FROM lake.retraction") == [(400,)]
    assert seconds[-1] < 3 * max(seconds[0], 0.2), seconds


@pytest.mark.long
@BUCKETS
def test_what_nobody_registered_is_removed_in_a_bucket_when_it_is_old_and_nothing_else(
    home, monkeypatch
):
    home.ingest("a.csv", rows(*(f"u{number}" for number in range(1500))))
    lake = home.organization.lake
    before = lake.files.names()
    for number in range(3):
        lake.files.objects.put_bytes(f"main/orphan-{number}.parquet", b"nobody knows")
    with lake.lock():
        assert remove_orphans(lake) == 0
    assert len(lake.files.names()) == len(before) + 3

    monkeypatch.setattr("meterlake.stores.lake.maintenance._ORPHANS_KEPT", timedelta(0))
    time.sleep(1.1)  # Stores tell seconds.
    with lake.lock():
        assert remove_orphans(lake) == 3

    assert lake.files.names() == before
    assert home.query("SELECT count(*) FROM lake.uid_index") == [(1500,)]


@pytest.mark.long
@BUCKETS
def test_upkeep_that_forgets_snapshots_loses_no_row_of_a_bucket(home):
    for number in range(3):
        uids = (f"u{number}-{each}" for each in range(1100))
        home.ingest(f"{number}.csv", rows(*uids))
    before = home.measurements()
    for _ in range(2):
        maintain(home.organization, kept_for=timedelta(0), snapshots_for=timedelta(0))

    assert home.measurements() == before
    home.check_rows()


# The server


@pytest.mark.slow
def test_a_real_server_that_speaks_german_is_refused(monkeypatch):
    program = shutil.which("localedef")
    if missing() or program is None:
        pytest.skip(missing() or "localedef is not installed")
    server = Server()
    try:
        german = server.folder / "de_DE.UTF-8"
        command = [program, "-i", "de_DE", "-f", "UTF-8", str(german)]
        made = subprocess.run(command, check=False, umask=0o022)
        if made.returncode:
            pytest.skip("localedef has no sources of de_DE")
        monkeypatch.setenv("LOCPATH", str(server.folder))
        server.initialize()
        server.start(lc_messages="de_DE.UTF-8")
        refused = pytest.raises(Invalid, match=r"de_DE.*ALTER ROLE")
        with closing(PostgresCatalog(server.url, "0" * 32)) as catalog, refused:
            catalog.exists()
        server.run(
            *("psql", "-h", str(server.folder), "-U", "meterlake", "-d", "postgres"),
            *("-qc", "ALTER ROLE meterlake SET lc_messages = 'C'"),
        )
        with closing(PostgresCatalog(server.url, "0" * 32)) as catalog:
            assert not catalog.exists()
    finally:
        server.remove()
