"""What becomes of entities that name one that is deleted: some hold it, some let it go."""

from collections.abc import Iterator
from typing import Any, Final

from meterlake.model.errors import Conflict, StillReferenced
from meterlake.model.resources import RESOURCES, Resource
from meterlake.model.rules import Proposed
from meterlake.model.rules.proposed import display_name
from meterlake.model.values.entity import Entity, Record
from meterlake.stages.config.check import check_rules
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

_NAMING: Final = tuple(each for each in RESOURCES if each.names is not None)


def refuse_named(reader: Reader, record: Record[Any]) -> None:
    """Refuse to let go of what others name in fields that are no references by themselves.

    Raises:
        StillReferenced: One does.
    """
    for resource in _NAMING:
        assert resource.names is not None
        for other in reader.all(resource.entity):
            if other.id != record.id and record.id in resource.names(other.entity):
                kind = type(record.entity).__name__
                raise StillReferenced(kind, record.id, display_name(other))


def release(transaction: Transaction, record: Record[Any]) -> None:
    """Have what may stay without an entity forget it.

    Raises:
        Conflict: Without it, one would say something else than another one.
    """
    for resource, path in _releasing(type(record.entity)):
        for other in transaction.referring(resource.entity, type(record.entity), record.id):
            entity = other.entity.model_copy(update={path: None})
            configuration = StoredConfiguration(transaction)
            try:
                check_rules(Proposed(other.id, entity, other.entity, configuration), {})
            except Conflict as error:
                name = display_name(other)
                raise Conflict(f"{name} cannot stay without {record.id}: {error}") from None
            transaction.update(other.id, other.version, entity)


def _releasing(kind: type[Entity]) -> Iterator[tuple[Resource, str]]:
    for resource in RESOURCES:
        yield from ((resource, path) for path in resource.released if resource.refs[path] is kind)
