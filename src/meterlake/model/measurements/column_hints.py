"""Columns of a file that nobody reads: which they are, and what was perhaps meant."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from meterlake.model.calculation.mistakes import nearest
from meterlake.model.measurements.columns import join_names
from meterlake.model.measurements.measurement import FIXED_KEYS

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
