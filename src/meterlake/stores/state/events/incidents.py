"""What is watched over: how far a lake's ledger is reported, and which incidents are open."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, String, Table, delete, insert, select, update

from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText

# What a lake that nothing was reported of has been reported up to.
NOTHING: Final = -1


def _org() -> Column[str]:
    return Column("org", String(36), ForeignKey("organization.id"), primary_key=True)


LEDGER_REPORT: Final = Table(
    "ledger_report",
    METADATA,
    _org(),
    # The number of the last row of the ledger that needs no report any more.
    Column("reported", BigInteger, nullable=False),
)

# Only what is open: an incident that is over leaves its events.
INCIDENT: Final = Table(
    "incident",
    METADATA,
    _org(),
    Column("name", String(80), primary_key=True),
    Column("subject", StorableText(200), primary_key=True),
    Column("event_id", String(36), nullable=False),
    Column("since", InstantText, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that is not as it should be, until it is again.

    Attributes:
        name: The name of its event.
        subject: What it is about: the id of a meter, of the organization.
        event_id: The event that told of it.
    """

    name: str
    subject: str
    event_id: str
    since: datetime


def reported_until(reader: Reader) -> int:
    """Up to which row the ledger of the organization's lake is reported."""
    query = select(LEDGER_REPORT.c.reported).where(LEDGER_REPORT.c.org == reader.org_id)
    found = reader.connection.execute(query).scalar()
    return NOTHING if found is None else int(found)


def note_reported(reader: Reader, row: int) -> None:
    """Note that the ledger is reported up to a row; never less far than before."""
    before, org = reported_until(reader), {"org": reader.org_id}
    if before >= row:
        return
    changed = update(LEDGER_REPORT).where(LEDGER_REPORT.c.org == reader.org_id)
    if reader.connection.execute(changed.values(reported=row)).rowcount != 1:
        reader.connection.execute(insert(LEDGER_REPORT), {**org, "reported": row})


def open_incidents(reader: Reader, name: str | None = None) -> list[Incident]:
    """The incidents that are open, of all names or of one."""
    query = select(INCIDENT).where(INCIDENT.c.org == reader.org_id)
    if name is not None:
        query = query.where(INCIDENT.c.name == name)
    rows = reader.connection.execute(query.order_by(INCIDENT.c.since, INCIDENT.c.subject))
    return [Incident(row.name, row.subject, row.event_id, row.since) for row in rows]


def begin(reader: Reader, incident: Incident) -> None:
    """Open an incident; none of its name and subject is open."""
    row = {name: getattr(incident, name) for name in incident.__dataclass_fields__}
    reader.connection.execute(insert(INCIDENT), row | {"org": reader.org_id})


def end_by_ledger(reader: Reader, name: str, event_id: str) -> None:
    """Close the incident of a name that an event told of, if it is open."""
    statement = delete(INCIDENT).where(
        INCIDENT.c.org == reader.org_id,
        INCIDENT.c.name == name,
        INCIDENT.c.event_id == event_id,
    )
    reader.connection.execute(statement)


def end(reader: Reader, incident: Incident) -> None:
    """Close an incident."""
    statement = delete(INCIDENT).where(
        INCIDENT.c.org == reader.org_id,
        INCIDENT.c.name == incident.name,
        INCIDENT.c.subject == incident.subject,
    )
    reader.connection.execute(statement)
