"""The names of a file's columns: how many there may be, that each stands once, how they are told."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.rejection import Reason

# More than any export of a cloud has; every column costs time in every block of a file.
COLUMNS_MAX: Final = 2000
_NAMED_MAX: Final = 20
_NAME_MAX: Final = 60


def check_names(columns: Sequence[str], name: str) -> None:
    """Refuse a file with too many columns, or with two of one name.

    Raises:
        UnreadableSource: It is such a file.
    """
    if len(columns) > COLUMNS_MAX:
        detail = f"{len(columns)} columns; a file may have {COLUMNS_MAX}: leave some out"
        raise UnreadableSource(name, Reason.TOO_MANY_COLUMNS, detail)
    twice = sorted(column for column, count in Counter(columns).items() if count > 1)
    if twice:
        detail = f"columns twice: {join_names(list(map(repr, twice)))}; give each a name of its own"
        raise UnreadableSource(name, Reason.DUPLICATE_COLUMN, detail)


def join_names(columns: Sequence[str]) -> str:
    """The names of columns for a message: the first ones, each as far as people read it."""
    first = [
        column if len(column) <= _NAME_MAX else f"{column[: _NAME_MAX - 1]}…"
        for column in columns[:_NAMED_MAX]
    ]
    more = len(columns) - len(first)
    return ", ".join([*first, f"and {more} more"] if more else first)
