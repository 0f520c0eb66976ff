"""What of a query DuckDB does not limit: words that its parser does not understand, and the time to plan.

Some constructs are copied or looked at more than once, at each level of nesting again: then a query of
some lines is parsed or planned for hours, which nothing interrupts.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from meterlake.model.custom_sql.errors import InvalidSql

# How often DuckDB 1.5 looks at what is within them.
_TIMES: Final = {"SUBQUERY": 2, "BETWEEN": 3, "nullif": 3}
# Parts of expressions, counted as often as they are looked at; planning them takes up to a second.
_PARTS_MAX: Final = 4000
_NEAR: Final = re.compile(r'at or near "(.*?)"', re.DOTALL)


class _Known(NamedTuple):
    """The parts behind a name: of common table expressions, and of columns named in a SELECT."""

    tables: Mapping[str, int]
    columns: Mapping[str, int]


def check_cases(words: Iterable[str]) -> None:
    """Refuse what the parser itself copies again and again: a CASE of a CASE.

    In `CASE x WHEN …` it puts `x` into every branch.

    Args:
        words: The query's tokens in lower case.

    Raises:
        InvalidSql: There is one.
    """
    opened = False
    for word in words:
        if word == "case" and opened:
            raise InvalidSql("a CASE whose operand has a CASE is not allowed")
        opened = word == "case" or (opened and word != "when")


def check_parts(root: Any) -> None:
    """Refuse a query with too many parts.

    Raises:
        InvalidSql: It has too many, or is nested too deeply.
    """
    try:
        parts = _parts(root, _Known({}, {}))
    except RecursionError:
        raise InvalidSql("it is nested too deeply") from None
    if parts > _PARTS_MAX:
        raise InvalidSql(
            "it is too much to plan: nest fewer subqueries and BETWEEN, and name fewer columns"
            " of a SELECT within the same SELECT"
        )


def _parts(value: Any, known: _Known) -> int:
    if isinstance(value, list):
        return sum(_parts(each, known) for each in value)
    if not isinstance(value, dict):
        return 0
    if "cte_map" in value:
        tables, columns = dict(known.tables), dict(known.columns)
        for entry in value["cte_map"]["map"]:
            tables[entry["key"].casefold()] = _parts(
                entry["value"]["query"]["node"], _Known(tables, known.columns)
            )
        total = _parts(value.get("from_table"), _Known(tables, known.columns))
        inner = _Known(tables, columns)
        for each in value.get("select_list") or ():
            parts = _parts(each, inner)
            total += parts
            # What comes later may name it, and is planned as if it stood there.
            if each.get("alias"):
                columns[each["alias"].casefold()] = parts
        seen = {"cte_map", "from_table", "select_list"}
        return total + sum(_parts(each, inner) for key, each in value.items() if key not in seen)
    if value.get("type") == "BASE_TABLE":
        return 1 + known.tables.get(value["table_name"].casefold(), 0)
    return _expression(value, known)


def _expression(value: Mapping[str, Any], known: _Known) -> int:
    """The parts of an expression, or of what holds some."""
    kind = value.get("class")
    if kind == "COLUMN_REF":
        return known.columns.get(value["column_names"][-1].casefold(), 1)
    within = sum(_parts(each, known) for each in value.values())
    if kind is None:
        return within
    name = value["function_name"].casefold() if kind == "FUNCTION" else kind
    return 1 + within * _TIMES.get(name, 1)


def unquoted_field(
    message: str, words: Sequence[str], columns: Collection[str], keywords: Collection[str]
) -> str | None:
    """The field whose code means something else in SQL, if that may be why there is no tree.

    Args:
        message: What the parser says.
        words: The query's tokens in lower case.
        columns: The columns of `measurements`.
        keywords: Words that are no name unless they are quoted.
    """
    found = _NEAR.search(message)
    near = found[1].lower() if found else ""
    # The parser stops at such a word, or at the one after it.
    stops = [near, *(before for before, word in pairwise(words) if word == near)]
    codes = {code.casefold(): code for code in columns if code.casefold() in keywords}
    return next((codes[word] for word in stops if word in codes), None)
