"""Receipts: what became of every source, where a uid was first seen, and what failed or came last."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import duckdb

from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values import wire
from meterlake.model.values.period import naive
from meterlake.model.values.sql import identifier

_COLUMNS: Final = (
    *("name", "status", "received", "accepted", "repeats", "rejected", "incomplete", "rounded"),
    *("reasons", "reason", "detail", "identity", "attempt", "delivery", "received_at"),
    *("finished_at", "format", "mapping", "size_bytes"),
)
_WIRE: Final = {
    "received_at": "receivedAt",
    "finished_at": "finishedAt",
    "size_bytes": "sizeBytes",
}
_OF_SOURCE: Final = "(len(?) >= 4 AND starts_with(identity, ?) OR delivery = ?)"
# What lists are ordered by; receipts with the same value come by identity and attempt.
_SORTED: Final = {
    "finishedAt": "epoch_us(finished_at)",
    "receivedAt": "epoch_us(received_at)",
    "name": "lower(name)",
    **{name: name for name in ("received", "accepted", "rejected")},
}
SORTS: Final = tuple(_SORTED)
# Behind a receipt: rows of the ledger never change.
_BEHIND: Final = """({key}, identity, attempt) {sign} (
        SELECT ({key}, identity, attempt) FROM lake.source WHERE identity = ? AND attempt = ?)"""
_NEWEST: Final = "finished_at DESC, identity DESC, attempt DESC"
# Rejected rows of attempts that came in since, by a requeue.
_MENDED: Final = """
    SELECT q.identity, q.attempt, count(DISTINCT (q.row, q.part)) FROM lake.requeue q
    ANTI JOIN lake.rejected x ON x.identity = q.new_identity AND x.row = q.new_row
    ANTI JOIN lake.retraction w ON w.identity = q.new_identity AND w.row = q.new_row
    WHERE q.identity IN (SELECT unnest(CAST($identities AS VARCHAR[]))) GROUP BY ALL"""
_BLOCK: Final = 2_000
_COUNTS: Final = "received, accepted, repeats, rejected, coalesce(incomplete, 0), reasons"
# In the order of commits: rows keep their numbers for ever.
_TROUBLED: Final = f"""
    SELECT rowid, identity, attempt, delivery, name, status, reason, detail, {_COUNTS}
    FROM lake.source
    WHERE rowid > ? AND rowid <= ? AND (status = 'failed' OR rejected > 0 OR incomplete > 0)
    ORDER BY rowid LIMIT ?"""
_FAILED_COLUMNS: Final = "reason, detail, field, row, part, meter, uid, original, measurement"
_ORDER: Final = " ORDER BY row, part, field"
_RECEIVED_SINCE: Final = "SELECT max(received_at) FROM lake.{table} WHERE received_at > ?"
_EVER_RECEIVED: Final = "SELECT max(received_at) FROM lake.{table}"
_ROWS_SINCE: Final = """
    SELECT coalesce(sum(received), 0)::BIGINT, coalesce(sum(rejected), 0)::BIGINT,
        min(finished_at)
    FROM lake.source WHERE finished_at > ?"""


@dataclass(frozen=True, slots=True)
class ReceiptFilters:
    """Which receipts are meant; None means all.

    Attributes:
        name: The whole name.
        name_part: What the name has somewhere, in capitals or not.
        source: The beginning of the source's identity, or the id of the delivery or the job.
        after: The identity and the attempt of the receipt behind which to go on.
        by: What they are ordered by, a member of `SORTS`.
        ascending: Whether the smallest and oldest come first, instead of the largest and newest.
    """

    name: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    source: str | None = None
    after: tuple[str, int] | None = None
    by: str = "finishedAt"
    ascending: bool = False
    name_part: str | None = None


def received_at(connection: duckdb.DuckDBPyConnection, delivery: str) -> datetime | None:
    """When a delivery was received; None if the ledger does not know it."""
    row = connection.execute(
        "SELECT received_at FROM lake.source WHERE delivery = ?", [delivery]
    ).fetchone()
    return None if row is None else row[0].replace(tzinfo=UTC)


def last_received(
    connection: duckdb.DuckDBPyConnection, meter_id: str, since: datetime
) -> datetime | None:
    """When a meter received its last measurement; None if it never did.

    Args:
        connection: Of the lake.
        meter_id: A meter that has a table.
        since: Of a meter that has received something since, only the newest files are read.
    """
    table = identifier(meter_table(meter_id))
    newest = _newest(connection, _RECEIVED_SINCE.format(table=table), [naive(since)])
    return newest or _newest(connection, _EVER_RECEIVED.format(table=table), [])


def _newest(
    connection: duckdb.DuckDBPyConnection, query: str, values: list[Any]
) -> datetime | None:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    found: datetime | None = row[0]
    return None if found is None else found.replace(tzinfo=UTC)


def rows_since(
    connection: duckdb.DuckDBPyConnection, since: datetime
) -> tuple[int, int, datetime | None]:
    """How many rows came, and were rejected, since an instant, and when the first source was done."""
    row = connection.execute(_ROWS_SINCE, [naive(since)]).fetchone()
    assert row is not None
    received, rejected, first = row
    return int(received), int(rejected), None if first is None else first.replace(tzinfo=UTC)


def ingested_names(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """The names of all files that are ingested."""
    query = "SELECT DISTINCT name FROM lake.source WHERE status = 'done'"
    return {name for (name,) in connection.execute(query).fetchall()}


def list_receipts(
    connection: duckdb.DuckDBPyConnection, filters: ReceiptFilters, limit: int
) -> list[dict[str, Any]]:
    """The first receipts in an order."""
    source, key = filters.source, _SORTED[filters.by]
    sign, direction = (">", "ASC") if filters.ascending else ("<", "DESC")
    identity, attempt = filters.after or (None, None)
    tests: dict[str, tuple[Any, ...]] = {
        "name = ?": (filters.name,),
        "contains(lower(name), lower(?))": (filters.name_part,),
        "status = ?": (filters.status,),
        "received_at >= ?": (filters.since and naive(filters.since),),
        "received_at < ?": (filters.until and naive(filters.until),),
        _OF_SOURCE: (source, source, source),
        _BEHIND.format(key=key, sign=sign): (identity, attempt),
    }
    used = {sql: values for sql, values in tests.items() if values[0] is not None}
    values = [value for each in used.values() for value in each]
    order = ", ".join(f"{each} {direction}" for each in (key, "identity", "attempt"))
    return _receipts(connection, list(used), values, f"{order} LIMIT {limit:d}")


def count_mended(
    connection: duckdb.DuckDBPyConnection, identities: Sequence[str]
) -> dict[tuple[str, int], int]:
    """How many rejected rows of sources came in since, by identity and attempt."""
    rows = connection.execute(_MENDED, {"identities": list(identities)}).fetchall()
    return {(identity, attempt): count for identity, attempt, count in rows}


def is_named(connection: duckdb.DuckDBPyConnection, source: str) -> bool:
    """Whether the ledger knows a source: by its file's name, or the beginning of its identity."""
    row = connection.execute(
        "SELECT 1 FROM lake.source WHERE name = ? OR starts_with(identity, ?) LIMIT 1", [source] * 2
    ).fetchone()
    return row is not None


