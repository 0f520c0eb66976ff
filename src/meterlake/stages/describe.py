"""Configuration → configuration documents: entities as people write them, references by code."""

from typing import Any, Final

from meterlake.model import wire
from meterlake.model.entity import Configuration, Entity, Record
from meterlake.model.ids import is_id
from meterlake.model.resources import CONFIG, RESOURCES, code_of, resource_of, wire_name

# What a reader looks for stands first.
_FIRST: Final = frozenset({"code", "name"})


def describe_all(configuration: Configuration) -> dict[str, Any]:
    """Everything that configuration files hold, in an order that does not depend on ids of entities with codes.

    Applied to an empty organization, the documents make the same configuration; applied to the
    organization that they come from, they change nothing.
    """
    documents: dict[str, Any] = {}
    for resource in RESOURCES:
        records = sorted(configuration.all(resource.entity), key=_order)
        if resource.area != CONFIG or not records:
            continue
        described = [describe(record, configuration) for record in records]
        documents[resource.name] = described[0] if resource.singleton else described
    return documents


def _order(record: Record[Any]) -> tuple[str, str]:
    return code_of(record.entity) or "", record.id


def describe(record: Record[Any], configuration: Configuration) -> dict[str, Any]:
    """One entity under the wire's names, without what is at its default.

    An entity that cannot be named by a code has its id, as a label that others refer to.
    """
    entity = record.entity
    document = _plain(entity)
    for path, kind in resource_of(entity).refs.items():
        _name_references(document, path, kind, configuration)
    if resource_of(entity).singleton or _usable_code(entity) is not None:
        return document
    return {"id": record.id, **document}


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
        if name not in defaults or document[name] != defaults[name]
    }


def _json(value: Any) -> Any:
    """What a reader of the wire would see: text instead of enums, int instead of whole Decimals."""
    return wire.loads(wire.dumps(value))


def _usable_code(entity: Entity) -> str | None:
    """The code of an entity, unless it could be taken for somebody's id."""
    code = code_of(entity)
    return None if code is None or is_id(code) else code


def _name_references(
    value: Any, path: str, kind: type[Entity], configuration: Configuration
) -> None:
    step, _, rest = path.partition(".")
    name = wire_name(step)
    found = value.get(name)
    if rest:
        for item in found if isinstance(found, list) else [found] if found else []:
            _name_references(item, rest, kind, configuration)
    elif isinstance(found, list):
        value[name] = [_reference(item, kind, configuration) for item in found]
    elif found is not None:
        value[name] = _reference(found, kind, configuration)


def _reference(id: str, kind: type[Entity], configuration: Configuration) -> str:
    return _usable_code(configuration.get(kind, id).entity) or id
