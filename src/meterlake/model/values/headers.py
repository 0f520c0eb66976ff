"""What headers of HTTP can carry."""

import re
from typing import Final

_VALUE: Final = re.compile(rb"(?:[^\0\s]+(?:[ \t]+[^\0\s]+)*)?")


def fits_header(text: str) -> bool:
    """Whether a text can be the value of a header: on one line, and as long as it is written."""
    return _VALUE.fullmatch(text.encode()) is not None
