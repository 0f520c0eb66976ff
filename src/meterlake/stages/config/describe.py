"""Configuration → configuration documents: entities as people write them, references by code."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Final

from meterlake.model.resources import (
    CONFIG,
    RESOURCES,
    code_of,
    entity_references,
    in_order,
    natural_key,
    resource_of,
    wire_name,
)
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Entity, Record
from meterlake.model.values.ids import CODE_MAX, is_code, is_id

# What a reader looks for stands first.
_FIRST: Final = frozenset({"code", "name"})
# Digits of a hash that stand for the rest of a long label.
_MARK: Final = 8


def describe_all(configuration: Configuration) -> dict[str, Any]:
    """Everything that configuration files hold, in an order and by names that follow from it alone.

    Applied to an empty organization, the documents make a configuration that is described by the
    same documents; applied to the organization that they come from, they change nothing.
    """
    labels = _labels(configuration)
    documents: dict[str, Any] = {}
    for resource in RESOURCES:
        records = configuration.all(resource.entity)
        described = sorted((_describe(each, configuration, labels) for each in records), key=_order)
        if resource.area == CONFIG and described:
            documents[resource.name] = described[0] if resource.singleton else described
    return documents


def _order(document: dict[str, Any]) -> tuple[str, str, str]:
    fields = {name: value for name, value in document.items() if name != "id"}
    return document.get("code", ""), wire.dumps_sorted(fields), document.get("id", "")


def describe(record: Record[Any], configuration: Configuration) -> dict[str, Any]:
    """One entity under the wire's names, without what is at its default.

    An entity that cannot be named by a code has its id, as a label that others refer to.
    """
    return _describe(record, configuration, {})


def _describe(
    record: Record[Any], configuration: Configuration, labels: Mapping[str, str]
) -> dict[str, Any]:
    entity = record.entity
    document = _plain(entity)
    for path, kind in resource_of(entity).refs.items():
        _name_references(document, path, kind, partial(_reference, configuration, labels))
    if resource_of(entity).singleton or _usable_code(entity) is not None:
        return document
    label = labels.get(record.id, record.id)
    return {"id": label, **document} if label else document


def _labels(configuration: Configuration) -> dict[str, str]:
    """What stands for the ids of entities without codes, by id; empty where nothing has to.

    What is missing keeps its id: nothing else tells it from the others of its kind.
    """
    referred = {
        target
        for resource in RESOURCES
        for record in configuration.all(resource.entity)
        for _, _, target in entity_references(record.entity)
    }
    labels: dict[str, str] = {}
    for resource in in_order():
        if resource.singleton or not (resource.key or resource.label_key):
            continue
        records = list(configuration.all(resource.entity))
        keys = Counter(natural_key(each.entity) for each in records)
        codes = {code_of(each.entity) for each in records} - {None}
        texts = {
            each.id: _key_text(each, configuration, labels)
            for each in records
            if code_of(each.entity) is None
        }
        counts = Counter(texts.values())
        for id_, text in texts.items():
            unique = keys[natural_key(configuration.get(resource.entity, id_).entity)] == 1
            if unique and resource.key and id_ not in referred:
                labels[id_] = ""
            elif counts[text] == 1 and text not in codes and is_code(text) and not is_id(text):
                labels[id_] = text
    return labels


def _key_text(record: Record[Any], configuration: Configuration, labels: Mapping[str, str]) -> str:
    """The natural key of an entity as one text, short enough for a label."""
    resource = resource_of(record.entity)
    document = _describe(record, configuration, labels)
    values = [document.get(wire_name(name)) for name in resource.key or resource.label_key]
    text = " ".join(
        value if isinstance(value, str) else wire.dumps_sorted(value)
        for value in values
        if value is not None
    )
    if len(text) <= CODE_MAX:
        return text
    mark = sha256(text.encode()).hexdigest()[:_MARK]
    return f"{text[: CODE_MAX - _MARK - 1].strip()} {mark}"


def _plain(entity: Entity) -> dict[str, Any]:
    document = _json(entity.to_wire())
    defaults = {
        field.alias or name: _json(field.get_default(call_default_factory=True))
        for name, field in type(entity).model_fields.items()
        if not field.is_required()
    }
    names = sorted(document, key=lambda name: name not in _FIRST)
    return {
        name: document[name]
        for name in names
        if name not in defaults
        or document[name] != defaults[name]
        # Files change the keys that they have: another organization may have another value.
        or (resource_of(entity).singleton and document[name] not in ({}, []))
    }


def _json(value: Any) -> Any:
    """What a reader of the wire would see: text instead of enums, int instead of whole Decimals."""
    return wire.loads(wire.dumps(value))


def _usable_code(entity: Entity) -> str | None:
    """The code of an entity, unless it could be taken for somebody's id."""
    code = code_of(entity)
    return None if code is None or is_id(code) else code


def _name_references(
    value: Any, path: str, kind: type[Entity], name_of: Callable[[type[Entity], str], str]
) -> None:
    step, _, rest = path.partition(".")
    name = wire_name(step)
    found = value.get(name)
    if rest:
        for item in found if isinstance(found, list) else [found] if found else []:
            _name_references(item, rest, kind, name_of)
    elif isinstance(found, list):
        value[name] = [name_of(kind, item) for item in found]
    elif found is not None:
        value[name] = name_of(kind, found)


def _reference(
    configuration: Configuration, labels: Mapping[str, str], kind: type[Entity], id: str
) -> str:
    return _usable_code(configuration.get(kind, id).entity) or labels.get(id) or id
