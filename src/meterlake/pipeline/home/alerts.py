"""Alerts: silent meters, too many rejected rows, overdue files: the verb `check_alerts`.

The limits are settings of the home; custom fields of a meter or of the organization replace them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import duckdb

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.organization import (
    CustomFields,
    OrganizationConfig,
    custom_value,
)
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.resources.events import FRESHNESS_ALERT, OVERDUE_FILE_ALERT, REJECT_RATE_ALERT
from meterlake.model.values.entity import Record
from meterlake.model.values.ids import derived_id
from meterlake.model.values.money import divide
from meterlake.model.values.period import format_instant
from meterlake.pipeline.events.incidents import resolve
from meterlake.pipeline.ingest.expected_files import next_due, overdue_files
from meterlake.stores import Organization, Stores
from meterlake.stores.lake.backends.location import LakeMarks
from meterlake.stores.lake.receipts import last_received, rows_since
from meterlake.stores.lake.tables import table_names
from meterlake.stores.state.events import incidents
from meterlake.stores.state.events.incidents import Incident, LakeLook, newest_looks, note_look

# The custom fields that replace settings: of a meter, and of the organization.
FRESHNESS_FIELD: Final = "freshnessHours"
REJECT_RATE_FIELD: Final = "rejectRate"
# A lake that changes all the time is looked at so often.
LOOK_AGAIN: Final = timedelta(minutes=5)
# Lakes that nobody has looked at yet, of one round: after an update these are all.
_NEW_MAX: Final = 100
# What holds limits of its own.
_LIMITED: Final = (Meter, CustomFields, OrganizationConfig)
_ALERTS: Final = (FRESHNESS_ALERT, REJECT_RATE_ALERT, OVERDUE_FILE_ALERT)

_Alert = tuple[tuple[str, str], dict[str, Any]]


def check_alerts(organization: Organization) -> list[Incident]:
    """Look whether an organization gets what it should; incidents begin and end by it.

    Returns:
        What is not as it should be now; among it books that did not balance when they were last
        compared, and uploads that failed, until their events are marked.

    Raises:
        Unavailable: The disk, the lake or State failed.
    """
    _resolve(organization)
    with organization.reading() as reader:
        return incidents.open_incidents(reader)


class LakeWatch:
    """Which lakes are to be looked at for alerts, without opening them.

    A look says when something may begin or end by itself. Before that a lake needs another one
    only if something came in, or if the limits changed.

    Args:
        stores: The home's stores.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._marks = LakeMarks(stores.settings)

    def due(self) -> list[str]:
        """The ids of the organizations whose lakes are to be looked at now.

        Raises:
            Unavailable: State, or the server of the catalogs, does not answer.
        """
        with self._stores.state.reading_home() as connection:
            looks = list(newest_looks(connection, *_LIMITED))
        new = [org_id for org_id, look, _ in looks if look is None][:_NEW_MAX]
        return new + list(
            self._due([(org_id, look, limits) for org_id, look, limits in looks if look])
        )

    def _due(self, looks: list[tuple[str, LakeLook, str]]) -> Iterator[str]:
        now, limits = self._stores.now(), _limits(self._stores)
        marks = self._marks.read([org_id for org_id, *_ in looks])
        for org_id, look, configured in looks:
            is_other = (look.mark, look.limits) != (marks[org_id], limits)
            is_due = look.due is not None and look.due <= now
            is_old = now - look.looked >= LOOK_AGAIN
            if (is_old and (is_other or is_due)) or look.configured != configured:
                yield org_id

    def look(self, org_id: str) -> None:
        """Look at one lake, and write down when it is to be looked at again.

        Raises:
            Unavailable: The disk, the lake or State failed.
        """
        # Before the look: what comes in meanwhile is looked at again.
        now, mark = self._stores.now(), self._marks.read([org_id])[org_id]
        with self._stores.state.reading_home() as connection:
            [(_, _, configured)] = newest_looks(connection, *_LIMITED, org_id=org_id)
        due = _resolve(self._stores.organization(org_id))
        look = LakeLook(now, due, mark, _limits(self._stores), configured)
        with self._stores.state.writing_home() as connection:
            note_look(connection, org_id, look)


def _limits(stores: Stores) -> str:
    settings = stores.settings
    given = (settings.alert_freshness_hours, settings.alert_reject_rate)
    return repr((*given, settings.alert_reject_hours, settings.alert_reject_least))


def _resolve(organization: Organization) -> datetime | None:
    """Begin and end incidents; when one may begin or end although nothing comes in."""
    with organization.reading() as reader:
        meters = reader.all(Meter)
        fields = next((each.entity for each in reader.all(CustomFields)), CustomFields())
    due: list[datetime] = []
    with organization.lake.reader() as connection:
        found = dict(_stale_meters(organization.stores, connection, meters, fields, due))
        found |= dict(_rejects(organization, connection, fields, due))
    found |= dict(_overdue_files(organization))
    if (coming := next_due(organization)) is not None:
        due.append(coming)
    resolve(organization, _ALERTS, found)
    return min(due, default=None)


def _overdue_files(organization: Organization) -> Iterator[_Alert]:
    """One for each file of a day or month, so that it is told of once."""
    for each in overdue_files(organization):
        told = {"message": f"{each.name} of {each.period} has not come", **each.to_wire()}
        yield (OVERDUE_FILE_ALERT, derived_id("overdue-file", each.name, each.period)), told


def _stale_meters(
    stores: Stores,
    connection: duckdb.DuckDBPyConnection,
    meters: list[Record[Meter]],
    fields: CustomFields,
    due: list[datetime],
) -> Iterator[_Alert]:
    present = table_names(connection)
    for meter in meters:
        own = _number(custom_value(FRESHNESS_FIELD, meter.entity, fields))
        hours = Decimal(str(stores.settings.alert_freshness_hours)) if own is None else own
        if hours <= 0 or meter_table(meter.id) not in present:
            continue
        limit = _before(stores.now(), hours)
        last = last_received(connection, meter.id, limit)
        if last is not None and last > limit:
            due.append(_after(last, hours))
        elif last is not None:
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


def _rejects(
    organization: Organization,
    connection: duckdb.DuckDBPyConnection,
    fields: CustomFields,
    due: list[datetime],
) -> Iterator[_Alert]:
    settings = organization.settings
    own = _number(custom_value(REJECT_RATE_FIELD, None, fields))
    most = Decimal(str(settings.alert_reject_rate)) if own is None else own
    hours = Decimal(str(settings.alert_reject_hours))
    received, rejected, first = rows_since(connection, _before(organization.now(), hours))
    if rejected and first is not None:
        # When the first source of these hours is too old to count.
        due.append(_after(first, hours))
    # Compared without dividing, so that the limit itself is exact.
    if received < settings.alert_reject_least or rejected <= most * received:
        return
    yield (
        (REJECT_RATE_ALERT, organization.id),
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


def _after(moment: datetime, hours: Decimal) -> datetime:
    """An instant so many hours later; the end of time where there is none."""
    try:
        return moment + timedelta(hours=float(hours))
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _number(value: str | Decimal | None) -> Decimal | None:
    """A number that stands in a custom field; None if what stands there is none."""
    if isinstance(value, str):
        try:
            value = Decimal(value)
        except InvalidOperation:
            return None
    return value if value is not None and value.is_finite() else None
