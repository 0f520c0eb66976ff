"""What came into a lake, and went, between two snapshots: every measurement with what brought it.

The measurements that differ are written to small Parquet files, so that the lake can be read as it
was with some of its later changes, and without the others. Each of them has one label: the backfill
or the source that changed it. Unchanged measurements stay where they are.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from meterlake.model.measurements.measurement import (
    FIXED_COLUMNS,
    NUMBER_TYPE,
    TEXT_TYPE,
    field_of,
    meter_table,
)
from meterlake.model.values.sql import identifier, quote
from meterlake.model.work.backfill import RETRACTION, STEP, Action
from meterlake.stores.lake.backfill.rows import keys as key_file
from meterlake.stores.lake.connection import translate_errors
from meterlake.stores.lake.quantity_runs import as_it_was, snapshot_is_kept
from meterlake.stores.lake.tables import columns_at, newest_snapshot, table_names

# What labels begin with; behind it stands the identity of a source, or the id of a backfill.
SOURCE: Final = "source:"
BACKFILL: Final = "backfill:"
_LABEL: Final = "?label"
_SIDE: Final = "?side"
_KEY: Final = ("source", "row", "part")
# The snapshot that a step of a backfill made; under the lake's lock there is none in between.
_STEPS: Final = (
    f"SELECT snapshot + 1 AS made, any_value(backfill) AS backfill FROM lake.{STEP} GROUP BY ALL"
)
_RETRACTED: Final = f"""
    SELECT identity, row, part, arg_max(backfill, retracted_at) AS backfill
    FROM lake.{RETRACTION}{{version}} GROUP BY ALL"""
# What only the former snapshot has was withdrawn, or an applied backfill had brought it and was
# reverted. What both have, but not alike, is what the later one says of it.
_CHANGED: Final = """
    WITH a AS (SELECT {former}, snapshot_id AS made FROM {source_a} WHERE {only_a}),
        b AS (SELECT {later}, snapshot_id AS made FROM {source_b} WHERE {only_b}),
        pair AS (
            SELECT {names_a}, {names_b}, a.made AS made_a, b.made AS made_b,
                a.source IS NOT NULL AS in_a, b.source IS NOT NULL AS in_b
            FROM a FULL JOIN b ON a.source = b.source AND a.row = b.row AND a.part = b.part
            WHERE a.source IS NULL OR b.source IS NULL OR {differ}
        ),
        labelled AS (
            SELECT p.*, CASE
                WHEN in_b AND sb.backfill IS NOT NULL THEN '{backfill}' || sb.backfill
                WHEN in_b THEN '{origin}' || p.b_source
                WHEN r.backfill IS NOT NULL THEN '{backfill}' || r.backfill
                WHEN sa.backfill IS NOT NULL THEN '{backfill}' || sa.backfill
                ELSE '{origin}' || p.a_source END AS label
            FROM pair p LEFT JOIN ({steps}) sb ON sb.made = p.made_b
            LEFT JOIN ({steps}) sa ON sa.made = p.made_a
            LEFT JOIN ({retracted}) r
                ON r.identity = p.a_source AND r.row = p.a_row AND r.part = p.a_part
        )
    SELECT label AS "{label_column}", false AS "{side}", {own_a} FROM labelled WHERE in_a
    UNION ALL SELECT label, true, {own_b} FROM labelled WHERE in_b"""
_COUNTS: Final = """
    SELECT "{label}", count(*) FILTER ("{side}") AS came, count(*) FILTER (NOT "{side}") AS went
    FROM {file} GROUP BY ALL"""
_CAME: Final = """
    SELECT count(*) FROM (
        SELECT account_id, snapshot_id FROM lake.{table} AT (VERSION => {last:d}))
    WHERE snapshot_id > {first:d} AND {only}"""
_ACCOUNTS: Final = "account_id IN (SELECT unnest(CAST($accounts AS VARCHAR[])))"
_DONE: Final = f"""
    SELECT backfill, arg_max(action, step), arg_max(mode, step), arg_max(author, step),
        arg_max(reason, step), max(done_at)
    FROM lake.{STEP} WHERE snapshot >= $first AND snapshot < $last GROUP BY backfill"""
_NAMES: Final = """
    SELECT identity, arg_min(name, attempt), arg_max(received_at, attempt) FROM lake.source
    WHERE identity IN (SELECT unnest(CAST($identities AS VARCHAR[]))) GROUP BY identity"""


class SnapshotPair(NamedTuple):
    """A former snapshot and a later one."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MeterChanges:
    """What differs of a meter.

    Attributes:
        columns: Those that its table has at either snapshot.
        base: The SQL of its measurements at the former one.
        path: The file with what differs; None if nothing does.
    """

    meter_id: str
    columns: frozenset[str]
    base: str
    path: Path | None

    def with_labels(self, labels: Collection[str]) -> str:
        """The SQL of the former measurements with the changes of some labels."""
        names = _join_columns(self.columns)
        if self.path is None or not labels:
            return f"(SELECT {names} FROM (SELECT * FROM {self._wide_base()}))"
        file, chosen = key_file(self.path), ", ".join(map(quote, sorted(labels)))
        these = f'"{_LABEL}" IN ({chosen})'
        key = ", ".join(_KEY)
        return (
            f"(SELECT {names} FROM {self._wide_base()} ANTI JOIN"
            f' (SELECT {key} FROM {file} WHERE NOT "{_SIDE}" AND {these}) AS gone USING ({key})'
            f' UNION ALL SELECT {names} FROM {file} WHERE "{_SIDE}" AND {these})'
        )

    def _wide_base(self) -> str:
        """The former measurements with all columns, also those that the table did not have then."""
        if self.path is None:
            return f"(SELECT * FROM {self.base}) AS base"
        none = f"SELECT {_join_columns(self.columns)} FROM {key_file(self.path)} WHERE false"
        return f"({none} UNION ALL BY NAME SELECT * FROM {self.base}) AS base"


