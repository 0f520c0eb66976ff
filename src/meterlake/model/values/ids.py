"""The patterns and lengths that identifiers and codes must have, and ids that follow from names."""

import re
import unicodedata
import uuid
from typing import Final

# No control characters, no white space but inner plain spaces (api contract, `CODE`).
CODE_PATTERN: Final = r"^[^\s\x00-\x1f\x7f](?:[^\t-\r\x00-\x1f\x7f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*[^\s\x00-\x1f\x7f])?$"
CODE_MAX: Final = 80
_SLUG_MAX: Final = 60

CODE: Final = re.compile(CODE_PATTERN)
# Letter, _ or $ first, then letters, digits, _ and $ (api contract, `IDENT`).
IDENT: Final = re.compile(r"(?:[^\W\d]|\$)(?:\w|\$)*")
ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)

# The author of what a command does that names nobody: nobody in particular.
UNNAMED: Final = "cli"

# Fixed for ever: ids of skeleton accounts and the like must come out the same on every machine.
_NAMESPACE: Final = uuid.UUID("6f4c8a8e-2d0b-5b8e-9c55-3f1a7f0b9a11")


def is_code(text: str) -> bool:
    """Whether a text may be the code of an account, meter, plan and the like."""
    return len(text) <= CODE_MAX and CODE.fullmatch(text) is not None


def is_ident(text: str) -> bool:
    """Whether a text may be the code of a field, an aggregation or a pick-list item."""
    return len(text) <= CODE_MAX and IDENT.fullmatch(text) is not None


def slug(name: str) -> str:
    """A name in at most 60 lower-case ASCII letters, digits and hyphens: a code, safe as a folder.

    Empty if the name has none of them.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", plain)[:_SLUG_MAX].strip("-")


def derived_id(*names: str) -> str:
    """The id that follows from names: the same names give the same id on every machine."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(names)))


def is_id(text: str) -> bool:
    """Whether a text is a UUID in its canonical form of 36 characters."""
    return ID.fullmatch(text) is not None
