"""Changes of entities as people order them: fields by name with values as text, references by code."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import NoneType
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel

from meterlake.model.configuration.integrations import IntegrationConfig, WebhookDestination
from meterlake.model.errors import Invalid, UnknownField
from meterlake.model.resources import CONFIG, Resource, wire_name
from meterlake.model.resources.resource import Verb
from meterlake.model.values import wire
from meterlake.model.values.entity import Entity
from meterlake.model.values.money import NUMBER_PATTERN
from meterlake.model.values.problems import refuse, unknown_names
from meterlake.pipeline.config import entities, integrations
from meterlake.pipeline.config.apply_configuration import FieldDifference
from meterlake.pipeline.config.entities import Document, ResourceRef
from meterlake.pipeline.config.named_entities import find_named
from meterlake.pipeline.config.named_resources import (
    describe_documents,
    field_called,
    words_of_resource,
    zone_of,
)
from meterlake.stages.config.days import begin_days
from meterlake.stores import Organization
from meterlake.stores.state import Reader

# What meterlake writes by itself.
_ENVELOPE: Final = frozenset(
    {"id", "version", "createdBy", "dtCreated", "lastModifiedBy", "dtLastModified"}
)
_NUMBER: Final = re.compile(NUMBER_PATTERN)
_FLAGS: Final = {"true": True, "yes": True, "false": False, "no": False}
# What has commands of its own, as more belongs to it than its fields.
_COMMANDS: Final = {
    "exportDestinations": "meterlake export destinations",
    "exportSchedules": "meterlake export schedules",
    "lookupTableRevisions": "meterlake lookup load",
}
_DELETED_BY: Final = {"integrationConfigs": "meterlake integrations delete"}
_Write = Callable[[Organization, str, ResourceRef, Document], Document]
_CREATES: Final[Mapping[type[Entity], _Write]] = {
    WebhookDestination: integrations.create_webhook,
    IntegrationConfig: integrations.create_integration,
}
_UPDATES: Final[Mapping[type[Entity], _Write]] = {
    WebhookDestination: integrations.update_webhook,
    IntegrationConfig: integrations.update_integration,
}


@dataclass(frozen=True, slots=True)
class Changed:
    """An entity that was written, or would be.

    Attributes:
        document: It, as the API shows it.
        differences: What differs from before, references by code.
    """

    document: Document
    differences: tuple[FieldDifference, ...]


def refuse_other_commands(resource: Resource, verb: Verb) -> None:
    """Refuse to write what no standard verb writes.

    Raises:
        Invalid: Another command does it, or none.
    """
    name = words_of_resource(resource)
    other = _COMMANDS.get(resource.name) or (
        _DELETED_BY.get(resource.name) if verb == "delete" else None
    )
    if other is not None:
        raise Invalid(
            "RESOURCE", name, f"use the command `{other}`, which knows what belongs to it"
        )
    if resource.area != CONFIG:
        raise Invalid("RESOURCE", name, "change it in the console, or over the API")
    if verb not in resource.verbs:
        raise Invalid("RESOURCE", name, "the organization has one of them: use `edit`")


def create_named(
    organization: Organization, author: str, resource: Resource, document: Document
) -> Changed:
    """Create an entity from a document whose references are codes or ids.

    Raises:
        NotFound: Something that it refers to does not exist.
        Invalid: A field or a rule is broken.
        Conflict: The code is taken.
    """
    write = _CREATES.get(resource.entity, entities.create)
    made = write(
        organization, author, ResourceRef(resource, {}), _resolved(organization, resource, document)
    )
    return Changed(made, _differences(organization, resource, None, made))


def update_named(
    organization: Organization, author: str, ref: ResourceRef, before: Document, document: Document
) -> Changed:
    """Replace the fields of an entity by a document whose references are codes or ids.

    Args:
        organization: The organization.
        author: Who does it.
        ref: The entity.
        before: It, as it was read; its version is replaced unless the document names another one.
        document: Its fields.

    Raises:
        NotFound: Something that it refers to does not exist.
        Invalid: A field or a rule is broken.
        StaleVersion: Somebody changed it since it was read.
    """
    resource = ref.resource
    given = {"version": before["version"], **document}
    write = _UPDATES.get(resource.entity, entities.update)
    made = write(organization, author, ref, _resolved(organization, resource, given, before))
    return Changed(made, _differences(organization, resource, before, made))


def delete_named(organization: Organization, author: str, ref: ResourceRef) -> Document:
    """Delete an entity; answers with what it was.

    Raises:
        StillReferenced: Something refers to it.
    """
    return entities.delete(organization, author, ref)


def editable(organization: Organization, ref: ResourceRef) -> tuple[Document, Document]:
    """An entity as the API shows it, and as people write it: references by code."""
    found = entities.retrieve(organization, ref)
    [described] = describe_documents(organization, ref.resource, [found])
    return found, {name: value for name, value in described.items() if name != "id"}


def with_fields(
    resource: Resource, document: Document, fields: Iterable[tuple[str, str]]
) -> Document:
    """A document with fields that people wrote as text.

    Args:
        resource: What the document is of.
        document: The fields that it has.
        fields: Names, perhaps with dots into nested fields and indexes of lists, and values: texts,
            numbers with all their digits, JSON if they begin with `{` or `[`, and `null` for none.

    Raises:
        UnknownField: There is no such field.
        Invalid: A value is not what its field holds.
    """
    found = wire.loads(wire.dumps(document))
    for name, text in fields:
        first, *steps = name.split(".")
        _set(found, resource.entity, [field_called(resource, first), *steps], (name, text))
    assert isinstance(found, dict)
    return found


def _set(target: Any, annotation: Any, steps: Sequence[str], given: tuple[str, str]) -> None:
    """Set a value at a place below a map or a list."""
    step, rest = steps[0], steps[1:]
    name, text = given
    key: Any = step
    if isinstance(target, list):
        if not step.isdecimal() or int(step) > len(target):
            raise Invalid(name, text, f"{step!r} must be the index of a list of {len(target)}")
        key = int(step)
        inner = _item(annotation)
        if key == len(target):
            target.append(None)
    elif isinstance(target, dict):
        inner = _member(annotation, step, name)
    else:
        raise Invalid(name, text, "give the whole value as JSON: nothing is there yet")
    if rest:
        below = target[key] if isinstance(target, list) else target.get(key)
        if below is None:
            below = [] if _item(inner) is not None else {}
            target[key] = below
        _set(below, inner, rest, given)
        return
    value = _value(inner, name, text)
    if value is None and isinstance(target, dict):
        target.pop(key, None)
    else:
        target[key] = value


def _member(annotation: Any, step: str, name: str) -> Any:
    """What a member of a map is, by its wire name."""
    for each in _types(annotation):
        if isinstance(each, type) and issubclass(each, BaseModel):
            fields = {field.alias or key: field for key, field in each.model_fields.items()}
            if step not in fields:
                raise UnknownField(name, None, f"it must be one of {', '.join(fields)}")
            return fields[step].annotation
    return Any


def _item(annotation: Any) -> Any:
    """What the items of a list are; None if it is no list."""
    if get_origin(annotation) in {tuple, list, frozenset}:
        return get_args(annotation)[0]
    return next((found for each in _parts(annotation) if (found := _item(each)) is not None), None)


def _parts(annotation: Any) -> tuple[Any, ...]:
    return () if get_origin(annotation) in {tuple, list, frozenset, dict} else get_args(annotation)


def _types(annotation: Any) -> list[Any]:
    parts = _parts(annotation)
    if not parts:
        return [get_origin(annotation) or annotation]
    return [found for each in parts for found in _types(each)]


def _value(annotation: Any, name: str, text: str) -> Any:
    """A value of the wire, of the type that a field has."""
    if text == "null":
        return None
    if text[:1] in {"{", "["}:
        try:
            return wire.loads(text)
        except Invalid:
            raise Invalid(name, text, "it must be JSON, as it begins with { or [") from None
    item = _item(annotation)
    if item is not None:
        return [_value(item, name, each) for each in text.split(",") if each]
    types = set(_types(annotation)) - {NoneType}
    if bool in types:
        return _FLAGS.get(text.casefold(), text)
    if types & {Decimal, int} and _NUMBER.fullmatch(text):
        return Decimal(text)
    return text


def _resolved(
    organization: Organization,
    resource: Resource,
    document: Document,
    known: Document | None = None,
) -> Document:
    """A document whose references are ids, and whose days begin in the organization.

    Raises:
        Invalid: A name in it means nothing.
        NotFound: A reference leads nowhere.
    """
    own = {
        name: value
        for name, value in document.items()
        if name not in _ENVELOPE and (known is None or name not in known)
    }
    refuse(
        [each.error(words_of_resource(resource)) for each in unknown_names(resource.entity, own)]
    )
    with organization.reading() as reader:
        found = begin_days(resource.entity, wire.loads(wire.dumps(document)), zone_of(reader))
        for path, kind in resource.refs.items():
            _resolve(reader, found, path.split("."), kind)
    return found


def _resolve(reader: Reader, value: Any, steps: Sequence[str], kind: type[Entity]) -> None:
    if not isinstance(value, dict):
        return
    name = wire_name(steps[0])
    found = value.get(name)
    if len(steps) > 1:
        for item in found if isinstance(found, list) else [found]:
            _resolve(reader, item, steps[1:], kind)
    elif isinstance(found, list):
        value[name] = [
            find_named(reader, kind, each).id if isinstance(each, str) else each for each in found
        ]
    elif isinstance(found, str) and found:
        value[name] = find_named(reader, kind, found).id


def _differences(
    organization: Organization, resource: Resource, before: Document | None, after: Document
) -> tuple[FieldDifference, ...]:
    documents = [each for each in (before, after) if each is not None]
    described = describe_documents(organization, resource, documents)
    new = described[-1]
    old = described[0] if before is not None else {"id": new["id"]}
    return tuple(
        FieldDifference(name, old.get(name), new.get(name))
        for name in dict.fromkeys((*old, *new))
        if wire.dumps_sorted(old.get(name)) != wire.dumps_sorted(new.get(name))
    )
