"""Upkeep of a lake: small files merged, replaced files and orphans removed. Under the lake's lock.

DuckLake does not sync what it writes. Every rewrite therefore runs in a transaction of its own:
its new files are synced before the catalog, which is synced, begins to speak of them.
"""

import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import duckdb

from meterlake.model.failpoint import mark_step
from meterlake.stores.files.durable import sync
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.reader_gate import without_readers

_FLUSH: Final = "CALL ducklake_flush_inlined_data('lake')"
_EXPIRED_AT_ONCE: Final = 1_000
_MERGE: Final = "CALL ducklake_merge_adjacent_files('lake')"


class _BeingRead(Exception):
    """Somebody reads all the time; the next upkeep tries again."""


def compact(lake: Lake) -> int:
    """Write rows that live in the catalog to files, and merge small files.

    Either is left to the next upkeep where readers leave no moment for its commit.

    Returns:
        The number of new files.
    """
    return sum(_rewritten(lake, statement) for statement in (_FLUSH, _MERGE))


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
    seconds = int(kept_for.total_seconds())
    with lake.transaction() as connection:
        gone = connection.execute(
            "CALL ducklake_cleanup_old_files('lake',"
            f" older_than => now() - INTERVAL {seconds} SECOND)"
        ).fetchall()
    return len(gone)


def remove_orphans(lake: Lake) -> int:
    """Remove files below the data folder that no commit registered: a writer died before it.

    Files on their way into the lake are moved there under the lock only, so whatever is not
    registered while the lock is held is an orphan.

    Returns:
        The number of removed files.
    """
    with lake.transaction() as connection:
        gone = connection.execute(
            "CALL ducklake_delete_orphaned_files('lake', cleanup_all => true)"
        ).fetchall()
    return len(gone)


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
    stale = [folder for folder in others if _newest(folder) < limit]
    for folder in stale:
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()
    return len(stale)


def data_files(lake: Lake) -> set[Path]:
    """All files below the data folder, whether a commit speaks of them or not."""
    return set(lake.data.rglob("*.parquet"))


def sync_new(lake: Lake, before: Collection[Path]) -> int:
    """Sync what DuckLake wrote within a transaction, before the catalog speaks of it.

    Args:
        lake: The lake.
        before: `data_files` before the transaction.

    Returns:
        The number of new files.
    """
    new = data_files(lake).difference(before)
    for path in sorted(new):
        sync(path)
    for folder in sorted({parent for path in new for parent in path.parents}):
        if folder.is_relative_to(lake.data):
            sync(folder)
    return len(new)


def _rewritten(lake: Lake, statement: str) -> int:
    """Rewrite beside readers, and commit without any; what is rolled back leaves orphans only."""
    before = data_files(lake)
    with suppress(_BeingRead), ExitStack() as committing, lake.transaction() as connection:
        _call(connection, statement)
        new = sync_new(lake, before)
        mark_step("maintain.before_commit")
        if not committing.enter_context(without_readers(lake.gate)):
            raise _BeingRead
        return new
    return 0


def _call(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    connection.execute(statement).fetchall()


def _newest(folder: Path) -> float:
    return max((path.stat().st_mtime for path in [folder, *folder.rglob("*")]), default=0.0)
