"""Rejected rows as files that somebody edits: NDJSON, or CSV for spreadsheets."""

import csv
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from meterlake.model.errors import Invalid, NotFound
from meterlake.model.measurements.editable_row import (
    MEASUREMENT_MAX,
    from_columns,
    members_of,
    text_of,
    to_columns,
)
from meterlake.model.measurements.measurement import FIXED_KEYS
from meterlake.stores.files.durable import disk, write_durably
from meterlake.stores.lake.rejected import RejectedRow

Rows = Callable[[], Iterable[RejectedRow]]

# What a file says about a row besides its measurement; only the id is read again.
_ABOUT: Final = ("id", "reason", "field", "detail", "name", "row", "original")


class Edit(NamedTuple):
    """A rejected row and the measurement that it is to be: None leaves it as it is.

    `where` names the line of the file.
    """

    id: str
    measurement: str | None
    where: str


def write_rejected(path: Path, rows: Rows) -> int:
    """Write rejected rows to a file; it appears whole.

    Args:
        path: A file whose name ends in .ndjson, .jsonl or .csv.
        rows: Gives the rows, each time it is called.

    Returns:
        How many there were.

    Raises:
        Invalid: The name ends in something else.
        Unavailable: The disk failed.
    """
    kind = _kind(path)
    with disk(), write_durably(path.absolute()) as temporary:
        return _write_csv(temporary, rows) if kind == "csv" else _write_ndjson(temporary, rows)


def read_edits(path: Path) -> Iterator[Edit]:
    """Read such a file again, after somebody edited it.

    Raises:
        Invalid: A line is broken.
        NotFound: There is no such file.
    """
    read = _read_csv if _kind(path) == "csv" else _read_ndjson
    try:
        yield from read(path)
    except FileNotFoundError:
        raise NotFound("file", str(path)) from None
    except UnicodeDecodeError as error:
        raise Invalid("file", path.name, f"it must be UTF-8: {error}") from None


def _kind(path: Path) -> str:
    kind = path.suffix.lower().removeprefix(".")
    if kind not in {"csv", "ndjson", "jsonl"}:
        raise Invalid("file name", path.name, "its name must end in .ndjson, .jsonl or .csv")
    return kind


def _write_ndjson(path: Path, rows: Rows) -> int:
    count = 0
    with path.open("wb") as file:
        for row in rows():
            members = members_of(row.measurement) if row.measurement else None
            line = {**_about(row), "measurement": members}
            file.write(text_of(line).encode() + b"\n")
            count += 1
    return count


def _about(row: RejectedRow) -> dict[str, Any]:
    shown = row.to_wire()
    return {name: shown[name] for name in _ABOUT}


def _write_csv(path: Path, rows: Rows) -> int:
    found: dict[str, None] = {}
    for row in rows():
        found |= dict.fromkeys(_columns(row))
    names = [*FIXED_KEYS, *sorted(set(found) - set(FIXED_KEYS) - set(_ABOUT))]
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*_ABOUT, *names], lineterminator="\n")
        writer.writeheader()
        for row in rows():
            columns = _columns(row)
            writer.writerow({**{name: columns.get(name) for name in names}, **_about(row)})
            count += 1
    return count


def _columns(row: RejectedRow) -> dict[str, str]:
    return to_columns(members_of(row.measurement)) if row.measurement else {}


def _read_ndjson(path: Path) -> Iterator[Edit]:
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                where = f"{path.name}, line {number}"
                try:
                    members = members_of(line)
                except (ValueError, RecursionError) as error:
                    raise Invalid("line", line, f"it must be JSON: {error} ({where})") from None
                yield edit_of(members.get("id"), members.get("measurement"), where)


def _read_csv(path: Path) -> Iterator[Edit]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            for row in reader:
                where = f"{path.name}, line {reader.line_num}"
                if None in row or None in row.values():
                    raise Invalid(
                        "line", row["id"], f"it must have as many columns as the first ({where})"
                    )
                columns = {name: text or None for name, text in row.items() if name not in _ABOUT}
                yield edit_of(row.get("id"), from_columns(columns), where)
        except csv.Error as error:
            raise Invalid(
                "line", reader.line_num, f"it must be CSV: {error} ({path.name})"
            ) from None


def edit_of(id: Any, members: Any, where: str) -> Edit:
    """An edit that somebody wrote down.

    Args:
        id: The row's id.
        members: The measurement's; None or none leave the row as it is.
        where: Where it was written.

    Raises:
        Invalid: The id is no text, or the measurement is no object, or too long.
    """
    if not isinstance(id, str):
        raise Invalid("id", id, f"it must be the id of a rejected row ({where})")
    if members is None or members == {}:
        return Edit(id, None, where)
    if not isinstance(members, dict):
        raise Invalid("measurement", id, f"it must be an object, or null ({where})")
    try:
        text = text_of(members)
    except ValueError as error:
        raise Invalid("measurement", id, f"it must be text: {error} ({where})") from None
    if len(text) > MEASUREMENT_MAX:
        raise Invalid(
            "measurement", id, f"it must have at most {MEASUREMENT_MAX} characters ({where})"
        )
    return Edit(id, text, where)