class ChangedSource(NamedTuple):
    """A source whose measurements came or went; `received_at` is aware UTC."""

    identity: str
    name: str
    received_at: datetime | None


class DoneBackfill(NamedTuple):
    """A backfill that was applied or reverted between two snapshots; `at` is aware UTC."""

    id: str
    action: Action
    mode: str
    author: str
    reason: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class MeasurementChanges:
    """What differs between two snapshots, of some accounts.

    Attributes:
        meters: By their ids, those that have to be read from here.
        counts: By label, how many measurements came and went.
        sources: By label.
        backfills: By label.
    """

    meters: Mapping[str, MeterChanges]
    counts: Mapping[str, tuple[int, int]]
    sources: Mapping[str, ChangedSource]
    backfills: Mapping[str, DoneBackfill]


def find_measurement_changes(
    connection: duckdb.DuckDBPyConnection,
    snapshots: SnapshotPair,
    account_ids: Sequence[str],
    folder: Path,
) -> MeasurementChanges:
    """Find what differs between two snapshots, and write it down.

    Of a snapshot that is not kept, the measurements are read that came until then and are there
    still.

    Args:
        connection: Reads the lake.
        snapshots: The two.
        account_ids: Whose measurements.
        folder: Where the files are written; who calls removes them.
    """
    kept = {each: snapshot_is_kept(connection, each) for each in snapshots}
    with translate_errors():
        is_backfilled = bool(_backfills(connection, snapshots))
        meters: dict[str, MeterChanges] = {}
        counts: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for meter_id in _meter_ids(connection):
            table = meter_table(meter_id)
            found = _Meter(connection, table, snapshots, kept, account_ids)
            path = folder / f"{meter_id}.parquet"
            if is_backfilled or found.has_newer():
                for label, came, went in found.write(path, whole=is_backfilled):
                    before = counts[label]
                    counts[label] = before[0] + came, before[1] + went
            if path.exists() or not kept[snapshots.first]:
                base = found.source(snapshots.first)
                written = path if path.exists() else None
                meters[meter_id] = MeterChanges(meter_id, found.columns, base, written)
        return MeasurementChanges(
            meters,
            dict(counts),
            _sources(connection, [each for each in counts if each.startswith(SOURCE)]),
            _backfills(connection, snapshots),
        )


