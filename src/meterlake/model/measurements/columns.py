"""The names of a file's columns: how many there may be, which nobody reads, and what was perhaps meant."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from meterlake.model.calculation.mistakes import nearest
from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.measurement import FIXED_KEYS
from meterlake.model.measurements.rejection import Reason

# More than any export of a cloud has; every column costs time in every block of a file.
COLUMNS_MAX: Final = 2000
_NAMED_MAX: Final = 20
_NAME_MAX: Final = 60
# What other systems call our fixed columns.
_OTHER_NAMES: Final = {
    "meter": ("event", "event_name", "event_type", "metric", "meter_code", "event type"),
    "account": ("customer", "customer_id", "account_id", "account_code", "tenant", "subject"),
    "uid": ("id", "event_id", "uuid", "guid", "idempotency_key", "transaction_id"),
    "ts": ("timestamp", "time", "date", "datetime", "event_time", "start", "start_time"),
    "ets": ("end", "end_time", "end_timestamp", "stop", "until"),
}
_FIXED: Final = {other: name for name, others in _OTHER_NAMES.items() for other in others}
_DERIVED: Final = "derived."


def check_names(columns: Sequence[str], name: str) -> None:
    """Refuse a file with too many columns, or with two of one name.

    Raises:
        UnreadableSource: It is such a file.
    """
    if len(columns) > COLUMNS_MAX:
        detail = f"{len(columns)} columns; a file may have {COLUMNS_MAX}: leave some out"
        raise UnreadableSource(name, Reason.TOO_MANY_COLUMNS, detail)
    twice = sorted(column for column, count in Counter(columns).items() if count > 1)
    if twice:
        detail = f"columns twice: {join_names(list(map(repr, twice)))}; give each a name of its own"
        raise UnreadableSource(name, Reason.DUPLICATE_COLUMN, detail)


def join_names(columns: Sequence[str]) -> str:
    """The names of columns for a message: the first ones, each as far as people read it."""
    first = [
        column if len(column) <= _NAME_MAX else f"{column[: _NAME_MAX - 1]}…"
        for column in columns[:_NAMED_MAX]
    ]
    more = len(columns) - len(first)
    return ", ".join([*first, f"and {more} more"] if more else first)


def find_ignored(columns: Sequence[str], read: Collection[str]) -> list[str]:
    """The columns that have a name and are not read; those of derived fields never are."""
    return [each for each in columns if each and each not in read and not each.startswith(_DERIVED)]


def suggestions(
    columns: Iterable[str], fields: Iterable[str], read: Collection[str]
) -> dict[str, str | None]:
    """By column: the name of ours that is perhaps meant, or None.

    Args:
        columns: The columns that are not read.
        fields: The columns of the fields of all meters: `measure.count`.
        read: The columns that are read: they are there, so nobody means them.
    """
    known = sorted(fields)
    by_code = {name.partition(".")[2].casefold(): name for name in reversed(known)}
    meant = {each: _suggestion(each, by_code, known) for each in columns}
    return {each: None if name in read else name for each, name in meant.items()}


def _suggestion(column: str, by_code: Mapping[str, str], known: Sequence[str]) -> str | None:
    plain = column.strip().casefold()
    if plain in by_code:
        return by_code[plain]
    fixed = plain if plain in FIXED_KEYS else _FIXED.get(plain.replace("-", "_"))
    if fixed:
        return fixed
    return nearest(column, [*known, *FIXED_KEYS]) or by_code.get(nearest(plain, by_code) or "")


def ignored_sentence(found: Mapping[str, str | None]) -> str | None:
    """A sentence for the report; None if every column is read."""
    if not found:
        return None
    shown = [
        f"{name!r} (did you mean {meant!r}?)" if meant else repr(name)
        for name, meant in found.items()
    ]
    return f"ignored columns: {join_names(shown)}"


def meant_by(missing: Iterable[str], columns: Sequence[str]) -> str:
    """Which columns of a file are perhaps those that it lacks; nothing if none is like them."""
    pairs = []
    for name in missing:
        others = _OTHER_NAMES.get(name, ())
        found = next((each for each in columns if each.strip().casefold() in others), None)
        found = found or nearest(name, columns)
        if found:
            pairs.append(f"{found!r} looks like {name}")
    return f"; {', '.join(pairs)}" if pairs else ""
