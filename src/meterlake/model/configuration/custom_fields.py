"""What a custom field of an entity is worth: its own value, else the organization's."""

from decimal import Decimal
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_snake

from meterlake.model.catalog.catalog import Meter

if TYPE_CHECKING:
    from meterlake.model.configuration.organization import CustomFields
    from meterlake.model.values.entity import Entity


def custom_value(
    name: str, entity: "Entity | None", defaults: "CustomFields", *, in_compound: bool = False
) -> str | Decimal | None:
    """The value of a custom field.

    Args:
        name: The field.
        entity: Who carries it; None for a field of the organization itself.
        defaults: The organization's custom fields.
        in_compound: Whether a compound aggregation asks: to it a meter's field always has the
            organization's value, as its quantities may come from several meters.

    Returns:
        None if there is no such field.
    """
    if entity is None:
        return defaults.organization.get(name)
    own: dict[str, str | Decimal] = getattr(entity, "custom_fields", {})
    if name in own and not (in_compound and isinstance(entity, Meter)):
        return own[name]
    # Kinds without a level of the organization have what they carry, and nothing else.
    of_kind: dict[str, str | Decimal] = getattr(defaults, to_snake(type(entity).__name__), {})
    return of_kind.get(name)
