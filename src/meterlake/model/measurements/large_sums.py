"""Sums in SQL that cannot be relied on."""

from collections.abc import Sequence
from typing import Final

# DuckDB 1.5.5 wraps around in silence when the sums of two threads do not fit into 128 bits
# together. As long as no value is beyond this, it takes 10^11 of them to get there.
_LARGE_VALUE: Final = "{v} NOT BETWEEN -1000000000000000 AND 1000000000000000"


def any_large(columns: Sequence[str]) -> str:
    """An aggregate in SQL: whether a value is so large that plain sums may be wrong.

    Args:
        columns: What is summed, as SQL.
    """
    return f"coalesce(bool_or({large(columns)}), false)" if columns else "false"


def large(columns: Sequence[str]) -> str:
    """The same of one row: whether one of its values, of which there is at least one, is so large."""
    return " OR ".join(_LARGE_VALUE.replace("{v}", column) for column in columns)
