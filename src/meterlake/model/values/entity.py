"""What every configuration entity is: fields that a caller may write, and an envelope around them.

What an integration does at the moment, beside what is configured.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from meterlake.model.errors import NotFound
from meterlake.model.values.fields import Id, Instant, Integer, Text
from meterlake.model.values.money import ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrationFacts:
    """How an integration is doing.

    Attributes:
        disabled: Why nothing is sent; None if it is.
        is_refused: Whether the other system refused the credentials since they were changed.
        status: Where its newest run that has begun stands; None if none has.
        started: When it began.
        completed: When it ended.
        error: Why it failed.
        url: Where one sees in the other system what it made.
        external_id: What that is called there.
    """

    disabled: str | None = None
    is_refused: bool = False
    status: str | None = None
    started: datetime | None = None
    completed: datetime | None = None
    error: str | None = None
    url: str | None = None
    external_id: str | None = None


IDLE = IntegrationFacts()


class Value(BaseModel):
    """A frozen group of fields, camelCase on the wire; `null` counts as absent."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        # Most commands read few of the hundred kinds; building all takes 0.2 s.
        defer_build=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, document: Any) -> Any:
        if not isinstance(document, dict) or None not in document.values():
            return document
        return {name: value for name, value in document.items() if value is not None}

    def secret_receivers(self) -> object:
        """Where the secrets in it are sent; equal if that is the same, None if they stay here."""
        return None


class Entity(Value):
    """Exactly what a caller may write of one kind of configuration.

    Attributes:
        required_in_requests: What an update over the API has to say although files may leave it to
            its default.
    """

    required_in_requests: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_wire(cls, document: Any) -> Self:
        """Read an entity under its wire names only.

        Raises:
            pydantic.ValidationError: A field breaks a rule; `fields.problems` puts it into words.
        """
        return cls.model_validate(document, by_alias=True, by_name=False)

    def to_wire(self) -> dict[str, Any]:
        """The fields under their wire names; absent ones are left out, numbers stay Decimal."""
        return self.model_dump(by_alias=True, exclude_none=True)


E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True)
class Record(Generic[E]):
    """One stored version of an entity with its envelope; instants are aware UTC."""

    id: str
    version: int
    entity: E
    created: datetime
    created_by: str
    modified: datetime
    modified_by: str

    def to_wire(self) -> dict[str, Any]:
        """The response of the wire: the entity's fields and the envelope."""
        return {
            "id": self.id,
            "version": self.version,
            **self.entity.to_wire(),
            "createdBy": self.created_by,
            "dtCreated": self.created,
            "lastModifiedBy": self.modified_by,
            "dtLastModified": self.modified,
        }


@dataclass(frozen=True, slots=True)
class Deletion:
    """That an entity is gone, and since when."""

    id: str
    version: int
    deleted: datetime
    deleted_by: str

    def to_wire(self) -> dict[str, Any]:
        """What is left to show: the id, and an envelope with the instant."""
        return {
            "id": self.id,
            "version": self.version,
            "lastModifiedBy": self.deleted_by,
            "dtLastModified": self.deleted,
            "deleted": self.deleted,
        }


class Configuration:
    """All entities of one organization at one instant: what a job reads once, at its start."""

    def __init__(self, records: Iterable[Record[Any]]) -> None:
        self._by_kind: dict[type[Entity], dict[str, Record[Any]]] = {}
        self._by_value: dict[tuple[type[Entity], str], dict[Any, list[Record[Any]]]] = {}
        for record in records:
            self._by_kind.setdefault(type(record.entity), {})[record.id] = record

    def replaced(self, record: Record[Any]) -> "Configuration":
        """The same with another version of one entity."""
        others = (each for kind in self.kinds() for each in self.all(kind) if each.id != record.id)
        return Configuration([*others, record])

    def all(self, kind: type[E]) -> Iterator[Record[E]]:
        """Every record of a kind, in no particular order."""
        yield from self._by_kind.get(kind, {}).values()

    def kinds(self) -> Iterator[type[Entity]]:
        """The kinds of which there is a record."""
        yield from self._by_kind

    def get(self, kind: type[E], id: str) -> Record[E]:
        """One record by id.

        Raises:
            NotFound: There is none.
        """
        record = self._by_kind.get(kind, {}).get(id)
        if record is None:
            raise NotFound(kind.__name__, id)
        return record

    def where(self, kind: type[E], field: str, value: object) -> list[Record[E]]:
        """The records of a kind whose field has a value; a scan the first time, a look-up after."""
        index = self._by_value.get((kind, field))
        if index is None:
            index = defaultdict(list)
            for record in self.all(kind):
                index[getattr(record.entity, field)].append(record)
            self._by_value[kind, field] = index
        return index.get(value, [])

    def find(self, kind: type[E], code: str) -> Record[E] | None:
        """The record of a kind with a code, or None."""
        found = self.where(kind, "code", code)
        return found[0] if found else None

    def single(self, kind: type[E]) -> Record[E]:
        """The one record of a kind that every organization has exactly once.

        Raises:
            NotFound: There is none.
        """
        for record in self.all(kind):
            return record
        raise NotFound(kind.__name__, "of the organization")

    def amount_spent(self, commitment_id: str) -> Decimal:
        """What bills drew from a commitment: nothing, where there is no ledger to look at."""
        del commitment_id
        return ZERO

    def previous_run(self, schedule_id: str) -> datetime | None:
        """When a schedule made something last; None without State to look at."""
        del schedule_id
        return None

    def charged_until(self, schedule_id: str) -> datetime | None:
        """The end of the service that a schedule has charged for; None without State to look at."""
        del schedule_id
        return None

    def schedule_of_charge(self, charge_id: str) -> str | None:
        """The schedule that made a charge; None without State to look at."""
        del charge_id
        return None

    def bill_of_charge(self, account_id: str, charge_id: str) -> str | None:
        """The bill on which a charge stands; None without State to look at."""
        del account_id, charge_id
        return None

    def integration_facts(self, id: str, destination_id: str | None) -> IntegrationFacts:
        """How an integration is doing; nothing has run without State to look at."""
        del id, destination_id
        return IDLE

    def versions(self) -> dict[str, int]:
        """The version of every entity by id: what a bill or a source pins."""
        return {
            record.id: record.version for kind in self._by_kind.values() for record in kind.values()
        }


class Envelope(Value):
    """What surrounds the fields of everything that is stored."""

    id: Id
    version: Integer | None = None
    created_by: Text | None = None
    dt_created: Instant | None = None
    last_modified_by: Text | None = None
    dt_last_modified: Instant | None = None
