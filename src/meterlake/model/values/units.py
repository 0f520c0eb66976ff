"""Units as people call them."""

import re
from typing import Final

# Bytes as UCUM writes them, alone or within a unit: `GBy`, `KiBy.h`.
_BYTES: Final = re.compile(r"(?<![A-Za-z])([kKMGTPE]i?)?By(?![A-Za-z])")


def unit_name(unit: str | None) -> str:
    """What people call a unit that UCUM has a code for; other units as they are.

    >>> unit_name("GBy"), unit_name("{call}"), unit_name("GBy.h"), unit_name("seats")
    ('GB', 'call', 'GB.h', 'seats')
    """
    # Braces stand around what UCUM does not know.
    return _BYTES.sub(r"\1B", re.sub(r"[{}]", "", unit or ""))
