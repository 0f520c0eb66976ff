"""The lake: whole transactions, one writer, readers that never wait, files that move with it."""

from datetime import datetime

import polars as pl
import pytest

from meterlake.model.errors import Busy, NotFound
from meterlake.model.measurements.measurement import Category, Field, MeterFields
from meterlake.model.values.sql import identifier, quote
from meterlake.stores.lake.lake import Lake

METER = MeterFields("0b0e5a9c", 1, "egress", (Field(Category.MEASURE, "gb"),))


@pytest.fixture
def lake(tmp_path):
    made = Lake(tmp_path / "lake")
    made.create()
    yield made
    made.close()


def count(lake, table="source"):
    with lake.reader() as connection:
        return connection.execute(f"SELECT count(*) FROM lake.{identifier(table)}").fetchone()[0]


def insert_one(connection):
    connection.execute("INSERT INTO lake.uid_index VALUES ('u', 1, 2, 'm', 's', 1, 0)")


def test_creating_a_lake_twice_changes_nothing(lake):
    before = lake.snapshot()

    lake.create()

    assert lake.snapshot() == before
    assert {"source", "rejected", "uid_index", "quantity"} <= lake.tables()


def test_a_lake_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(NotFound), Lake(tmp_path / "none").reader():
        pass


@pytest.mark.long
def test_the_writing_connection_is_opened_anew_after_many_commits(lake, monkeypatch):
    monkeypatch.setattr("meterlake.stores.lake.lake.COMMITS_MAX", 3)
    used, snapshots = [], []
    for _ in range(8):
        with lake.lock(), lake.transaction() as connection:
            used.append(connection)
            insert_one(connection)
        snapshots.append(lake.committed_snapshot())

    assert len({id(each) for each in used}) == 3
    assert snapshots == list(range(snapshots[0], snapshots[0] + 8))
    assert count(lake, "uid_index") == 8


def test_a_reader_keeps_its_connection_while_others_commit(lake, monkeypatch):
    monkeypatch.setattr("meterlake.stores.lake.lake.COMMITS_MAX", 1)
    with lake.lock(), lake.transaction() as connection:
        insert_one(connection)
    with lake.reader() as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM lake.uid_index").fetchone()
        with lake.lock(), lake.transaction() as connection:
            insert_one(connection)
        assert reader.execute("SELECT count(*) FROM lake.uid_index").fetchone() == before == (1,)
    assert count(lake, "uid_index") == 2


def test_a_transaction_that_fails_leaves_nothing(lake):
    before = lake.snapshot()

    def fail():
        with lake.lock(), lake.transaction() as connection:
            insert_one(connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert (lake.snapshot(), count(lake, "uid_index")) == (before, 0)
    with lake.lock(), lake.transaction() as connection:
        insert_one(connection)
    assert count(lake, "uid_index") == 1


@pytest.mark.long
def test_a_reader_in_a_transaction_sees_one_snapshot_and_never_waits(lake):
    other = Lake(lake.folder)
    with other.reader() as reading:
        reading.execute("BEGIN")
        assert reading.execute("SELECT count(*) FROM lake.uid_index").fetchone() == (0,)
        with lake.lock(), lake.transaction() as connection:
            insert_one(connection)
        assert reading.execute("SELECT count(*) FROM lake.uid_index").fetchone() == (0,)
        reading.execute("COMMIT")
        assert reading.execute("SELECT count(*) FROM lake.uid_index").fetchone() == (1,)
    other.close()


def test_an_earlier_snapshot_can_be_read(lake):
    before = lake.snapshot()
    with lake.lock(), lake.transaction() as connection:
        insert_one(connection)

    with lake.reader() as connection:
        rows = connection.execute(
            f"SELECT * FROM lake.uid_index AT (VERSION => {before})"
        ).fetchall()

    assert rows == []


def test_a_second_writer_waits_or_is_told(lake):
    other = Lake(lake.folder)

    with lake.lock(), pytest.raises(Busy), other.lock(0.05):
        pass
    with other.lock(0.05):
        pass


def staged(lake, name="s"):
    folder = lake.new_staging(name)
    path = folder / "rows.parquet"
    columns = {
        "uid": ["u1"],
        "account_id": ["a"],
        "ts": [datetime(2026, 10, 1)],
        "ets": [None],
        "received_at": [datetime(2026, 10, 1)],
        "source": ["s"],
        "row": [1],
        "part": [0],
        "measure.gb": ["1.5"],
    }
    frame = pl.DataFrame(columns).cast(
        {"ets": pl.Datetime("us"), "part": pl.Int16, "measure.gb": pl.Decimal(38, 12)}
    )
    frame.write_parquet(path)
    return path


def test_a_registered_file_is_part_of_its_table_and_lies_in_its_folder(lake):
    with lake.lock(), lake.transaction() as connection:
        lake.ensure_meter_table(connection, METER)
        path = lake.register(connection, METER.table, staged(lake), "year=2026/month=10/a.parquet")

    assert path.is_relative_to(lake.files.folder)
    assert count(lake, METER.table) == 1


def test_a_file_that_was_registered_in_vain_is_not_part_of_the_table(lake):
    with lake.lock(), lake.transaction() as connection:
        lake.ensure_meter_table(connection, METER)

    def fail():
        with lake.lock(), lake.transaction() as connection:
            lake.register(connection, METER.table, staged(lake), "year=2026/month=10/a.parquet")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert count(lake, METER.table) == 0


@pytest.mark.long
def test_a_new_field_is_a_new_column_and_old_rows_lack_it(lake):
    wider = MeterFields(METER.id, 2, "egress", (*METER.fields, Field(Category.WHERE, 'a "b" c')))
    with lake.lock(), lake.transaction() as connection:
        lake.ensure_meter_table(connection, METER)
        lake.register(connection, METER.table, staged(lake), "year=2026/month=10/a.parquet")
    with lake.lock(), lake.transaction() as connection:
        lake.ensure_meter_table(connection, wider)
        lake.ensure_meter_table(connection, wider)

    with lake.reader() as connection:
        rows = connection.execute(
            f'SELECT uid, "where.a ""b"" c" FROM lake."{METER.table}"'
        ).fetchall()
    assert rows == [("u1", None)]


def test_a_staging_folder_is_empty_when_it_is_made(lake):
    staged(lake)

    assert list(lake.new_staging("s").iterdir()) == []
    lake.drop_staging("s")
    lake.drop_staging("s")
    assert list(lake.staging.iterdir()) == []


def threads_of_a_small_commit(lake):
    with lake.lock(), lake.transaction(1) as connection:
        insert_one(connection)
        return connection.execute("SELECT current_setting('threads')").fetchone()[0]


def test_a_small_commit_works_with_one_thread_but_never_takes_one_from_a_query(lake):
    # DuckDB waits for ever for the threads that it is to give up while a query has them.
    lake.open_to_write()
    assert threads_of_a_small_commit(lake) == 1

    with lake.reader() as reader:
        assert threads_of_a_small_commit(lake) == lake.threads == 2
        assert reader.execute("SELECT count(*) FROM lake.uid_index").fetchone() == (2,)

    assert threads_of_a_small_commit(lake) == 1


def test_texts_and_names_are_quoted():
    assert quote("it's") == "'it''s'"
    assert identifier('a"b') == '"a""b"'
