"""The DuckDB that custom SQL is parsed, bound and run in."""

from meterlake.stores.custom_sql.checker import Checker, checked
from meterlake.stores.custom_sql.locked import LIMITS, Limits
from meterlake.stores.custom_sql.sandbox import Sandbox

__all__ = ["LIMITS", "Checker", "Limits", "Sandbox", "checked"]
