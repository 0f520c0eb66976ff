"""Rejected rows that somebody gave up, and took up again: each decision is one row, and none goes."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

import duckdb

from meterlake.model.values.period import naive
from meterlake.stores.files.temporary import temporary_table
from meterlake.stores.lake.rejected import ITEMS, PLACE, RejectedFilter, RowRef, Status

Action = Literal["dismiss", "reopen"]

# What a row is before somebody decides.
_BEFORE: Final[dict[Action, Status]] = {"dismiss": "open", "reopen": "dismissed"}
_DECIDE: Final = f"""{ITEMS}
INSERT INTO lake.dismissal BY NAME
SELECT item.identity, item.row, item.part, item.tries::INTEGER AS tries,
    (coalesce(d.number, 0) + 1)::INTEGER AS number, ? AS action, ? AS reason, ? AS author,
    ?::TIMESTAMP AS done_at
FROM item JOIN lake.source s ON s.identity = item.identity AND s.attempt = item.attempt
LEFT JOIN (
    SELECT identity, row, part, max(number) AS number FROM lake.dismissal GROUP BY ALL
) d ON d.identity = item.identity AND d.row = item.row AND d.part = item.part
WHERE {{which}}"""
_NAMED: Final = "(item.identity, item.row, item.part) IN (SELECT (identity, row, part) FROM wanted)"
_HISTORY: Final = """
    SELECT done_at, action, author, reason FROM lake.dismissal
    WHERE identity = ? AND row = ? AND part = ? ORDER BY number"""


class Decision(NamedTuple):
    """What somebody decides of rejected rows; the instant is aware."""

    action: Action
    because: str | None
    author: str
    at: datetime

    def values(self) -> list[Any]:
        """As the table has them."""
        return [self.action, self.because, self.author, naive(self.at)]


def decide_meant(
    connection: duckdb.DuckDBPyConnection, decision: Decision, filters: RejectedFilter
) -> int:
    """Write a decision down for all rows that are meant, within a transaction; how many they are.

    Args:
        connection: Of the transaction.
        decision: The decision.
        filters: Which rows; the decision says in which state.
    """
    tests, values = filters.conditions()
    return _decide(connection, decision, tests, values)


def decide_named(
    connection: duckdb.DuckDBPyConnection, decision: Decision, places: Sequence[RowRef]
) -> int:
    """Write a decision down for some rows, within a transaction; how many were not there before."""
    with temporary_table(connection, "wanted", PLACE, places):
        return _decide(connection, decision, [_NAMED], [])


def _decide(
    connection: duckdb.DuckDBPyConnection, decision: Decision, tests: list[str], values: list[Any]
) -> int:
    which = " AND ".join([*tests, "item.status = ?"])
    bound = [*decision.values(), *values, _BEFORE[decision.action]]
    [[count]] = connection.execute(_DECIDE.format(which=which), bound).fetchall()
    return int(count)


def decisions(connection: duckdb.DuckDBPyConnection, place: RowRef) -> list[dict[str, Any]]:
    """Who gave a row up and took it up again, when and why, the oldest first."""
    rows = connection.execute(_HISTORY, list(place)).fetchall()
    return [
        {"at": at.replace(tzinfo=UTC), "action": action, "author": author, "because": reason}
        for at, action, author, reason in rows
    ]
