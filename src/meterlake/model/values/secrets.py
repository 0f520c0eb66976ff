"""Fields of entities that hold secrets: stored encrypted, shown masked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeVar, get_args

from meterlake.model.errors import Invalid
from meterlake.model.values.entity import Record, Value
from meterlake.model.values.fields import SecretMark

MASK: Final = "********"
_MOVED: Final = "it would go to another host; give the secret itself once more"
V = TypeVar("V", bound=Value)


def with_secrets(value: V, change: Callable[[str], str]) -> V:
    """A copy of a value whose secrets are changed; the value itself if it holds none."""
    if not holds_secrets(type(value)):
        return value
    changed: dict[str, Any] = {}
    for name, field in type(value).model_fields.items():
        found = getattr(value, name)
        if isinstance(found, str) and _secret(field.metadata, field.annotation):
            changed[name] = change(found)
        elif isinstance(found, Value):
            inner = with_secrets(found, change)
            if inner is not found:
                changed[name] = inner
    return value.model_copy(update=changed) if changed else value


def mask_secrets(record: Record[Any]) -> Record[Any]:
    """A record without its secrets: masks stand in their places."""
    entity = with_secrets(record.entity, lambda _: MASK)
    return record if entity is record.entity else replace(record, entity=entity)


def keep_masked(before: V | None, after: V) -> V:
    """Put the stored secrets where an update only brings their masks.

    Raises:
        Invalid: A mask stands where no secret is stored, or the secret would go somewhere else.
    """
    if not holds_secrets(type(after)):
        return after
    is_moved = before is not None and before.secret_receivers() != after.secret_receivers()
    return _keep(before, after, "", is_moved=is_moved)


def _keep(before: V | None, after: V, prefix: str, *, is_moved: bool) -> V:
    changed: dict[str, Any] = {}
    for name, field in type(after).model_fields.items():
        found, stored = getattr(after, name), getattr(before, name, None)
        place = f"{prefix}{field.alias or name}"
        if found == MASK and _secret(field.metadata, field.annotation):
            if not isinstance(stored, str):
                raise Invalid(place, MASK, "none is stored yet; give the secret itself")
            if is_moved:
                raise Invalid(place, MASK, _MOVED)
            changed[name] = stored
        elif isinstance(found, Value) and holds_secrets(type(found)):
            same = stored if type(stored) is type(found) else None
            inner = _keep(same, found, f"{place}.", is_moved=is_moved)
            if inner is not found:
                changed[name] = inner
    return after.model_copy(update=changed) if changed else after


def holds_secrets(kind: Any) -> bool:
    """Whether values of a type can hold a secret."""
    return _can_hold(kind)


@cache
def _can_hold(kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, Value):
        fields: list[Any] = list(kind.model_fields.values())
        return any(
            _secret(each.metadata, each.annotation) or _can_hold(each.annotation) for each in fields
        )
    return any(_can_hold(inner) for inner in get_args(kind))


def _secret(metadata: Sequence[Any], annotation: Any) -> bool:
    if any(isinstance(each, SecretMark) for each in metadata):
        return True
    return any(_secret(getattr(inner, "__metadata__", ()), inner) for inner in get_args(annotation))
