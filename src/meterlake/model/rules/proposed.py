"""A proposed entity among the others, and what reads it by its code and has to hold with the change.

What refers to an entity by id is checked again whenever the entity changes. A compound aggregation
names others in its calculation: their changes are checked against it here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic

from meterlake.model.errors import Invalid
from meterlake.model.values.entity import Configuration, E, Record


@dataclass(frozen=True, slots=True)
class Proposed(Generic[E]):
    """An entity as it is about to be.

    Attributes:
        id: Its id.
        entity: Its fields after the change.
        before: Its fields before, None for a new one.
        configuration: All entities of the organization as they will be, the entity itself among them.
        edited: Whether the caller writes it; if not, it is looked at again since another one changes.
    """

    id: str
    entity: E
    before: E | None
    configuration: Configuration
    edited: bool = True


Rule = Callable[[Proposed[Any]], None]


def changes(new: Proposed[Any], *fields: str) -> bool:
    """Whether an entity that was there before gets another value in one of some fields."""
    before = new.before
    return before is not None and any(
        getattr(before, name) != getattr(new.entity, name) for name in fields
    )


def check_dependents(
    dependents: Iterable[Record[Any]],
    rule: Rule,
    configuration: Configuration,
    field: str,
    value: object,
) -> None:
    """Refuse a change with which a rule of what depends on it would be broken.

    Args:
        dependents: What reads the changed entity, directly or through others.
        rule: Their rule.
        configuration: Everything, with the change in it.
        field: The changed field, for the sentence.
        value: Its new value.

    Raises:
        Invalid: One of the dependents breaks the rule.
    """
    for record in dependents:
        try:
            rule(Proposed(record.id, record.entity, record.entity, configuration, edited=False))
        except Invalid as error:
            raise Invalid(
                field,
                value,
                f"{display_name(record)} does not fit any more ({error}); change it first",
            ) from None


def display_name(record: Record[Any]) -> str:
    """An entity in a sentence: `Plan 'basic'`."""
    name = getattr(record.entity, "code", None) or record.id
    return f"{type(record.entity).__name__} {name!r}"
