"""Lakes with their files in a bucket and their catalog in PostgreSQL."""

import gzip
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from sqlalchemy import create_engine, make_url

from meterlake.model.errors import BadQuery, Busy, Invalid, MeterlakeError, NotFound, Unavailable
from meterlake.model.values import failpoint
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.pipeline.publish.query import query
from meterlake.settings import as_environment
from meterlake.stores.home_settings import change
from meterlake.stores.lake import staged_parquet
from meterlake.stores.lake.backends.bucket_files import GcsFiles
from meterlake.stores.lake.backends.location import open_lake
from meterlake.stores.lake.backends.postgres_catalog import PostgresCatalog
from meterlake.stores.lake.maintenance import live_files, remove_replaced
from meterlake.stores.objects.base import ObjectStore
from meterlake.stores.state.core.engine import parse_url
from tests.databases import new_database
from tests.homes import HEADER, a_home, csv_row, open_home, settings

pytestmark = pytest.mark.parametrize(
    "lake_location", ["s3", pytest.param("gcs", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture
def home(tmp_path, lake_location):  # noqa: ARG001
    with a_home(tmp_path) as made:
        yield made


def several(first: int, last: int) -> str:
    return HEADER + "".join(csv_row(f"u{number}") for number in range(first, last))


def other_machine(home):
    """The same lake as another machine sees it."""
    elsewhere = home.stores.home.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    return open_lake(home.stores.settings.model_copy(update={"home": elsewhere}), home.org_id)


@contextmanager
def admin(home):
    engine = create_engine(parse_url(home.stores.settings.catalog), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def cut_sessions(home) -> None:
    """End every session that holds a lock, as a network that is cut does after a while."""
    with admin(home) as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )


def store_row(connection, name: str) -> None:
    connection.execute("INSERT INTO lake.retraction (backfill, uid) VALUES (?, ?)", [name, name])


def stored(lake) -> list[str]:
    with lake.reader() as reader:
        rows = reader.execute("SELECT uid FROM lake.retraction ORDER BY 1").fetchall()
    return [uid for [uid] in rows]


def test_a_lake_that_nobody_created_is_not_there(home):
    other = open_lake(home.stores.settings, "00000000-0000-0000-0000-000000000000")

    with pytest.raises(NotFound), other.reader():
        pass
    other.close()


@pytest.mark.long
def test_nothing_of_the_lake_but_caches_lies_in_the_home(home):
    home.ingest("a.csv", several(0, 2000))

    folder = home.organization.lake_folder
    assert not list(folder.rglob("*.parquet"))
    assert not list(folder.rglob("*.sqlite"))
    with home.organization.lake.reader() as reader:
        live = live_files(reader, home.organization.lake)
    files = home.organization.lake.files
    assert live == {files.root + name for name in files.names()} != set()


@pytest.mark.long
def test_a_writer_that_lost_the_lock_cannot_commit(home):
    ours, theirs = home.organization.lake, other_machine(home)
    refused = pytest.raises(Unavailable, match=r"replaced|serialize")
    with refused, ours.lock(), ours.transaction() as connection:
        store_row(connection, "ours")
        cut_sessions(home)
        with theirs.lock(), theirs.transaction() as other:
            store_row(other, "theirs")

    assert stored(ours) == stored(theirs) == ["theirs"]
    with ours.lock(), ours.transaction() as connection:
        store_row(connection, "ours again")
    assert stored(theirs) == ["ours again", "theirs"]
    theirs.close()


def test_a_writer_that_lost_the_lock_before_it_began_cannot_commit(home):
    ours, theirs = home.organization.lake, other_machine(home)
    with pytest.raises(Unavailable, match="replaced"), ours.lock():  # noqa: PT012
        cut_sessions(home)
        with theirs.lock():
            pass
        with ours.transaction() as connection:
            store_row(connection, "ours")

    assert stored(theirs) == []
    theirs.close()


@pytest.mark.long
def test_nobody_commits_who_never_took_the_lock(home):
    lake = home.organization.lake
    refused = pytest.raises(duckdb.Error, match="replaced")
    with closing(lake.connect(read_only=False)) as connection, refused:
        connection.execute("INSERT INTO lake.retraction (uid) VALUES ('stranger')")

    assert stored(lake) == []


def test_a_machine_that_was_told_another_place_reads_and_writes_nothing(home):
    scheme, _, _ = home.stores.settings.lake.partition("://")
    wrong = home.stores.settings.model_copy(update={"lake": f"{scheme}://lakes/elsewhere"})
    other = open_lake(wrong, home.org_id)
    with pytest.raises(Invalid, match="METERLAKE_LAKE"), other.reader():
        pass
    with pytest.raises(Invalid, match="METERLAKE_LAKE"), other.lock(), other.transaction():
        pass
    other.close()


@pytest.mark.parametrize("read_only", [True, False])
def test_of_all_that_its_database_has_a_lake_sees_its_own_catalog(home, read_only):
    """DuckDB would read the names and columns of every table there is: those of all lakes."""
    lake = home.organization.lake
    with closing(lake.connect(read_only=read_only)) as connection:
        catalog = f"__ducklake_metadata_lake.{lake.catalog.schema}"
        assert connection.execute(f"FROM {catalog}.ducklake_snapshot").fetchall()
        with pytest.raises(duckdb.CatalogException, match="does not exist"):
            connection.execute("FROM __ducklake_metadata_lake.meterlake_lakes.writer")


@pytest.mark.slow
def test_a_query_reads_the_lake_and_nothing_beside_it(home):
    home.ingest("a.csv", several(0, 3))
    with query(home.organization, "SELECT count(*) FROM lake.uid_index") as found:
        assert list(found.rows) == [(3,)]
    root = home.organization.lake.files.root
    for statement in (
        f"SELECT * FROM read_parquet('{root}**/*.parquet')",
        "SELECT * FROM __ducklake_metadata_lake.public.entity",
        'DESCRIBE "__DuckLake_Metadata_lake".public.entity',
        "SUMMARIZE __ducklake_metadata_lake.public.entity",
        "SELECT * FROM query_table('__duck' || 'lake_metadata_lake.public.entity')",
        "SELECT * FROM postgres_query('__ducklake_' || 'metadata_lake', 'SELECT 1')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM which_secret('s3://lakes/', 's3')",
    ):
        with pytest.raises(BadQuery), query(home.organization, statement) as found:
            list(found.rows)


@pytest.mark.long
def test_an_analyst_reads_with_rights_of_his_own_and_writes_nothing(home, monkeypatch):
    home.ingest("a.csv", several(0, 2000))
    lake = home.organization.lake
    page = Path(__file__).parents[3] / "docs" / "analyst.md"
    grants = [line for line in page.read_text().splitlines() if " lake_<organization> " in line]
    role = f"analyst_{lake.catalog.schema[-12:]}"
    with admin(home) as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
        for grant in grants:
            own = grant.replace("lake_<organization>", lake.catalog.schema)
            connection.exec_driver_sql(own.replace("analyst", role))
    home.ingest("b.csv", several(2000, 2003))
    monkeypatch.setenv("PGUSER", role)
    with closing(duckdb.connect(config={"allow_unsigned_extensions": True})) as plain:
        if isinstance(lake.files, GcsFiles):
            lake.files.prepare(plain)
        for statement in lake.public_statements():
            plain.execute(statement)
        found = plain.execute("SELECT count(*) FROM lake.uid_index").fetchone()
        with pytest.raises(duckdb.Error, match="read-only"):
            plain.execute("DELETE FROM lake.uid_index")

    assert found == (2003,)
    with admin(home) as connection:
        allowed = connection.exec_driver_sql(
            "SELECT has_table_privilege(%s, 'public.entity', 'SELECT'),"
            " has_table_privilege(%s, %s, 'INSERT')",
            (role, role, f"{lake.catalog.schema}.ducklake_snapshot"),
        ).one()
    assert tuple(allowed) == (False, False)


def test_the_lock_is_waited_for_as_long_as_one_wants(home):
    ours, theirs = home.organization.lake, other_machine(home)
    with ours.lock():
        for seconds in (0, 0.1):
            with pytest.raises(Busy), theirs.lock(seconds):
                pass
    with theirs.lock(0):
        pass
    theirs.close()


_HOLDER = """
    import sys, time
    from meterlake.settings import Settings
    from meterlake.stores.lake.backends.location import open_lake
    with open_lake(Settings(_env_file=None), sys.argv[1]).lock():
        print("held", flush=True)
        time.sleep(60)
"""


def test_a_session_that_ends_while_its_lock_is_taken_is_a_store_that_failed(home, monkeypatch):
    lake = home.organization.lake
    wait = PostgresCatalog._wait

    def cut_then(self, session, timeout_s):
        wait(self, session, timeout_s)
        cut_sessions(home)

    monkeypatch.setattr(PostgresCatalog, "_wait", cut_then)
    with pytest.raises(Unavailable), lake.lock(10):
        pass
    monkeypatch.undo()
    with lake.lock(10):
        pass


@pytest.mark.long
def test_the_lock_of_a_process_that_is_killed_is_free(home):
    lake = home.organization.lake
    environment = {**os.environ, **as_environment(home.stores.settings)}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_HOLDER), home.org_id],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Busy), lake.lock(0):
            pass
        holder.send_signal(signal.SIGKILL)
        with lake.lock(10):
            pass


