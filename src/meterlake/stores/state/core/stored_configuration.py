"""The configuration around one changed entity, read from the database only where a rule looks."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.sql.elements import ColumnElement

from meterlake.model.errors import NotFound
from meterlake.model.resources import BY_ENTITY, resource_of, wire_name
from meterlake.model.values.entity import Configuration, E, Entity, IntegrationFacts, Record
from meterlake.model.values.money import ZERO
from meterlake.stores.state.core.charges import (
    bill_of_charge,
    charged_until,
    newest_charge_due,
    schedule_of_charge,
)
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.postings import amounts_spent, newest_due
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import ENTITY, ENTITY_REFERENCE, INDEXED, index_key
from meterlake.stores.state.integrations.health import integration_facts


class StoredConfiguration(Configuration):
    """What `Configuration` is in memory, for one request: the stored entities, some of them changed.

    Args:
        reader: Reads the stored entities; all in one transaction.
        changed: Entities as they are about to be; they hide the stored ones of the same id.
        gone: Ids of entities that are about to be deleted.
    """

    def __init__(
        self,
        reader: Reader,
        changed: tuple[Record[Any], ...] = (),
        gone: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(changed)
        self._reader = reader
        self._gone = gone
        self._found: dict[tuple[type[Entity], str], Record[Any] | None] = {}

    def all(self, kind: type[E]) -> Iterator[Record[E]]:
        """Every record of a kind; reads the whole kind."""
        return self._merge(kind, self._reader.all(kind), list(super().all(kind)))

    def kinds(self) -> Iterator[type[Entity]]:
        """Every kind that there is."""
        yield from BY_ENTITY

    def get(self, kind: type[E], id: str) -> Record[E]:
        """One record by id.

        Raises:
            NotFound: There is none.
        """
        for record in super().all(kind):
            if record.id == id:
                return record
        if (kind, id) not in self._found:
            self._found[kind, id] = None if id in self._gone else self._read_stored(kind, id)
        found = self._found[kind, id]
        if found is None:
            raise NotFound(kind.__name__, id)
        return found

    def _read_stored(self, kind: type[E], id: str) -> Record[E] | None:
        try:
            return self._reader.get(kind, id)
        except NotFound:
            return None

    def where(self, kind: type[E], field: str, value: object) -> list[Record[E]]:
        """The records of a kind whose field has a value; by an index where it refers or is a code."""
        stored = self._reader.matching(kind, field_equals(self._reader, kind, field, value))
        changed = [record for record in super().all(kind) if getattr(record.entity, field) == value]
        return list(self._merge(kind, stored, changed))

    def single(self, kind: type[E]) -> Record[E]:
        """The one record of a kind of which there is one.

        Raises:
            NotFound: There is none.
        """
        for record in self.all(kind):
            return record
        raise NotFound(kind.__name__, "of the organization")

    def amount_spent(self, commitment_id: str) -> Decimal:
        """What bills drew from a commitment until now."""
        return amounts_spent(self._reader, [commitment_id]).get(commitment_id, ZERO)

    def previous_run(self, schedule_id: str) -> datetime | None:
        """When the newest transaction or charge was due that a schedule made."""
        return newest_due(self._reader, schedule_id) or newest_charge_due(self._reader, schedule_id)

    def charged_until(self, schedule_id: str) -> datetime | None:
        """The end of the service that a schedule has charged for."""
        return charged_until(self._reader, schedule_id)

    def schedule_of_charge(self, charge_id: str) -> str | None:
        """The schedule that made a charge."""
        return schedule_of_charge(self._reader, charge_id)

    def bill_of_charge(self, account_id: str, charge_id: str) -> str | None:
        """The bill on which a charge stands."""
        return bill_of_charge(self._reader, account_id, charge_id)

    def integration_facts(self, id: str, destination_id: str | None) -> IntegrationFacts:
        """How an integration is doing."""
        reader = self._reader
        return integration_facts(reader.connection, reader.org_id, id, destination_id)

    def _merge(
        self, kind: type[E], stored: list[Record[E]], changed: list[Record[E]]
    ) -> Iterator[Record[E]]:
        hidden = {record.id for record in super().all(kind)} | self._gone
        yield from (record for record in stored if record.id not in hidden)
        yield from changed


def field_equals(
    reader: Reader, kind: type[Entity], field: str, value: object
) -> ColumnElement[bool]:
    """The condition that a field of stored entities has a value."""
    resource = resource_of(kind)
    if field == "code":
        return ENTITY.c.code == value
    if isinstance(value, str) and field in (*resource.indexed, *resource.refs):
        return _is_indexed(reader.org_id, kind, field, value)
    if isinstance(value, str) and field in resource.codes:
        named = reader.find(resource.codes[field], value)
        ids = [named.id] if named else []
        return refers(reader.org_id, kind, wire_name(field), resource.codes[field], ids)
    text = member_text(ENTITY.c.body, wire_name(field))
    if value is None:
        return text.is_(None)
    if isinstance(value, bool):
        return text.in_(["true", "1"] if value else ["false", "0"])
    return text == str(value)


def _is_indexed(org_id: str, kind: type[Entity], field: str, value: str) -> ColumnElement[bool]:
    target = resource_of(kind).refs.get(field)
    if target is not None:
        return refers(org_id, kind, wire_name(field), target, [value])
    table = ENTITY_REFERENCE.c
    inner = select(table.id).where(
        table.org == org_id,
        table.kind == kind.__name__,
        table.target_kind == INDEXED,
        table.target_id == index_key(field, value),
    )
    return ENTITY.c.id.in_(inner)


def refers(
    org_id: str, kind: type[Entity], name: str, target: type[Entity], ids: list[str]
) -> ColumnElement[bool]:
    """The condition that an entity refers to one of some ids in a field, or in a list of that name."""
    table = ENTITY_REFERENCE.c
    inner = select(table.id).where(
        table.org == org_id,
        table.kind == kind.__name__,
        table.target_kind == target.__name__,
        table.target_id.in_(ids),
        or_(table.field == name, table.field.like(f"{name}[%")),
    )
    return ENTITY.c.id.in_(inner)
