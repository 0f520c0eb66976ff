"""The table that custom SQL reads, and what it gives."""

from collections.abc import Sequence
from typing import Final

from meterlake.model.catalog.catalog import Meter
from meterlake.model.custom_sql.errors import InvalidSql
from meterlake.model.measurements.measurement import NUMBER_TYPE, TEXT_TYPE, Field

MEASUREMENTS: Final = "measurements"
# Beside the fields; the same in the lake.
FIXED: Final = {
    "ts": "TIMESTAMP",
    "uid": "VARCHAR",
    "ets": "TIMESTAMP",
    "received_at": "TIMESTAMP",
}
_INTEGERS: Final = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
}


def columns_of(meter: Meter) -> dict[str, str]:
    """The columns of `measurements` by name, with their types: fixed ones and the field codes.

    A field whose code is that of a fixed column, whatever its case, is left out.
    """
    fields = {
        field.code: NUMBER_TYPE if field.category.numeric else TEXT_TYPE
        for field in meter.all_fields
        if field.code.casefold() not in FIXED
    }
    return FIXED | fields


def stored_columns_of(meter: Meter) -> dict[str, str]:
    """Where each column of `measurements` stands in the meter's table of the lake."""
    stored = {field.code: Field(field.category, field.code).column for field in meter.all_fields}
    return {
        name: stored.get(name, name) if name not in FIXED else name for name in columns_of(meter)
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
