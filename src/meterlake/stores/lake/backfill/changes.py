"""What a backfill changes of the measurements of meters, as SQL: whose, when, and what is left."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import duckdb

from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.period import Period, naive
from meterlake.stores.lake.backfill.rows import rows_at
from meterlake.stores.lake.tables import columns_at

_STARTS: Final = "SELECT DISTINCT date_trunc('{part}', ts)::TIMESTAMP FROM ({rows}) ORDER BY 1"
_ACCOUNTS: Final = """
    SELECT DISTINCT account_id FROM ({rows}) WHERE ts >= $start AND ts < $end ORDER BY 1"""
# A value holds until the next one, however long ago it was measured.
_HOLDING: Final = "SELECT DISTINCT account_id FROM ({rows}) WHERE ts < $end ORDER BY 1"
# By uid: nothing else tells a measurement in a file from one in the lake.
_BEFORE_AND_AFTER: Final = """
    SELECT coalesce(g.uid, c.uid), coalesce(g.account_id, c.account_id), coalesce(g.ts, c.ts),
        CASE WHEN g.uid IS NOT NULL THEN g END, CASE WHEN c.uid IS NOT NULL THEN c END
    FROM ({gone}) AS g FULL JOIN ({came}) AS c ON g.uid = c.uid
    ORDER BY 3, 1 LIMIT {limit:d}"""
_COUNT: Final = """
    SELECT count(*) FROM (SELECT uid FROM ({gone})) AS g
    FULL JOIN (SELECT uid FROM ({came})) AS c ON g.uid = c.uid"""
_NO_ROWS: Final = """
    SELECT NULL::VARCHAR AS uid, NULL::VARCHAR AS account_id, NULL::TIMESTAMP AS ts WHERE false"""


@dataclass(frozen=True, slots=True)
class MeterChange:
    """What changes of one meter.

    Attributes:
        gone: SQL of the keys of the rows that go.
        came: SQL of the rows that come, in columns of the meter's table.
        columns: Their columns.
    """

    meter_id: str
    gone: str | None = None
    came: str | None = None
    columns: Sequence[str] = ()

    def rows_after(self, snapshot: int, *, has_table: bool) -> str | None:
        """The measurements of the meter as they will be, as a source of SQL; None without any.

        Args:
            snapshot: The snapshot that is changed.
            has_table: Whether that has measurements of the meter.
        """
        parts = []
        if has_table:
            left = f" ANTI JOIN {self.gone} AS g USING (source, row, part)" if self.gone else ""
            parts.append(f"SELECT o.* FROM {rows_at(self.meter_id, snapshot)} AS o{left}")
        if self.came:
            parts.append(f"SELECT * FROM {self.came}")
        return f"({' UNION ALL BY NAME '.join(parts)})" if parts else None


def changed_rows(changes: Iterable[MeterChange]) -> str | None:
    """The account and the instant of all measurements that go or come, as a query; None without any."""
    affected = []
    for each in changes:
        if each.gone:
            where = f"WHERE meter_id = '{each.meter_id}'"
            affected.append(f"SELECT account_id, ts FROM {each.gone} {where}")
        if each.came:
            affected.append(f"SELECT account_id, ts FROM {each.came}")
    return " UNION ALL ".join(affected) or None


def starts_of(
    connection: duckdb.DuckDBPyConnection, rows: str, part: Literal["day", "month"]
) -> list[datetime]:
    """The beginnings of the days or months in UTC that have any of the rows of a query."""
    query = _STARTS.replace("{part}", part).replace("{rows}", rows)
    return [row[0] for row in connection.execute(query).fetchall()]


def accounts_within(connection: duckdb.DuckDBPyConnection, rows: str, time: Period) -> list[str]:
    """The accounts that have rows of a query within a time."""
    bounds = {"start": naive(time.start), "end": naive(time.end)}
    found = connection.execute(_ACCOUNTS.replace("{rows}", rows), bounds).fetchall()
    return [row[0] for row in found]


def accounts_before(connection: duckdb.DuckDBPyConnection, rows: str, end: datetime) -> list[str]:
    """The accounts that have rows of a query before an instant: their values may hold until then."""
    query = _HOLDING.replace("{rows}", rows)
    return [row[0] for row in connection.execute(query, {"end": naive(end)}).fetchall()]


def rows_before_and_after(
    connection: duckdb.DuckDBPyConnection, change: MeterChange, snapshot: int, limit: int
) -> tuple[int, list[tuple[Any, ...]]]:
    """How many measurements of a meter change, and the first ones by time.

    Each has uid, account, instant, and the rows before and after.

    Args:
        connection: Of the lake.
        change: What changes.
        snapshot: The snapshot that is changed.
        limit: The largest number.
    """
    gone = came = _NO_ROWS
    if change.gone and columns_at(connection, meter_table(change.meter_id), snapshot):
        stored = rows_at(change.meter_id, snapshot)
        gone = f"SELECT o.* FROM {stored} AS o SEMI JOIN {change.gone} USING (source, row, part)"
    if change.came:
        came = f"SELECT * FROM {change.came}"
    query = _BEFORE_AND_AFTER.format(gone=gone, came=came, limit=limit)
    [[count]] = connection.execute(_COUNT.format(gone=gone, came=came)).fetchall()
    return int(count), connection.execute(query).fetchall()
