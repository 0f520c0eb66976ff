"""Quantities in the lake: folding measurements at a snapshot, and the runs of the `quantity` table."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import duckdb
import polars as pl

from meterlake.model.failpoint import reached
from meterlake.model.measurement import LAKE_TABLES
from meterlake.stores.lake import Lake, table_names, translated
from meterlake.stores.lake_connection import INLINED_ROWS_MAX, identifier, quoted
from meterlake.stores.staged import StagedFile, StagedFiles

TABLE: Final = "quantity"
# What an aggregation of a month gives; the rest of a row says which run it belongs to.
SCHEMA: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "period_start": pl.Datetime("us"),
    "period_end": pl.Datetime("us"),
    "account_id": pl.String,
    "meter_id": pl.String,
    "aggregation_id": pl.String,
    "aggregation_version": pl.Int32,
    "value": pl.Decimal(38, 12),
    "value_sum": pl.Decimal(38, 12),
    "value_count": pl.Int64,
    "quantity": pl.String,
    "units": pl.String,
    "unit": pl.String,
    "measurements": pl.Int64,
}
_ORDER: Final = ("account_id", "aggregation_id", "period_start")


@dataclass(frozen=True, slots=True)
class Run:
    """The newest aggregation of a month; without an id if nothing was ever found.

    Attributes:
        snapshot: The snapshot that it was folded from.
        rows: How many quantities it has.
        appended: Whether it was stored now; else it was there and stands.
    """

    id: str | None
    snapshot: int | None
    rows: int
    appended: bool


def columns(connection: duckdb.DuckDBPyConnection, table: str, snapshot: int) -> set[str]:
    """The columns that a table had at a snapshot; none if there was no such table."""
    if table not in table_names(connection):
        return set()
    source = f"lake.{identifier(table)} AT (VERSION => {snapshot})"
    try:
        with translated():
            rows = connection.execute(f"DESCRIBE FROM {source}").fetchall()
    except duckdb.CatalogException:
        return set()  # the table came later
    return {row[0] for row in rows}


def rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any]
) -> list[tuple[Any, ...]] | None:
    """The rows of a query; None if one of its sums has too many digits."""
    try:
        with translated():
            return connection.execute(sql, dict(parameters)).fetchall()
    except duckdb.OutOfRangeException:
        return None


def append(
    lake: Lake, month: str, found: pl.DataFrame, snapshot: int, computed_at: datetime
) -> Run:
    """Add a run of a month to the lake, unless the newest one has the same rows.

    Args:
        lake: The lake.
        month: The month, such as `2026-10`.
        found: The quantities, in the columns of `SCHEMA`.
        snapshot: The snapshot that they were folded from.
        computed_at: Now, in naive UTC.

    Raises:
        Unavailable: The disk or the lake failed.
    """
    while True:
        with lake.reader() as connection:
            newest = _newest(connection, month)
        if _stands(newest, found, snapshot):
            return _run(newest, appended=False)
        run = _complete(found, newest, month, snapshot, computed_at)
        if _committed(lake, month, newest, run):
            return _run(run, appended=True)


def _newest(connection: duckdb.DuckDBPyConnection, month: str) -> pl.DataFrame:
    query = """
        SELECT q.* FROM lake.quantity q SEMI JOIN (
            SELECT arg_max(run_id, (computed_at, run_id)) AS run_id
            FROM lake.quantity WHERE month = $month
        ) newest USING (run_id)
        WHERE q.month = $month"""
    with translated():
        return connection.execute(query, {"month": month}).pl()


def _stands(newest: pl.DataFrame, found: pl.DataFrame, snapshot: int) -> bool:
    """Whether the newest run is not to be replaced: it read later, or found the same."""
    if not newest.is_empty() and newest["snapshot"][0] > snapshot:
        return True
    known = newest.filter(pl.col("account_id").is_not_null()).select(
        pl.col(name).cast(kind) for name, kind in SCHEMA.items()
    )
    return known.sort(_ORDER).equals(found.sort(_ORDER))


def _complete(
    found: pl.DataFrame, newest: pl.DataFrame, month: str, snapshot: int, computed_at: datetime
) -> pl.DataFrame:
    """The rows of a new run. One that found nothing any more is one row without an account."""
    if not newest.is_empty():
        # The newest run is told by its time, whatever the clocks do.
        computed_at = max(computed_at, newest["computed_at"][0] + timedelta(microseconds=1))
    rows = found if len(found) else pl.DataFrame([dict.fromkeys(SCHEMA)], schema=SCHEMA)
    return rows.with_columns(
        pl.lit(str(uuid4())).alias("run_id"),
        pl.lit(month).alias("month"),
        pl.lit(snapshot, pl.Int64).alias("snapshot"),
        pl.lit(computed_at, pl.Datetime("us")).alias("computed_at"),
    ).select(list(LAKE_TABLES[TABLE]))


def _committed(lake: Lake, month: str, newest: pl.DataFrame, run: pl.DataFrame) -> bool:
    """Store a run, unless another one came after the newest that we know."""
    folder = lake.new_staging(str(run["run_id"][0]))
    try:
        files = StagedFiles(folder, lake.threads)
        files.write(TABLE, run)
        [file] = files.close()
        reached("quantities.staged")
        with lake.lock():
            with lake.reader() as connection:
                if _id(_newest(connection, month)) != _id(newest):
                    return False
            with lake.transaction() as connection:
                _add(lake, connection, file, f"{folder.name}.parquet")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    reached("quantities.done")
    return True


def _add(lake: Lake, connection: duckdb.DuckDBPyConnection, file: StagedFile, name: str) -> None:
    if file.rows > INLINED_ROWS_MAX:
        lake.register(connection, TABLE, file.path, name)
    else:
        source = f"read_parquet({quoted(file.path)})"
        connection.execute(f"INSERT INTO lake.{TABLE} SELECT * FROM {source}")


def _id(run: pl.DataFrame) -> str | None:
    return None if run.is_empty() else str(run["run_id"][0])


def _run(rows: pl.DataFrame, *, appended: bool) -> Run:
    found = rows.filter(pl.col("account_id").is_not_null())
    snapshot = None if rows.is_empty() else int(rows["snapshot"][0])
    return Run(_id(rows), snapshot, len(found), appended)
