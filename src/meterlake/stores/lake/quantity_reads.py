"""Single quantities of the newest runs, and the snapshots that they are of."""

from typing import Any, Final

import duckdb

from meterlake.model.values import wire
from meterlake.model.values.period import Period, naive
from meterlake.model.values.sql import identifier
from meterlake.stores.lake.connection import translate_errors

_RUNS: Final = """
    SELECT coalesce(frequency, 'MONTHLY') AS frequency, coalesce(period, month) AS period,
        arg_max(run_id, (computed_at, run_id)) AS run_id
    FROM lake.quantity WHERE coalesce(period, month) = $period GROUP BY ALL"""
_ROWS: Final = f"""
    SELECT q.* REPLACE (r.frequency AS frequency, r.period AS period), s.sql, s.parameters
    FROM lake.quantity q JOIN ({_RUNS}) r ON r.run_id = q.run_id
    LEFT JOIN lake.quantity_statement s ON s.run_id = q.run_id AND s.id = q.statement_id
    WHERE q.account_id = $account AND q.aggregation_id = $aggregation
    ORDER BY q.period_start, q.segment"""
_REACHING: Final = """
    SELECT coalesce(frequency, 'MONTHLY'), coalesce(period, month),
        coalesce(bool_or(period_start < $end AND period_end > $start), false)
    FROM lake.quantity GROUP BY 1, 2 ORDER BY 1, 2"""
_WITH_QUANTITIES: Final = """
    SELECT DISTINCT coalesce(frequency, 'MONTHLY'), coalesce(period, month)
    FROM lake.quantity ORDER BY 1, 2"""


def runs_with_quantities(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """Frequency and name of the periods that were aggregated."""
    return connection.execute(_WITH_QUANTITIES).fetchall()


def runs_that_reach(
    connection: duckdb.DuckDBPyConnection, window: Period
) -> list[tuple[str, str, bool]]:
    """The same, and whether they have quantities of periods that share time with a window."""
    bounds = {"start": naive(window.start), "end": naive(window.end)}
    return connection.execute(_REACHING, bounds).fetchall()


def find_quantities(
    connection: duckdb.DuckDBPyConnection, account_id: str, aggregation_id: str, period: str
) -> list[dict[str, Any]]:
    """The quantities of an account and an aggregation in the newest runs of a period.

    Args:
        connection: Reads the lake.
        account_id: The account.
        aggregation_id: The aggregation, simple or compound.
        period: The name of the period; runs of several frequencies may be called alike.

    Returns:
        The rows, with the `sql` and the `parameters` of their statements.
    """
    values = {"account": account_id, "aggregation": aggregation_id, "period": period}
    with translate_errors():
        answer = connection.execute(_ROWS, values)
        names = [column[0] for column in answer.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
    return [
        row | {"parameters": wire.loads(row["parameters"]) if row["parameters"] else {}}
        for row in rows
    ]


def snapshot_is_kept(connection: duckdb.DuckDBPyConnection, snapshot: int) -> bool:
    """Whether a snapshot can still be read."""
    query = "SELECT count(*) FROM ducklake_snapshots('lake') WHERE snapshot_id = ?"
    with translate_errors():
        row = connection.execute(query, [snapshot]).fetchone()
    return bool(row and row[0])


def as_it_was(table: str, snapshot: int) -> str:
    """The SQL of a table at a snapshot that is not kept: without what came later.

    What was withdrawn or written anew since is missing.
    """
    return f"(SELECT * FROM lake.{identifier(table)} WHERE snapshot_id <= {int(snapshot)})"
