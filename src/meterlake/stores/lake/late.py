"""Measurements that came after their period was closed, found without reading what is old.

What was committed after a snapshot is told by the lake itself: every row knows the snapshot that
added it, and files without newer rows, or of other months, are not opened.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import duckdb

from meterlake.model.values.sql import identifier
from meterlake.stores.lake.connection import temporary_table, translate_errors
from meterlake.stores.lake.tables import table_names


# What may be late for: with an account it is about that one, else about all but those that the
# same `closed` names. With the table of a meter it is about that one, else about all.
class Closed(NamedTuple):
    """A closed period; instants are naive UTC."""

    closed: int
    table: str | None
    account_id: str | None
    period_start: datetime
    period_end: datetime
    snapshot: int


_CLOSED: Final = {
    "closed": "BIGINT",
    "table": "VARCHAR",
    "account_id": "VARCHAR",
    "period_start": "TIMESTAMP",
    "period_end": "TIMESTAMP",
    "snapshot": "BIGINT",
}
_RUN: Final = ("run_id", "frequency", "period", "snapshot", "computed_at")
# The newest run of every period. What is the same in all rows of a run is taken of any of them.
_RUNS: Final = """
    WITH run AS (
        SELECT run_id, any_value(coalesce(frequency, 'MONTHLY')) AS frequency,
            any_value(coalesce(period, month)) AS period, min(snapshot) AS snapshot,
            any_value(computed_at) AS computed_at
        FROM lake.quantity GROUP BY run_id
    )
    SELECT run_id, frequency, period, snapshot, computed_at FROM run
    QUALIFY row_number() OVER (
        PARTITION BY frequency, period ORDER BY computed_at DESC, run_id DESC) = 1
    ORDER BY frequency, period"""
_SOURCE: Final = {"identity": "VARCHAR", "came": "BIGINT"}
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
# The same by what brought them, and nothing that came after another snapshot.
_LATE_BY_SOURCE: Final = """
    WITH late AS (
        SELECT m.account_id, m.ts, m.received_at, m.source, least(m.snapshot_id, s.came) AS came
        FROM lake.{table} AS m JOIN late_sources s ON m.source = s.identity
        WHERE m.snapshot_id > $snapshot AND m.ts >= $start AND m.ts < $end
    )
    SELECT c.closed, late.source, count(*) AS measurements,
        min(late.received_at) AS first_received, max(late.received_at) AS last_received
    FROM late JOIN closed_periods c
        ON late.came > c.snapshot AND late.came <= $until
        AND late.ts >= c.period_start AND late.ts < c.period_end
        AND c.account_id = late.account_id
    GROUP BY ALL"""
_NAMES: Final = """
    SELECT identity, arg_max(name, attempt) AS name
    FROM lake.source WHERE identity IN (SELECT unnest($identities)) GROUP BY identity"""


def runs(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """The newest run of every period: `run_id, frequency, period, snapshot, computed_at`."""
    with translate_errors():
        rows = connection.execute(_RUNS).fetchall()
    return [dict(zip(_RUN, row, strict=True)) for row in rows]


def newest_commit(connection: duckdb.DuckDBPyConnection) -> int:
    """The snapshot of the last source that brought measurements; 0 if none ever did."""
    query = "SELECT max(snapshot_id) FROM lake.source WHERE accepted > 0"
    with translate_errors():
        row = connection.execute(query).fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def late(
    connection: duckdb.DuckDBPyConnection, closed: Sequence[Closed], tables: list[str]
) -> dict[str, list[tuple[Any, ...]]]:
    """What came after the periods were closed.

    Args:
        connection: Reads the lake.
        closed: The periods.
        tables: The tables of the meters.

    Returns:
        By table: `closed`, account id, measurements, first and last receipt.
    """
    return _late_rows(connection, closed, tables, _LATE, {})


def late_by_source(
    connection: duckdb.DuckDBPyConnection, closed: Sequence[Closed], tables: list[str], until: int
) -> dict[str, list[tuple[Any, ...]]]:
    """What came after the periods of accounts were closed, by what brought it.

    Args:
        connection: Reads the lake.
        closed: The periods, all with accounts.
        tables: The tables of the meters.
        until: What came after this snapshot is left out.

    Returns:
        By table: `closed`, the identity of the source, measurements, first and last receipt.
    """
    return _late_rows(connection, closed, tables, _LATE_BY_SOURCE, {"until": until})


def source_names(
    connection: duckdb.DuckDBPyConnection, identities: Sequence[str]
) -> dict[str, str]:
    """What people call sources, by their identities."""
    with translate_errors():
        rows = connection.execute(_NAMES, {"identities": list(identities)}).fetchall()
    return {identity: name or identity for identity, name in rows}


def _late_rows(
    connection: duckdb.DuckDBPyConnection,
    closed: Sequence[Closed],
    tables: list[str],
    query: str,
    values: Mapping[str, Any],
) -> dict[str, list[tuple[Any, ...]]]:
    if not closed:
        return {}
    bounds = {
        **values,
        "snapshot": min(each.snapshot for each in closed),
        "start": min(each.period_start for each in closed),
        "end": max(each.period_end for each in closed),
    }
    present = table_names(connection)
    with translate_errors():
        sources = connection.execute(_SOURCES, {"snapshot": bounds["snapshot"]}).fetchall()
        if not sources:
            return {}
        with temporary_table(connection, "late_sources", _SOURCE, sources):
            return {
                table: _late(connection, closed, table, query, bounds)
                for table in tables
                if table in present
            }


def _late(
    connection: duckdb.DuckDBPyConnection,
    closed: Sequence[Closed],
    table: str,
    query: str,
    bounds: Mapping[str, Any],
) -> list[tuple[Any, ...]]:
    about = [each for each in closed if each.table in {None, table}]
    with temporary_table(connection, "closed_periods", _CLOSED, about):
        return connection.execute(query.format(table=identifier(table)), bounds).fetchall()
