"""What the stored quantities of a period were calculated from, and how they are read.

A run is noted with the snapshot that it read and a digest of the configuration. Its quantities are
those of another snapshot, too, if none of the measurements that it read came or went in between.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import duckdb

from meterlake.model.measurements.measurement import meter_table
from meterlake.model.usage.quantity import SIMPLE
from meterlake.model.values import wire
from meterlake.model.values.period import Period, naive
from meterlake.model.values.sql import identifier
from meterlake.stores.lake.connection import translate_errors
from meterlake.stores.lake.tables import table_names

RUNS: Final = "quantity_run"
# Runs that older versions made are of months, and of simple aggregations.
IS_RUN: Final = "coalesce(frequency, 'MONTHLY') = $frequency AND coalesce(period, month) = $period"
NEWEST_ID: Final = f"""
        SELECT arg_max(run_id, (computed_at, run_id)) AS run_id
        FROM lake.quantity WHERE {IS_RUN}"""
_NOTED: Final = f"""
    SELECT run_id, snapshot FROM lake.{RUNS}
    WHERE run_id = $run AND configuration = $configuration
    ORDER BY snapshot DESC LIMIT 1"""
# Whatever takes measurements away or changes them is noted as a step of a backfill.
_BACKFILLED: Final = """
    SELECT count(*) FROM lake.backfill_step
    WHERE snapshot_id > $first AND snapshot_id <= $last"""
# Files without newer rows, or of other months, are not opened.
_CAME: Final = """
    SELECT count(*) FROM lake.{table} AS m
    WHERE m.snapshot_id > $first AND m.snapshot_id <= $last AND m.ts < $end{since}"""
_ROWS: Final = """
    SELECT account_id, aggregation_id, quantity, units, measurements
    FROM lake.quantity
    WHERE run_id = $run AND period_start = $start AND period_end = $end
        AND meter_id = $meter AND segment IS NULL AND coalesce(kind, $simple) = $simple
        AND statement_id IS NOT NULL AND list_contains($aggregations, aggregation_id){only}
    ORDER BY account_id, aggregation_id"""
_ONLY: Final = " AND account_id IN (SELECT unnest(CAST($accounts AS VARCHAR[])))"
_RUNS: Final = """
    SELECT coalesce(frequency, 'MONTHLY') AS frequency, coalesce(period, month) AS period,
        arg_max(run_id, (computed_at, run_id)) AS run_id
    FROM lake.quantity WHERE coalesce(period, month) = $period GROUP BY ALL"""
_READ_ROWS: Final = f"""
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


class RunKey(NamedTuple):
    """What a run is about; a later run of the same takes its place.

    Attributes:
        frequency: DAILY, WEEKLY, MONTHLY, ANNUALLY or AD_HOC.
        period: The name of the period, such as `2026-10`.
    """

    frequency: str
    period: str

    @property
    def month(self) -> str | None:
        """The month that it is about; None if it is about something else."""
        return self.period if self.frequency == "MONTHLY" else None


class NotedRun(NamedTuple):
    """The newest run of a period, and the snapshot that it was calculated from."""

    id: str
    snapshot: int


class MeterRead(NamedTuple):
    """A meter whose measurements a run reads.

    Attributes:
        earlier: Whether also those before the period: a value holds until the next one.
    """

    meter_id: str
    earlier: bool


class StoredSelection(NamedTuple):
    """Which quantities of a run are read: of simple aggregations without segments.

    Attributes:
        start: The start of their period, in naive UTC; so is its end.
        accounts: The ids of their accounts; all if None.
    """

    meter_id: str
    aggregations: Sequence[str]
    start: datetime
    end: datetime
    accounts: Collection[str] | None = None


def noted_run(
    connection: duckdb.DuckDBPyConnection, key: RunKey, configuration: str
) -> NotedRun | None:
    """The newest run of a period, if it was calculated with a configuration."""
    if RUNS not in table_names(connection):
        return None  # Nobody has written to a lake of an older version yet.
    with translate_errors():
        newest = connection.execute(NEWEST_ID, key._asdict()).fetchone()
        if newest is None or newest[0] is None:
            return None  # Nothing of the period is stored: a scan of the runs would find none.
        row = connection.execute(
            _NOTED, {"run": newest[0], "configuration": configuration}
        ).fetchone()
    return None if row is None else NotedRun(*row)


def has_changed(
    connection: duckdb.DuckDBPyConnection,
    snapshots: tuple[int, int],
    meters: Collection[MeterRead],
    period: tuple[datetime, datetime],
) -> bool:
    """Whether measurements of a period differ between two snapshots, or may differ.

    Args:
        connection: Reads the lake.
        snapshots: The two, in any order.
        meters: Whose measurements.
        period: Its start and end in naive UTC.
    """
    bounds = {"first": min(snapshots), "last": max(snapshots)}
    present = table_names(connection)
    with translate_errors():
        if _count(connection, _BACKFILLED, bounds):
            return True
        for each in meters:
            table = meter_table(each.meter_id)
            times = {"end": period[1]} | ({} if each.earlier else {"start": period[0]})
            since = "" if each.earlier else " AND m.ts >= $start"
            query = _CAME.format(table=identifier(table), since=since)
            if table in present and _count(connection, query, {**bounds, **times}):
                return True
    return False


def stored_rows(
    connection: duckdb.DuckDBPyConnection, run: NotedRun, selection: StoredSelection
) -> Iterator[tuple[Any, ...]]:
    """Account id, aggregation id, quantity, units and measurements, by account and aggregation."""
    only = "" if selection.accounts is None else _ONLY
    parameters: dict[str, Any] = {
        "run": run.id,
        "simple": SIMPLE,
        "meter": selection.meter_id,
        "aggregations": list(selection.aggregations),
        "start": selection.start,
        "end": selection.end,
    }
    if selection.accounts is not None:
        parameters["accounts"] = sorted(selection.accounts)
    with translate_errors():
        yield from connection.execute(_ROWS.format(only=only), parameters).fetchall()


def _count(connection: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any]) -> int:
    row = connection.execute(query, parameters).fetchone()
    assert row is not None
    return int(row[0])


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
        answer = connection.execute(_READ_ROWS, values)
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
