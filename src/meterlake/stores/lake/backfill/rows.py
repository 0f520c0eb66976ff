"""The rows of a lake that backfills take away, change or bring back.

Which rows those are is kept in a small Parquet file of keys, so that what was staged, what is done
and what is undone are the same rows. A key is the place of a measurement: source, row and part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from meterlake.model.errors import Conflict
from meterlake.model.measurements.measurement import CALCULATION_ERROR, meter_table
from meterlake.model.values.period import naive
from meterlake.model.values.sql import identifier, quote
from meterlake.model.work.backfill import BackfillSpec
from meterlake.stores.files.durable import disk, sync
from meterlake.stores.lake.connection import translate_errors
from meterlake.stores.lake.tables import columns_at, table_names

_PLACE: Final = "source, row, part"
# The columns of a file of keys, behind the id of the meter.
KEYS: Final = f"{_PLACE}, uid, account_id, ts"
# Of no measurements, so that there is always one to go on from.
NO_KEYS: Final = """
    SELECT NULL::VARCHAR AS meter_id, NULL::VARCHAR AS source, NULL::BIGINT AS row,
        NULL::SMALLINT AS part, NULL::VARCHAR AS uid, NULL::VARCHAR AS account_id,
        NULL::TIMESTAMP AS ts WHERE false"""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Which measurements are meant, over the columns of a meter's table.

    Attributes:
        meters: The ids of their meters; all if empty.
    """

    where: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    meters: tuple[str, ...] = ()


def retracted_rows(spec: BackfillSpec) -> RowSelection:
    """The measurements that a retraction withdraws: of a source, or chosen ones."""
    if spec.source is not None:
        return RowSelection("m.source = $source", {"source": spec.source})
    uids = {"uids": list(spec.uids)}
    return RowSelection("m.uid IN (SELECT unnest(CAST($uids AS VARCHAR[])))", uids)


def rows_within(
    start: datetime | None,
    end: datetime,
    accounts: Sequence[str] = (),
    meters: tuple[str, ...] = (),
) -> RowSelection:
    """The measurements of a time.

    Args:
        start: The first instant; from ever on if None.
        end: The instant after the last one.
        accounts: Whose measurements; all if empty.
        meters: The ids of their meters; all if empty.
    """
    where, parameters = "m.ts < $end", dict[str, Any](end=naive(end))
    if start is not None:
        where = f"m.ts >= $start AND {where}"
        parameters["start"] = naive(start)
    if accounts:
        where += " AND m.account_id IN (SELECT unnest(CAST($accounts AS VARCHAR[])))"
        parameters["accounts"] = list(accounts)
    return RowSelection(where, parameters, meters)


class AffectedRows(NamedTuple):
    """The keys of one meter: how many, and the bounds of their instants."""

    meter_id: str
    rows: int
    first: Any
    last: Any


def meters_at(
    connection: duckdb.DuckDBPyConnection, selection: RowSelection, snapshot: int | None
) -> list[str]:
    """The meters that have a table at a snapshot, or now, of those that are meant."""
    ids = sorted(name[2:] for name in table_names(connection) if name.startswith("m_"))
    meters = [each for each in ids if not selection.meters or each in selection.meters]
    if snapshot is None:
        return meters
    return [each for each in meters if columns_at(connection, meter_table(each), snapshot)]


def rows_at(meter_id: str, snapshot: int | None) -> str:
    """A meter's measurements as a snapshot, or the transaction, has them."""
    at = "" if snapshot is None else f" AT (VERSION => {int(snapshot)})"
    return f"(FROM lake.{identifier(meter_table(meter_id))}{at})"


def keys(path: Path) -> str:
    """A file of keys as a source of SQL."""
    return f"read_parquet({quote(path)}, hive_partitioning => false)"


def stage_keys(
    connection: duckdb.DuckDBPyConnection, selection: RowSelection, snapshot: int, target: Path
) -> int:
    """Write the keys of the selected measurements of a snapshot, synced; how many there are."""
    each = [
        f"SELECT {quote(meter)} AS meter_id, {KEYS} FROM {rows_at(meter, snapshot)} AS m"
        f" WHERE {selection.where}"
        for meter in meters_at(connection, selection, snapshot)
    ]
    query = " UNION ALL ".join([NO_KEYS, *each])
    # A query without any table takes no parameters.
    parameters = dict(selection.parameters) if each else None
    return copy(connection, query, target, parameters)


def copy(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    target: Path,
    parameters: Mapping[str, Any] | None = None,
) -> int:
    """Write the rows of a query to a Parquet file and sync it; how many there are."""
    with translate_errors(), disk():
        found = connection.execute(
            f"COPY ({query}) TO {quote(target)}"
            " (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)",
            dict(parameters) if parameters else None,
        ).fetchone()
    assert found is not None
    sync(target)
    return int(found[0])


