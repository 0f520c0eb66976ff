r"""Keys and items of lookup tables: how they are written in a path, and how they are checked.

A key in a path is the values of the key fields in order, joined by commas. A backslash takes the
meaning of the character after it away: `\,` is a comma, `\\` a backslash; one before the first
letter tells a key from the words that stand in the same place, such as `\jobs`. `\x2F` is the
character of that code: a slash, which clients that do not encode it cannot send otherwise.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from meterlake.model.catalog.lookups import (
    LookupTableRevision,
    LookupTableRevisionField,
    LookupTableRevisionFieldType,
)
from meterlake.model.errors import Invalid, Required
from meterlake.model.values.fields import LongText, Number
from meterlake.model.values.money import plain
from meterlake.model.values.plurals import counted
from meterlake.model.values.problems import problems

# The name under which an item shows its key; ignored in what is written.
LOOKUP_KEY: Final = "lookupKey"
# A key is part of an index and of a path.
KEY_MAX: Final = 500

_RESERVED: Final = frozenset({"jobs", "copy", "archived", "generateuploadurl", ".", ".."})
_SPECIAL: Final = re.compile(r"[\\,]")
# What has a meaning in a path or a URL.
_OF_PATHS: Final = re.compile(r"[/?#%]")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.?))|(,)|([^\\,]+)", re.DOTALL)
_NUMERAL: Final = re.compile(r"[+-]?[0-9]{1,60}(?:\.[0-9]{1,60})?(?:[eE][+-]?[0-9]{1,2})?")
_READERS: Final[Mapping[LookupTableRevisionFieldType, TypeAdapter[Any]]] = {
    LookupTableRevisionFieldType.STRING: TypeAdapter(LongText),
    LookupTableRevisionFieldType.NUMBER: TypeAdapter(Number),
}


def join_key(values: Sequence[Any]) -> str:
    r"""Write key values as the one text that stands in a path.

    >>> joined(["US", Decimal("1.50")]), joined(["a,b", "c/d"]), joined(["jobs"])
    ('US,1.5', 'a\\,b,c\\x2Fd', '\\jobs')
    """
    key = ",".join(_escape(value) for value in values)
    return f"\\{key}" if key in _RESERVED else key


def _escape(value: Any) -> str:
    text = plain(value) if isinstance(value, Decimal) else str(value)
    return _OF_PATHS.sub(lambda found: rf"\x{ord(found[0]):02X}", _SPECIAL.sub(r"\\\g<0>", text))


def split(key: str) -> list[str]:
    r"""Take a key of a path apart.

    >>> split(r"a\,b,c\x2Fd"), split(r"\jobs")
    (['a,b', 'c/d'], ['jobs'])
    """
    parts = [""]
    for code, escaped, comma, text in _ESCAPE.findall(key):
        if comma:
            parts.append("")
        else:
            parts[-1] += chr(int(code, 16)) if code else escaped or text
    return parts


def key_in_path(revision: LookupTableRevision, text: str) -> str:
    """The key that a path names, in the one way in which keys are written.

    Raises:
        Invalid: It has not as many values as the revision has keys, or one is of the wrong type.
    """
    parts = split(text)
    if len(parts) != len(revision.keys):
        names = ",".join(revision.keys)
        raise Invalid(
            LOOKUP_KEY, text, f"give {counted(len(revision.keys), 'value')}, in the order {names}"
        )
    types = {field.name: field for field in revision.fields}
    values = [
        _from_path(types[name], part) for name, part in zip(revision.keys, parts, strict=True)
    ]
    return _short_enough(LOOKUP_KEY, values)


def _from_path(field: LookupTableRevisionField, text: str) -> Any:
    if field.type is LookupTableRevisionFieldType.STRING:
        return _value(LOOKUP_KEY, field, text)
    number = number_in(text)
    if number is None:
        raise Invalid(f"{LOOKUP_KEY}.{field.name}", text, "it must be a number")
    return _value(LOOKUP_KEY, field, number)


def number_in(text: str) -> Decimal | None:
    """The number that a text writes, or None."""
    try:
        return Decimal(text) if _NUMERAL.fullmatch(text) else None
    except InvalidOperation:
        return None


def item_of(
    revision: LookupTableRevision, location: str, document: Any
) -> tuple[str, dict[str, Any]]:
    """Read one item: its key as `joined` writes it, and its fields. Absent fields have no value.

    Raises:
        Invalid: It has unknown fields, a value of the wrong type, or lacks a part of its key.
    """
    if not isinstance(document, dict):
        raise Invalid(location, document, "it must be a map of fields")
    fields = {field.name: field for field in revision.fields}
    unknown = [name for name in document if name not in fields and name != LOOKUP_KEY]
    if unknown:
        raise Invalid(
            f"{location}.{unknown[0]}",
            document[unknown[0]],
            f"it must be one of {', '.join(fields)}",
        )
    item = {
        name: _value(location, field, document[name])
        for name, field in fields.items()
        if document.get(name) is not None
    }
    for name in revision.keys:
        if item.get(name) in {None, ""}:
            raise Required(f"{location}.{name}")
    return _short_enough(location, [item[name] for name in revision.keys]), item


def _value(location: str, field: LookupTableRevisionField, value: Any) -> Any:
    try:
        return _READERS[field.type].validate_python(value)
    except ValidationError as error:
        rule = next(problems(error)).args[2]
        raise Invalid(f"{location}.{field.name}", value, rule) from None


def _short_enough(location: str, values: Sequence[Any]) -> str:
    key = join_key(values)
    if len(key) > KEY_MAX:
        raise Invalid(location, key, f"it must be a key of at most {KEY_MAX} characters")
    return key
