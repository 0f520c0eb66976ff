"""RESOURCES: one row per kind of entity. Reading this folder is reading the configuration's surface.

The store, the configuration files and the API walk these rows; a new kind is a new row, and
nothing that walks them has to change for it.
"""

from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import Any, Final

from pydantic.alias_generators import to_camel

from meterlake.model.resources import (
    access,
    accounts,
    balances,
    catalog,
    exports,
    integrations,
    lookups,
    notifications,
    organization,
    plans,
)
from meterlake.model.resources.resource import ACCESS, CONFIG, Filter, Resource
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Entity, Record

__all__ = ["ACCESS", "CONFIG", "RESOURCES", "Filter", "Resource"]

RESOURCES: Final[tuple[Resource, ...]] = (
    *organization.ROWS,
    *catalog.ROWS,
    *plans.ROWS,
    *accounts.ROWS,
    *balances.ROWS,
    *lookups.ROWS,
    *exports.ROWS,
    *notifications.ROWS,
    *integrations.ROWS,
    *access.ROWS,
)

BY_ENTITY: Final = {resource.entity: resource for resource in RESOURCES}
BY_KIND: Final = {resource.kind: resource for resource in RESOURCES}
BY_NAME: Final = {resource.name: resource for resource in RESOURCES}
assert len(BY_ENTITY) == len(BY_NAME) == len({r.path for r in RESOURCES}) == len(RESOURCES)


def in_order() -> Iterator[Resource]:
    """Every resource after the ones that it refers to."""
    graph = {
        row.entity: {*row.refs.values(), *row.codes.values()} - {row.entity} for row in RESOURCES
    }
    return (BY_ENTITY[kind] for kind in TopologicalSorter(graph).static_order())


def resource_of(entity: Entity | type[Entity]) -> Resource:
    """The row of an entity or of its class."""
    return BY_ENTITY[entity if isinstance(entity, type) else type(entity)]


def code_of(entity: Entity) -> str | None:
    """The code of an entity, or None if it has none."""
    return getattr(entity, "code", None)


def code_or_name(record: Record[Any]) -> str:
    """The code of an entity; its name if it has none, and else its id."""
    return code_of(record.entity) or getattr(record.entity, "name", None) or record.id


def natural_key(entity: Entity) -> tuple[str, ...] | None:
    """What identifies an entity without a code, or None if its kind has nothing of the sort."""
    row = resource_of(entity)
    key = row.key or row.label_key
    return tuple(wire.dumps_sorted(getattr(entity, name)) for name in key) or None


def values_at(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text at a dotted path through fields and lists, with its place on the wire.

    >>> config = OrganizationConfig(days_before_bill_due=30)
    >>> list(values_at(config, "currency"))
    [('currency', 'USD')]
    """
    step, _, rest = path.partition(".")
    found = getattr(value, step)
    several = isinstance(found, tuple)
    for index, item in enumerate(found if several else (found,)):
        place = wire_name(step) + (f"[{index}]" if several else "")
        if item is None:
            continue
        if not rest:
            yield place, item
            continue
        yield from ((f"{place}.{inner}", text) for inner, text in values_at(item, rest))


def entity_references(entity: Entity) -> Iterator[tuple[str, type[Entity], str]]:
    """What an entity refers to by id: the place on the wire, the kind and the id of each."""
    for path, kind in resource_of(entity).refs.items():
        for place, id_ in values_at(entity, path):
            yield place, kind, id_


def wire_name(attribute: str) -> str:
    """The wire's name of an attribute: `from_` is `from`, `start_date` is `startDate`."""
    return to_camel(attribute).rstrip("_").replace("m3Ter", "m3ter")


def response(record: Record[Any], configuration: Configuration) -> dict[str, Any]:
    """What the wire shows of a record: its fields, its envelope, and what is computed.

    Raises:
        NotFound: Something that it refers to is missing in `configuration`.
    """
    computed = resource_of(record.entity).computed
    return {**record.to_wire(), **(computed(record, configuration) if computed else {})}
