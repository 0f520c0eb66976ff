"""Names and texts as SQL has them; everything else that people chose is a bound parameter."""

from pathlib import Path


def quoted(text: str | Path) -> str:
    """A text as an SQL literal."""
    return "'" + str(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name, which may hold anything, as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
