"""Configuration documents x configuration → the entities as they would be, or all that is wrong.

Documents are what files hold: `{"accounts": [{...}], "organizationConfig": {...}}` with the wire's
names. Of what an organization has exactly once they change the keys that they have; null gives a key
its default. References are ids or codes; entities of the same call may refer to each other in any order.
An entity is found again by its `id`, its code, or its natural key. An `id` that the organization
does not know is a label: others may refer to it, and the entity's own id follows from it. A label
that looks like an id, as an export has it, is the id that the entity gets.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from difflib import get_close_matches
from typing import Any, Final

from pydantic import ValidationError

from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Invalid, MeterlakeError, Required, UnknownField
from meterlake.model.resources import (
    BY_NAME,
    CONFIG,
    Resource,
    code_of,
    in_order,
    natural_key,
    resource_of,
    wire_name,
)
from meterlake.model.resources.proposal import Document, Proposal
from meterlake.model.values.entity import Configuration, Entity
from meterlake.model.values.ids import CODE_MAX, derived_id, is_id
from meterlake.model.values.period import zone
from meterlake.model.values.problems import (
    locate_error,
    problems,
    refuse,
    suggest_name,
    unknown_names,
)
from meterlake.stages.config.days import begin_days

ID: Final = "id"
# Where editors find the schema of a file.
SCHEMA: Final = "$schema"
# Stands where a reference leads nowhere, so that the other fields are looked at too.
_NOBODY: Final = derived_id("nobody")


@dataclass(slots=True)
class _Item:
    """One entity of the documents on its way to a proposal; `id` is None until it is known."""

    place: str
    resource: Resource
    document: dict[str, Any]
    id: str | None = None
    entity: Entity | None = None
    broken: bool = False

    @property
    def label(self) -> Any:
        return self.document.get(ID)

    @property
    def code(self) -> str | None:
        code = self.document.get("code")
        return (
            code if isinstance(code, str) and "code" in self.resource.entity.model_fields else None
        )


@dataclass(slots=True)
class _Names:
    """What the entities of one kind are known by, stored ones and those of the documents."""

    ids: set[str] = field(default_factory=set)
    coded: set[str] = field(default_factory=set)
    by_label: dict[str, str] = field(default_factory=dict)
    by_code: dict[str, str] = field(default_factory=dict)
    by_key: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        if name in self.ids:
            return name
        return self.by_label.get(name) or self.by_code.get(name)


class _Proposing:
    """The state of one call: what is known by which name, and what went wrong so far."""

    def __init__(
        self, org_id: str, configuration: Configuration, new_id: Callable[[], str]
    ) -> None:
        self.org_id = org_id
        self.configuration = configuration
        self.new_id = new_id
        self.names = {row.entity: self._stored_names(row) for row in in_order()}
        # Of all kinds: no two entities get the same id.
        self.ids = {id_ for names in self.names.values() for id_ in names.ids}
        self.problems: list[MeterlakeError] = []
        settings = next(configuration.all(OrganizationConfig), None)
        # Where days begin; files may say so themselves.
        self.local: tzinfo = zone(settings.entity.timezone) if settings else UTC

    def _stored_names(self, resource: Resource) -> _Names:
        names = _Names()
        for record in self.configuration.all(resource.entity):
            names.ids.add(record.id)
            code, key = code_of(record.entity), natural_key(record.entity)
            if code is not None:
                names.coded.add(record.id)
                names.by_code[code] = record.id
            if key is not None:
                names.by_key.setdefault(key, []).append(record.id)
        return names

    def run(self, items: Sequence[_Item]) -> list[Proposal]:
        """Bring all entities of one kind to proposals; what they refer to went before."""
        for item in items:
            self._attempt(item, self._identify)
        for item in items:
            self._attempt(item, self._validate)
        for item in items:
            self._attempt(item, self._identify_by_key)
        return [
            self._proposal(item, item.id, item.entity)
            for item in items
            if item.id is not None and item.entity is not None
        ]

    def _attempt(self, item: _Item, step: Callable[[_Item], None]) -> None:
        if item.broken:
            return
        try:
            step(item)
        except MeterlakeError as error:
            item.broken = True
            self.problems.append(locate_error(item.place, error))

    def _identify(self, item: _Item) -> None:
        label = item.label
        if label is not None and not (isinstance(label, str) and 0 < len(label) <= CODE_MAX):
            raise Invalid(ID, label, f"it must be text of 1 to {CODE_MAX} characters")
        known = self._known_id(item)
        if known is None and self._is_new(item):
            known = self._fresh_id(item)
        if known is not None:
            self._take(item, known)

    def _known_id(self, item: _Item) -> str | None:
        names = self.names[item.resource.entity]
        if item.resource.singleton:
            return next(iter(names.ids), None)
        if item.label is not None:
            for known in (item.label, self._id_of_label(item)):
                if known in names.ids:
                    return known
        return names.by_code.get(item.code) if item.code is not None else None

    def _is_new(self, item: _Item) -> bool:
        """Whether an item that is not known by id and code cannot be known otherwise either."""
        keyed = item.resource.key or item.resource.label_key
        labelled = item.label is not None and not keyed
        return item.resource.singleton or item.code is not None or labelled

    def _id_of_label(self, item: _Item) -> str:
        return derived_id(self.org_id, item.resource.kind, item.label or "")

    def _fresh_id(self, item: _Item) -> str:
        if item.label is None:
            return self.new_id()
        own = str(item.label).lower()
        return own if is_id(own) and own not in self.ids else self._id_of_label(item)

    def _take(self, item: _Item, id: str) -> None:
        names = self.names[item.resource.entity]
        other = names.taken.setdefault(id, item.place)
        if other != item.place:
            name = "code" if item.code else ID
            rule = f"{other} is the same entity; keep one of both"
            raise Invalid(name, item.code or item.label or id, rule)
        item.id = id
        self.ids.add(id)
        if item.label is not None:
            names.by_label[item.label] = id
        if item.code is not None:
            names.by_code[item.code] = id

    def move_to(self, items: Iterable[_Item]) -> None:
        """Have days begin in the time zone that the documents give the organization, if any does."""
        for item in items:
            with suppress(Invalid):  # The settings' own rule says what is wrong.
                self.local = zone(str(item.document["timezone"]))

    def refuse_unknown(self, item: _Item) -> None:
        """Note every name that means nothing, as a problem."""
        fields = {name: value for name, value in item.document.items() if name != ID}
        for each in unknown_names(item.resource.entity, fields):
            self.problems.append(each.error(item.place))

    def _validate(self, item: _Item) -> None:
        document = {
            **self._stored(item),
            **{name: value for name, value in item.document.items() if name != ID},
        }
        document = begin_days(item.resource.entity, document, self.local)
        for path, kind in item.resource.refs.items():
            self._resolve(document, path.split("."), kind, item.place)
        try:
            item.entity = item.resource.entity.from_wire(document)
        except ValidationError as error:
            item.broken = True
            for problem in problems(error):
                self.problems.append(locate_error(item.place, problem))

    def _stored(self, item: _Item) -> dict[str, Any]:
        """What stays of an entity that its document does not mention: of what there is once, all."""
        if not item.resource.singleton or item.id not in self.names[item.resource.entity].ids:
            return {}
        return self.configuration.get(item.resource.entity, item.id).entity.to_wire()

    def _resolve(
        self, value: dict[str, Any], steps: Sequence[str], kind: type[Entity], place: str
    ) -> None:
        name, found = wire_name(steps[0]), value.get(wire_name(steps[0]))
        several = isinstance(found, list)
        results = []
        for index, item in enumerate(found if isinstance(found, list) else [found]):
            here = f"{place}.{name}" + (f"[{index}]" if several else "")
            result = item
            if len(steps) > 1 and isinstance(item, dict):
                result = dict(item)
                self._resolve(result, steps[1:], kind, here)
            elif len(steps) == 1 and isinstance(item, str):
                result = self._resolve_name(item, kind, here)
            results.append(result)
        if found is not None:
            value[name] = results if several else results[0]

    def _resolve_name(self, name: str, kind: type[Entity], place: str) -> str:
        names = self.names[kind]
        found = names.find(name)
        if found is None:
            near = get_close_matches(name, names.by_code, n=1)
            hint = f" (is it {near[0]!r}?)" if near else ""
            rule = f"it must be the id or the code of an existing {kind.__name__}{hint}"
            self.problems.append(Invalid(place, name, rule))
        return found or _NOBODY

    def _identify_by_key(self, item: _Item) -> None:
        if item.id is not None:
            return
        assert item.entity is not None
        if item.label is None and not item.resource.key:
            raise Required("code", None, "required")
        names, key = self.names[item.resource.entity], natural_key(item.entity)
        known = names.by_key.get(key, []) if key else []
        if item.label is not None:
            # A label stands where there is no code: what has one is another entity.
            known = [each for each in known if each not in names.coded]
        named = item.label is not None and is_id(item.label)
        if len(known) > 1 and not named:
            rule = "it must be the id of one of them, as several entities are like this one"
            raise Invalid(ID, item.label, rule)
        new = not known or (named and (len(known) > 1 or known[0] in names.taken))
        found = self._fresh_id(item) if new else known[0]
        self._take(item, found)
        if key and not known:
            names.by_key[key] = [found]

    def _proposal(self, item: _Item, id: str, entity: Entity) -> Proposal:
        kind = item.resource.entity
        stored = self.names[kind].ids
        before = self.configuration.get(kind, id) if id in stored else None
        unknown = (each.place for each in unknown_names(kind, item.document))
        ignored = tuple(name for name in unknown if name != ID)
        return Proposal(item.place, item.resource, id, entity, before, ignored)


def propose(
    org_id: str,
    configuration: Configuration,
    documents: Iterable[Document],
    new_id: Callable[[], str],
    *,
    allow_unknown: bool = False,
) -> list[Proposal]:
    """Read documents against a configuration.

    Args:
        org_id: The organization; ids that follow from labels differ between organizations.
        configuration: What is stored.
        documents: What was written.
        new_id: Makes a random id.
        allow_unknown: Names that mean nothing are ignored, not refused.

    Returns:
        One proposal per entity of the documents, each after what it refers to.

    Raises:
        Invalid: Something is wrong; the sentence names the first few places.
    """
    proposing = _Proposing(org_id, configuration, new_id)
    items: dict[str, list[_Item]] = {}
    for document in documents:
        _collect(document, items, proposing.problems)
    if not allow_unknown:
        for item in (each for listed in items.values() for each in listed):
            proposing.refuse_unknown(item)
    settings = items.get(resource_of(OrganizationConfig).name, ())
    proposing.move_to(item for item in settings if item.document.get("timezone") is not None)
    proposals = [
        proposal for row in in_order() for proposal in proposing.run(items.get(row.name, ()))
    ]
    refuse(proposing.problems)
    return proposals


def _collect(
    document: Document, items: dict[str, list[_Item]], found: list[MeterlakeError]
) -> None:
    if document.content is None:
        return
    if not isinstance(document.content, dict):
        found.append(
            Invalid(document.name, document.content, "it must be a map such as `accounts: [...]`")
        )
        return
    for name, value in document.content.items():
        if name == SCHEMA:
            continue
        resource = BY_NAME.get(name)
        place = f"{document.name}: {name}"
        if resource is None or resource.area != CONFIG:
            known = [row.name for row in BY_NAME.values() if row.area == CONFIG]
            found.append(UnknownField(place, value, suggest_name(name, known)))
        elif value is not None:
            _collect_items(place, resource, value, items.setdefault(name, []), found)


def _collect_items(
    place: str, resource: Resource, value: Any, items: list[_Item], found: list[MeterlakeError]
) -> None:
    if not resource.singleton and not isinstance(value, list):
        found.append(Invalid(place, value, "it must be a list"))
        return
    for index, item in enumerate([value] if resource.singleton else value):
        here = place if resource.singleton else f"{place}[{index}]"
        if isinstance(item, dict):
            items.append(_Item(here, resource, item))
        else:
            found.append(Invalid(here, item, "it must be a map of fields"))
