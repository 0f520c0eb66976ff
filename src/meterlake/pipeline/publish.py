"""The verb `publish`: one self-contained DuckDB file with everything an analyst starts with.

The file is built in a staging folder and takes the place of the last one in a single step. Who has
the old one open keeps reading it, and sees the new one when opening the file again.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from meterlake.model import wire
from meterlake.model.catalog import Meter
from meterlake.model.failpoint import reached
from meterlake.model.measurement import meter_table
from meterlake.model.money import to_lake
from meterlake.model.period import parse_instant
from meterlake.pipeline.publish_documents import documents_of
from meterlake.pipeline.version import code_version
from meterlake.stages.publish import tables
from meterlake.stages.publish.meters import Measured, measured
from meterlake.stages.publish.tables import ABOUT_TABLE, DICTIONARY, LAKE_TABLES, Table, value_at
from meterlake.stages.publish.views import FIXED_VIEWS, View, comment, identifier, usage_per_day
from meterlake.stores import Stores
from meterlake.stores.durable import make_folder, move, sync
from meterlake.stores.lake import Lake, translated
from meterlake.stores.lake_connection import attach_statement, open_duckdb, quoted
from meterlake.stores.locks import held

FILE_NAME: Final = "warehouse.duckdb"

_ARROW: Final = {
    tables.NUMBER: pa.decimal128(38, 12),
    tables.TEXT: pa.string(),
    tables.INSTANT: pa.timestamp("us"),
    tables.DAY: pa.date32(),
    tables.INTEGER: pa.int64(),
    tables.FLAG: pa.bool_(),
    tables.JSON: pa.string(),
}


@dataclass(frozen=True, slots=True)
class Published:
    """The file that was published, and the rows of every table."""

    path: Path
    snapshot: int
    rows: Mapping[str, int]


def publish(stores: Stores, org_id: str) -> Published:
    """Publish an organization's data as one DuckDB file, in place of the last one.

    Raises:
        NotFound: There is no such organization.
        Unavailable: The disk or the memory failed; the last file is untouched.
    """
    organization = stores.state.organization(org_id)
    target = stores.home / "published" / organization.code / FILE_NAME
    with _building(stores.home / "staging" / "publish" / organization.id) as path:
        snapshot = _build(stores, organization.id, path)
        with closing(duckdb.connect(str(path))) as connection, translated():
            rows = _rows(connection)
            connection.execute("CHECKPOINT")
        sync(path)
        reached("publish.built")
        make_folder(target.parent)
        # What somebody wrote to the old file and left in its log must not meet the new one.
        Path(f"{target}.wal").unlink(missing_ok=True)
        move(path, target)
    return Published(target, snapshot, rows)


def attach_line(stores: Stores, org_id: str) -> str:
    """The line of SQL that attaches the live lake read-only as `lake`.

    DuckDB's extensions `ducklake` and `sqlite` have to be there.
    """
    lake = stores.lake(org_id)
    return attach_statement(lake.catalog, lake.data, read_only=True) + ";"


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """The path of a new file in a folder that only we build in."""
    make_folder(folder.parent)
    with held(folder.with_suffix(".lock")):
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        try:
            yield folder / FILE_NAME
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _build(stores: Stores, org_id: str, path: Path) -> int:
    lake = stores.lake(org_id)
    configuration = stores.state.configuration(org_id)
    meters = list(measured(configuration.all(Meter)))
    names = {each.meter.id: each.name for each in meters}
    documents = documents_of(stores, org_id, configuration, names)
    with closing(_opened(lake, path)) as connection, translated():
        connection.execute("BEGIN")  # everything is of one snapshot
        for table, rows in documents.items():
            _create(connection, table, rows)
        snapshot = _copy(connection, meters)
        _create(connection, ABOUT_TABLE, [_about(stores, org_id, snapshot)])
        connection.execute("COMMIT")
    with closing(duckdb.connect(str(path))) as connection, translated():
        _describe(connection, meters)
    return snapshot


def _opened(lake: Lake, path: Path) -> duckdb.DuckDBPyConnection:
    connection = open_duckdb(lake.memory, lake.threads, lake.folder / "spill")
    with translated():
        connection.execute(attach_statement(lake.catalog, lake.data, read_only=True))
        connection.execute(f"ATTACH {quoted(path)} AS published")
        connection.execute("USE published")
    return connection


def _about(stores: Stores, org_id: str, snapshot: int) -> dict[str, Any]:
    organization = stores.state.organization(org_id)
    return {
        "organization": organization.name,
        "organizationCode": organization.code,
        "publishedAt": stores.now(),
        "snapshot": snapshot,
        "meterlake": code_version(),
    }


def _create(
    connection: duckdb.DuckDBPyConnection, table: Table, documents: Sequence[Mapping[str, Any]]
) -> None:
    listed = ", ".join(f"{identifier(column.name)} {column.type}" for column in table.columns)
    connection.execute(f"CREATE TABLE {identifier(table.name)} ({listed})")
    columns = {
        column.name: pa.array(
            [_typed(value_at(each, column.path), column.type) for each in documents],
            _ARROW[column.type],
        )
        for column in table.columns
    }
    connection.register("documents", pa.table(columns))
    connection.execute(f"INSERT INTO {identifier(table.name)} SELECT * FROM documents")
    connection.unregister("documents")


def _typed(value: Any, kind: str) -> Any:
    """A value of a document as its column holds it; numbers are rounded to 12 decimals."""
    if value is None:
        return None
    if kind == tables.NUMBER:
        return to_lake(Decimal(value))
    if kind == tables.INSTANT:
        instant = value if isinstance(value, datetime) else parse_instant(value)
        return None if instant is None else instant.replace(tzinfo=None)
    if kind == tables.DAY and isinstance(value, str):
        return date.fromisoformat(value)
    if kind == tables.JSON:
        return wire.dumps_sorted(value)
    return value


def _copy(connection: duckdb.DuckDBPyConnection, meters: Sequence[Measured]) -> int:
    present: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'lake'"
    ).fetchall():
        present.setdefault(table, set()).add(column)
    for each in meters:
        query = each.query(present.get(meter_table(each.meter.id), set()))
        connection.execute(f"CREATE TABLE {identifier(each.name)} AS {query}")
    for lake_table in LAKE_TABLES:
        connection.execute(f"CREATE TABLE {identifier(lake_table.name)} AS {lake_table.query}")
    row = connection.execute("SELECT id FROM lake.current_snapshot()").fetchone()
    assert row is not None
    return int(row[0])


def _describe(connection: duckdb.DuckDBPyConnection, meters: Sequence[Measured]) -> None:
    """Create the views, and say of everything what it means."""
    views = (*FIXED_VIEWS, usage_per_day([each.usage for each in meters]))
    for view in views:
        connection.execute(f"CREATE VIEW {identifier(view.name)} AS {view.query}")
    _create(connection, DICTIONARY, [])
    for kind, name, doc, columns in _docs(meters, views):
        connection.execute(comment(kind, [name], doc))
        for column, meaning in columns.items():
            connection.execute(comment("COLUMN", [name, column], meaning))
    connection.execute(_DICTIONARY_ROWS)


_DICTIONARY_ROWS: Final = """
    INSERT INTO dictionary
    SELECT table_name, NULL, 'table', comment FROM duckdb_tables()
    UNION ALL
    SELECT view_name, NULL, 'view', comment FROM duckdb_views() WHERE NOT internal
    UNION ALL
    SELECT table_name, column_name, data_type, comment FROM (
        SELECT * FROM duckdb_columns() WHERE NOT internal ORDER BY table_name, column_index
    )"""


def _docs(
    meters: Sequence[Measured], views: Sequence[View]
) -> Iterator[tuple[str, str, str, Mapping[str, str]]]:
    """Kind, name, meaning and the meaning of the columns of everything in the file."""
    for table in (*tables.TABLES, ABOUT_TABLE, DICTIONARY):
        docs = {column.name: column.doc for column in table.columns}
        yield "TABLE", table.name, table.doc, docs
    for lake_table in LAKE_TABLES:
        yield "TABLE", lake_table.name, lake_table.doc, lake_table.columns
    for each in meters:
        yield "TABLE", each.name, each.doc, each.docs
    for view in views:
        yield "VIEW", view.name, view.doc, view.columns


def _rows(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    names = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
    counts = {}
    for (name,) in names:
        row = connection.execute(f"SELECT count(*) FROM {identifier(name)}").fetchone()
        assert row is not None
        counts[name] = int(row[0])
    return counts
