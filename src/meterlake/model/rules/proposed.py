"""What a rule looks at: one entity as it is about to be, and everything around it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from meterlake.model.values.entity import Configuration, E


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
