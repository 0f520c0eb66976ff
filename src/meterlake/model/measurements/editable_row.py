"""A rejected row as a text that can be edited and given in again: JSON in the wire's shape.

Nothing is lost and nothing is added on the way: numbers keep their digits, and what no rule of
ours could read stays as it was written.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from meterlake.model.measurements.measurement import CATEGORY_KEYS

# Longer than the longest measurement that keeps all bounds.
MEASUREMENT_MAX: Final = 65_536


def editable_text(line: bytes) -> str | None:
    """A line that holds one JSON object as its canonical text; None if it holds none.

    An object with a key that stands twice is none: two readers would see two values.
    """
    try:
        return limit_text(text_of(members_of(line.decode())))
    except (ValueError, RecursionError):
        return None


def limit_text(text: str) -> str | None:
    """The text; None if it is longer than what is kept."""
    return text if len(text) <= MEASUREMENT_MAX else None


def members_of(text: str) -> dict[str, Any]:
    """The members of one JSON object; numbers are `msgspec.Raw`, digit by digit.

    Raises:
        ValueError: It is no JSON object, or a key stands twice.
    """
    members = json.loads(
        text,
        parse_float=_digits,
        parse_int=_digits,
        parse_constant=_refuse,
        object_pairs_hook=_once,
    )
    if not isinstance(members, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - a matter of the text, not of types
    return members


def text_of(members: Mapping[str, Any]) -> str:
    """The members as JSON text.

    Raises:
        ValueError: A text cannot be written as UTF-8.
    """
    return msgspec.json.encode(members).decode()


def from_columns(values: Mapping[str, str | None]) -> dict[str, Any]:
    """The members of a row that is known by columns: `meter`, `measure.gb`; absent ones are None."""
    members: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        category, dot, code = name.partition(".")
        if dot and category in CATEGORY_KEYS:
            members.setdefault(category, {})[code] = value
        else:
            members[name] = value
    return members


def to_columns(members: Mapping[str, Any]) -> dict[str, str]:
    """The other way round; every value becomes a text."""
    columns: dict[str, str] = {}
    for name, value in members.items():
        if name in CATEGORY_KEYS and isinstance(value, dict):
            columns |= {f"{name}.{code}": _text(each) for code, each in value.items()}
        else:
            columns[name] = _text(value)
    return {name: text for name, text in columns.items() if text}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _digits(number: str) -> msgspec.Raw:
    return msgspec.Raw(number.encode())


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice")
    return members
