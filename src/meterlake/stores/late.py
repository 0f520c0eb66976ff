"""Measurements that came after their period was closed, found without reading what is old.

What was committed after a snapshot is told by the lake itself: every row knows the snapshot that
added it, and files without newer rows, or of other months, are not opened.
"""

from collections.abc import Mapping
from typing import Any, Final

import duckdb
import polars as pl

from meterlake.model.sql import identifier
from meterlake.stores.lake_connection import translated
from meterlake.stores.lake_tables import table_names

# What may be late for: with an account it is about that one, else about all but those that the
# same `closed` names. With the table of a meter it is about that one, else about all.
CLOSED_SCHEMA: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "closed": pl.Int64,
    "table": pl.String,
    "account_id": pl.String,
    "period_start": pl.Datetime("us"),
    "period_end": pl.Datetime("us"),
    "snapshot": pl.Int64,
}
# The newest run of every period.
_RUNS: Final = """
    WITH newest AS (
        SELECT arg_max(run_id, (computed_at, run_id)) AS run_id FROM lake.quantity
        GROUP BY coalesce(frequency, 'MONTHLY'), coalesce(period, month)
    )
    SELECT q.run_id, any_value(coalesce(q.frequency, 'MONTHLY')) AS frequency,
        any_value(coalesce(q.period, q.month)) AS period, min(q.snapshot) AS snapshot,
        any_value(q.computed_at) AS computed_at
    FROM lake.quantity q SEMI JOIN newest USING (run_id) GROUP BY q.run_id
    ORDER BY frequency, period"""
# A source that was tried again after a snapshot, and gave something.
_SOURCES: Final = """
    SELECT identity, max(snapshot_id) AS came FROM lake.source
    WHERE snapshot_id > $snapshot AND accepted > 0 GROUP BY identity"""
# A measurement that was only written anew since, such as by a backfill, has an old source.
_LATE: Final = """
    WITH late AS (
        SELECT m.account_id, m.ts, m.received_at, least(m.snapshot_id, s.came) AS came
        FROM lake.{table} AS m JOIN late_sources s ON m.source = s.identity
        WHERE m.snapshot_id > $snapshot AND m.ts >= $start AND m.ts < $end
    )
    SELECT c.closed, late.account_id, count(*) AS measurements,
        min(late.received_at) AS first_received, max(late.received_at) AS last_received
    FROM late JOIN closed_periods c
        ON late.came > c.snapshot AND late.ts >= c.period_start AND late.ts < c.period_end
        AND (c.account_id = late.account_id OR c.account_id IS NULL AND NOT EXISTS (
            FROM closed_periods o WHERE o.closed = c.closed AND o.account_id = late.account_id))
    GROUP BY ALL"""


def runs(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """The newest run of every period: `run_id, frequency, period, snapshot, computed_at`."""
    with translated():
        return connection.execute(_RUNS).pl().to_dicts()


def newest_commit(connection: duckdb.DuckDBPyConnection) -> int:
    """The snapshot of the last source that brought measurements; 0 if none ever did."""
    query = "SELECT max(snapshot_id) FROM lake.source WHERE accepted > 0"
    with translated():
        row = connection.execute(query).fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def late(
    connection: duckdb.DuckDBPyConnection, closed: pl.DataFrame, tables: list[str]
) -> dict[str, list[tuple[Any, ...]]]:
    """What came after the periods were closed.

    Args:
        connection: Reads the lake.
        closed: The periods, in the columns of `CLOSED_SCHEMA`.
        tables: The tables of the meters.

    Returns:
        By table: `closed`, account id, measurements, first and last receipt.
    """
    if closed.is_empty():
        return {}
    bounds = {
        "snapshot": closed["snapshot"].min(),
        "start": closed["period_start"].min(),
        "end": closed["period_end"].max(),
    }
    present = table_names(connection)
    with translated():
        sources = connection.execute(_SOURCES, {"snapshot": bounds["snapshot"]}).pl()
        if sources.is_empty():
            return {}
        connection.register("late_sources", sources)
        try:
            return {
                table: _late(connection, closed, table, bounds)
                for table in tables
                if table in present
            }
        finally:
            connection.unregister("late_sources")


def _late(
    connection: duckdb.DuckDBPyConnection,
    closed: pl.DataFrame,
    table: str,
    bounds: Mapping[str, Any],
) -> list[tuple[Any, ...]]:
    about = closed.filter(pl.col("table").is_null() | (pl.col("table") == table))
    connection.register("closed_periods", about)
    try:
        return connection.execute(_LATE.format(table=identifier(table)), bounds).fetchall()
    finally:
        connection.unregister("closed_periods")
