"""Reading the entities of one organization, as they are now or as they were."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from meterlake.model import wire
from meterlake.model.entity import Configuration, E, Entity, Record
from meterlake.model.errors import NotFound
from meterlake.model.resources import BY_KIND
from meterlake.stores.state.tables import ENTITY, ENTITY_HISTORY


@dataclass(frozen=True, slots=True)
class Past:
    """One version of an entity in its history; `entity` is None where it was deleted."""

    version: int
    valid_from: datetime
    valid_to: datetime | None
    entity: Entity | None
    author: str


class Reader:
    """The entities of one organization in one consistent state."""

    def __init__(self, connection: Connection, org_id: str) -> None:
        self.connection = connection
        self.org_id = org_id

    def get(self, kind: type[E], id: str) -> Record[E]:
        """One entity by id.

        Raises:
            NotFound: There is none.
        """
        row = self.connection.execute(self._entities(kind).where(ENTITY.c.id == id)).first()
        if row is None:
            raise NotFound(kind.__name__, id)
        return _record(row)

    def find(self, kind: type[E], code: str) -> Record[E] | None:
        """One entity by code, or None."""
        row = self.connection.execute(self._entities(kind).where(ENTITY.c.code == code)).first()
        return None if row is None else _record(row)

    def all(self, kind: type[E]) -> list[Record[E]]:
        """All entities of a kind in the order of their creation."""
        query = self._entities(kind).order_by(ENTITY.c.created, ENTITY.c.id)
        return [_record(row) for row in self.connection.execute(query)]

    def configuration(self, at: datetime | None = None) -> Configuration:
        """All entities, as they are or as they were at an instant."""
        return Configuration(self._current() if at is None else self._as_of(at))

    def history(self, kind: type[Entity], id: str) -> list[Past]:
        """Every version that an entity ever had, the first one first."""
        table = ENTITY_HISTORY.c
        query = (
            select(ENTITY_HISTORY)
            .where(table.org == self.org_id, table.kind == kind.__name__, table.id == id)
            .order_by(table.version)
        )
        return [
            Past(
                row.version,
                row.valid_from,
                row.valid_to,
                None if row.body is None else kind.from_wire(wire.loads(row.body)),
                row.author,
            )
            for row in self.connection.execute(query)
        ]

    def _entities(self, kind: type[Entity]) -> Select[Any]:
        return select(ENTITY).where(ENTITY.c.org == self.org_id, ENTITY.c.kind == kind.__name__)

    def _current(self) -> Iterator[Record[Any]]:
        query = select(ENTITY).where(ENTITY.c.org == self.org_id)
        yield from map(_record, self.connection.execute(query))

    def _as_of(self, at: datetime) -> Iterator[Record[Any]]:
        table = ENTITY_HISTORY.c
        query = select(
            table.kind,
            table.id,
            table.version,
            table.body,
            table.created,
            table.created_by,
            table.valid_from.label("modified"),
            table.author.label("modified_by"),
        ).where(
            table.org == self.org_id,
            table.valid_from <= at,
            table.valid_to.is_(None) | (table.valid_to > at),
            table.body.is_not(None),
        )
        yield from map(_record, self.connection.execute(query))


def _record(row: Row[Any]) -> Record[Any]:
    entity = BY_KIND[row.kind].entity.from_wire(wire.loads(row.body))
    return Record(
        id=row.id,
        version=row.version,
        entity=entity,
        created=row.created,
        created_by=row.created_by,
        modified=row.modified,
        modified_by=row.modified_by,
    )
