"""What configuration documents leave out, of the kinds that they list: what `--prune` deletes."""

from collections.abc import Iterable, Iterator, Sequence
from graphlib import TopologicalSorter
from typing import Any

from meterlake.model.catalog.lookups import LookupTableRevision
from meterlake.model.errors import StillReferenced
from meterlake.model.resources import (
    CONFIG,
    RESOURCES,
    code_of,
    code_or_name,
    entity_references,
    resource_of,
    values_at,
    wire_name,
)
from meterlake.model.resources.proposal import Document, Proposal
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Entity, Record


def left_out(
    configuration: Configuration, documents: Iterable[Document], proposals: Iterable[Proposal]
) -> list[Record[Any]]:
    """The entities that documents leave out.

    Args:
        configuration: What is stored.
        documents: What was written. A kind that no document lists is left alone.
        proposals: What came of the documents.

    Returns:
        Each before what it refers to.
    """
    kept = {each.id for each in proposals}
    found = {
        record.id: record
        for kind in _listed_kinds(documents)
        for record in configuration.all(kind)
        if record.id not in kept
    }
    graph: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(found, ()))
    for record in found.values():
        for target in _targets(record, configuration):
            if target in found and target != record.id:
                graph.add(target, record.id)
    return [found[id_] for id_ in graph.static_order()]


def _listed_kinds(documents: Iterable[Document]) -> Iterator[type[Entity]]:
    contents = [each.content for each in documents if each.content is not None]
    names = {name for each in contents for name, value in each.items() if value is not None}
    for resource in (each for each in RESOURCES if each.name in names):
        # The items of a revision stand in no file: it is deleted over the API, with them.
        holds_data = resource.entity is LookupTableRevision
        if resource.area == CONFIG and not resource.singleton and not holds_data:
            yield resource.entity


def _targets(record: Record[Any], configuration: Configuration) -> Iterator[str]:
    """The ids of everything that an entity refers to."""
    resource = resource_of(record.entity)
    yield from (target for _, _, target in entity_references(record.entity))
    for path, kind in resource.codes.items():
        for _, code in values_at(record.entity, path):
            named = configuration.find(kind, code)
            if named is not None:
                yield named.id
    if resource.names is not None:
        yield from resource.names(record.entity)


def in_use(gone: Sequence[Record[Any]], after: Configuration) -> Iterator[StillReferenced]:
    """What speaks against the deletion of entities.

    Args:
        gone: What would be deleted.
        after: The configuration as it would be, with what would be deleted.

    Yields:
        One problem for each entity that something refers to that stays.
    """
    rest = {each.id: each for each in gone}
    told: set[str] = set()
    for resource in RESOURCES:
        for record in after.all(resource.entity):
            targets = set() if record.id in rest else set(_targets(record, after))
            for path in resource.released:
                targets -= {target for _, target in values_at(record.entity, path)}
            for target in sorted(targets):
                if target in rest and target not in told:
                    told.add(target)
                    yield StillReferenced(
                        type(rest[target].entity).__name__,
                        name_of(rest[target], after),
                        f"{resource.kind} {name_of(record, after)!r}",
                    )


def name_of(record: Record[Any], configuration: Configuration) -> str:
    """What people know an entity by: its code, its name, what identifies it in files, or its id."""
    entity = record.entity
    return (
        code_of(entity)
        or getattr(entity, "name", None)
        or " ".join(_key_words(entity, configuration))
        or record.id
    )


def _key_words(entity: Entity, configuration: Configuration) -> Iterator[str]:
    """The values of the fields that identify an entity without a code; references by code."""
    resource, document = resource_of(entity), wire.loads(wire.dumps(entity.to_wire()))
    for name in resource.key:
        value, kind = document.get(wire_name(name)), resource.refs.get(name)
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                yield str(each) if kind is None else code_or_name(configuration.get(kind, each))
