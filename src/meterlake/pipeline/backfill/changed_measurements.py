"""The measurements that a staged backfill takes, brings or changes, before it is applied."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import duckdb

from meterlake.model.catalog.catalog import Meter
from meterlake.model.measurements.measurement import field_of, meter_table
from meterlake.model.values.money import plain
from meterlake.model.values.period import aware, format_instant
from meterlake.pipeline.backfill.lifecycle import open_staged
from meterlake.pipeline.backfill.priced import account_code
from meterlake.stores import Organization
from meterlake.stores.lake.backfill.changes import MeterChange
from meterlake.stores.lake.backfill.rows import rows_at
from meterlake.stores.lake.connection import translate_errors
from meterlake.stores.lake.tables import columns_at

SHOWN_MAX: Final = 1_000
# By uid: nothing else tells a measurement in a file from one in the lake.
_ROWS: Final = """
    SELECT coalesce(g.uid, c.uid), coalesce(g.account_id, c.account_id), coalesce(g.ts, c.ts),
        CASE WHEN g.uid IS NOT NULL THEN g END, CASE WHEN c.uid IS NOT NULL THEN c END
    FROM ({gone}) AS g FULL JOIN ({came}) AS c ON g.uid = c.uid
    ORDER BY 3, 1 LIMIT {limit:d}"""
_NO_ROWS: Final = """
    SELECT NULL::VARCHAR AS uid, NULL::VARCHAR AS account_id, NULL::TIMESTAMP AS ts WHERE false"""


def changed_measurements(
    organization: Organization, id: str, limit: int = SHOWN_MAX
) -> dict[str, Any]:
    """The first measurements that a staged backfill changes, as they are and as they would be.

    Args:
        organization: The organization.
        id: That of the backfill.
        limit: The largest number.

    Returns:
        Plain data: `rows`, each with `before`, `after` or both, and whether there are `more`.

    Raises:
        NotFound: There is no such backfill.
        Conflict: It is not staged, or is out of date.
        Busy: Another process works on it.
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        configuration = reader.configuration()
        meters = {each.id: each.entity.code for each in reader.all(Meter)}
    found: list[dict[str, Any]] = []
    with (
        open_staged(organization, id) as (backfill, changes),
        organization.lake.reader() as connection,
        translate_errors(),
    ):
        for change in changes:
            wanted = limit + 1 - len(found)
            for uid, account_id, ts, before, after in _rows(
                connection, change, backfill.snapshot, wanted
            ):
                row = {
                    "uid": uid,
                    "meter": meters.get(change.meter_id, change.meter_id),
                    "account": account_code(configuration, account_id),
                    "accountId": account_id,
                    "ts": format_instant(aware(ts)),
                    "before": _fields(before),
                    "after": _fields(after),
                }
                found.append({name: value for name, value in row.items() if value is not None})
    return {"id": id, "rows": found[:limit], "more": len(found) > limit}


def _rows(
    connection: duckdb.DuckDBPyConnection, change: MeterChange, snapshot: int, limit: int
) -> list[tuple[Any, ...]]:
    gone = came = _NO_ROWS
    if change.gone and columns_at(connection, meter_table(change.meter_id), snapshot):
        stored = rows_at(change.meter_id, snapshot)
        gone = f"SELECT o.* FROM {stored} AS o SEMI JOIN {change.gone} USING (source, row, part)"
    if change.came:
        came = f"SELECT * FROM {change.came}"
    return connection.execute(_ROWS.format(gone=gone, came=came, limit=limit)).fetchall()


def _fields(row: Mapping[str, Any] | None) -> dict[str, str] | None:
    """What was measured, as text; None if there is no such row."""
    if row is None:
        return None
    return {
        name: _text(value)
        for name, value in row.items()
        if value is not None and (name in {"ts", "ets"} or field_of(name) is not None)
    }


def _text(value: Any) -> str:
    if isinstance(value, Decimal):
        return plain(value)
    return format_instant(aware(value)) if isinstance(value, datetime) else str(value)
