"""What configuration files hold, and what comes of it: proposed entities."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from meterlake.model.resources import Resource
from meterlake.model.values import wire
from meterlake.model.values.entity import Entity, Record

_NEVER: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Document:
    """One configuration file.

    Attributes:
        name: What messages call it.
        content: What it says.
        data: Its bytes, which tell the lines of what is wrong; empty if there is no file.
    """

    name: str
    content: Any
    data: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Proposal:
    """One entity of the documents as it would be.

    Attributes:
        place: Where it stands: `plans.yaml: plans[2]`.
        id: Its id, old or new.
        entity: Its fields.
        before: What is stored of it, None if it is new.
        ignored: Names in the document that mean nothing.
    """

    place: str
    resource: Resource
    id: str
    entity: Entity
    before: Record[Any] | None
    ignored: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether anything would be written."""
        return self.before is None or canonical(self.before.entity) != canonical(self.entity)

    def record(self) -> Record[Any]:
        """The entity as the rules see it; who wrote it when is not known yet."""
        if self.before is not None:
            return replace(self.before, entity=self.entity, version=self.before.version + 1)
        return Record(self.id, 1, self.entity, _NEVER, "", _NEVER, "")


def canonical(entity: Entity) -> str:
    """An entity as text that is equal exactly if the entities are."""
    return wire.dumps_sorted(entity.to_wire())
