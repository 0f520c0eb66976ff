"""Values as the sentences of errors show them.

What to do about a thing that is not there, where nobody knows which other one may be meant.
"""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Final

# A value in a sentence is cut after this many characters.
SHOWN_MAX: Final = 80
_LOOK: Final = "check how it is written, and that it is not deleted or of another organization"
_REMEDIES: Final = {
    "bucket": "create it, or name another one",
    "file": "check its path",
    "lake": "ingest measurements first",
    "object": "check its name, and that nobody removed it",
    "object or bucket": "check its name, and create the bucket if it is not there",
    "version of the bill": "choose one that the bill has",
}


class _Shown(str):
    """Text that stands in a sentence as it is, even where `!r` asks for quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_WORDS: Final = {None: "null", True: "true", False: "false"}


def display_value(value: object) -> _Shown:
    """A value as whoever wrote it knows it: of JSON, in single quotes, and not too long."""
    text = _plain(value)
    return _Shown(text[:SHOWN_MAX] + "…" if len(text) > SHOWN_MAX else text)


def _plain(value: object) -> str:
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_plain(key)}: {_plain(each)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple | set | frozenset):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, bytes | bytearray):
        value = value.decode("utf-8", "replace")
    return repr(str(value) if isinstance(value, PurePath | date) else value)


def find_remedy(kind: str, id: str) -> str:
    """What to do, by the kind of the thing and by what it was called."""
    if id == "of the organization":
        return "create it first"
    return _REMEDIES.get(kind, _LOOK)
