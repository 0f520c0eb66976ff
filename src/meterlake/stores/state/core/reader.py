"""Reading the entities of one organization, as they are now or as they were."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, select

from meterlake.model.errors import Invalid, MeterlakeError, NotFound
from meterlake.model.resources import BY_KIND
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, E, Entity, Record
from meterlake.stores.state.core.tables import ENTITY, ENTITY_HISTORY, ENTITY_REFERENCE

# Built once: making a statement takes four times as long as running it.
_ONE: Final = select(ENTITY).where(
    ENTITY.c.org == bindparam("org"), ENTITY.c.kind == bindparam("kind")
)
# Characters of what is wrong with a damaged row.
_SHOWN_MAX: Final = 200
_BY_ID: Final = _ONE.where(ENTITY.c.id == bindparam("name"))
_BY_CODE: Final = _ONE.where(ENTITY.c.code == bindparam("name"))
_AT_VERSION: Final = select(ENTITY_HISTORY.c.body).where(
    ENTITY_HISTORY.c.org == bindparam("org"),
    ENTITY_HISTORY.c.kind == bindparam("kind"),
    ENTITY_HISTORY.c.id == bindparam("name"),
    ENTITY_HISTORY.c.version == bindparam("version"),
)


@dataclass(frozen=True, slots=True)
class Past:
    """One version of an entity in its history; `entity` is None where it was deleted."""

    version: int
    valid_from: datetime
    valid_to: datetime | None
    entity: Entity | None
    author: str


class StoredEntity(NamedTuple):
    """One entity as its table has it: the envelope's instants as text, the fields as JSON."""

    version: int
    body: str
    created: str
    created_by: str
    modified: str
    modified_by: str


STORED: Final = select(
    ENTITY.c.version,
    ENTITY.c.body,
    ENTITY.c.created,
    ENTITY.c.created_by,
    ENTITY.c.modified,
    ENTITY.c.modified_by,
).where(
    ENTITY.c.org == bindparam("org"),
    ENTITY.c.kind == bindparam("kind"),
    ENTITY.c.id == bindparam("name"),
)


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
        values = {"org": self.org_id, "kind": kind.__name__, "name": id}
        row = self.connection.execute(_BY_ID, values).first()
        if row is None:
            raise NotFound(kind.__name__, id)
        return record_of(row)

    def find(self, kind: type[E], code: str) -> Record[E] | None:
        """One entity by code, or None."""
        values = {"org": self.org_id, "kind": kind.__name__, "name": code}
        row = self.connection.execute(_BY_CODE, values).first()
        return None if row is None else record_of(row)

    def codes(self, kind: type[Entity]) -> list[str]:
        """The codes of all entities of a kind, without reading more of them."""
        query = select(ENTITY.c.code).where(
            ENTITY.c.org == self.org_id, ENTITY.c.kind == kind.__name__, ENTITY.c.code.is_not(None)
        )
        return list(self.connection.execute(query).scalars())

    def all(self, kind: type[E]) -> list[Record[E]]:
        """All entities of a kind in the order of their creation."""
        query = self._entities(kind).order_by(ENTITY.c.created, ENTITY.c.id)
        return [record_of(row) for row in self.connection.execute(query)]

    def matching(
        self, kind: type[E], *conditions: ColumnElement[bool], most: int | None = None
    ) -> list[Record[E]]:
        """The entities of a kind that meet all conditions, in no particular order; at most so many."""
        query = self._entities(kind).where(*conditions).limit(most)
        return [record_of(row) for row in self.connection.execute(query)]

    def referring(
        self, kind: type[E], target: type[Entity], id: str, most: int | None = None
    ) -> list[Record[E]]:
        """The entities of a kind that refer to one entity; at most so many."""
        table = ENTITY_REFERENCE.c
        ids = select(table.id).where(
            table.org == self.org_id,
            table.kind == kind.__name__,
            table.target_kind == target.__name__,
            table.target_id == id,
        )
        return self.matching(kind, ENTITY.c.id.in_(ids), most=most)

    def configuration(self, at: datetime | None = None) -> Configuration:
        """All entities, as they are or as they were at an instant."""
        query = select(ENTITY).where(ENTITY.c.org == self.org_id)
        if at is not None:
            query = versions_at(self.org_id, at).where(ENTITY_HISTORY.c.body.is_not(None))
        return Configuration(map(record_of, self.connection.execute(query)))

    def as_of(self, kind: type[E], id: str | None, at: datetime) -> Record[E]:
        """One entity as it was at an instant; without an id, the one of its kind.

        Raises:
            NotFound: There was none.
        """
        table = ENTITY_HISTORY.c
        query = versions_at(self.org_id, at).where(
            table.kind == kind.__name__, table.body.is_not(None)
        )
        row = self.connection.execute(query if id is None else query.where(table.id == id)).first()
        if row is None:
            raise NotFound(
                kind.__name__,
                id or "of the organization",
                f" at {at.isoformat()}; choose a later time",
            )
        return record_of(row)

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

    def at_version(self, kind: type[E], id: str, version: int | None) -> E | None:
        """An entity as a version of it says, also of a deleted one; None if none does."""
        values = {"org": self.org_id, "kind": kind.__name__, "name": id, "version": version}
        body = self.connection.execute(_AT_VERSION, values).scalar()
        return None if body is None else kind.from_wire(wire.loads(body))

    def _entities(self, kind: type[Entity]) -> Select[Any]:
        return select(ENTITY).where(ENTITY.c.org == self.org_id, ENTITY.c.kind == kind.__name__)


# The history's rows as `record_of` takes them.
VERSIONS: Final = select(
    ENTITY_HISTORY.c.kind,
    ENTITY_HISTORY.c.id,
    ENTITY_HISTORY.c.version,
    ENTITY_HISTORY.c.body,
    ENTITY_HISTORY.c.created,
    ENTITY_HISTORY.c.created_by,
    ENTITY_HISTORY.c.valid_from.label("modified"),
    ENTITY_HISTORY.c.author.label("modified_by"),
)


def versions_at(org_id: str, at: datetime) -> Select[Any]:
    """The history's rows of an organization's entities at an instant; deletions have no body."""
    table = ENTITY_HISTORY.c
    return VERSIONS.where(
        table.org == org_id,
        table.valid_from <= at,
        table.valid_to.is_(None) | (table.valid_to > at),
    )


class DamagedRow(MeterlakeError):
    """A row of State cannot be read: somebody or something altered it behind our back."""

    text = "the row of {0} {1}, version {2}, in State is damaged: {3}; restore State from a backup"

    def __init__(self, kind: str, id: str, version: int, why: str) -> None:
        super().__init__(kind, id, version, why)


def record_of(row: Row[Any]) -> Record[Any]:
    """A row of the entity table, or of its history, as a record.

    Raises:
        DamagedRow: It is not what anybody wrote.
    """
    try:
        entity = BY_KIND[row.kind].entity.from_wire(wire.loads(row.body))
        for name in ("created", "modified"):
            if not isinstance(getattr(row, name), datetime):
                raise Invalid(name, getattr(row, name), "it must be an instant")  # noqa: TRY301 - as the body
    except (Invalid, ValueError, KeyError) as error:
        why = " ".join(str(error).split())[:_SHOWN_MAX]
        raise DamagedRow(row.kind, row.id, row.version, why) from None
    return Record(
        id=row.id,
        version=row.version,
        entity=entity,
        created=row.created,
        created_by=row.created_by,
        modified=row.modified,
        modified_by=row.modified_by,
    )