def of_source(connection: duckdb.DuckDBPyConnection, source: str) -> list[dict[str, Any]]:
    """All receipts of a source, by the beginning of its identity, or of a delivery or job, by id."""
    return _receipts(connection, [_OF_SOURCE], [source] * 3, _NEWEST)


def _receipts(
    connection: duckdb.DuckDBPyConnection, tests: list[str], values: list[Any], more: str
) -> list[dict[str, Any]]:
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    rows = connection.execute(
        f"SELECT {', '.join(map(identifier, _COLUMNS))} FROM lake.source{where} ORDER BY {more}",
        values,
    ).fetchall()
    return [_to_wire(dict(zip(_COLUMNS, row, strict=True))) for row in rows]


def _to_wire(row: dict[str, Any]) -> dict[str, Any]:
    row["reasons"] = wire.loads(row["reasons"])
    row["incomplete"] = row["incomplete"] or 0
    return {_WIRE.get(name, name): _aware(value) for name, value in row.items()}


_SEEN: Final = """
    SELECT u.uid, u.meter_id, u.source, u.row, u.part FROM lake.uid_index u
    SEMI JOIN asked USING (uid_hash) WHERE u.uid IN (SELECT uid FROM asked)"""
_CONTRADICTED: Final = """
    SELECT r.uid, r.name, r.identity, r.row, r.part, r.attempt, r.reason, s.received_at
    FROM lake.rejected r JOIN lake.source s USING (identity, attempt)
    WHERE r.uid IN (SELECT uid FROM asked) ORDER BY s.received_at, r.identity, r.row, r.part"""


