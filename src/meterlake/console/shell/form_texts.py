"""Between the documents of the API and the texts of a form's fields, in both directions.

What people typed and is no number, day or instant goes to the API as the text that it is: the API
says what is wrong with it, in its own words.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from meterlake.console.shell.form_fields import FieldKind, FormField
from meterlake.console.shell.numbers import typed_number, written_number
from meterlake.model.errors import Invalid
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.model.values.period import format_instant

# The texts of a form's fields by their names; those of rows have the number of the row in them.
Texts = Mapping[str, list[str]]

_ROW: Final = re.compile(r"[0-9]{1,6}")
_SEVERAL: Final = frozenset({FieldKind.CHOICES, FieldKind.REFERENCES})
_YES_NO: Final = {"true": True, "false": False}


class _Writing(NamedTuple):
    zone: str
    decimal: str


def texts_of(
    fields: Iterable[FormField], document: Mapping[str, Any], zone: str, decimal: str = "."
) -> Texts:
    """What a form shows of a document, with a point or a comma before decimals."""
    return dict(_texts(fields, document, "", _Writing(zone, decimal)))


def _texts(
    fields: Iterable[FormField], document: Mapping[str, Any], begin: str, writing: _Writing
) -> Iterator[tuple[str, list[str]]]:
    for each in fields:
        value, path = document.get(each.name, each.default), f"{begin}{each.name}"
        if each.kind is FieldKind.GROUP:
            yield from _texts(each.members, value or {}, f"{path}.", writing)
        elif value is None:
            continue
        elif each.is_rows:
            for number, row in enumerate(_rows(each, value, writing.decimal)):
                yield from _texts(each.members, row, f"{path}.{number}.", writing)
        else:
            yield path, _lines(each, value, writing)


def _rows(field: FormField, value: Any, decimal: str) -> Iterator[Mapping[str, Any]]:
    if field.kind is FieldKind.ROWS:
        yield from value
        return
    for name, item in value.items():
        kind = "NUMBER" if isinstance(item, Decimal | int) else "TEXT"
        text = written_number(Decimal(item), decimal) if kind == "NUMBER" else item
        yield {"name": name, "value": text, "type": kind}


def _lines(field: FormField, value: Any, writing: _Writing) -> list[str]:
    if field.kind in _SEVERAL:
        return list(value)
    if field.kind is FieldKind.TICK:
        return ["yes"] if value in {True, "true", "yes"} else []
    if field.kind is FieldKind.INSTANT:
        return [local_text(str(value), writing.zone)]
    if field.kind is FieldKind.NUMBER:
        return [_text(value).replace(".", writing.decimal)]
    return [_TEXTS.get(field.kind, _text)(value)]


def _text(value: Any) -> str:
    return plain(value) if isinstance(value, Decimal) else str(value)


def _segment_text(segment: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in segment.items())


_TEXTS: Final[Mapping[FieldKind, Callable[[Any], str]]] = {
    FieldKind.YES_NO: lambda value: str(value).lower(),
    FieldKind.LINES: "\n".join,
    FieldKind.SEGMENTS: lambda value: "\n".join(map(_segment_text, value)),
    FieldKind.JSON: lambda value: wire.dumps_pretty(value).decode(),
}


def local_text(instant: str, zone: str) -> str:
    """An instant as the field for one has it: by the clocks of a time zone, without its name."""
    try:
        found = datetime.fromisoformat(instant)
    except ValueError:
        return instant
    if found.tzinfo is None:
        return instant
    local = found.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    if local.microsecond:
        return local.isoformat(timespec="milliseconds")
    return local.isoformat(timespec="seconds" if local.second else "minutes")


def document_of(
    fields: Iterable[FormField],
    texts: Texts,
    zone: str,
    before: Mapping[str, Any],
    decimal: str = ".",
) -> dict[str, Any]:
    """What the texts of a form say, as the API takes it; what has no text is left out.

    Args:
        fields: The fields of the form.
        texts: Their texts.
        zone: The time zone of instants.
        before: What there is before: other members stay, and so does an instant whose text is the
            same.
        decimal: What people write before decimals: a point or a comma.
    """
    writing = _Writing(zone, decimal)
    fields = tuple(fields)
    shown = {each.name for each in fields}
    found = {name: value for name, value in before.items() if name not in shown}
    return {**found, **_members(fields, texts, "", writing, before)}


def _members(
    fields: Iterable[FormField],
    texts: Texts,
    begin: str,
    writing: _Writing,
    before: Mapping[str, Any],
) -> dict[str, Any]:
    found = {}
    for each in fields:
        value = _value(each, texts, f"{begin}{each.name}", writing, before)
        if value is not None:
            found[each.name] = value
    return found


def _value(
    field: FormField, texts: Texts, path: str, writing: _Writing, before: Mapping[str, Any]
) -> Any:
    """The value of a field; None if it has none."""
    if field.kind is FieldKind.GROUP:
        old = before.get(field.name) or {}
        return _members(field.members, texts, f"{path}.", writing, old) or None
    if field.is_rows:
        rows = _read_rows(field, texts, path, writing)
        return _map(rows, writing.decimal) if field.kind is FieldKind.MAP else rows
    if field.kind is FieldKind.TICK:
        return bool(texts.get(path))
    lines = [line for text in texts.get(path, ()) for line in lines_of(text)]
    if field.kind in _SEVERAL or field.kind is FieldKind.LINES:
        return lines or None
    if field.kind is FieldKind.SEGMENTS:
        return list(map(_segment, lines)) or None
    text = texts.get(path, [""])[0].strip()
    return _scalar(field, text, writing, before.get(field.name)) if text else None


def lines_of(text: str) -> list[str]:
    """The lines of a text that say something."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _scalar(field: FormField, text: str, writing: _Writing, before: Any) -> Any:
    match field.kind:
        case FieldKind.NUMBER | FieldKind.WHOLE:
            number = typed_number(field.name, text, writing.decimal)
            is_whole = isinstance(number, Decimal) and number == int(number)
            return int(number) if is_whole else number
        case FieldKind.YES_NO:
            return _YES_NO.get(text, text)
        case FieldKind.INSTANT:
            if before is not None and local_text(str(before), writing.zone) == text:
                return before
            return _instant(text, writing.zone)
        case FieldKind.JSON:
            try:
                return wire.loads(text)
            except Invalid:
                raise Invalid(field.name, text[:80], "it must be JSON") from None
        case _:
            return text


