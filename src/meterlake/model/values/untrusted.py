"""Words of strangers as text that can be stored: of receivers, of stores of objects, of errors.

And whether a text fits into a header of HTTP.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from meterlake.model.values.fields import is_storable

# Of one text no more is kept: nobody reads more, and it must not fill State.
UNTRUSTED_MAX: Final = 64 << 10
# PostgreSQL has no text with a zero in it, and UTF-8 none with half a pair.
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_HEADER_VALUE: Final = re.compile(rb"(?:[^\0\s]+(?:[ \t]+[^\0\s]+)*)?")


def storable(text: str, size: int = UNTRUSTED_MAX) -> str:
    """A text that every database can store: no zeros, no halves of pairs, no more than so much."""
    beginning = text[:size]
    return beginning if is_storable(beginning) else _UNSTORABLE.sub("\ufffd", beginning)


def storable_data(value: Any) -> Any:
    """The same of all texts in data."""
    match value:
        case str():
            return storable(value)
        case Mapping():
            return {storable_data(name): storable_data(each) for name, each in value.items()}
        case list() | tuple():
            return [storable_data(each) for each in value]
    return value


def fits_header(text: str) -> bool:
    """Whether a text can be the value of a header: on one line, and as long as it is written."""
    return _HEADER_VALUE.fullmatch(text.encode()) is not None
