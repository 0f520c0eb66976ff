"""Checks custom SQL as far as it can be without running it."""

import json
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Self
from unicodedata import category

import duckdb

from meterlake.model.custom_sql import (
    MEASUREMENTS,
    InvalidSql,
    check_cases,
    check_result,
    check_text,
    check_tree,
)
from meterlake.stores.custom_sql.locked import locked_connection, told

# Of characters: separators, and those that cannot be seen.
_SPACES: Final = {"Zs", "Zl", "Zp", "Cf"}
_DESCRIBE: Final = "DESCRIBE "


def checked(sql: str, columns: Collection[str]) -> None:
    """Check that a query is one SELECT and says nothing that is not allowed.

    Each query is looked at once per process and set of columns.

    Args:
        sql: The query.
        columns: The columns of `measurements`.

    Raises:
        InvalidSql: It is not.
    """
    refusal = _refusal(sql, frozenset(columns))
    if refusal is not None:
        raise InvalidSql(*refusal)


@lru_cache(maxsize=1024)
def _refusal(sql: str, columns: frozenset[str]) -> tuple[str, int | None] | None:
    try:
        with Checker() as checker:
            checker.check(sql, columns)
    except InvalidSql as error:
        return error.reason, error.position
    return None


class Checker:
    """Checks queries, none of which is run; a context manager, for one thread."""

    def __init__(self) -> None:
        self._opened = locked_connection()

    def __enter__(self) -> Self:
        self._connection = self._opened.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def check(self, sql: str, columns: Collection[str]) -> None:
        """See `checked`."""
        check_tree(self._parsed(sql), columns)

    def bind(self, sql: str, columns: Mapping[str, str]) -> None:
        """Check that a query fits its columns, and that what it gives is one exact number.

        Args:
            sql: A query that `check` allows.
            columns: The columns of `measurements` and their types.

        Raises:
            InvalidSql: It does not, or gives something else.
        """
        listed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
        self._connection.execute(f"CREATE OR REPLACE TABLE {MEASUREMENTS} ({listed})")
        try:
            rows = self._connection.execute(_DESCRIBE + sql).fetchall()
        except duckdb.Error as error:
            raise _moved(told(error)) from None
        check_result([str(row[1]) for row in rows])

    def _parsed(self, sql: str) -> list[dict[str, Any]]:
        check_text(sql)
        check_cases(_words(sql))
        row = self._connection.execute("SELECT json_serialize_sql($sql)", {"sql": sql}).fetchone()
        assert row is not None
        try:
            tree = json.loads(row[0])
        except RecursionError:
            raise InvalidSql("it is nested too deeply") from None
        if not tree["error"]:
            return list(tree["statements"])
        if tree["error_type"] == "not implemented":
            raise InvalidSql("only a SELECT is allowed")
        position = tree.get("position")
        raise InvalidSql(str(tree["error_message"]), int(position) if position else None)


def _moved(error: InvalidSql) -> InvalidSql:
    """An error's place in the query, without what stands before it."""
    if error.position is None:
        return error
    return InvalidSql(error.reason, max(error.position - len(_DESCRIBE), 0))


def _words(sql: str) -> Iterator[str]:
    # To the parser they are spaces, to the tokenizer letters.
    plain = "".join(" " if category(each) in _SPACES else each for each in sql)
    try:
        text = plain.encode()
    except UnicodeEncodeError:
        raise InvalidSql("it has characters that are no Unicode") from None
    places = [place for place, _ in duckdb.tokenize(plain)]
    for start, end in pairwise([*places, len(text)]):
        # Without what stands between a token and the next one.
        token = text[start:end].split(b"--")[0].split(b"/*")[0]
        yield token.strip().lower().decode(errors="replace")
