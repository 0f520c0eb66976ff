"""Names and texts as SQL has them, and sums in SQL that cannot be relied on."""

from collections.abc import Sequence
from datetime import timedelta, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

# DuckDB 1.5.5 wraps around in silence when the sums of two threads do not fit into 128 bits
# together. As long as no value is beyond this, it takes 10^11 of them to get there.
_LARGE_VALUE: Final = "{v} NOT BETWEEN -1000000000000000 AND 1000000000000000"


def quote(text: str | Path) -> str:
    """A text as an SQL literal."""
    return "'" + str(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name, which may hold anything, as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def local_time(instant: str, timezone: tzinfo) -> str:
    """The time on the clocks of a zone, of an SQL expression for an instant in naive UTC.

    >>> local_time("ts", ZoneInfo("Europe/Berlin"))
    "timezone('Europe/Berlin', timezone('UTC', ts))"
    """
    if isinstance(timezone, ZoneInfo):
        return f"timezone({quote(timezone.key)}, timezone('UTC', {instant}))"
    # DuckDB has no names for offsets.
    offset = timezone.utcoffset(None) or timedelta()
    return f"({instant} + to_seconds({int(offset.total_seconds())}))"


def naive_utc(local: str, timezone: tzinfo) -> str:
    """The instant in naive UTC, of an SQL expression for the time on the clocks of a zone.

    >>> naive_utc("day", ZoneInfo("Europe/Berlin"))
    "timezone('UTC', timezone('Europe/Berlin', day))"
    """
    if isinstance(timezone, ZoneInfo):
        return f"timezone('UTC', timezone({quote(timezone.key)}, {local}))"
    offset = timezone.utcoffset(None) or timedelta()
    return f"({local} - to_seconds({int(offset.total_seconds())}))"


def any_large(columns: Sequence[str]) -> str:
    """An aggregate in SQL: whether a value is so large that plain sums may be wrong.

    Args:
        columns: What is summed, as SQL.
    """
    return f"coalesce(bool_or({large(columns)}), false)" if columns else "false"


def large(columns: Sequence[str]) -> str:
    """The same of one row: whether one of its values, of which there is at least one, is so large."""
    return " OR ".join(_LARGE_VALUE.replace("{v}", column) for column in columns)
