"""Alerts: meters that get nothing any more, and too many rejected rows: the verb `check_alerts`.

The limits are settings of the home; custom fields of a meter or of the organization replace them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import duckdb

from meterlake.model.catalog import Meter
from meterlake.model.custom_fields import custom_value
from meterlake.model.entity import Record
from meterlake.model.events import FRESHNESS_ALERT, REJECT_RATE_ALERT
from meterlake.model.measurement import meter_table
from meterlake.model.money import divide
from meterlake.model.organization import CustomFields
from meterlake.model.period import format_instant, naive
from meterlake.model.sql import identifier
from meterlake.pipeline.events.incidents import resolve
from meterlake.stores import Stores
from meterlake.stores.lake.tables import table_names
from meterlake.stores.state.events import incidents
from meterlake.stores.state.events.incidents import Incident

# The custom fields that replace settings: of a meter, and of the organization.
FRESHNESS_FIELD: Final = "freshnessHours"
REJECT_RATE_FIELD: Final = "rejectRate"
_ALERTS: Final = (FRESHNESS_ALERT, REJECT_RATE_ALERT)
_SINCE: Final = "SELECT max(received_at) FROM lake.{table} WHERE received_at > ?"
_EVER: Final = "SELECT max(received_at) FROM lake.{table}"
_RATE: Final = """
    SELECT coalesce(sum(received), 0)::BIGINT, coalesce(sum(rejected), 0)::BIGINT
    FROM lake.source WHERE finished_at > ?"""

_Alert = tuple[tuple[str, str], dict[str, Any]]


def check_alerts(stores: Stores, org_id: str) -> list[Incident]:
    """Look whether an organization gets what it should; incidents begin and end by it.

    Returns:
        What is not as it should be now; among it books that did not balance when they were last
        compared, and uploads that failed, until their events are marked.

    Raises:
        Unavailable: The disk, the lake or State failed.
    """
    with stores.state.reading(org_id) as reader:
        meters = reader.all(Meter)
        fields = next((each.entity for each in reader.all(CustomFields)), CustomFields())
    with stores.lake(org_id).reader() as connection:
        found = dict(_stale_meters(stores, connection, meters, fields))
        found |= dict(_rejects(stores, org_id, connection, fields))
    resolve(stores, org_id, _ALERTS, found)
    with stores.state.reading(org_id) as reader:
        return incidents.open_incidents(reader)


def _stale_meters(
    stores: Stores,
    connection: duckdb.DuckDBPyConnection,
    meters: list[Record[Meter]],
    fields: CustomFields,
) -> Iterator[_Alert]:
    present = table_names(connection)
    for meter in meters:
        own = _number(custom_value(FRESHNESS_FIELD, meter.entity, fields))
        hours = Decimal(str(stores.settings.alert_freshness_hours)) if own is None else own
        if hours <= 0 or meter_table(meter.id) not in present:
            continue
        last = _stale_since(connection, meter.id, _before(stores.now(), hours))
        if last is not None:
            code = meter.entity.code
            yield (
                (FRESHNESS_ALERT, meter.id),
                {
                    "message": f"meter {code} has received nothing for more than {hours} hours",
                    "meterId": meter.id,
                    "meterCode": code,
                    "lastReceived": format_instant(last),
                    "hours": hours,
                },
            )


def _stale_since(
    connection: duckdb.DuckDBPyConnection, meter_id: str, limit: datetime
) -> datetime | None:
    """When a meter received its last measurement, if that is before the limit."""
    table = identifier(meter_table(meter_id))
    # Of a fresh meter only the newest files are looked at.
    if _newest(connection, _SINCE.format(table=table), [naive(limit)]) is not None:
        return None
    return _newest(connection, _EVER.format(table=table), [])


def _newest(
    connection: duckdb.DuckDBPyConnection, query: str, values: list[Any]
) -> datetime | None:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    found: datetime | None = row[0]
    return None if found is None else found.replace(tzinfo=UTC)


def _rejects(
    stores: Stores, org_id: str, connection: duckdb.DuckDBPyConnection, fields: CustomFields
) -> Iterator[_Alert]:
    settings = stores.settings
    own = _number(custom_value(REJECT_RATE_FIELD, None, fields))
    most = Decimal(str(settings.alert_reject_rate)) if own is None else own
    hours = Decimal(str(settings.alert_reject_hours))
    limit = naive(_before(stores.now(), hours))
    row = connection.execute(_RATE, [limit]).fetchone()
    assert row is not None
    received, rejected = map(int, row)
    # Compared without dividing, so that the limit itself is exact.
    if received < settings.alert_reject_least or rejected <= most * received:
        return
    yield (
        (REJECT_RATE_ALERT, org_id),
        {
            "message": f"{rejected:,} of {received:,} measurements were rejected"
            f" within {hours} hours, which is more than {most:%}",
            "received": received,
            "rejected": rejected,
            "rate": divide(Decimal(rejected), Decimal(received)),
            "threshold": most,
            "hours": hours,
        },
    )


def _before(now: datetime, hours: Decimal) -> datetime:
    """An instant so many hours ago; the beginning of time where there is none."""
    try:
        return now - timedelta(hours=float(hours))
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _number(value: str | Decimal | None) -> Decimal | None:
    """A number that stands in a custom field; None if what stands there is none."""
    if isinstance(value, str):
        try:
            value = Decimal(value)
        except InvalidOperation:
            return None
    return value if value is not None and value.is_finite() else None
