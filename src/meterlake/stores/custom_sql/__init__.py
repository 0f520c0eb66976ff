"""The processes that custom SQL is parsed, bound and run in, each with a locked DuckDB."""

from meterlake.stores.custom_sql.checker import Checker, check_query
from meterlake.stores.custom_sql.process import LIMITS, SqlLimits, limits_of
from meterlake.stores.custom_sql.sandbox import Sandbox

__all__ = ["LIMITS", "Checker", "Sandbox", "SqlLimits", "check_query", "limits_of"]
