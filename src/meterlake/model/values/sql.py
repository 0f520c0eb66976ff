"""Names and texts as SQL has them; everything else that people chose is a bound parameter."""

from datetime import timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo


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
