"""Upkeep of a lake: small files merged, replaced files and orphans removed. Under the lake's lock.

DuckLake does not sync what it writes. Every rewrite therefore runs in a transaction of its own:
its new files are synced before the catalog, which is synced, begins to speak of them.
"""

import logging
import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import duckdb

from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.sql import identifier
from meterlake.stores.lake.lake import Lake

_log: Final = logging.getLogger("meterlake.maintenance")
_FLUSH: Final = "CALL ducklake_flush_inlined_data('lake')"
_EXPIRED_AT_ONCE: Final = 1_000
_ORPHANS_KEPT: Final = timedelta(days=1)
_SHOWN_MAX: Final = 5
_LIVE: Final = """
    SELECT CASE WHEN f.path_is_relative THEN s.path || t.path || f.path ELSE f.path END,
        f.path_is_relative
    FROM (
        SELECT table_id, path, path_is_relative FROM {catalog}.ducklake_data_file
        UNION ALL SELECT table_id, path, path_is_relative FROM {catalog}.ducklake_delete_file
    ) f
    JOIN (SELECT DISTINCT table_id, schema_id, path FROM {catalog}.ducklake_table) t
        USING (table_id)
    JOIN (SELECT DISTINCT schema_id, path FROM {catalog}.ducklake_schema) s USING (schema_id)"""
_MERGE: Final = "CALL ducklake_merge_adjacent_files('lake')"


class _BeingRead(Exception):
    """Somebody reads all the time; the next upkeep tries again."""


def compact(lake: Lake) -> int:
    """Write rows that live in the catalog to files, and merge small files.

    Either is left to the next upkeep where readers leave no moment for its commit.

    Returns:
        The number of new files.
    """
    return sum(_rewritten_files(lake, statement) for statement in (_FLUSH, _MERGE))


def expire_snapshots(lake: Lake, older_than: timedelta, pinned: Collection[int]) -> int:
    """Forget old snapshots; what only they could see is removed with the replaced files later.

    Args:
        lake: The lake.
        older_than: Younger ones stay.
        pinned: These stay for ever. The newest one does so by itself.

    Returns:
        The number of expired snapshots.
    """
    seconds = int(older_than.total_seconds())
    with lake.transaction() as connection:
        found = connection.execute(
            "SELECT snapshot_id FROM ducklake_snapshots('lake')"
            f" WHERE snapshot_time <= now() - INTERVAL {seconds} SECOND"
            " AND snapshot_id < (SELECT id FROM lake.current_snapshot())"
        ).fetchall()
        expired = sorted({int(row[0]) for row in found}.difference(pinned))
        for start in range(0, len(expired), _EXPIRED_AT_ONCE):
            some = expired[start : start + _EXPIRED_AT_ONCE]
            _call(connection, f"CALL ducklake_expire_snapshots('lake', versions => {some})")
        mark_step("maintain.expired")
    return len(expired)


def remove_replaced(lake: Lake, kept_for: timedelta) -> int:
    """Remove files that merges replaced; those replaced lately stay, somebody may be reading them.

    Returns:
        The number of removed files.
    """
    return _removed(lake, "ducklake_cleanup_old_files", _older_than(kept_for))


def remove_orphans(lake: Lake) -> int:
    """Remove files below the data folder that no commit registered: a writer died before it.

    Files on their way into a folder are moved there under the lock only, so whatever is not
    registered while the lock is held is an orphan. In a bucket it stays for a while: it may have
    been sent before its commit, and a writer on another machine may have lost the lock and not
    know it yet.

    Returns:
        The number of removed files.
    """
    which = "cleanup_all => true" if lake.files.is_local else _older_than(_ORPHANS_KEPT)
    return _removed(lake, "ducklake_delete_orphaned_files", which)


def _older_than(age: timedelta) -> str:
    return f"older_than => now() - INTERVAL {int(age.total_seconds())} SECOND"


def _removed(lake: Lake, function: str, which: str) -> int:
    """Have DuckLake remove files, unless it would remove one that the catalog still names."""
    with lake.transaction() as connection:
        call = f"CALL {function}('lake', {which}, dry_run => {{}})"
        found = {str(row[0]) for row in connection.execute(call.format("true")).fetchall()}
        if not found:
            return 0
        live = found & live_files(connection, lake)
        if live:
            _log.error(
                "%s would remove %s, which the lake needs; nothing is removed",
                function,
                ", ".join(sorted(live)[:_SHOWN_MAX]),
            )
            return 0
        return len(connection.execute(call.format("false")).fetchall())


def live_files(connection: duckdb.DuckDBPyConnection, lake: Lake) -> set[str]:
    """Where the files are that any snapshot has, as DuckLake's catalog says."""
    catalog = f"__ducklake_metadata_lake.{identifier(lake.catalog.schema)}"
    rows = connection.execute(_LIVE.format(catalog=catalog)).fetchall()
    return {lake.files.root + path if is_relative else path for path, is_relative in rows}


def remove_stale(staging: Path, older_than: timedelta, kept: Collection[str] = ()) -> int:
    """Remove folders that dead jobs prepared, long after they can have been alive.

    Args:
        staging: Where they are.
        older_than: Younger ones stay.
        kept: The names of folders that stay.

    Returns:
        The number of removed folders.
    """
    limit = time.time() - older_than.total_seconds()
    folders = [path for path in staging.iterdir() if path.is_dir()] if staging.is_dir() else []
    others = [folder for folder in folders if folder.name not in kept]
    stale = [
        folder
        for folder in others
        if max((path.stat().st_mtime for path in [folder, *folder.rglob("*")]), default=0.0) < limit
    ]
    for folder in stale:
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()
    return len(stale)


def _rewritten_files(lake: Lake, statement: str) -> int:
    """Rewrite beside readers, and commit without any; what is rolled back leaves orphans only."""
    before = _live_files(lake)
    with suppress(_BeingRead), ExitStack() as committing, lake.transaction() as connection:
        with lake.files.securing():
            _call(connection, statement)
        mark_step("maintain.before_commit")
        if not committing.enter_context(lake.catalog.without_readers()):
            raise _BeingRead
    # Of the catalog: others may be sending files to a bucket, whoever has the lock.
    return len(_live_files(lake).difference(before))


def _live_files(lake: Lake) -> set[str]:
    with lake.reader() as connection:
        return live_files(connection, lake)


def _call(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    connection.execute(statement).fetchall()
