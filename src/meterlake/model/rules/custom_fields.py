"""Custom fields: an organization has them before an entity carries them."""

from collections.abc import Iterable
from typing import Any

from pydantic.alias_generators import to_snake

from meterlake.model.configuration.organization import CustomFields
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed


def custom_fields_not_in_use_stay(new: Proposed[CustomFields]) -> None:
    """A custom field that an entity carries is not taken away from its kind."""
    if new.before is None:
        return
    kinds: Iterable[type[Any]] = new.configuration.kinds()
    for kind in kinds:
        attribute = to_snake(kind.__name__)
        if "custom_fields" not in kind.model_fields or attribute not in CustomFields.model_fields:
            continue
        gone = set(getattr(new.before, attribute)) - set(getattr(new.entity, attribute))
        for record in new.configuration.all(kind) if gone else ():
            still_used = sorted(gone & set(record.entity.custom_fields))
            if still_used:
                who = f"{kind.__name__} {getattr(record.entity, 'code', None) or record.id!r}"
                raise Invalid(
                    _camel(attribute),
                    still_used[0],
                    f"{who} has it; keep it, or take it away there first",
                )


def _camel(attribute: str) -> str:
    return CustomFields.model_fields[attribute].alias or attribute


def custom_fields_known(new: Proposed[Any]) -> None:
    """A custom field exists on the organization before an entity carries it."""
    attribute = to_snake(type(new.entity).__name__)
    if not new.entity.custom_fields or attribute not in CustomFields.model_fields:
        return
    known: set[str] = set()
    for record in new.configuration.all(CustomFields):
        known |= set(getattr(record.entity, attribute))
    for name, value in new.entity.custom_fields.items():
        if name not in known:
            rule = f"customFields.{_camel(attribute)} has no such field; add it there first"
            raise Invalid(f"customFields.{name}", value, rule)
