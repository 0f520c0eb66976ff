"""What is watched over: how far a lake's ledger is reported, and which incidents are open."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    String,
    Table,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from meterlake.model.values.entity import Entity
from meterlake.model.values.period import format_instant
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import (
    ENTITY,
    METADATA,
    ORGANIZATION,
    InstantText,
    StorableText,
)

# What a lake that nothing was reported of has been reported up to.
NOTHING: Final = -1
LAKE_WATCH: Final = Table(
    "lake_watch",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("looked", InstantText, nullable=False),
    # When an alert may begin or end although nothing comes in; null if none may.
    Column("due", InstantText),
    # What tells the lake's state from others, and the limits that were looked for.
    Column("mark", String(80), nullable=False),
    Column("limits", StorableText, nullable=False),
    Column("configured", StorableText, nullable=False),
)


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


@dataclass(frozen=True, slots=True)
class LakeLook:
    """One look at a lake.

    Attributes:
        looked: When it began.
        due: When something may begin or end by itself; None if nothing may.
        mark: What tells the state of the lake from others.
        limits: What the settings said.
        configured: What told the entities that hold limits from others.
    """

    looked: datetime
    due: datetime | None
    mark: str
    limits: str
    configured: str


def note_look(connection: Connection, org_id: str, look: LakeLook) -> None:
    """Write a look down; it replaces the one before.

    Of two workers that look at the same time the later one waits, and its look stands.
    """
    row: dict[str, Any] = {name: getattr(look, name) for name in LakeLook.__slots__}
    insert: Any = {"sqlite": sqlite, "postgresql": postgresql}[connection.dialect.name].insert
    statement = insert(LAKE_WATCH).values(row | {"org": org_id})
    connection.execute(statement.on_conflict_do_update(index_elements=["org"], set_=row))


def newest_looks(
    connection: Connection, *kinds: type[Entity], org_id: str | None = None
) -> Iterator[tuple[str, LakeLook | None, str]]:
    """Each organization, its newest look, and what tells its entities of some kinds from others.

    Args:
        connection: Of State.
        kinds: What limits are kept in.
        org_id: One organization; all if None.
    """
    mine = and_(ENTITY.c.org == ORGANIZATION.c.id, ENTITY.c.kind.in_([k.__name__ for k in kinds]))
    changed = select(func.max(ENTITY.c.modified)).where(mine).scalar_subquery()
    # Clocks of machines differ: a change may be older than the one before.
    versions = func.count() * 1_000_000_000 + func.coalesce(func.sum(ENTITY.c.version), 0)
    count = select(versions).select_from(ENTITY).where(mine).scalar_subquery()
    columns = [LAKE_WATCH.c[name] for name in LakeLook.__slots__]
    query = select(ORGANIZATION.c.id, changed, count, *columns).select_from(
        ORGANIZATION.outerjoin(LAKE_WATCH, LAKE_WATCH.c.org == ORGANIZATION.c.id)
    )
    if org_id is not None:
        query = query.where(ORGANIZATION.c.id == org_id)
    for id_, modified, number, *found in connection.execute(query.order_by(ORGANIZATION.c.id)):
        look = None if found[0] is None else LakeLook(*found)
        yield id_, look, f"{number} {modified and format_instant(modified)}"
