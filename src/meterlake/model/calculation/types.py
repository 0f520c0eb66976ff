"""The types of values, and what a calculation may name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias

from meterlake.model.calculation.mistakes import CalculationError

# Instants are aware; a number is finite.
Value: TypeAlias = Decimal | str | bool | datetime | None


class Type(StrEnum):
    """What a value is. Null is a value of every type, and alone of the type NULL."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    INSTANT = "instant"
    NULL = "null"


# Twenty significant digits, as endless quotients have.
CONSTANTS: Final[Mapping[str, Decimal | str]] = {
    "Math.PI": Decimal("3.1415926535897932385"),
    "DateTime.TS_FMT": "yyyy-MM-dd'T'HH:mm:ss.SSSX",
}

_TYPES: Final[Mapping[type, Type]] = {
    Decimal: Type.NUMBER,
    str: Type.TEXT,
    bool: Type.BOOLEAN,
    datetime: Type.INSTANT,
    type(None): Type.NULL,
}


def type_of(value: Value) -> Type:
    """The type of a value.

    Raises:
        CalculationError: It is of no type of the language, such as a float.
    """
    found = _TYPES.get(type(value))
    if found is None:
        raise CalculationError(f"a value of the type {type(value).__name__} cannot be calculated")
    return found


@dataclass(frozen=True, slots=True)
class LookupSchema:
    """The published revision of a lookup table.

    Attributes:
        keys: The types of its keys, in their order.
        fields: The types of all its fields by name.
    """

    keys: tuple[Type, ...]
    fields: Mapping[str, Type]


@dataclass(frozen=True, slots=True)
class CalculationScope:
    """What a calculation may name.

    Attributes:
        names: The type of each name, such as `files`, `ts`, `customFields.account.tier`.
        tables: Lookup tables by code.
    """

    names: Mapping[str, Type] = field(default_factory=dict)
    tables: Mapping[str, LookupSchema] = field(default_factory=dict)