def affected_by(connection: duckdb.DuckDBPyConnection, path: Path) -> list[AffectedRows]:
    """What a file of keys holds, meter by meter."""
    query = f"SELECT meter_id, count(*), min(ts), max(ts) FROM {keys(path)} GROUP BY 1 ORDER BY 1"
    return [AffectedRows(*row) for row in connection.execute(query).fetchall()]


def uids_of(connection: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    """The uids in a file of keys."""
    rows = connection.execute(f"SELECT uid FROM {keys(path)}").fetchall()
    return [row[0] for row in rows]


def count_by_account(connection: duckdb.DuckDBPyConnection, path: Path) -> list[tuple[str, int]]:
    """How many keys a file has of each account."""
    query = f"SELECT account_id, count(*) FROM {keys(path)} GROUP BY 1 ORDER BY 1"
    return [(row[0], row[1]) for row in connection.execute(query).fetchall()]


class AccountRows(NamedTuple):
    """How many measurements of an account there are; instants are naive UTC."""

    first: datetime
    last: datetime
    measurements: int


def rows_by_account(
    connection: duckdb.DuckDBPyConnection, selection: RowSelection, snapshot: int
) -> dict[str, AccountRows]:
    """The measurements of a selection at a snapshot, by account.

    Raises:
        Unavailable: The snapshot is not kept any more, or the lake cannot be read.
    """
    found: dict[str, AccountRows] = {}
    with translate_errors():
        for meter_id in meters_at(connection, selection, snapshot):
            rows = connection.execute(
                "SELECT m.account_id, min(m.ts), max(m.ts), count(*)"
                f" FROM {rows_at(meter_id, snapshot)} AS m WHERE {selection.where} GROUP BY 1",
                dict(selection.parameters),
            ).fetchall()
            for id_, first, last, count in rows:
                known = found.get(id_, AccountRows(first, last, 0))
                found[id_] = AccountRows(
                    min(known.first, first), max(known.last, last), known.measurements + count
                )
    return found


def fingerprint(
    connection: duckdb.DuckDBPyConnection, selection: RowSelection, snapshot: int, at: int | None
) -> dict[str, list[Any]]:
    """What tells whether the selected measurements are still those of a snapshot.

    Args:
        connection: Of the lake.
        selection: Which measurements.
        snapshot: Its columns are compared: those that came later hold nothing of the rows.
        at: The snapshot to look at; what the transaction sees when None.

    Returns:
        By meter: the number of rows, of their calculation errors, and hashes of both.
    """
    found = {}
    with translate_errors():
        for meter_id in meters_at(connection, selection, at):
            values = _fingerprint(connection, meter_id, selection, snapshot, at)
            if values[0]:
                found[meter_id] = values
    return found


def _fingerprint(
    connection: duckdb.DuckDBPyConnection,
    meter_id: str,
    selection: RowSelection,
    snapshot: int,
    at: int | None,
) -> list[Any]:
    columns = sorted(columns_at(connection, meter_table(meter_id), snapshot))
    if not columns:  # The whole table came later.
        columns = ["uid"]
    version = "" if at is None else f" AT (VERSION => {int(at)})"
    hashed = ", ".join(f"m.{identifier(name)}" for name in columns)
    query = f"""
        SELECT count(*), coalesce(sum(hash({hashed})::HUGEINT), 0)::VARCHAR,
            coalesce(sum(e.errors), 0)::BIGINT, coalesce(sum(e.hashed), 0)::VARCHAR
        FROM {rows_at(meter_id, at)} AS m LEFT JOIN (
            SELECT identity, row, part, count(*) AS errors,
                sum(hash(attempt, field, detail)::HUGEINT) AS hashed
            FROM (FROM lake.{CALCULATION_ERROR}{version}) AS c GROUP BY ALL
        ) AS e ON e.identity = m.source AND e.row = m.row AND e.part = m.part
        WHERE {selection.where}"""
    row = connection.execute(query, dict(selection.parameters) or None).fetchone()
    assert row is not None
    return list(row)


def by_keys(path: Path, within: RowSelection) -> RowSelection:
    """The selected measurements at the places of a file of keys; the selection spares files."""
    places = f"(m.source, m.row, m.part) IN (SELECT ({_PLACE}) FROM {keys(path)})"
    return replace(within, where=f"{within.where} AND {places}")


def delete_measurements(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """Delete the measurements at the places of a file of keys, within a transaction.

    Raises:
        Conflict: They are not all there any more.
    """
    done = 0
    for meter_id, rows, first, last in affected_by(connection, path):
        # The bounds spare files that cannot hold any of them.
        deleted = _count_changed(
            connection,
            f"DELETE FROM lake.{identifier(meter_table(meter_id))}"
            f" WHERE ts >= $first AND ts <= $last AND ({_PLACE}) IN"
            f" (SELECT ({_PLACE}) FROM {keys(path)} WHERE meter_id = $meter)",
            {"first": first, "last": last, "meter": meter_id},
        )
        _check_all(rows, deleted)
        done += deleted
    return done


def delete_uids(connection: duckdb.DuckDBPyConnection, path: Path, rows: int) -> None:
    """Free the uids of the measurements of a file of keys, within a transaction.

    Raises:
        Conflict: They are not all there any more.
    """
    _check_all(rows, _delete_places(connection, "uid_index", "source", path))


def delete_errors(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Delete the calculation errors at the places of a file of keys, within a transaction."""
    _delete_places(connection, CALCULATION_ERROR, "identity", path)


def _delete_places(
    connection: duckdb.DuckDBPyConnection, table: str, source: str, path: Path
) -> int:
    # Of few sources, files are spared that cannot hold any row of them.
    bounds = connection.execute(f"SELECT min(source), max(source) FROM {keys(path)}").fetchone()
    if bounds is None or bounds[0] is None:
        return 0
    return _count_changed(
        connection,
        f"DELETE FROM lake.{identifier(table)} WHERE {source} >= $first AND {source} <= $last"
        f" AND ({source}, row, part) IN (SELECT ({_PLACE}) FROM {keys(path)})",
        {"first": bounds[0], "last": bounds[1]},
    )


def bring_back(
    connection: duckdb.DuckDBPyConnection, path: Path, snapshot: int, *, with_uids: bool
) -> None:
    """Insert measurements of a snapshot again, as they were, within a transaction.

    Args:
        connection: Of the transaction.
        path: The keys of the measurements.
        snapshot: Where they are read.
        with_uids: Whether their uids were freed.
    """
    for meter_id, rows, first, last in affected_by(connection, path):
        names = ", ".join(
            identifier(name)
            for name in sorted(columns_at(connection, meter_table(meter_id), snapshot))
        )
        inserted = _count_changed(
            connection,
            f"INSERT INTO lake.{identifier(meter_table(meter_id))} BY NAME"
            f" SELECT {names} FROM {rows_at(meter_id, snapshot)} AS m"
            f" WHERE ts >= $first AND ts <= $last AND ({_PLACE}) IN"
            f" (SELECT ({_PLACE}) FROM {keys(path)} WHERE meter_id = $meter)",
            {"first": first, "last": last, "meter": meter_id},
        )
        _check_all(rows, inserted)
    if with_uids:
        _bring_back_places(connection, "uid_index", "source", path, snapshot)


def bring_back_errors(connection: duckdb.DuckDBPyConnection, path: Path, snapshot: int) -> None:
    """Insert calculation errors of a snapshot again, within a transaction."""
    _bring_back_places(connection, CALCULATION_ERROR, "identity", path, snapshot)


def _bring_back_places(
    connection: duckdb.DuckDBPyConnection, table: str, source: str, path: Path, snapshot: int
) -> None:
    connection.execute(
        f"INSERT INTO lake.{identifier(table)} BY NAME"
        f" SELECT t.* FROM (FROM lake.{identifier(table)} AT (VERSION => {int(snapshot)})) AS t"
        f" WHERE (t.{source}, t.row, t.part) IN (SELECT ({_PLACE}) FROM {keys(path)})"
    )


def taken_uids(
    connection: duckdb.DuckDBPyConnection, path: Path, but: Path | None = None, limit: int = 5
) -> list[str]:
    """Uids of a file of keys that the lake knows, but for those at the places of another file."""
    left = "c.source = u.source AND c.row = u.row AND c.part = u.part"
    others = f" ANTI JOIN {keys(but)} c ON {left}" if but else ""
    rows = connection.execute(
        f"SELECT u.uid FROM lake.uid_index u{others}"
        f" WHERE u.uid IN (SELECT uid FROM {keys(path)}) ORDER BY 1 LIMIT {int(limit)}"
    ).fetchall()
    return [row[0] for row in rows]


def _count_changed(
    connection: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, Any]
) -> int:
    row = connection.execute(statement, dict(parameters)).fetchone()
    assert row is not None
    return int(row[0])


def _check_all(meters: int, done: int) -> None:
    if meters != done:
        raise Conflict(
            f"of {meters:,} measurements {done:,} are there: the lake has changed;"
            " start the backfill again with its id"
        )
