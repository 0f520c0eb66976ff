"""The table of files of measurements comes and goes."""

from meterlake.stores.state import State
from meterlake.stores.state.core.migrations.versions import v0032_lake_files
from tests.migrations import changing, insert, migrate, rows


def test_the_table_comes_empty_and_goes(empty_database):
    State.at(empty_database).close()
    noted = "2026-10-01T12:00:00.000000Z"
    with changing(empty_database) as connection:
        insert(connection, "organization", id="o", code="o", name="O", created=noted)
        insert(connection, "lake_file", org="o", path="a", size_bytes=7, noted=noted)

    migrate(empty_database, v0032_lake_files.downgrade)
    migrate(empty_database, v0032_lake_files.upgrade)

    assert rows(empty_database, "SELECT * FROM lake_file") == []