class _Meter:
    """The table of a meter at two snapshots."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        snapshots: SnapshotPair,
        kept: Mapping[int, bool],
        account_ids: Sequence[str],
    ) -> None:
        self._connection = connection
        self._table = table
        self._snapshots = snapshots
        self._kept = kept
        self._parameters = {"accounts": list(account_ids)}
        newest = newest_snapshot(connection)
        self._own = {
            each: frozenset(columns_at(connection, table, each if is_kept else newest))
            for each, is_kept in kept.items()
        }
        self.columns = frozenset().union(*self._own.values())

    def source(self, snapshot: int) -> str:
        """Its measurements at a snapshot, as SQL."""
        if not self._own[snapshot]:
            columns = ", ".join(_empty_column(name) for name in FIXED_COLUMNS)
            return f"(SELECT {columns} WHERE false)"
        if self._kept[snapshot]:
            return f"lake.{identifier(self._table)} AT (VERSION => {int(snapshot)})"
        return as_it_was(self._table, snapshot)

    def has_newer(self) -> bool:
        """Whether anything came in between, or may have gone where the order is another one."""
        first, last = self._snapshots
        if not self._own[last]:
            return False
        if not self._kept[last] or last < first or not self._own[first]:
            return True
        sql = _CAME.format(table=identifier(self._table), first=first, last=last, only=_ACCOUNTS)
        row = self._connection.execute(sql, self._parameters).fetchone()
        return bool(row and row[0])

    def write(self, path: Path, *, whole: bool) -> list[tuple[str, int, int]]:
        """Write what differs to a file, unless nothing does; how much it is by label.

        Args:
            path: The file.
            whole: Whether anything may have gone; else only what is newer is looked at.
        """
        if not self.columns:
            return []
        first, last = self._snapshots
        came_only = not whole and first <= last and all(self._kept.values())
        sql = _CHANGED.format(
            former=self._select(self._snapshots.first),
            later=self._select(self._snapshots.last),
            source_a=self._read(self._snapshots.first),
            source_b=self._read(self._snapshots.last),
            only_a=f"{_ACCOUNTS} AND false" if came_only else _ACCOUNTS,
            only_b=f"{_ACCOUNTS} AND snapshot_id > {first:d}" if came_only else _ACCOUNTS,
            names_a=self._format_columns("a", "a.{0} AS {1}"),
            names_b=self._format_columns("b", "b.{0} AS {1}"),
            differ=self._format_columns("", "a.{0} IS DISTINCT FROM b.{0}", " OR "),
            own_a=self._format_columns("a", "{1} AS {0}"),
            own_b=self._format_columns("b", "{1} AS {0}"),
            steps=_STEPS,
            retracted=self._select_retracted(),
            backfill=BACKFILL,
            origin=SOURCE,
            label_column=_LABEL,
            side=_SIDE,
        )
        copied = self._connection.execute(
            f"COPY ({sql}) TO {quote(path)} (FORMAT parquet)", self._parameters
        ).fetchone()
        if not copied or not copied[0]:
            path.unlink()
            return []
        counted = _COUNTS.format(label=_LABEL, side=_SIDE, file=key_file(path))
        return self._connection.execute(counted).fetchall()

    def _select_retracted(self) -> str:
        """What was withdrawn, as of the later snapshot: a backfill that was reverted since is known."""
        last = max(self._snapshots)
        is_there = self._kept[last] and columns_at(self._connection, RETRACTION, last)
        return _RETRACTED.format(version=f" AT (VERSION => {last:d})" if is_there else "")

    def _read(self, snapshot: int) -> str:
        """The same with the snapshot that added each measurement."""
        if not self._own[snapshot]:
            return f"(SELECT *, CAST(NULL AS BIGINT) AS snapshot_id FROM {self.source(snapshot)})"
        name = identifier(self._table)
        if self._kept[snapshot]:
            return f"(SELECT *, snapshot_id FROM lake.{name} AT (VERSION => {int(snapshot)}))"
        return f"(SELECT *, snapshot_id FROM lake.{name} WHERE snapshot_id <= {int(snapshot)})"

    def _select(self, snapshot: int) -> str:
        """All columns; those that the table did not have then are empty."""
        present = self._own[snapshot] or FIXED_COLUMNS.keys()
        return ", ".join(
            identifier(name) if name in present else _empty_column(name)
            for name in sorted(self.columns)
        )

    def _format_columns(self, side: str, pattern: str, separator: str = ", ") -> str:
        return separator.join(
            pattern.format(identifier(name), identifier(f"{side}_{name}"))
            for name in sorted(self.columns)
        )


def read_former(
    connection: duckdb.DuckDBPyConnection, snapshot: int
) -> dict[str, tuple[str, frozenset[str]]] | None:
    """What stands for the tables of meters at a snapshot that is not kept: SQL and columns, by meter.

    None if the snapshot is kept.
    """
    if snapshot_is_kept(connection, snapshot):
        return None
    newest = newest_snapshot(connection)
    tables = {each: meter_table(each) for each in _meter_ids(connection)}
    return {
        meter_id: (as_it_was(table, snapshot), frozenset(columns_at(connection, table, newest)))
        for meter_id, table in tables.items()
    }


def _empty_column(name: str) -> str:
    """A column without values, of the type that it has in the lake."""
    found = field_of(name)
    numeric = found is not None and found.category.numeric
    kind = FIXED_COLUMNS.get(name) or (NUMBER_TYPE if numeric else TEXT_TYPE)
    return f"CAST(NULL AS {kind}) AS {identifier(name)}"


def _join_columns(columns: Collection[str]) -> str:
    return ", ".join(identifier(name) for name in sorted(columns))


def _meter_ids(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return sorted(name[2:] for name in table_names(connection) if name.startswith("m_"))


def _sources(
    connection: duckdb.DuckDBPyConnection, labels: Sequence[str]
) -> dict[str, ChangedSource]:
    identities = [each.removeprefix(SOURCE) for each in labels]
    rows = connection.execute(_NAMES, {"identities": identities}).fetchall()
    found = {
        identity: ChangedSource(identity, name, received.replace(tzinfo=UTC))
        for identity, name, received in rows
    }
    return {
        SOURCE + each: found.get(each, ChangedSource(each, each[:32], None)) for each in identities
    }


def _backfills(
    connection: duckdb.DuckDBPyConnection, snapshots: SnapshotPair
) -> dict[str, DoneBackfill]:
    if STEP not in table_names(connection):
        return {}
    bounds: dict[str, Any] = {"first": min(snapshots), "last": max(snapshots)}
    return {
        BACKFILL + id_: DoneBackfill(
            id_, Action(action), mode, author, reason, at.replace(tzinfo=UTC)
        )
        for id_, action, mode, author, reason, at in _rows(connection, _DONE, bounds)
    }


def _rows(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    yield from connection.execute(query, dict(parameters)).fetchall()
