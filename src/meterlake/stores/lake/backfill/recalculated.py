"""Measurements that are calculated again: what is read for it, and what differs afterwards."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import duckdb

from meterlake.model.values.sql import quote
from meterlake.stores.lake.backfill.rows import KEYS, NO_KEYS, RowSelection, copy, keys, rows_at
from meterlake.stores.lake.connection import parquet

# Rows whose calculation errors differ from those that they have now.
_WRONG: Final = """
    WITH stored AS (
        SELECT e.identity AS source, e.row, e.part, e.field, e.detail
        FROM (FROM lake.calculation_error AT (VERSION => {snapshot})) AS e
        SEMI JOIN {seen} AS s ON s.source = e.identity AND s.row = e.row AND s.part = e.part
    ), found AS (SELECT source, row, part, field, detail FROM {found})
    SELECT DISTINCT source, row, part FROM (
        (FROM stored EXCEPT ALL FROM found) UNION ALL (FROM found EXCEPT ALL FROM stored)
    )"""
# Their errors as rows of the lake. An error that is new belongs to the attempt that had one
# already, else to the first one that the source was read with.
_ERRORS: Final = """
    SELECT f.source AS identity, coalesce(o.attempt, a.attempt)::INTEGER AS attempt, a.name, f.row,
        f.part, f.meter, f.uid, 'CalculationError' AS reason, f.field, f.detail,
        coalesce(o.original, '') AS original, o.measurement
    FROM {found} AS f
    SEMI JOIN {wrong} AS w ON w.source = f.source AND w.row = f.row AND w.part = f.part
    JOIN (
        SELECT identity, min(attempt) AS attempt, min_by(name, attempt) AS name
        FROM (FROM lake.source AT (VERSION => {snapshot})) WHERE status = 'done' GROUP BY identity
    ) AS a ON a.identity = f.source
    LEFT JOIN (
        SELECT identity, row, part, max(attempt) AS attempt, any_value(original) AS original,
            any_value(measurement) AS measurement
        FROM (FROM lake.calculation_error AT (VERSION => {snapshot})) GROUP BY identity, row, part
    ) AS o ON o.identity = f.source AND o.row = f.row AND o.part = f.part"""
_NO_ERRORS: Final = (
    "(SELECT NULL::VARCHAR AS source, NULL::BIGINT AS row, NULL::SMALLINT AS part,"
    " NULL::VARCHAR AS uid, NULL::VARCHAR AS meter, NULL::VARCHAR AS field,"
    " NULL::VARCHAR AS detail WHERE false)"
)


def months_of(
    connection: duckdb.DuckDBPyConnection, selection: RowSelection, meter_id: str, snapshot: int
) -> list[datetime]:
    """The months in UTC that have selected measurements of a meter."""
    rows = connection.execute(
        "SELECT DISTINCT CAST(date_trunc('month', m.ts) AS TIMESTAMP)"
        f" FROM {rows_at(meter_id, snapshot)} AS m WHERE {selection.where} ORDER BY 1",
        dict(selection.parameters),
    ).fetchall()
    return [row[0] for row in rows]


def select_month(
    cursor: duckdb.DuckDBPyConnection,
    selection: RowSelection,
    meter_id: str,
    snapshot: int,
    month: datetime,
) -> None:
    """Ask for the selected measurements of a month of a meter; the cursor then has them."""
    query = (
        f"SELECT m.* FROM {rows_at(meter_id, snapshot)} AS m WHERE {selection.where}"
        " AND m.ts >= $month AND m.ts < $month + INTERVAL 1 MONTH"
    )
    cursor.execute(query, {**selection.parameters, "month": month})


def changed_rows(paths: Sequence[Path]) -> str:
    """Files of changed measurements of a meter, as a query."""
    # A derived field may be new in some files only.
    return f"SELECT * FROM {parquet(paths, by_name=True)}"


def changed_keys(rows: Iterable[tuple[str, Sequence[Path]]]) -> str:
    """The keys of changed measurements, as a query.

    Args:
        rows: By the ids of meters, the files of some.
    """
    each = [
        f"SELECT {quote(meter_id)} AS meter_id, {KEYS} FROM {parquet(paths)}"
        for meter_id, paths in rows
        if paths
    ]
    return " UNION ALL ".join([NO_KEYS, *each])


def stage_errors(
    connection: duckdb.DuckDBPyConnection,
    selection: RowSelection,
    snapshot: int,
    meter_ids: Iterable[str],
    errors: Sequence[Path],
    targets: tuple[Path, Path],
) -> None:
    """Write which rows have other calculation errors than before, and these errors.

    Args:
        connection: Of the lake.
        selection: The measurements that were looked at.
        snapshot: The snapshot that is changed.
        meter_ids: The meters that have any.
        errors: The files of all errors that there are now.
        targets: The file of rows, and that of errors.
    """
    wrong, target = targets
    looked_at = [
        f"SELECT source, row, part FROM {rows_at(id_, snapshot)} AS m WHERE {selection.where}"
        for id_ in sorted(meter_ids)
    ]
    names: dict[str, Any] = {
        "snapshot": int(snapshot),
        "found": parquet(errors) if errors else _NO_ERRORS,
        "seen": f"({' UNION ALL '.join(looked_at)})" if looked_at else _NO_ERRORS,
        "wrong": keys(wrong),
    }
    parameters = dict(selection.parameters) if looked_at else None
    copy(connection, _WRONG.format(**names), wrong, parameters)
    copy(connection, _ERRORS.format(**names), target)
