"""What custom SQL gives."""

from collections.abc import Sequence
from typing import Final

from meterlake.model.custom_sql.errors import InvalidSql

_INTEGERS: Final = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
}


def check_result(types: Sequence[str]) -> None:
    """Check that what a query gives is one exact number.

    Args:
        types: DuckDB's types of its columns.

    Raises:
        InvalidSql: It is something else.
    """
    if len(types) != 1:
        raise InvalidSql(f"it gives {len(types)} columns, not one")
    kind = types[0]
    if kind in {"DOUBLE", "FLOAT"}:
        raise InvalidSql(
            "it gives a DOUBLE, which is not exact (`/` and avg do): wrap it in"
            " CAST(… AS DECIMAL(38, 12))"
        )
    if kind not in _INTEGERS and not kind.startswith("DECIMAL"):
        raise InvalidSql(f"it gives {kind}, not a number")
