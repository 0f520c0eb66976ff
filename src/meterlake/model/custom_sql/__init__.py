"""Aggregations with SQL of their own: one SELECT over the measurements of one account.

What such a query may say is listed, everything else is refused: it runs beside other organizations'
data, in a DuckDB that has nothing but its measurements (`stores.custom_sql`, which parses it, too).
"""

from meterlake.model.custom_sql.errors import InvalidSql
from meterlake.model.custom_sql.grammar import check_text, check_tree
from meterlake.model.custom_sql.planning import check_cases, unquoted_field
from meterlake.model.custom_sql.table import (
    MEASUREMENTS,
    check_result,
    columns_of,
    stored_columns_of,
)

__all__ = [
    "MEASUREMENTS",
    "InvalidSql",
    "check_cases",
    "check_result",
    "check_text",
    "check_tree",
    "columns_of",
    "stored_columns_of",
    "unquoted_field",
]
