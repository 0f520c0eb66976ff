"""Rows of catalogs: each column has the type that DuckLake itself gives it, and every value stays."""

from contextlib import closing

import pytest

from meterlake.model.errors import CannotMove
from meterlake.model.measurements.measurement import (
    FIXED_COLUMNS,
    LAKE_TABLES,
    NUMBER_TYPE,
    TEXT_TYPE,
)
from meterlake.stores.lake.backends.catalog import SqliteCatalog
from meterlake.stores.lake.backends.postgres_catalog import PostgresCatalog
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.moves.catalog_rows import compare_rows, copy_rows, open_catalog
from tests.databases import new_database

TYPES = sorted(
    {kind for columns in (*LAKE_TABLES.values(), FIXED_COLUMNS) for kind in columns.values()}
    | {NUMBER_TYPE, TEXT_TYPE}
)
VALUES = {
    "BIGINT": "-9223372036854775808",
    "BOOLEAN": "true",
    "DECIMAL(38,12)": "-12345678901234567890123456.000000000001",
    "INTEGER": "2147483647",
    "SMALLINT": "-32768",
    "TIMESTAMP": "'2026-10-01 00:00:00.5'",
    "UBIGINT": "18446744073709551615",
    "VARCHAR": "'a\\x41''\"\u00e4\U0001f600\n'",
}


@pytest.fixture
def lakes(tmp_path, postgresql):
    """One lake in SQLite, one in PostgreSQL; both of them are locked."""
    made = {
        "sqlite": Lake(tmp_path / "a", catalog=SqliteCatalog(tmp_path / "a")),
        "postgresql": Lake(tmp_path / "b", catalog=PostgresCatalog(new_database(postgresql), "x")),
    }
    for lake in made.values():
        lake.folder.mkdir()
    with made["sqlite"].catalog.lock(0), made["postgresql"].catalog.lock(0):
        yield made
    for lake in made.values():
        lake.close()


def fill(lake: Lake) -> None:
    """A table with all types, three rows in the catalog, one of them deleted."""
    lake.create_catalog()
    lake.close_connections()
    columns = ", ".join(f'"c {number}" {kind}' for number, kind in enumerate(TYPES))
    values = ", ".join(VALUES[kind] for kind in TYPES)
    with closing(lake.connect(read_only=False)) as connection:
        connection.execute(f"CREATE TABLE lake.everything ({columns})")
        connection.execute(f"INSERT INTO lake.everything VALUES ({values})")
        connection.execute('INSERT INTO lake.everything ("c 0") VALUES (NULL), (7)')
        connection.execute('DELETE FROM lake.everything WHERE "c 0" = 7')


def copy(source: Lake, target: Lake) -> None:
    target.create_catalog()
    target.close_connections()
    with open_catalog(source) as theirs, open_catalog(target, read_only=False) as own:
        copy_rows(theirs, own, target.files.root)


def found(lake: Lake) -> list[tuple[object, ...]]:
    with closing(lake.connect()) as connection:
        versions = connection.execute("SELECT snapshot_id FROM ducklake_snapshots('lake')")
        return [
            row
            for [version] in versions.fetchall()[2:]
            for row in connection.execute(
                f"SELECT {version}, * FROM lake.everything AT (VERSION => {version}) ORDER BY ALL"
            ).fetchall()
        ]


def inlined(lake: Lake) -> dict[str, dict[str, str]]:
    with open_catalog(lake) as catalog:
        return {name: each for name, each in catalog.tables.items() if "inlined_data_1" in name}


PAIRS = pytest.mark.parametrize(
    ("source", "target"), [("sqlite", "postgresql"), ("postgresql", "sqlite")]
)


def test_every_type_that_lakes_have_is_tried():
    assert set(TYPES) == VALUES.keys()


@pytest.mark.slow
@PAIRS
def test_a_copy_has_the_same_rows_at_each_snapshot(lakes, source, target):
    fill(lakes[source])
    copy(lakes[source], lakes[target])

    root = lakes[target].files.root
    with open_catalog(lakes[source]) as theirs, open_catalog(lakes[target]) as own:
        assert list(compare_rows(theirs, own, root)) == []
        own_types = own.types
    assert len(found(lakes[source])) == 1 + 3 + 2
    assert found(lakes[target]) == found(lakes[source])
    # DuckLake itself would have made the same table.
    copied = inlined(lakes[target])
    lakes[target].catalog.drop()
    fill(lakes[target])
    assert copied == inlined(lakes[target])
    assert {kind for each in copied.values() for kind in each.values()} == {*own_types.values()}


@pytest.mark.long
def test_a_row_that_differs_is_found(lakes):
    fill(lakes["sqlite"])
    copy(lakes["sqlite"], lakes["postgresql"])
    root = lakes["postgresql"].files.root
    with open_catalog(lakes["postgresql"], read_only=False) as own:
        own.connection.execute(
            f"UPDATE {own.schema}.ducklake_column SET column_order = 99 WHERE column_id = 1"
        )
        own.connection.execute(f"DELETE FROM {own.schema}.ducklake_table_stats")

    with open_catalog(lakes["sqlite"]) as theirs, open_catalog(lakes["postgresql"]) as own:
        different = [each.partition(":")[0] for each in compare_rows(theirs, own, root)]
    assert different == ["ducklake_column", "ducklake_table_stats"]


@pytest.mark.long
def test_a_catalog_of_another_version_is_refused(lakes):
    fill(lakes["sqlite"])
    with open_catalog(lakes["sqlite"], read_only=False) as own:
        own.connection.execute(f"ALTER TABLE {own.schema}.ducklake_tag ADD COLUMN newer BIGINT")

    with pytest.raises(CannotMove, match="another version of DuckLake"):
        copy(lakes["sqlite"], lakes["postgresql"])


@pytest.mark.long
def test_a_type_that_is_not_known_is_refused(lakes):
    lakes["sqlite"].create_catalog()
    lakes["sqlite"].close_connections()
    with closing(lakes["sqlite"].connect(read_only=False)) as connection:
        connection.execute("CREATE TABLE lake.other (day DATE)")

    with pytest.raises(CannotMove, match="type date of column 'day'"):
        copy(lakes["sqlite"], lakes["postgresql"])


def test_a_file_outside_of_its_lake_is_refused(lakes):
    fill(lakes["sqlite"])
    with open_catalog(lakes["sqlite"], read_only=False) as own:
        own.connection.execute(
            f"INSERT INTO {own.schema}.ducklake_data_file (data_file_id, table_id, path,"
            " path_is_relative, file_size_bytes) VALUES (9, 1, '/elsewhere/x.parquet', 0, 4)"
        )

    with open_catalog(lakes["sqlite"]) as own, pytest.raises(CannotMove, match="outside"):
        own.files()