@pytest.mark.long
def test_commits_that_a_restored_server_lost_are_not_believed(home):
    """The number of a snapshot that was lost is given again: what is cached of it is not true."""
    home.ingest("a.csv", several(0, 2))
    home.stores.close()
    server = str(make_url(home.stores.settings.catalog).set(database="postgres"))
    known = make_url(home.stores.settings.catalog).database
    backup = new_database(server, known)
    with open_home(home.stores.home, home.org_id) as before:
        lost = before.ingest("b.csv", several(2, 4))
    for name in ("state", "catalog"):
        change(settings(home.stores.home), name, backup)
    with open_home(home.stores.home, home.org_id, state=backup, catalog=backup) as after:
        again = after.ingest("c.csv", several(4, 6))
        assert again.snapshot == lost.snapshot
        last = after.ingest("d.csv", several(2, 6))

        assert (last.accepted, last.repeats) == (2, 2)
        after.check_rows()


def test_a_file_that_the_catalog_names_is_never_removed(home, caplog):
    home.ingest("a.csv", several(0, 2000))
    lake = home.organization.lake
    schema = lake.catalog.schema
    with admin(home) as connection:
        connection.exec_driver_sql(
            f'INSERT INTO "{schema}".ducklake_files_scheduled_for_deletion'
            " SELECT data_file_id, path, path_is_relative, now() - INTERVAL '9 days'"
            f' FROM "{schema}".ducklake_data_file LIMIT 1'
        )
        connection.exec_driver_sql(
            f"UPDATE \"{schema}\".ducklake_files_scheduled_for_deletion SET path = 'main/' ||"
            f' (SELECT path FROM "{schema}".ducklake_table t WHERE EXISTS (SELECT 1 FROM'
            f' "{schema}".ducklake_data_file f WHERE f.table_id = t.table_id AND f.path ='
            f' "{schema}".ducklake_files_scheduled_for_deletion.path) LIMIT 1) || path'
        )
    before = lake.files.names()
    with caplog.at_level(logging.ERROR), lake.lock():
        assert remove_replaced(lake, timedelta(days=2)) == 0

    assert lake.files.names() == before
    assert "which the lake needs" in caplog.text


