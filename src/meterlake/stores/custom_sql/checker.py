"""Checks custom SQL as far as it can be without running it."""

import atexit
import json
import os
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Self
from unicodedata import category

from meterlake.model.custom_sql import (
    InvalidSql,
    check_cases,
    check_result,
    check_text,
    check_tree,
    unquoted_field,
)
from meterlake.stores.custom_sql.process import LIMITS, Ended, Process, SqlLimits

# Of characters: separators, and those that cannot be seen.
_SPACES: Final = {"Zs", "Zl", "Zp", "Cf"}
# To parse a query, and to bind it. Nobody else writes to State meanwhile.
_PLAN_S: Final = 5
# By the id of our own process, as a fork has none: one that waits for the next query. It takes a
# tenth of a second to start, and a configuration may have hundreds of queries.
_WAITING: Final[dict[int, Process]] = {}


def check_query(sql: str, columns: Collection[str]) -> None:
    """Check that a query is one SELECT and says nothing that is not allowed.

    Each query is looked at once per process and set of columns.

    Args:
        sql: The query.
        columns: The columns of `measurements`.

    Raises:
        InvalidSql: It is not.
        Unavailable: There can be no process to parse it.
    """
    refusal = _refusal(sql, frozenset(columns))
    if refusal is not None:
        raise InvalidSql(*refusal)


@lru_cache(maxsize=1024)
def _refusal(sql: str, columns: frozenset[str]) -> tuple[str, int | None] | None:
    try:
        with Checker() as checker:
            checker.check(sql, columns)
    except Ended:
        raise  # Another time it may not.
    except InvalidSql as error:
        return error.reason, error.position
    return None


class Checker:
    """Checks queries, none of which is run; a context manager, for one thread.

    It works in a process of its own: DuckDB may think for hours about a query that nobody foresaw.
    """

    def __init__(self, limits: SqlLimits = LIMITS) -> None:
        self._memory = limits.memory
        self._process: Process | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if not process.waits or _WAITING.setdefault(os.getpid(), process) is not process:
            process.close()

    def check(self, sql: str, columns: Collection[str]) -> None:
        """See `checked`."""
        check_tree(self._parse(sql, columns), columns)

    def bind(self, sql: str, columns: Mapping[str, str]) -> None:
        """Check that a query fits its columns, and that what it gives is one exact number.

        Args:
            sql: A query that `check` allows.
            columns: The columns of `measurements` and their types.

        Raises:
            InvalidSql: It does not, or gives something else.
            Unavailable: There can be no process to bind it.
        """
        check_result(self._ask("bind", sql=sql, columns=columns)["types"])

    def _parse(self, sql: str, columns: Collection[str]) -> list[dict[str, Any]]:
        check_text(sql)
        words = list(self._words(sql))
        check_cases(words)
        try:
            tree = json.loads(self._ask("parse", sql=sql)["tree"])
        except RecursionError:
            raise InvalidSql("it is nested too deeply") from None
        if not tree["error"]:
            return list(tree["statements"])
        if tree["error_type"] == "not implemented":
            raise InvalidSql("only a SELECT is allowed")
        message, position = str(tree["error_message"]), tree.get("position")
        field = unquoted_field(message, words, columns, self._ask("keywords")["keywords"])
        if field is not None:
            message += f': the field {field} has to be written "{field}", in quotes'
        raise InvalidSql(message, int(position) if position else None)

    def _words(self, sql: str) -> Iterator[str]:
        # To the parser they are spaces, to the tokenizer letters.
        plain = "".join(" " if category(each) in _SPACES else each for each in sql)
        try:
            text = plain.encode()
        except UnicodeEncodeError:
            raise InvalidSql("it has characters that are no Unicode") from None
        places = self._ask("tokens", sql=plain)["places"]
        for start, end in pairwise([*places, len(text)]):
            # Without what stands between a token and the next one.
            token = text[start:end].split(b"--")[0].split(b"/*")[0]
            yield token.strip().lower().decode(errors="replace")

    def _ask(self, do: str, **request: object) -> dict[str, Any]:
        if self._process is None:
            self._process = _take_process(self._memory)
        try:
            return self._process.ask(do, _PLAN_S, **request)
        except Ended:
            self._process.close()
            self._process = None
            raise


def _take_process(memory: str) -> Process:
    process = _WAITING.pop(os.getpid(), None)
    if process is not None and process.memory == memory:
        try:
            process.ask("ping", _PLAN_S)
        except Ended:
            process = None  # It waited too long.
        else:
            return process
    if process is not None:
        process.close()
    return Process("check", memory)


@atexit.register
def _end_waiting() -> None:
    process = _WAITING.pop(os.getpid(), None)
    if process is not None:
        process.close()
