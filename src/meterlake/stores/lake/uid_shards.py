"""The known uids of a large lake in shards: by the hash of the uid, for one index each.

A shard has an index, a lock and a worker of its own, so sources are compared with the history
side by side and before the lake's lock is taken. A shard is a range of hashes. How many there are
is written in the catalog, as the comment of the table of uids; it says how the work is divided,
never what is known, so processes that still have the former number are as right as the others.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.sql import identifier
from meterlake.stores.files.durable import make_folder
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.lake.connection import open_cursor
from meterlake.stores.lake.known_uids import (
    CommittedUids,
    Hashes,
    HashRange,
    KnownUids,
    Probe,
    insertions,
)
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.tables import newest_snapshot

SHARDS_MAX: Final = 64
_COMMENT: Final = re.compile(r"shards: ([0-9]+)")
_FOLDER: Final = re.compile(r"uid-shards-([0-9]+)")
# For fewer uids, threads cost more than they save.
_FEW: Final = 50_000
# So many that came meanwhile are compared under the lake's lock; for more, everything is.
_CAME_MAX: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class _UidShard:
    """One of the shards: an index that covers a range of hashes, and its lock."""

    folder: Path
    bounds: HashRange

    def index(self, identify: Callable[[int], str]) -> KnownUids:
        return KnownUids(self.folder, identify, self.bounds)

    def lock(self) -> AbstractContextManager[None]:
        make_folder(self.folder)
        return hold_lock(self.folder / "shard.lock")

    def probe(self, committed: CommittedUids, hashes: Hashes) -> NDArray[np.bool_]:
        with self.lock():
            index = self.index(committed.identity)
            # Again: meanwhile somebody may have found that the index has to be built anew.
            index.learn(committed)
            mark_step("shards.learned")
            return index.probe(hashes)

    def build(self, committed: CommittedUids) -> int | None:
        with self.lock():
            index = self.index(committed.identity)
            index.learn(committed)
            mark_step("shards.built_one")
            stored = committed.since(-1, self.bounds, index.parts)
            return index.rows if all(index.probe(each).all() for each in stored) else None

    def add(self, before: int, snapshot: int, identity: str, hashes: Hashes) -> None:
        with self.lock():
            index = self.index(lambda _: identity)
            index.add_commit(before, snapshot, [hashes[self.bounds.slice(hashes)]])
            mark_step("shards.added")


class UidShards:
    """The cache of one lake, in shards; any process may use it at any time.

    Args:
        cache: Where the lake has its caches.
        count: How many shards there are.
        identify: What tells a snapshot from another one of the same number.
        identify_on: The same, as a connection sees it.
        workers: How many shards are worked on at once.
    """

    # Sources are compared with it before the lake's lock is taken, too.
    is_sharded = True

    def __init__(
        self,
        cache: Path,
        count: int,
        identify: Callable[[int], str] = lambda _: "",
        identify_on: Callable[[duckdb.DuckDBPyConnection, int], str] = lambda *_: "",
        workers: int = 2,
    ) -> None:
        self.folder = cache / f"uid-shards-{count}"
        self._identify = identify
        self._identify_on = identify_on
        self._workers = min(count, workers)
        self._shards = [
            _UidShard(self.folder / str(number), bounds)
            for number, bounds in enumerate(HashRange().split(count))
        ]

    def refresh(self, connection: duckdb.DuckDBPyConnection, snapshot: int) -> Probe:
        """See `KnownUids.refresh`; the answer is good for as long as the connection is open."""
        return partial(self._probe, self._committed(connection, snapshot))

    def build(self, connection: duckdb.DuckDBPyConnection, snapshot: int) -> list[int | None]:
        """Learn what was committed up to a snapshot, and compare it with what is stored.

        Returns:
            How many hashes each shard has; None where it lacks one.
        """
        committed = self._committed(connection, snapshot)
        with ThreadPoolExecutor(self._workers, thread_name_prefix="shard") as pool:
            return list(pool.map(lambda shard: shard.build(committed), self._shards))

    def _committed(self, connection: duckdb.DuckDBPyConnection, snapshot: int) -> CommittedUids:
        return CommittedUids(connection, snapshot, partial(self._identify_on, connection))

    def forget(self) -> None:
        """Drop the indexes; the next look builds them again."""
        for shard in self._shards:
            with shard.lock():
                shard.index(lambda _: "").forget()

    def glimpse(self, most: int) -> Iterator[Hashes]:
        """See `KnownUids.glimpse`."""
        share = most // len(self._shards)
        indexes = [shard.index(lambda _: "") for shard in self._shards]
        return chain.from_iterable(index.glimpse(share) for index in indexes)

    def add_commit(self, before: int, snapshot: int, ranges: Iterable[Hashes]) -> None:
        """Add what a commit brought, where that is one range; else the next look reads it.

        Args:
            before: The snapshot before the commit.
            snapshot: The snapshot that the commit made.
            ranges: Sorted hashes.
        """
        more = iter(ranges)
        hashes, second = next(more, None), next(more, None)
        if hashes is None or second is not None:
            return
        identity = self._identify(snapshot)
        for shard in self._shards:
            shard.add(before, snapshot, identity, hashes)

    def _probe(self, committed: CommittedUids, hashes: Hashes) -> NDArray[np.bool_]:
        found = np.zeros(len(hashes), np.bool_)
        slices = [shard.bounds.slice(hashes) for shard in self._shards]
        work = [
            partial(shard.probe, committed, hashes[part])
            for shard, part in zip(self._shards, slices, strict=True)
            if part.stop > part.start
        ]
        parts = [part for part in slices if part.stop > part.start]
        for part, known in zip(parts, self._run(work, len(hashes)), strict=True):
            found[part] = known
        mark_step("shards.compared")
        return found

    def _run(
        self, work: Sequence[Callable[[], NDArray[np.bool_]]], rows: int
    ) -> list[NDArray[np.bool_]]:
        if rows <= _FEW or self._workers == 1:
            return [each() for each in work]
        with ThreadPoolExecutor(self._workers, thread_name_prefix="shard") as pool:
            return list(pool.map(lambda each: each(), work))


def read_shards(connection: duckdb.DuckDBPyConnection, schema: str) -> int:
    """How many shards a lake has, as its catalog says.

    Args:
        connection: Has the lake attached as `lake`.
        schema: The schema of DuckLake's own tables.
    """
    catalog = f"__ducklake_metadata_lake.{identifier(schema)}"
    row = connection.execute(
        f"SELECT g.value FROM {catalog}.ducklake_tag g JOIN {catalog}.ducklake_table t"
        " ON t.table_id = g.object_id WHERE t.table_name = 'uid_index' AND g.key = 'comment'"
        " AND g.end_snapshot IS NULL AND t.end_snapshot IS NULL"
    ).fetchone()
    match = _COMMENT.fullmatch(row[0]) if row and row[0] else None
    return int(match[1]) if match else 1


def write_shards(connection: duckdb.DuckDBPyConnection, count: int) -> None:
    """Write down how many shards a lake has, within a transaction."""
    comment = f"'shards: {count:d}'" if count > 1 else "NULL"
    connection.execute(f"COMMENT ON TABLE lake.uid_index IS {comment}")


def uids_since(connection: duckdb.DuckDBPyConnection, checked: int, snapshot: int) -> Hashes | None:
    """The hashes of the uids that came after a snapshot, up to and with another one.

    Returns:
        None if that cannot be said, or if uids were taken out, too: they are free again.
    """
    came = insertions(checked, snapshot)
    left = came.replace("insertions", "deletions")
    # What has expired makes the question fail, and that would abort a transaction.
    with open_cursor(connection) as cursor, suppress(duckdb.InvalidInputException):
        row = cursor.execute(
            f"SELECT (SELECT count(*) FROM {left}), (SELECT count(*) FROM {came})"
        ).fetchone()
        if row is not None and row[0] == 0 and row[1] <= _CAME_MAX:
            hashes = cursor.execute(f"SELECT uid_hash FROM {came}").fetchnumpy()["uid_hash"]
            return np.asarray(hashes, np.uint64)
    return None


def empty_former(cache: Path, count: int) -> None:
    """Empty the indexes of other numbers of shards, under the lake's lock.

    Their locks stay: somebody may still wait for one.
    """
    if count > 1:
        KnownUids(cache).forget()
    for folder in cache.glob("uid-shards-*"):
        match = _FOLDER.fullmatch(folder.name)
        if match and int(match[1]) != count:
            UidShards(cache, int(match[1])).forget()


def check_shards(count: int) -> None:
    """Refuse a number of shards that no lake can have.

    Raises:
        Invalid: It is too small or too large.
    """
    if not 1 <= count <= SHARDS_MAX:
        raise Invalid("shards", count, f"it must be a number from 1 to {SHARDS_MAX}")


def change_shards(lake: Lake, count: int) -> list[int]:
    """Have a lake compare uids in so many shards from now on; safe to repeat.

    Nothing that is stored changes. Indexes that are whole already are not built again.

    Returns:
        How many uids each shard has.

    Raises:
        Invalid: No lake can have as many.
        Unavailable: The disk or the lake failed, or an index lacks a uid; it is built anew then.
    """
    check_shards(count)
    with lake.lock():
        with lake.reader() as connection:
            present = read_shards(connection, lake.catalog.schema)
            rows = _build(lake, connection, count)
        mark_step("shards.built")
        if present != count:
            with lake.transaction() as transaction:
                write_shards(transaction, count)
        lake.forget_shards()
        mark_step("shards.changed")
        empty_former(lake.cache, count)
    return rows


def _build(lake: Lake, connection: duckdb.DuckDBPyConnection, count: int) -> list[int]:
    snapshot = newest_snapshot(connection)
    if count == 1:
        whole = KnownUids(lake.cache, lake.identity)
        whole.refresh(connection, snapshot)
        return [whole.rows]
    built = lake.sharded_uids(count).build(connection, snapshot)
    rows = [each for each in built if each is not None]
    if len(rows) < count:
        lake.sharded_uids(count).forget()
        raise Unavailable("lake", "an index lacks uids that are stored", "run it again")
    return rows
