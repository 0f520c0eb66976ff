"""The books of a lake: what its ledger says of each source against what its tables hold."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import polars as pl

from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.sql import identifier
from meterlake.stores.lake.tables import has_snapshot, newest_snapshot, table_names

_LISTED_MAX: Final = 100
# Every question gives: name, identity, attempt, what is compared, what the ledger says, what is.
_SUMS: Final = """
    SELECT name, identity, attempt, 'received = accepted + repeats + rejected',
        received, accepted + repeats + rejected
    FROM lake.source
    WHERE received IS DISTINCT FROM accepted + repeats + rejected
        OR least(received, accepted, repeats, rejected) < 0"""
_ENTRIES: Final = """
    SELECT any_value(name), identity, attempt, 'entries of one attempt', 1, count(*)
    FROM lake.source GROUP BY identity, attempt HAVING count(*) > 1"""
_ROWS: Final = """
    SELECT coalesce(s.name, f.name), coalesce(s.identity, f.identity),
        coalesce(s.attempt, f.attempt), '{what}', coalesce(s.told, 0), coalesce(f.found, 0)
    FROM (SELECT name, identity, attempt, {told} AS told FROM {ledger}) s
    FULL JOIN (
        SELECT any_value(name) AS name, identity, attempt, {found} AS found
        FROM lake.{table} GROUP BY identity, attempt
    ) f USING (identity, attempt)
    WHERE coalesce(s.told, 0) <> coalesce(f.found, 0)"""
_ACCEPTED: Final = """
    SELECT s.name, coalesce(s.identity, f.identity), s.attempt, '{what}',
        coalesce(s.told, 0), coalesce(f.found, 0)
    FROM (
        SELECT any_value(name) AS name, identity, max(attempt) AS attempt,
            (sum(accepted) - coalesce(any_value(w.rows), 0))::BIGINT AS told
        FROM lake.source LEFT JOIN (
            SELECT identity, count(*) AS rows FROM lake.retraction GROUP BY identity
        ) w USING (identity) GROUP BY identity
    ) s FULL JOIN (
        SELECT source AS identity, count(*) AS found FROM ({rows}) GROUP BY source
    ) f USING (identity)
    WHERE coalesce(s.told, 0) <> coalesce(f.found, 0)"""
# What the ledger says of incomplete measurements, as backfills corrected it since.
_CORRECTED: Final = """(
    SELECT s.name, s.identity, s.attempt, coalesce(s.incomplete, 0) + coalesce(c.by, 0) AS incomplete
    FROM lake.source s LEFT JOIN (
        SELECT identity, attempt, sum(incomplete)::BIGINT AS by
        FROM lake.correction GROUP BY identity, attempt
    ) c USING (identity, attempt)
)"""
# Whole lakes are counted; of what measurements say, some of some sources are looked at each time.
_SOURCES_SAMPLED: Final = 20
_ROWS_SAMPLED: Final = 1000
_SOME_SOURCES: Final = f"""
    SELECT identity FROM (SELECT DISTINCT identity FROM lake.source WHERE accepted > 0)
    USING SAMPLE reservoir({_SOURCES_SAMPLED} ROWS)"""
_SOME_UIDS: Final = f"""
    SELECT uid, uid_hash, content_hash, meter_id, source AS identity
    FROM (FROM lake.uid_index WHERE source IN (SELECT unnest(?::VARCHAR[])))
    USING SAMPLE reservoir({_ROWS_SAMPLED} ROWS)"""
_TOTALS: Final = """
    SELECT count(*), coalesce(sum(received), 0)::BIGINT, coalesce(sum(accepted), 0)::BIGINT,
        coalesce(sum(repeats), 0)::BIGINT, coalesce(sum(rejected), 0)::BIGINT,
        coalesce(sum(incomplete), 0)::BIGINT, (SELECT count(*) FROM lake.retraction)
    FROM lake.source"""
_COUNT_AT: Final = "SELECT count(*) FROM lake.{} AT (VERSION => {:d})"


@dataclass(frozen=True, slots=True)
class ReconciliationDifference:
    """Two numbers that should be one.

    Attributes:
        name: The source's name; None if the ledger does not know the source.
        attempt: None where all attempts are counted together, or none is known.
        what: What was compared.
        ledger: What the ledger says.
        found: What is there.
    """

    name: str | None
    identity: str
    attempt: int | None
    what: str
    ledger: int
    found: int

    def __str__(self) -> str:
        where = self.name or f"unknown source {self.identity}"
        return f"{where}: {self.what}: {self.ledger:,} in the ledger, {self.found:,} found"


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What was compared, and what does not fit; `differences` holds the first hundred of each kind."""

    totals: dict[str, int]
    measurements: int
    differences: tuple[ReconciliationDifference, ...] = ()

    @property
    def balanced(self) -> bool:
        """Whether everything fits."""
        return not self.differences