def seen(
    connection: duckdb.DuckDBPyConnection, hashes: Sequence[tuple[str, int]]
) -> dict[str, tuple[str, str, int, int]]:
    """Where uids stand: meter, source, row and part by uid.

    Args:
        connection: Of the lake.
        hashes: The uids with their hashes.
    """
    _register(connection, hashes)
    rows = connection.execute(_SEEN).fetchall()
    connection.unregister("asked")
    return {uid: tuple(place) for uid, *place in rows}


def rejected_with_uids(
    connection: duckdb.DuckDBPyConnection, hashes: Sequence[tuple[str, int]]
) -> dict[str, list[dict[str, Any]]]:
    """Rejected rows that carried the uids, by uid, the oldest first."""
    _register(connection, hashes)
    rows = connection.execute(_CONTRADICTED).fetchall()
    connection.unregister("asked")
    names = ("name", "identity", "row", "part", "attempt", "reason", "receivedAt")
    found: dict[str, list[dict[str, Any]]] = {}
    for uid, *values in rows:
        row = {name: _aware(value) for name, value in zip(names, values, strict=True)}
        found.setdefault(uid, []).append(row)
    return found


def measurement(
    connection: duckdb.DuckDBPyConnection, meter_id: str, source: str, row: int, part: int
) -> dict[str, Any] | None:
    """Account and instants of one measurement; the bounds of `source` leave few files to look at."""
    found = connection.execute(
        f"SELECT account_id, ts, ets FROM lake.{identifier(meter_table(meter_id))}"
        " WHERE source = ? AND row = ? AND part = ?",
        [source, row, part],
    ).fetchone()
    if found is None:
        return None
    names = ("accountId", "ts", "ets")
    return {name: _aware(value) for name, value in zip(names, found, strict=True)}


def origin(
    connection: duckdb.DuckDBPyConnection, identity: str, row: int
) -> tuple[str, int, int] | None:
    """Where a row of a requeued source came in first."""
    found = connection.execute(
        "SELECT identity, row, part FROM lake.requeue WHERE new_identity = ? AND new_row = ?",
        [identity, row],
    ).fetchone()
    return None if found is None else (found[0], found[1], found[2])


def _register(connection: duckdb.DuckDBPyConnection, hashes: Sequence[tuple[str, int]]) -> None:
    import polars as pl  # noqa: PLC0415 - what looks at rejected rows needs none

    schema = {"uid": pl.String, "uid_hash": pl.UInt64}
    frame = pl.DataFrame(hashes, schema=schema, orient="row")
    connection.register("asked", frame.to_arrow(compat_level=pl.CompatLevel.oldest()))


def _aware(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


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
        f"SELECT {_FAILED_COLUMNS} FROM lake.{table} WHERE identity = $1 AND attempt = $2"
        for table in tables
    )
    found = connection.execute(query + _ORDER, [source.identity, source.attempt])
    while rows := found.fetchmany(_BLOCK):
        yield from (RejectedRowDetail(*row) for row in rows)
