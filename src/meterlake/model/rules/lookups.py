"""Rules of lookup tables, and what is computed of them."""

from typing import Any

from meterlake.model.catalog.lookups import (
    LookupTableRevision,
    LookupTableRevisionState,
    LookupTableRevisionStatus,
    state_of,
)
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.plurals import counted

_DRAFT = LookupTableRevisionStatus.DRAFT
_PUBLISHED = LookupTableRevisionStatus.PUBLISHED
_NEXT = {_DRAFT: _PUBLISHED, _PUBLISHED: LookupTableRevisionStatus.ARCHIVED}


def schema_fits(new: Proposed[LookupTableRevision]) -> None:
    """Field names differ, keys are among them, and something is left to look up."""
    names = [field.name for field in new.entity.fields]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise Invalid(
                f"fields[{index}].name", name, "it must be different from all other fields"
            )
    keys = new.entity.keys
    for index, key in enumerate(keys):
        if key not in names:
            raise Invalid(f"keys[{index}]", key, f"it must be one of the fields {', '.join(names)}")
        if key in keys[:index]:
            raise Invalid(f"keys[{index}]", key, "it must be different from all other keys")
    if len(keys) == len(names):
        raise Invalid("keys", list(keys), "it must have at least one field that is no key")


def only_drafts_change(new: Proposed[LookupTableRevision]) -> None:
    """A revision that was published stays as it is; one with data keeps its columns."""
    if new.before is None or new.before == new.entity:
        return
    state = state_of(new.id, new.configuration)
    if state is None:
        return
    refuse_unless_draft(new.entity.name, state)
    for name in ("fields", "keys"):
        if state.item_count and getattr(new.before, name) != getattr(new.entity, name):
            items = counted(state.item_count, "item")
            rule = (
                f"the revision holds {items}; keep what it holds, or change a copy of the revision"
            )
            raise Invalid(name, new.entity.to_wire()[name], rule)


def refuse_unless_draft(name: str, state: LookupTableRevisionState | None) -> None:
    """Only a draft is written.

    Raises:
        Invalid: The revision is published or archived.
    """
    if state is not None and state.status is not _DRAFT:
        rule = f"only a DRAFT can be changed; copy the revision {name!r} to change it"
        raise Invalid("status", state.status.value, rule)


def check_next(before: LookupTableRevisionStatus, after: LookupTableRevisionStatus) -> None:
    """A draft may be published, what is published archived, and nothing else.

    Raises:
        Invalid: It is another change.
    """
    if _NEXT.get(before) is not after:
        then = f"only becomes {_NEXT[before]}" if before in _NEXT else "stays so"
        raise Invalid(
            "status", after.value, f"the revision is {before} and {then}; make another revision"
        )


def revision_state(
    record: Record[LookupTableRevision], configuration: Configuration
) -> dict[str, Any]:
    """Where a revision stands and how many items it holds."""
    state = state_of(record.id, configuration)
    return {
        "status": (state.status if state else _DRAFT).value,
        "itemCount": state.item_count if state else 0,
    }
