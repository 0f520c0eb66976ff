"""What the stored quantities of a period were calculated from, so that they need not be calculated again.

A run is noted with the snapshot that it read and a digest of the configuration. Its quantities are
those of another snapshot, too, if none of the measurements that it read came or went in between.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import duckdb

from meterlake.model.measurements.measurement import meter_table
from meterlake.model.usage.quantity import SIMPLE
from meterlake.model.values.sql import identifier
from meterlake.stores.lake.connection import translate_errors
from meterlake.stores.lake.quantities import NEWEST_ID, RUNS, RunKey
from meterlake.stores.lake.tables import table_names

_NOTED: Final = f"""
    SELECT run_id, snapshot FROM lake.{RUNS}
    WHERE run_id = ({NEWEST_ID}) AND configuration = $configuration
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
        row = connection.execute(
            _NOTED, {**key._asdict(), "configuration": configuration}
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
