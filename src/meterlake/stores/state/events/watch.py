"""When each lake was last looked at for alerts, as what, and when one may begin by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    Column,
    Connection,
    ForeignKey,
    String,
    Table,
    and_,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from meterlake.model.values.entity import Entity
from meterlake.model.values.period import format_instant
from meterlake.stores.state.core.tables import (
    ENTITY,
    METADATA,
    ORGANIZATION,
    InstantText,
    StorableText,
)

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