def _instant(text: str, zone: str) -> str:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    if found.tzinfo is None:
        found = found.replace(tzinfo=ZoneInfo(zone))
    return format_instant(found.astimezone(UTC))


def _read_rows(
    field: FormField, texts: Texts, path: str, writing: _Writing
) -> list[dict[str, Any]]:
    """The rows of a form in which something stands, in their order."""
    found = []
    for number in row_numbers(path, texts):
        row = f"{path}.{number}."
        if any(text.strip() for text in _typed(field, texts, row)):
            found.append(_members(field.members, texts, row, writing, {}))
    return found


def row_numbers(path: str, texts: Texts) -> list[int]:
    """The numbers of the rows that a form has at a path."""
    begin = f"{path}."
    numbers = {name[len(begin) :].partition(".")[0] for name in texts if name.startswith(begin)}
    return sorted(int(each) for each in numbers if _ROW.fullmatch(each))


def _typed(field: FormField, texts: Texts, row: str) -> Iterator[str]:
    """What people typed in a row; how it is to be read says nothing by itself."""
    kinds = {f"{row}{each.name}" for each in field.members if each.name == "type" and field.typed}
    for name, values in texts.items():
        if name.startswith(row) and name not in kinds:
            yield from values


def _map(rows: Iterable[Mapping[str, Any]], decimal: str) -> dict[str, Any]:
    found = {}
    for each in rows:
        name, text = str(each.get("name", "")), str(each.get("value", ""))
        is_number = each.get("type") == "NUMBER"
        found[name] = typed_number(name, text, decimal) if is_number else text
    return found


def _segment(line: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in line.split(","))
    return {name.strip(): value.strip() for name, _, value in pairs}