@pytest.fixture
def small_files(home, monkeypatch):
    """Blocks and files are so small that a source of a few hundred rows has several of each."""
    monkeypatch.setattr(staged_parquet, "ROW_GROUP_ROWS", 20)
    monkeypatch.setattr(staged_parquet, "SENT_ROWS", 40)
    home.stores.settings.__dict__["block_bytes"] = 2048


def live_names(home):
    lake = home.organization.lake
    with lake.reader() as reader:
        return {each.removeprefix(lake.files.root) for each in live_files(reader, lake)}


@pytest.mark.long
@pytest.mark.usefixtures("small_files")
def test_files_of_a_long_source_are_sent_while_it_is_read(home, monkeypatch):
    files, seen = home.organization.lake.files, {}
    home.ingest("a.csv", several(0, 50))
    before = files.names()

    def look(step):
        if step not in seen:
            seen[step] = files.names() - before

    monkeypatch.setattr(failpoint, "hook", look)
    receipt = home.ingest("b.csv", several(10, 400) + csv_row("u20", "7"))
    monkeypatch.setattr(failpoint, "hook", None)

    assert (receipt.accepted, receipt.repeats, receipt.rejected) == (350, 40, 1)
    assert home.uids() == sorted(home.uids())
    assert len(home.uids()) == 400
    home.check_rows()
    # Those that held a repeat were written anew; what had been sent is removed.
    assert files.names() == live_names(home)
    assert len(seen["commit.locked"]) > 2


