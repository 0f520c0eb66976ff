"""Values as the sentences of errors show them."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Final

# A value in a sentence is cut after this many characters.
SHOWN_MAX: Final = 80


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
