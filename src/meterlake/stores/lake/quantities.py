"""Quantities in the lake: aggregating measurements at a snapshot, and the runs of the `quantity` table."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import uuid4

import duckdb
import polars as pl

from meterlake.model.measurements.measurement import LAKE_TABLES
from meterlake.model.usage.quantity import SIMPLE
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.sql import quote
from meterlake.stores.lake.connection import INLINED_ROWS_MAX, translate_errors
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.quantity_runs import IS_RUN, NEWEST_ID, RUNS, RunKey
from meterlake.stores.lake.staged_parquet import StagedFiles

TABLE: Final = "quantity"
STATEMENTS: Final = "quantity_statement"
# What an aggregation gives; the rest of a row says which run it belongs to.
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
    "segment": pl.String,
    "kind": pl.String,
    "pooled": pl.String,
    "statement_id": pl.String,
}
STATEMENT_SCHEMA: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "id": pl.String,
    "meter_id": pl.String,
    "sql": pl.String,
    "parameters": pl.String,
}
_ORDER: Final = ("account_id", "aggregation_id", "segment", "period_start", "period_end")
# A statement names the snapshot, so another one is not another result.
_COMPARED: Final = [name for name in SCHEMA if name != "statement_id"]
# Larger statements would not do the catalog any good.
_INLINED_BYTES_MAX: Final = 65_536

_NEWEST: Final = f"""
    SELECT q.* FROM lake.quantity q SEMI JOIN ({NEWEST_ID}
    ) newest USING (run_id)
    WHERE {IS_RUN}"""


@dataclass(frozen=True, slots=True)
class Run:
    """The newest aggregation of a period; without an id if nothing was ever found.

    Attributes:
        snapshot: The snapshot that it was calculated from.
        rows: How many quantities it has.
        appended: Whether it was stored now; else it was there and stands.
    """

    id: str | None
    snapshot: int | None
    rows: int
    appended: bool


@dataclass(frozen=True, slots=True)
class RunQuantities:
    """What a run found.

    Attributes:
        rows: The quantities, in the columns of `SCHEMA`; perhaps with a `snapshot`, where one was
            calculated from another one. So it is with the statements.
        snapshot: The snapshot that they were calculated from.
        computed_at: Now, in naive UTC.
        statements: What gave them, in the columns of `STATEMENT_SCHEMA`.
        configuration: What tells the configuration that they were calculated with, if nothing of
            the period is missing; such a run is noted, and serves others that would calculate the same.
    """

    rows: pl.DataFrame
    snapshot: int
    computed_at: datetime
    statements: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=STATEMENT_SCHEMA))
    configuration: str | None = None


def rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any]
) -> list[tuple[Any, ...]] | None:
    """The rows of a query; None if one of its sums has too many digits."""
    try:
        with translate_errors():
            return connection.execute(sql, dict(parameters)).fetchall()
    except duckdb.OutOfRangeException:
        return None


def append(lake: Lake, key: RunKey, found: RunQuantities) -> Run:
    """Add a run to the lake, unless the newest one of the same has the same rows.

    Raises:
        Unavailable: The disk or the lake failed.
    """
    while True:
        with lake.reader() as connection:
            newest = newest_rows(connection, key)
        if _stands(newest, found):
            _note_again(lake, key, newest, found)
            return _run_of_row(newest, appended=False)
        run = _complete(found, newest, key)
        noted = (
            [] if found.configuration is None else [(_id(run), found.snapshot, found.configuration)]
        )
        schema = {"run_id": pl.String, "snapshot": pl.Int64, "configuration": pl.String}
        notes = pl.DataFrame(noted, schema=schema, orient="row")
        tables = {TABLE: run, STATEMENTS: _statements(found, run), RUNS: notes}
        if _commit(lake, key, newest, tables):
            return _run_of_row(run, appended=True)


class Prepared(NamedTuple):
    """A run that waits to be stored.

    Attributes:
        newest: The id of the run that it takes the place of; None if there is none.
        known: The quantities of that run, in the columns of the lake.
        tables: The rows of the new run by table; None if the newest one stands.
    """

    newest: str | None
    known: pl.DataFrame
    tables: Mapping[str, pl.DataFrame] | None


def prepare(connection: duckdb.DuckDBPyConnection, key: RunKey, found: RunQuantities) -> Prepared:
    """What `append` would store, beside what there is."""
    newest = newest_rows(connection, key)
    known = newest.filter(pl.col("account_id").is_not_null())
    if _stands(newest, found):
        return Prepared(_id(newest), known, None)
    run = _complete(found, newest, key)
    return Prepared(_id(newest), known, {TABLE: run, STATEMENTS: _statements(found, run)})


def statements_of(connection: duckdb.DuckDBPyConnection, run_id: str) -> pl.DataFrame:
    """What was asked for the quantities of a run, in the columns of the lake."""
    query = f"FROM lake.{STATEMENTS} WHERE run_id = ?"
    with translate_errors():
        return connection.execute(query, [run_id]).pl()


def changed_accounts(connection: duckdb.DuckDBPyConnection, before: str, after: str) -> set[str]:
    """The ids of accounts that have other quantities in one run than in another; none if it is gone."""
    columns = ", ".join(_COMPARED)
    one, other = (f"SELECT {columns} FROM lake.{TABLE} WHERE run_id = ${n}" for n in (1, 2))
    query = f"""
        SELECT DISTINCT account_id
        FROM (({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one}))
        WHERE account_id IS NOT NULL AND EXISTS ({one})"""
    with translate_errors():
        return {id_ for (id_,) in connection.execute(query, [before, after]).fetchall()}


def newest_run(connection: duckdb.DuckDBPyConnection, key: RunKey) -> str | None:
    """The id of the newest run; None if there is none."""
    return _id(newest_rows(connection, key))


def newest_rows(connection: duckdb.DuckDBPyConnection, key: RunKey) -> pl.DataFrame:
    """The quantities of the newest run, in the columns of the lake; empty if there is none.

    Of a run that found nothing there is one row, without an account.
    """
    with translate_errors():
        return connection.execute(_NEWEST, key._asdict()).pl()


def _stands(newest: pl.DataFrame, found: RunQuantities) -> bool:
    """Whether the newest run is not to be replaced: it read later, or found the same."""
    if not newest.is_empty() and _snapshot(newest) > found.snapshot:
        return True
    known = newest.filter(pl.col("account_id").is_not_null()).select(
        pl.col(name).cast(SCHEMA[name]) for name in _COMPARED
    )
    known = known.with_columns(pl.col("kind").fill_null(SIMPLE))
    return known.sort(_ORDER).equals(found.rows.select(_COMPARED).sort(_ORDER))


def _complete(found: RunQuantities, newest: pl.DataFrame, key: RunKey) -> pl.DataFrame:
    """The rows of a new run. One that found nothing any more is one row without an account."""
    computed_at = found.computed_at
    if not newest.is_empty():
        # The newest run is told by its time, whatever the clocks do.
        computed_at = max(computed_at, newest["computed_at"][0] + timedelta(microseconds=1))
    rows = found.rows
    if rows.is_empty():
        rows = pl.DataFrame([dict.fromkeys(SCHEMA)], schema=SCHEMA)
    return rows.with_columns(
        pl.lit(str(uuid4())).alias("run_id"),
        pl.lit(key.month, pl.String).alias("month"),
        pl.lit(key.frequency).alias("frequency"),
        pl.lit(key.period).alias("period"),
        _snapshots(rows, found),
        pl.lit(computed_at, pl.Datetime("us")).alias("computed_at"),
    ).select(list(LAKE_TABLES[TABLE]))


def _snapshot(run: pl.DataFrame) -> int:
    """The newest snapshot that a run was folded from."""
    return int(run.select(pl.col("snapshot").max()).item())


def _snapshots(rows: pl.DataFrame, found: RunQuantities) -> pl.Expr:
    """The snapshot that rows were folded from; what is carried over has an older one."""
    if "snapshot" not in rows.columns:
        return pl.lit(found.snapshot, pl.Int64).alias("snapshot")
    return pl.col("snapshot").fill_null(found.snapshot)


def _statements(found: RunQuantities, run: pl.DataFrame) -> pl.DataFrame:
    return found.statements.with_columns(
        pl.lit(_id(run)).alias("run_id"), _snapshots(found.statements, found)
    ).select(list(LAKE_TABLES[STATEMENTS]))


def _commit(
    lake: Lake, key: RunKey, newest: pl.DataFrame, tables: Mapping[str, pl.DataFrame]
) -> bool:
    """Store a run, unless another one came after the newest that we know."""
    folder = lake.new_staging(str(tables[TABLE]["run_id"][0]))
    try:
        staged = StagedFiles(folder, lake.threads)
        for table, rows in tables.items():
            if not rows.is_empty():
                staged.write(table, rows)
        files = staged.close()
        mark_step("quantities.staged")
        with lake.lock():
            with lake.reader() as connection:
                if _id(newest_rows(connection, key)) != _id(newest):
                    return False
            with lake.transaction() as connection:
                for file in files:
                    name = f"{folder.name}.parquet"
                    large = (
                        file.table == STATEMENTS and file.path.stat().st_size > _INLINED_BYTES_MAX
                    )
                    if large or file.rows > INLINED_ROWS_MAX:
                        lake.register(connection, file.table, file.path, name)
                    else:
                        # By name: in a lake of an older version, newer columns stand behind all others.
                        source = f"read_parquet({quote(file.path)})"
                        connection.execute(
                            f"INSERT INTO lake.{file.table} BY NAME SELECT * FROM {source}"
                        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    mark_step("quantities.done")
    return True


def _id(run: pl.DataFrame) -> str | None:
    return None if run.is_empty() else str(run["run_id"][0])


def _note_again(lake: Lake, key: RunKey, newest: pl.DataFrame, found: RunQuantities) -> None:
    """Note that a run which stands is also what another configuration gives."""
    run_id = _id(newest)
    if run_id is None or found.configuration is None or _snapshot(newest) > found.snapshot:
        return
    with lake.reader() as connection:
        if _is_noted(connection, run_id, found.configuration):
            return
    with lake.lock(), lake.transaction() as connection:
        if _id(newest_rows(connection, key)) == run_id:
            lake.insert(connection, RUNS, [(run_id, found.snapshot, found.configuration)])


def _is_noted(connection: duckdb.DuckDBPyConnection, run_id: str, configuration: str) -> bool:
    query = f"SELECT count(*) FROM lake.{RUNS} WHERE run_id = ? AND configuration = ?"
    try:
        with translate_errors():
            row = connection.execute(query, [run_id, configuration]).fetchone()
    except duckdb.CatalogException:
        return False  # A lake of an older version that nobody has written to yet.
    return bool(row and row[0])


def _run_of_row(rows: pl.DataFrame, *, appended: bool) -> Run:
    found = rows.filter(pl.col("account_id").is_not_null())
    snapshot = None if rows.is_empty() else _snapshot(rows)
    return Run(_id(rows), snapshot, len(found), appended)
