"""The rows of staged files that are about to replace measurements, beside those of the lake."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from meterlake.stores.lake.backfill.rows import RowSelection, copy, keys, stage_keys
from meterlake.stores.lake.connection import parquet

_OUTSIDE: Final = "SELECT m.row, m.ts, m.account_id FROM {rows} AS m WHERE NOT ({where}) LIMIT 1"
# As at a commit: what the lake will know of a uid decides, else its first row in the files.
_DROPPED: Final = """
    WITH staged AS ({staged}), known AS (
        SELECT u.uid, any_value(u.content_hash) AS known_hash
        FROM (FROM lake.uid_index AT (VERSION => {snapshot})) AS u
        SEMI JOIN staged AS s ON s.uid = u.uid
        ANTI JOIN {gone} AS g ON g.source = u.source AND g.row = u.row AND g.part = u.part
        GROUP BY u.uid
    ), judged AS (
        SELECT s.number, s.row, s.part, s.uid, s.content_hash, k.known_hash,
            first_value(s.content_hash) OVER same AS first_hash, row_number() OVER same AS nth
        FROM staged AS s LEFT JOIN known AS k ON k.uid = s.uid
        WINDOW same AS (PARTITION BY s.uid ORDER BY s.number, s.row, s.part)
    )
    SELECT number, row, part, uid, content_hash = coalesce(known_hash, first_hash) AS repeat
    FROM judged WHERE known_hash IS NOT NULL OR nth > 1"""
_NO_ROWS: Final = """
    SELECT NULL::INTEGER AS number, NULL::VARCHAR AS uid, NULL::UBIGINT AS content_hash,
        NULL::BIGINT AS row, NULL::SMALLINT AS part WHERE false"""
# The bytes of a file say what is in a row, so its place says which measurement it is.
_ROWS: Final = """
    SELECT count(*), coalesce(sum(hash(uid, row::BIGINT, part::SMALLINT)::HUGEINT), 0)::VARCHAR
    FROM ({rows})"""

# The number of a file among the others, and its staged files of one table.
Staged = tuple[int, Sequence[Path]]


def first_outside(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], selection: RowSelection
) -> tuple[Any, ...] | None:
    """Row, instant and account of a staged measurement that is not selected; None if all are."""
    query = _OUTSIDE.format(rows=parquet(paths, by_name=True), where=selection.where)
    return connection.execute(query, dict(selection.parameters)).fetchone()


def stage_dropped(
    connection: duckdb.DuckDBPyConnection,
    uids: Iterable[Staged],
    gone: Path,
    snapshot: int,
    target: Path,
) -> None:
    """Write the places of staged rows that will not be stored: `number`, `row`, `part`.

    Args:
        connection: Of the lake.
        uids: Their index of uids, in the order in which the files are committed.
        gone: The keys of the measurements that go before.
        snapshot: The snapshot that is changed.
        target: The file of places; it has the `uid`, and whether it is a `repeat`, too.
    """
    staged = [_NO_ROWS]
    staged += [
        f"SELECT {number} AS number, uid, content_hash, row, part"
        f" FROM {parquet(paths, by_name=True)}"
        for number, paths in uids
        if paths
    ]
    query = _DROPPED.format(
        staged=" UNION ALL ".join(staged), snapshot=int(snapshot), gone=keys(gone)
    )
    copy(connection, query, target)


def rows_without(rows: Iterable[Staged], dropped: Path) -> str | None:
    """Staged measurements but for the places that will not be stored, as a source of SQL."""
    each = [f"SELECT f.* {_left(number, paths, dropped)}" for number, paths in rows if paths]
    return f"({' UNION ALL BY NAME '.join(each)})" if each else None


def fingerprint_without(
    connection: duckdb.DuckDBPyConnection, uids: Staged, dropped: Path
) -> list[Any]:
    """What tells which rows of a file will be stored.

    Args:
        connection: Of the lake.
        uids: Its index of uids.
        dropped: The places that will not be stored.
    """
    number, paths = uids
    rows = f"SELECT f.uid, f.row, f.part {_left(number, paths, dropped)}" if paths else _NO_ROWS
    return _fingerprint(connection, rows)


def fingerprint_stored(connection: duckdb.DuckDBPyConnection, source: str) -> list[Any]:
    """The same of all that a transaction has of a source."""
    query = "SELECT u.uid, u.row, u.part FROM lake.uid_index AS u WHERE u.source = $identity"
    return _fingerprint(connection, query, {"identity": source})


def stage_came(
    connection: duckdb.DuckDBPyConnection,
    sources: Sequence[str],
    snapshots: tuple[int, int],
    gone: Path,
    target: Path,
) -> None:
    """Write the keys of the measurements of sources that came between two snapshots.

    Args:
        connection: Of the lake.
        sources: Their identities.
        snapshots: The one that the change was staged from, and the one that it made.
        gone: The keys of what went.
        target: Gets the keys of what came.
    """
    before, after = snapshots
    mine = "SELECT unnest(CAST($identities AS VARCHAR[]))"
    older = (
        f"SELECT u.source, u.row, u.part FROM (FROM lake.uid_index AT (VERSION => {int(before)}))"
        f" AS u ANTI JOIN {keys(gone)} AS g"
        " ON g.source = u.source AND g.row = u.row AND g.part = u.part"
        f" WHERE u.source IN ({mine})"
    )
    where = (
        f"m.source IN ({mine})"
        f" AND (m.source, m.row, m.part) NOT IN (SELECT (source, row, part) FROM ({older}))"
    )
    selection = RowSelection(where, {"identities": list(sources)})
    stage_keys(connection, selection, after, target)


def _left(number: int, paths: Sequence[Path], dropped: Path) -> str:
    return (
        f"FROM {parquet(paths, by_name=True)} AS f ANTI JOIN"
        f" (SELECT row, part FROM {keys(dropped)} WHERE number = {number}) USING (row, part)"
    )


def _fingerprint(
    connection: duckdb.DuckDBPyConnection, rows: str, parameters: Mapping[str, Any] | None = None
) -> list[Any]:
    found = connection.execute(_ROWS.format(rows=rows), parameters).fetchone()
    assert found is not None
    return list(found)
