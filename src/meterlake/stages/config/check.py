"""Proposals x configuration → the configuration as it would be, checked by every rule.

What refers to a changed entity is checked again too: a plan that moves to another product may break
the pricing of an aggregation that nobody touched.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from meterlake.model.errors import DuplicateCode, Invalid, MeterlakeError
from meterlake.model.resources import (
    RESOURCES,
    code_of,
    entity_references,
    resource_of,
    values_at,
    wire_name,
)
from meterlake.model.resources.proposal import Proposal
from meterlake.model.rules import Proposed, Rule
from meterlake.model.rules.proposed import display_name
from meterlake.model.values.entity import Configuration, Entity, Record
from meterlake.model.values.problems import locate_error, refuse

# Rules beyond those of the model, by the kind of entity: they ask something outside.
Further: TypeAlias = Mapping[type[Entity], Sequence[Rule]]
_NONE: Final[Further] = MappingProxyType({})
# Finds what refers to an entity directly.
Referring: TypeAlias = Callable[[Record[Any]], Iterable[Record[Any]]]


def check(
    configuration: Configuration, proposals: Sequence[Proposal], further: Further = _NONE
) -> Configuration:
    """Check proposals together.

    Args:
        configuration: What is stored.
        proposals: What would be written; unchanged ones are not looked at.
        further: More rules of those that would be written.

    Returns:
        The configuration with the changed proposals in it.

    Raises:
        Invalid: Rules are broken; the sentence names the first few places.
    """
    changed = [proposal for proposal in proposals if proposal.changed]
    after = _after(configuration, changed)
    found = [
        error
        for each in changed
        for error in _broken_rules(each.place, _propose_change(each, after), after, further)
    ]
    refuse(found)
    new_ids = {each.id for each in changed if not each.before}
    edited = [each.record() for each in changed if each.before]
    for record in affected_records(edited, _referring(after)) if edited else ():
        if record.id in new_ids:
            continue  # checked above
        found += _newly_broken(record, configuration, after)
    refuse(found)
    return after


def _after(configuration: Configuration, changed: Iterable[Proposal]) -> Configuration:
    records: dict[str, Record[Any]] = {
        record.id: record for kind in configuration.kinds() for record in configuration.all(kind)
    }
    for each in changed:
        records[each.id] = each.record()
    return Configuration(records.values())


def _propose_change(proposal: Proposal, after: Configuration) -> Proposed[Any]:
    before = proposal.before.entity if proposal.before else None
    return Proposed(proposal.id, proposal.entity, before, after)


def _broken_rules(
    place: str, new: Proposed[Any], after: Configuration, further: Further = _NONE
) -> Iterator[MeterlakeError]:
    """The first rule that an entity breaks; later ones may build on it."""
    try:
        codes_exist(new.entity, after)
        _code_is_free(new, after)
        check_rules(new, further)
    except MeterlakeError as error:
        yield locate_error(place, error)


def _newly_broken(
    record: Record[Any], configuration: Configuration, after: Configuration
) -> Iterator[MeterlakeError]:
    """The first rule that an entity breaks since another one changes."""
    try:
        codes_exist(record.entity, after)
        check_still_valid(record, configuration, after)
    except MeterlakeError as error:
        yield locate_error(display_name(record), error)


def check_still_valid(record: Record[Any], stored: Configuration, after: Configuration) -> None:
    """Check the rules of an entity that refers to a changed one.

    What was broken before the change is no reason to refuse it: nothing else could be edited
    until somebody mends what an earlier version, or another setting, allowed.

    Raises:
        Invalid: The first rule that held before and is broken by the change.
    """
    new = Proposed(record.id, record.entity, record.entity, after, edited=False)
    for rule in resource_of(record.entity).rules:
        try:
            rule(new)
        except Invalid:
            if not _breaks(rule, replace(new, configuration=stored)):
                raise


def _breaks(rule: Rule, one: Proposed[Any]) -> bool:
    try:
        rule(one)
    except Invalid:
        return True
    return False


def check_rules(new: Proposed[Any], further: Further = _NONE) -> None:
    """Check the rules of one entity, `further` ones last.

    Raises:
        Invalid: The first rule that it breaks; later ones may build on it.
    """
    resource = resource_of(new.entity)
    for name in resource.frozen if new.before is not None else ():
        first = getattr(new.before, name)
        if first != getattr(new.entity, name):
            raise Invalid(
                wire_name(name), getattr(new.entity, name), f"it must be always {first!r}"
            )
    for rule in (*resource.rules, *further.get(type(new.entity), ())):
        rule(new)


def codes_exist(entity: Entity, after: Configuration) -> None:
    """Check that every code that an entity names exists.

    Raises:
        Invalid: One does not.
    """
    for path, kind in resource_of(entity).codes.items():
        if path.partition(".")[0] not in type(entity).model_fields:
            continue  # Codes inside a text: the kind's own rule says where.
        for place, code in values_at(entity, path):
            if after.find(kind, code) is None:
                raise Invalid(place, code, f"it must be the code of an existing {kind.__name__}")


def _code_is_free(new: Proposed[Any], after: Configuration) -> None:
    code = code_of(new.entity)
    if code is None:
        return
    for other in after.where(type(new.entity), "code", code):
        if other.id != new.id:
            raise DuplicateCode(type(new.entity).__name__, code, other.id)


def affected_records(changed: Iterable[Record[Any]], referring: Referring) -> Iterator[Record[Any]]:
    """Everything that refers to changed entities, directly or through others, without these.

    Args:
        changed: The entities that change.
        referring: Finds what refers to one of them directly.

    Yields:
        Each entity once.
    """
    waiting = list(changed)
    seen = {each.id for each in waiting}
    while waiting:
        for record in referring(waiting.pop()):
            if record.id not in seen:
                seen.add(record.id)
                waiting.append(record)
                yield record


def _referring(after: Configuration) -> Referring:
    by_target: dict[str, list[Record[Any]]] = {}
    for resource in RESOURCES:
        for record in after.all(resource.entity):
            for _, _, target in entity_references(record.entity):
                by_target.setdefault(target, []).append(record)
    return lambda target: by_target.get(target.id, ())
