"""The first rows of a file as people look at them: every column, each value as its text."""

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from meterlake.stages.decode.csv import find_delimiter, header

# Members that are gone into, and paths of a row that are shown.
_DEPTH_MAX: Final = 8
_PATHS_MAX: Final = 500
# What a path has to quote.
_SIGNS: Final = frozenset('."[]')


class HeadRow(NamedTuple):
    """A row by its number in the file, and the texts of its columns; none if it cannot be read."""

    row: int
    values: dict[str, str]


class FileHead(NamedTuple):
    """The columns of a file, in the order of their first values, and its first rows."""

    columns: list[str]
    rows: list[HeadRow]


def read_csv_head(
    data: bytes, name: str, delimiter: str | None, wanted: Collection[str], most: int
) -> FileHead:
    """The first rows of CSV.

    Args:
        data: The beginning of the file.
        name: Its name, for messages.
        delimiter: What separates values; found in the first line if it is None.
        wanted: Columns that help to find it.
        most: How many rows.

    Raises:
        UnreadableSource: The first line names no columns.
    """
    first = data.partition(b"\n")[0].rstrip(b"\r")
    sign = delimiter or find_delimiter(first, wanted)
    columns = header(first, name, sign)
    text = data[data.find(b"\n") + 1 :].decode("utf-8", "replace") if b"\n" in data else ""
    rows = list(islice(_csv_rows(text, sign, columns), most))
    return FileHead([each for each in columns if each], rows)


def _csv_rows(text: str, delimiter: str, columns: list[str]) -> Iterator[HeadRow]:
    reader, line = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 2
    while True:
        try:
            found = next(reader, None)
        except csv.Error:
            return
        if found is None:
            return
        if found:
            texts = zip(columns, found, strict=False)
            yield HeadRow(line, {name: value for name, value in texts if name})
        line = reader.line_num + 2


def read_json_head(data: bytes, *, is_array: bool, most: int) -> FileHead:
    """The first rows of a JSON array, or of a file with one object in each line.

    Args:
        data: The file, or its beginning if it has lines.
        is_array: Whether its rows are the elements of one array.
        most: How many rows.
    """
    text = data.decode("utf-8", "replace")
    if not is_array:
        lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
        return read_rows_head((number, _parsed(line)) for number, line in islice(lines, most))
    found = _parsed(text)
    elements = found if isinstance(found, list) else []
    return read_rows_head(enumerate(elements[:most], 1))


def read_rows_head(rows: Iterable[tuple[int, Any]]) -> FileHead:
    """Rows by their numbers as columns; members within members are named by their paths."""
    read = [
        HeadRow(number, dict(islice(_paths(row, "", 0), _PATHS_MAX)) if row else {})
        for number, row in rows
    ]
    return FileHead(list(dict.fromkeys(name for each in read for name in each.values)), read)


def _paths(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """The texts of a value by the paths that mappings take."""
    inner = _parsed(value) if isinstance(value, str) and value[:1] in {"{", "["} else value
    if not isinstance(inner, dict | list) or depth == _DEPTH_MAX:
        if value is not None:
            yield path, _text(value)
        return
    for step, each in _steps(inner):
        dot = "." if path and not step.startswith("[") else ""
        yield from _paths(each, f"{path}{dot}{step}", depth + 1)


def _steps(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    """The members of an object; the elements of a list by their keys if they have keys."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield (f'"{name}"' if _SIGNS & set(name) and '"' not in name else name), each
        return
    for index, each in enumerate(value):
        key = each.get("key") if isinstance(each, Mapping) else None
        named = isinstance(key, str) and not _SIGNS.difference(".") & set(key)
        if isinstance(each, Mapping) and named:
            for name, member in each.items():
                if name != "key":
                    yield f"[key={key}].{name}", member
        else:
            yield f"[{index}]", each


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else json.dumps(value, default=str)


class _Digits(str):
    """A number, digit by digit."""

    __slots__ = ()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_float=_Digits, parse_int=_Digits)
    except (ValueError, RecursionError):
        return None