@pytest.mark.long
@pytest.mark.usefixtures("small_files")
def test_a_source_that_cannot_be_read_leaves_none_of_its_files(home, monkeypatch):
    sent = []
    put = ObjectStore.put_file
    monkeypatch.setattr(
        ObjectStore, "put_file", lambda *each, **named: sent.append(each[1]) or put(*each, **named)
    )
    receipt = home.ingest("a.csv.gz", gzip.compress(several(0, 4000).encode())[:-8])

    assert (receipt.status, receipt.accepted) == ("failed", 0)
    assert home.organization.lake.files.names() == live_names(home) == set()
    assert len(sent) > 2


@pytest.mark.long
def test_maintenance_merges_and_keeps_what_is_stored(home):
    for number in range(3):
        home.ingest(f"{number}.csv", several(number * 2000, number * 2000 + 2000))
    before = home.measurements()

    done = maintain(home.organization, kept_for=timedelta(0))

    assert done.compacted_files > 0
    assert home.measurements() == before
    home.check_rows()


@pytest.mark.long
def test_maintenance_counts_no_file_that_is_sent_meanwhile(home, monkeypatch, tmp_path):
    home.ingest("a.csv", several(0, 2000))
    maintain(home.organization, kept_for=timedelta(0))
    lake, found, sent = home.organization.lake, tmp_path / "found.parquet", []
    found.write_bytes(b"sent by another machine")
    with open_home(home.stores.home, home.org_id) as other, lake.sending() as send:
        assert send is not None

        def send_one(step):
            if step == "maintain.before_commit":
                sent.append(f"{len(sent)}.parquet")
                send("uid_index", found, sent[-1])
                while not any(name.endswith(sent[-1]) for name in lake.files.names()):
                    time.sleep(0.01)

        monkeypatch.setattr(failpoint, "hook", send_one)
        done = maintain(other.stores.organization(home.org_id), kept_for=timedelta(0))
        monkeypatch.setattr(failpoint, "hook", None)

    assert sent
    assert done.compacted_files == 0
    assert lake.files.names() == live_names(home)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_readers_are_never_in_the_way_of_each_other(home, seconds):
    home.ingest("a.csv", several(0, 500))
    lake = home.organization.explored_lake
    until, failed, counts = time.monotonic() + seconds, [], []

    def read() -> None:
        while time.monotonic() < until and not failed:
            try:
                with lake.reader() as reader:
                    row = reader.execute("SELECT count(*) FROM lake.uid_index").fetchone()
                counts.append(row)
            except Exception as error:  # noqa: BLE001 - the test shows it
                failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(20)]
    for thread in threads:
        thread.start()
    with suppress(MeterlakeError):
        home.ingest("b.csv", several(500, 1000))
    for thread in threads:
        thread.join()

    assert failed == []
    assert {count for [count] in counts} <= {500, 1000}
