"""What an entity refers to, what refers to it, and what became of it: everything around one entity."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from meterlake.model.configuration.access import Invitation
from meterlake.model.errors import NotFound
from meterlake.model.resources import BY_NAME, RESOURCES, Resource, code_of, resource_of, values_at
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Entity, Record
from meterlake.model.values.ids import is_id
from meterlake.model.values.secrets import mask_secrets
from meterlake.pipeline.config.entities import Document
from meterlake.stages.config.describe import describe
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.core.reader import Past
from meterlake.stores.state.core.stored_configuration import StoredConfiguration
from meterlake.stores.state.core.versions import ids_that_referred

# Of each kind, as many as anybody reads.
REFERRING_MAX: Final = 100


def resource_named(name: str) -> Resource:
    """The resource with a name of configuration files: `planTemplates`.

    Raises:
        NotFound: There is none.
    """
    if name not in BY_NAME:
        raise NotFound("kind", name)
    return BY_NAME[name]


def relations(organization: Organization, resource: Resource, id_: str) -> Document:
    """What an entity refers to, and what refers to it: by kind, with codes and names.

    Raises:
        NotFound: There is no such entity.
    """
    with organization.reading() as reader:
        if not is_id(id_):
            raise NotFound(resource.kind, id_)
        record: Record[Any] = reader.get(resource.entity, id_.lower())
        configuration = StoredConfiguration(reader)
        return {
            **_named(record, configuration),
            "refersTo": list(_targets(record, configuration)),
            "referredBy": [
                {
                    "kind": each.name,
                    "entities": [_named(other, configuration) for other in found[:REFERRING_MAX]],
                    "more": len(found) > REFERRING_MAX,
                }
                for each in RESOURCES
                if (found := _referring(reader, each, record))
            ],
        }


def _named(record: Record[Any], configuration: Configuration) -> Document:
    found = {
        "kind": resource_of(record.entity).name,
        "id": record.id,
        "label": _label(record.entity, record.id, configuration),
        "code": code_of(record.entity),
        "name": getattr(record.entity, "name", None),
    }
    return {name: value for name, value in found.items() if value is not None}


def _label(entity: Entity, id_: str, configuration: Configuration) -> str:
    """What people call an entity: by its name or code, or else by what it belongs to."""
    own = getattr(entity, "name", None) or code_of(entity)
    if own:
        return str(own)
    row = resource_of(entity)
    if row.singleton:  # There is one: its kind says which.
        return "of the organization"
    if isinstance(entity, Invitation):
        return entity.email
    parts = []
    for name in row.key:
        target, found = row.refs.get(name), getattr(entity, name)
        if target is None or found is None:
            continue
        # A commitment names several products, for instance.
        for value in found if isinstance(found, tuple) else (found,):
            with suppress(NotFound):  # Of a former version: what it belonged to is gone.
                other = configuration.get(target, value).entity
                parts.append(str(getattr(other, "name", None) or code_of(other) or value))
    return ", ".join(parts) or id_


def _targets(record: Record[Any], configuration: Configuration) -> Iterator[Document]:
    row = resource_of(record.entity)
    for path, kind in row.refs.items():
        for place, id_ in values_at(record.entity, path):
            yield {"field": place, **_named(configuration.get(kind, id_), configuration)}
    for path, kind in row.codes.items():
        for place, code in values_at(record.entity, path):
            found = configuration.find(kind, code)
            if found is not None:
                yield {"field": place, **_named(found, configuration)}


def _referring(reader: Reader, resource: Resource, record: Record[Any]) -> list[Record[Any]]:
    """The entities of a kind that refer to one, by its id or by its code."""
    kind = type(record.entity)
    found: dict[str, Record[Any]] = {}
    if kind in resource.refs.values():
        rows = reader.referring(resource.entity, kind, record.id, REFERRING_MAX + 1)
        found = {each.id: each for each in rows}
    code = code_of(record.entity)
    # Accounts and what they have are many; they name currencies and nothing else by code.
    if code is not None and resource.account not in resource.entity.model_fields:
        paths = [path for path, target in resource.codes.items() if target is kind]
        for each in reader.all(resource.entity) if paths else ():
            if any(code == text for path in paths for _, text in values_at(each.entity, path)):
                found[each.id] = each
    return sorted(found.values(), key=lambda each: (each.created, each.id))


# --- What became of it ---------------------------------------------------------------------------


def history(
    organization: Organization,
    resource: Resource,
    id_: str,
    including: tuple[Resource, ...] = (),
    limit: int = REFERRING_MAX,
) -> Document:
    """The changes of an entity, the newest first: who changed which field from what to what.

    Args:
        organization: The organization.
        resource: The entity's resource.
        id_: Its id; it may be deleted.
        including: Resources whose entities refer, or referred, to it: their changes, too.
        limit: How many changes there are at most.

    Raises:
        NotFound: There never was such an entity.
    """
    if not is_id(id_):
        raise NotFound(resource.kind, id_)
    with organization.reading() as reader:
        configuration = StoredConfiguration(reader)
        found = list(_changes(reader, resource, id_.lower(), configuration))
        if not found:
            raise NotFound(resource.kind, id_)
        for other in including:
            for each in ids_that_referred(reader, other.entity, id_.lower()):
                found += _changes(reader, other, each, configuration)
    found.sort(key=lambda each: (each["at"], each["version"]), reverse=True)
    return {"data": found[:limit]}


def _changes(
    reader: Reader, resource: Resource, id_: str, configuration: Configuration
) -> Iterator[Document]:
    before: Mapping[str, Any] = {}
    label = id_
    for past in reader.history(resource.entity, id_):
        now = {} if past.entity is None else _described(id_, past, configuration)
        if past.entity is not None:
            label = _label(past.entity, id_, configuration)
        action = "deleted" if past.entity is None else "updated" if before else "created"
        yield {
            "kind": resource.name,
            "id": id_,
            "label": label,
            "version": past.version,
            "action": action,
            "at": past.valid_from,
            "by": past.author,
            "changes": [] if past.entity is None else list(_differences(before, now)),
            "entity": now or before,
        }
        before = now


def _described(id_: str, past: Past, configuration: Configuration) -> Mapping[str, Any]:
    """One version as people write it: what it refers to by code, without what is at its default."""
    assert past.entity is not None
    at, by = past.valid_from, past.author
    record = mask_secrets(Record(id_, past.version, past.entity, at, by, at, by))
    try:
        found = describe(record, configuration)
    except NotFound:  # What it referred to then is gone: it has its id.
        found = wire.to_plain(record.entity.to_wire())
    return {name: value for name, value in found.items() if name != "id"}


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Document]:
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if wire.dumps_sorted(old) != wire.dumps_sorted(new):
            yield {
                "field": name,
                **{key: value for key, value in (("old", old), ("new", new)) if value is not None},
            }
