"""Answers about what is around one entity."""

from enum import StrEnum
from typing import Any

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Flag, Id, Instant, Integer, Text


class NamedEntityResponse(Value):
    """An entity as people name it."""

    kind: Text
    id: Id
    label: Text
    code: Text | None = None
    name: Text | None = None


class EntityTargetResponse(NamedEntityResponse):
    """What a field of an entity refers to."""

    field: Text


class ReferringEntitiesResponse(Value):
    """The entities of one kind that refer to an entity."""

    kind: Text
    entities: tuple[NamedEntityResponse, ...]
    more: Flag


class EntityReferencesResponse(NamedEntityResponse):
    """What an entity refers to, and what refers to it."""

    refers_to: tuple[EntityTargetResponse, ...]
    referred_by: tuple[ReferringEntitiesResponse, ...]


class EntityChangeAction(StrEnum):
    """What was done to an entity."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"


class ChangedFieldResponse(Value):
    """A field that a change set, with what it was and what it became."""

    field: Text
    old: Any = None
    new: Any = None


class EntityChangeResponse(Value):
    """One change of one entity: who did it, when, and field by field what."""

    kind: Text
    id: Id
    label: Text
    version: Integer
    action: EntityChangeAction
    at: Instant
    by: Text
    changes: tuple[ChangedFieldResponse, ...]
    entity: dict[str, Any]


class EntityChangesResponse(Value):
    """The changes of an entity, the newest first."""

    data: tuple[EntityChangeResponse, ...]
