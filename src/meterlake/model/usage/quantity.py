"""Words of quantities: what gave them, and on which side of a pool they stand.

Quantities and units side by side: 80,875 tiles are 80.875 × 1k tiles.

A quantity is what an aggregation counts. Its units are what is priced: the quantity divided by
`quantityPerUnit`, and rounded. They are numbers of different things, so each has its own unit.
"""

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter, Reduce
from meterlake.model.values.money import ONE, plain

# What gave a quantity, as its row in the lake says.
SIMPLE: Final = "aggregation"
COMPOUND: Final = "compound"
# What these count, whatever the field is in.
_COUNTED: Final = {Reduce.COUNT: "measurements", Reduce.UNIQUE: "different values"}
_OF_THE_FIELD: Final = frozenset(Reduce) - {*_COUNTED, Reduce.CUSTOM_SQL}


class Pooled(StrEnum):
    """On which side of a pool an account stands: what children use counts for the parent."""

    PARENT = "parent"
    CHILD = "child"


def quantity_unit(
    aggregation: Aggregation | CompoundAggregation, meter: Meter | None = None
) -> str | None:
    """What a quantity is a number of, before `quantityPerUnit`; None if nothing says so.

    It is the unit of the aggregated field. Without one, a `quantityPerUnit` of 1 says that the
    quantity is in the unit that is priced.

    Args:
        aggregation: The aggregation.
        meter: Its meter; a compound aggregation has none.
    """
    found = None
    if isinstance(aggregation, Aggregation) and aggregation.aggregation in _OF_THE_FIELD:
        fields = meter.all_fields if meter else ()
        code = aggregation.target_field
        found = next((each.unit for each in fields if each.code == code), None)
    if found is None and aggregation.quantity_per_unit == ONE:
        return aggregation.unit
    if found is None and isinstance(aggregation, Aggregation):
        return _COUNTED.get(aggregation.aggregation)
    return found


def quantity_text(quantity: Decimal | None, unit: str | None) -> str | None:
    """A quantity for people; None without one.

    >>> quantity_text(Decimal("80875.00"), "tiles")
    '80,875 tiles'
    """
    if quantity is None:
        return None
    return f"{_digits(quantity)} {unit}" if unit else _digits(quantity)


def units_text(units: Decimal | None, unit: str | None) -> str | None:
    """Priced units for people; None without any.

    >>> units_text(Decimal("80.875"), "1k tiles")
    '80.875 × 1k tiles'
    """
    return None if units is None else f"{_digits(units)} × {unit}"


def changed_texts(entry: Mapping[str, Any]) -> dict[str, str | None]:
    """A quantity of a difference before and after, and its units, for people."""
    texts: dict[str, str | None] = {}
    for side in ("before", "after"):
        found = entry[side] or {}
        quantity, units = (found.get(name) for name in ("quantity", "units"))
        texts[side] = quantity_text(quantity and Decimal(quantity), entry.get("quantityUnit"))
        texts[f"units {side}"] = units_text(units and Decimal(units), found.get("unit"))
    return texts


def _digits(number: Decimal) -> str:
    return f"{Decimal(plain(number)):,f}"
