"""The sources of a lake's ledger with which something went wrong, and the rows that did."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import duckdb

from meterlake.model.values import wire

_BLOCK: Final = 2_000
_COUNTS: Final = "received, accepted, repeats, rejected, coalesce(incomplete, 0), reasons"
# In the order of commits: rows keep their numbers for ever.
_TROUBLED: Final = f"""
    SELECT rowid, identity, attempt, delivery, name, status, reason, detail, {_COUNTS}
    FROM lake.source
    WHERE rowid > ? AND rowid <= ? AND (status = 'failed' OR rejected > 0 OR incomplete > 0)
    ORDER BY rowid LIMIT ?"""
_COLUMNS: Final = "reason, detail, field, row, part, meter, uid, original, measurement"
_ORDER: Final = " ORDER BY row, part, field"


@dataclass(frozen=True, slots=True)
class FailedSource:
    """A source that was refused whole, or some of whose measurements were not as they should be.

    Attributes:
        place: The number of its row in the ledger.
        incomplete: Measurements that were accepted without the value of a derived field.
        reasons: How many rows were rejected, by reason.
        reason: Why the whole source was refused.
    """

    place: int
    identity: str
    attempt: int
    delivery: str
    name: str
    status: str
    reason: str | None
    detail: str | None
    received: int
    accepted: int
    repeats: int
    rejected: int
    incomplete: int
    reasons: dict[str, int]

    @property
    def failures(self) -> int:
        """How many measurements something is wrong with; 1 for a source that was refused whole."""
        return 1 if self.status == "failed" else self.rejected + self.incomplete


@dataclass(frozen=True, slots=True)
class RejectedRowDetail:
    """One row, and what was wrong with it.

    Attributes:
        original: Its text in the source.
        measurement: The row in the wire's shape, as far as it could be read as one.
    """

    reason: str
    detail: str | None
    field: str | None
    row: int
    part: int
    meter: str | None
    uid: str | None
    original: str
    measurement: str | None


def last_position(connection: duckdb.DuckDBPyConnection) -> int:
    """The number of the newest row of the ledger; -1 if it has none."""
    row = connection.execute("SELECT coalesce(max(rowid), -1) FROM lake.source").fetchone()
    assert row is not None
    return int(row[0])


def find_failed_sources(
    connection: duckdb.DuckDBPyConnection, after: int, last: int, most: int
) -> list[FailedSource]:
    """The first sources after a place of the ledger, and not after another one.

    Args:
        connection: A reader of the lake.
        after: The place that is known.
        last: The last place that is looked at.
        most: No more than so many.
    """
    rows = connection.execute(_TROUBLED, [after, last, most]).fetchall()
    return [FailedSource(*(*row[:-1], wire.loads(row[-1]))) for row in rows]


def wrong_rows(
    connection: duckdb.DuckDBPyConnection, source: FailedSource
) -> Iterator[RejectedRowDetail]:
    """The rows of a source with which something was wrong, in their order, in constant memory."""
    # A table without rows takes five times as long as one with some: DuckLake looks for the
    # statistics of each column. The ledger knows which table has rows of the source.
    tables = ["rejected"] * bool(source.rejected) + ["calculation_error"] * bool(source.incomplete)
    if not tables:
        return
    query = " UNION ALL ".join(
        f"SELECT {_COLUMNS} FROM lake.{table} WHERE identity = $1 AND attempt = $2"
        for table in tables
    )
    found = connection.execute(query + _ORDER, [source.identity, source.attempt])
    while rows := found.fetchmany(_BLOCK):
        yield from (RejectedRowDetail(*row) for row in rows)
