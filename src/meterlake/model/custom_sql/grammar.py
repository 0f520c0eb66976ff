"""What custom SQL may say: lists of what is allowed, over the tree that DuckDB's parser makes.

Nothing is executed here. What is not listed is refused, so a newer DuckDB opens no door. Left out on
purpose is what makes texts or lists longer (their memory has no limit), what goes round (recursion),
what reads anything but the measurements, and what is not the same at every run.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from meterlake.model.custom_sql.errors import InvalidSql
from meterlake.model.custom_sql.planning import check_parts
from meterlake.model.custom_sql.table import MEASUREMENTS

_NODES: Final = {"SELECT_NODE", "SET_OPERATION_NODE"}
_TABLES: Final = {"BASE_TABLE", "JOIN", "SUBQUERY", "EMPTY"}
_CLASSES: Final = {
    "BETWEEN",
    "CASE",
    "CAST",
    "COLUMN_REF",
    "COMPARISON",
    "CONJUNCTION",
    "CONSTANT",
    "FUNCTION",
    "OPERATOR",
    "STAR",
    "SUBQUERY",
    "WINDOW",
}
_OPERATORS: Final = {
    "COMPARE_IN",
    "COMPARE_NOT_IN",
    "OPERATOR_COALESCE",
    "OPERATOR_IS_NOT_NULL",
    "OPERATOR_IS_NULL",
    "OPERATOR_NOT",
}
_FOLDS: Final = {
    *("sum", "count", "count_star", "count_if", "countif", "min", "max", "avg", "mean"),
    *("arg_max", "arg_min", "max_by", "min_by", "bool_and", "bool_or"),
    *("median", "mode", "quantile_disc", "quantile_cont"),
}
_RANKS: Final = {
    *("row_number", "rank", "dense_rank", "lag", "lead", "first_value", "last_value", "nth_value"),
    "ntile",
}
_NUMBERS: Final = {
    *("+", "-", "*", "/", "//", "%", "mod", "abs", "sign", "round", "trunc"),
    *("floor", "ceil", "ceiling", "greatest", "least", "nullif"),
}
# None of them gives a text that is longer than what it gets.
_TEXTS: Final = {
    *("lower", "upper", "trim", "ltrim", "rtrim", "length", "left", "right"),
    *("substring", "substr", "contains", "starts_with", "ends_with", "prefix", "suffix"),
}
_PATTERNS: Final = {"~~": "LIKE", "!~~": "NOT LIKE"}
_TIMES: Final = {
    *("date_trunc", "date_part", "date_diff", "datediff", "epoch", "epoch_ms", "epoch_us"),
    *("year", "month", "day", "hour", "minute", "second", "dayofweek", "isodow"),
    *("to_years", "to_months", "to_weeks", "to_days"),
    *("to_hours", "to_minutes", "to_seconds", "to_milliseconds", "to_microseconds"),
}
_FUNCTIONS: Final = _FOLDS | _NUMBERS | _TEXTS | _TIMES
_TYPES: Final = {
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "DOUBLE"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
    *("VARCHAR", "DATE", "TIMESTAMP", "INTERVAL", "NULL"),
}
# Words that mean the clock or the session where they are no column.
_WORDS: Final = {
    *("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"),
    *("current_user", "current_role", "current_schema", "current_catalog", "session_user", "user"),
    "rowid",
}
# Tables that are joined, common table expressions counted as often as they are named: each of them
# multiplies what has to be planned.
_TABLES_MAX: Final = 16
# Characters; as many as an aggregation keeps.
_LENGTH_MAX: Final = 2048
_NO_POSITION: Final = 2**63


def check_tree(statements: Sequence[Mapping[str, Any]], columns: Collection[str]) -> None:
    """Check that what was parsed is one SELECT and says nothing that is not allowed.

    Args:
        statements: The statements of the text, as `json_serialize_sql` gives them.
        columns: The columns of `measurements`.

    Raises:
        InvalidSql: It is not.
    """
    if len(statements) != 1:
        raise InvalidSql("only one statement is allowed")
    root = statements[0]["node"]
    own = {name.casefold() for name in columns}
    _Tree(own, own | {name.casefold() for name in _names(root)}).check(root)
    check_parts(root)
    if _tables(root, {MEASUREMENTS: 1}) > _TABLES_MAX:
        raise InvalidSql(f"more than {_TABLES_MAX} tables are read, all in all")


def check_text(sql: str) -> None:
    """Check what is known of a query before it is parsed.

    Raises:
        InvalidSql: It is too long, or no text to DuckDB.
    """
    if len(sql) > _LENGTH_MAX:
        raise InvalidSql(f"it is longer than {_LENGTH_MAX} characters")
    if "\0" in sql:
        raise InvalidSql("it has a NUL", sql.index("\0"))


def _names(root: Any) -> Iterator[str]:
    """All names that a query gives: to columns, tables, and columns of tables."""
    for each in _objects(root):
        yield from filter(None, [each.get("alias")])
        yield from each.get("column_name_alias") or ()
        yield from each.get("aliases") or ()


def _objects(root: Any) -> Iterator[dict[str, Any]]:
    """Every object of a tree, without recursion: trees may be deep."""
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


class _Tree:
    """Checks the tree of a query that may name columns of `measurements`, and its own names."""

    def __init__(self, columns: Collection[str], names: Collection[str]) -> None:
        self.columns = columns
        self.names = names

    def check(self, root: Any) -> None:
        for each in _objects(root):
            if "class" in each:
                self._expression(each)
            elif "cte_map" in each:
                _check_listed(each["type"], _NODES, each)
                if each.get("sample") is not None:
                    raise InvalidSql("a sample is not allowed")
            elif "sample" in each:
                self._table(each)
            elif "id" in each and "type_info" in each:
                _check_listed(each["id"], _TYPES, each)

    def _table(self, table: dict[str, Any]) -> None:
        _check_listed(table["type"], _TABLES, table)
        if table["sample"] is not None:
            raise _refusal("a sample", table)
        if table.get("schema_name") or table.get("catalog_name") or table.get("at_clause"):
            raise _refusal(f"table {table['table_name']!r} of a schema", table)

    def _expression(self, each: dict[str, Any]) -> None:
        kind = each["class"]
        _check_listed(kind, _CLASSES, each)
        if kind == "FUNCTION":
            _function(each, _FUNCTIONS)
        elif kind == "WINDOW":
            _function(each, _FOLDS | _RANKS)
        elif kind == "OPERATOR":
            _check_listed(each["type"], _OPERATORS, each)
        elif kind == "STAR" and (each["columns"] or each["expr"]):
            raise _refusal("COLUMNS(…) or ALL", each)
        elif kind == "COLUMN_REF":
            self._column(each)

    def _column(self, each: dict[str, Any]) -> None:
        *table, last = each["column_names"]
        name = last.casefold()
        if name in _WORDS and name not in self.columns:
            raise _refusal(last, each)
        if name in _WORDS and not table:
            # Quoted or not, DuckDB takes the session's where the column is out of reach.
            reason = f"{last} without its table is not allowed: say {MEASUREMENTS}.{last}"
            raise InvalidSql(reason, _position(each))
        if name not in self.names:
            reason = f"there is no column {last!r}"
            raise InvalidSql(reason, _position(each))


def _function(each: dict[str, Any], allowed: Collection[str]) -> None:
    name = each["function_name"]
    # What DuckDB's parser makes of syntax such as EXTRACT is in the schema main.
    if each["schema"] not in {"", "main"} or each["catalog"]:
        raise _refusal(f"function {name!r} of a schema", each)
    if name in _PATTERNS:
        # Other patterns take a time that grows with a power of the text's length.
        pattern = each["children"][1]
        text = pattern["value"].get("value") if pattern["class"] == "CONSTANT" else None
        if not isinstance(text, str) or "%" in text[1:-1]:
            what = f"{_PATTERNS[each['function_name']]} but with a text that has % only at its ends"
            raise _refusal(what, each)
    elif name.casefold() not in allowed:
        raise _refusal(f"function {name!r}", each)
    if each.get("export_state"):
        raise _refusal("EXPORT_STATE", each)


def _tables(node: Any, known: Mapping[str, int]) -> int:
    """How many tables a query reads, with what its common table expressions read."""
    reach = dict(known)
    for entry in node["cte_map"]["map"] if "cte_map" in node else ():
        query = entry["value"]["query"]["node"]
        reach[entry["key"].casefold()] = max(1, _tables(query, reach))
    return sum(_read_number(value, reach) for key, value in node.items() if key != "cte_map")


def _read_number(value: Any, known: Mapping[str, int]) -> int:
    if isinstance(value, list):
        return sum(_read_number(each, known) for each in value)
    if not isinstance(value, dict):
        return 0
    if value.get("type") == "BASE_TABLE":
        name = value["table_name"]
        if name.casefold() not in known:
            raise InvalidSql(f"there is no table {name!r}", _position(value))
        return known[name.casefold()]
    return (
        _tables(value, known)
        if "cte_map" in value
        else sum(_read_number(each, known) for each in value.values())
    )


def _check_listed(name: str, allowed: Collection[str], each: Mapping[str, Any]) -> None:
    if name not in allowed:
        raise _refusal(name.replace("_", " ").lower(), each)


def _refusal(what: str, each: Mapping[str, Any]) -> InvalidSql:
    return InvalidSql(f"{what} is not allowed", _position(each))


def _position(each: Mapping[str, Any]) -> int | None:
    position = each.get("query_location", _NO_POSITION)
    return position if position < _NO_POSITION else None
