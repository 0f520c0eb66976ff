"""The measurements that a staged backfill takes, brings or changes, before it is applied."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from meterlake.model.catalog.catalog import Meter
from meterlake.model.measurements.measurement import field_of
from meterlake.model.values.money import plain
from meterlake.model.values.period import aware, format_instant
from meterlake.pipeline.backfill.lifecycle import open_staged
from meterlake.pipeline.backfill.priced import account_code
from meterlake.stores import Organization
from meterlake.stores.lake.backfill.changes import rows_before_and_after
from meterlake.stores.lake.connection import translate_errors

SHOWN_MAX: Final = 1_000


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
            for uid, account_id, ts, before, after in rows_before_and_after(
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