def compare(connection: duckdb.DuckDBPyConnection) -> Reconciliation:
    """Compare all numbers of a lake's ledger with what is in the lake, as of one moment."""
    connection.execute("BEGIN")
    try:
        tables = sorted(name for name in table_names(connection) if name.startswith("m_"))
        # A lake without measurements has no table to ask.
        none = "SELECT NULL::VARCHAR AS source WHERE false"
        each = (f"SELECT source FROM lake.{identifier(table)}" for table in tables)
        rows = " UNION ALL ".join([none, *each])
        found = [
            ReconciliationDifference(*row)
            for question in _questions(rows)
            for row in connection.execute(f"{question} LIMIT {_LISTED_MAX}").fetchall()
        ]
        names = (
            "sources",
            "received",
            "accepted",
            "repeats",
            "rejected",
            "incomplete",
            "retracted",
        )
        totals = dict(zip(names, _first(connection, _TOTALS), strict=True))
        return Reconciliation(
            totals,
            int(_first(connection, f"SELECT count(*) FROM ({rows})")[0]),
            tuple(found),
        )
    finally:
        connection.execute("ROLLBACK")


@dataclass(frozen=True, slots=True)
class ControlTotals:
    """What tells that a lake and its copy are the same.

    Attributes:
        newest: What the ledger says now, and how many measurements there are.
        rows: The rows of every table, by snapshot.
    """

    snapshot: int
    newest: dict[str, int]
    rows: dict[int, dict[str, int]]


def control_totals(
    connection: duckdb.DuckDBPyConnection, catalog: str, snapshots: Collection[int]
) -> ControlTotals:
    """Count what a lake has now, and at older snapshots.

    Args:
        connection: Has the lake attached as `lake`, outside of a transaction.
        catalog: The schema of DuckLake's own tables.
        snapshots: The older snapshots; what has expired is left out.
    """
    found = compare(connection)
    newest = newest_snapshot(connection)
    rows = {
        each: _count_at(connection, catalog, each)
        for each in sorted({newest, *snapshots})
        if has_snapshot(connection, each)
    }
    totals = found.totals | {
        "measurements": found.measurements,
        "differences": len(found.differences),
    }
    return ControlTotals(newest, totals, rows)


def _count_at(connection: duckdb.DuckDBPyConnection, catalog: str, snapshot: int) -> dict[str, int]:
    names = connection.execute(
        f"SELECT table_name FROM {catalog}.ducklake_table WHERE begin_snapshot <= {snapshot:d}"
        f" AND (end_snapshot IS NULL OR end_snapshot > {snapshot:d}) ORDER BY table_name"
    ).fetchall()
    return {
        name: int(_first(connection, _COUNT_AT.format(identifier(name), snapshot))[0])
        for [name] in names
    }


def sample_uids(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, pl.DataFrame]]:
    """Take some known uids of some sources, other ones each time, as of one moment.

    Yields:
        The id of a meter, and a row for each of its uids: `uid_hash` and `content_hash` as
        `uid_index` has them, `identity` and `name` of the source, and the columns of the meter's
        table; NULL where it does not have the uid.
    """
    connection.execute("BEGIN")
    try:
        sources = [row[0] for row in connection.execute(_SOME_SOURCES).fetchall()]
        names = connection.execute(
            "SELECT identity, any_value(name) AS name FROM lake.source"
            " WHERE identity IN (SELECT unnest(?::VARCHAR[])) GROUP BY identity",
            [sources],
        ).pl()
        known = connection.execute(_SOME_UIDS, [sources]).pl().join(names, "identity", "left")
        tables = table_names(connection)
        for (meter_id,), rows in known.group_by("meter_id"):
            table = meter_table(str(meter_id))
            if table not in tables:
                continue  # None of its measurements is there: their numbers say so.
            stored = connection.execute(
                f"SELECT * FROM lake.{identifier(table)}"
                " WHERE uid IN (SELECT unnest(?::VARCHAR[]))"
                " AND source IN (SELECT unnest(?::VARCHAR[]))",
                [rows["uid"].to_list(), sources],
            ).pl()
            yield str(meter_id), rows.join(stored, "uid", "left")
    finally:
        connection.execute("ROLLBACK")


def _questions(rows: str) -> list[str]:
    wrong = "count(DISTINCT (row, part))"
    return [
        _SUMS,
        _ENTRIES,
        _ROWS.format(
            what="rejected rows",
            told="rejected",
            ledger="lake.source",
            found="count(*)",
            table="rejected",
        ),
        _ROWS.format(
            what="measurements without a derived value",
            told="incomplete",
            ledger=_CORRECTED,
            found=wrong,
            table="calculation_error",
        ),
        _ACCEPTED.format(what="known uids", rows="SELECT source FROM lake.uid_index"),
        _ACCEPTED.format(what="measurements in the tables of meters", rows=rows),
    ]


def _first(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row
