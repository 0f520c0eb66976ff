"""Which uids a lake holds, by hash: a cache that can always be built again from the lake.

Sorted runs of 64-bit hashes, each named by the snapshots that it covers, like the levels of a
log-structured tree. A hash that is not here is new for certain; one that is here has to be looked
up in the lake. Runs are synced: a torn run could hide a uid.
"""

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numpy.typing import NDArray

from meterlake.stores.files.durable import make_folder, write_durably
from meterlake.stores.lake.connection import open_cursor
from meterlake.stores.lake.tables import newest_snapshot

Hashes = NDArray[np.uint64]
# Which of some sorted hashes may be known.
Probe = Callable[[Hashes], NDArray[np.bool_]]

_NAME: Final = re.compile(r"([0-9]+)-([0-9]+)((?:-[0-9a-f_]+)?)\.u64")
_ITEM_BYTES: Final = 8
# Hashes that are held in memory at once: 128 MB, and 512 MB while two runs are merged.
_RANGE_ROWS: Final = 1 << 24
_MERGED_MAX: Final = 1 << 25
# Where the hashes of a long history are divided by range.
_PARTS: Final = "parts"
_BATCH_ROWS: Final = 1 << 20
# So many hashes are looked up where the file lies; for more, it is read in parts of 32 MB.
_FEW: Final = 1 << 16
_READ_ROWS: Final = 1 << 22


class HashRange(NamedTuple):
    """The hashes from `low` on and below `high`; without an end on a side where it is None."""

    low: int | None = None
    high: int | None = None

    def split(self, count: int) -> "list[HashRange]":
        """The same in so many ranges of nearly one size."""
        low, high = self.low or 0, 1 << 64 if self.high is None else self.high
        edges = [low + (high - low) * k // count for k in range(1, count)]
        return list(map(HashRange, [self.low, *edges], [*edges, self.high]))

    def slice(self, hashes: Hashes) -> slice:
        """Where they stand among sorted hashes."""
        first = 0 if self.low is None else int(np.searchsorted(hashes, np.uint64(self.low)))
        if self.high is None:
            return slice(first, len(hashes))
        return slice(first, int(np.searchsorted(hashes, np.uint64(self.high))))

    def filter(self, hashes: Hashes) -> Hashes:
        """Those of some hashes that are in it, in their order."""
        if self.low is not None:
            hashes = hashes[hashes >= np.uint64(self.low)]
        return hashes if self.high is None else hashes[hashes < np.uint64(self.high)]

    @property
    def share(self) -> int:
        """Which part of all hashes it is: the rounded inverse."""
        high = 1 << 64 if self.high is None else self.high
        return round((1 << 64) / (high - (self.low or 0)))

    @property
    def condition(self) -> str:
        """The same as SQL over `uid_hash`."""
        bounds = [f"uid_hash >= {self.low}::UBIGINT"] if self.low is not None else []
        bounds += [f"uid_hash < {self.high}::UBIGINT"] if self.high is not None else []
        return " AND ".join(bounds or ["true"])


_ALL: Final = HashRange()


class CommittedUids:
    """The hashes that commits brought, up to and with a snapshot, as a connection reads them.

    Several threads may ask; they are answered one after the other.

    Args:
        connection: A connection to the lake.
        snapshot: The last snapshot that counts.
        identify: What tells a snapshot from another one of the same number.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        snapshot: int,
        identify: Callable[[int], str] = lambda _: "",
    ) -> None:
        self.snapshot = snapshot
        self._connection = connection
        self._identify = identify
        self._asking = Lock()
        # What came since a snapshot, where that is little: shards mostly ask for the same.
        self._few: dict[int, Hashes | None] = {}

    def identity(self, snapshot: int) -> str:
        """What tells a snapshot from another one of the same number."""
        with self._asking:
            return self._identify(snapshot)

    def newest(self) -> int:
        """The newest snapshot by now, which others may have made."""
        with self._asking, open_cursor(self._connection) as cursor:
            return newest_snapshot(cursor)

    def since(self, covered: int, bounds: HashRange, folder: Path) -> Iterator[Hashes]:
        """The hashes of a range that came after a snapshot, sorted, in parts.

        Args:
            covered: The snapshot; -1 for all hashes.
            bounds: The range.
            folder: Where those of several parts may wait.
        """
        few = self._few_since(covered) if covered >= 0 else None
        if few is not None:
            yield few[bounds.slice(few)]
            return
        with self._asking:
            source = self._source(covered)
            # Parts are as wide whatever the range; those outside of it are empty.
            count = -(-self._count(source, bounds) * bounds.share // _RANGE_ROWS)
            query = f"SELECT uid_hash FROM {source} WHERE {bounds.condition}"
            if count <= 1:
                parts = iter([_sort(_hashes(self._connection, query))])
            else:
                parts = _sorted_parts(_stream(self._connection, query), count, folder)
            # All that is read is read before the first of them comes.
            first = next(parts)
        yield from (part for part in chain([first], parts) if len(part))

    def _few_since(self, covered: int) -> Hashes | None:
        with self._asking:
            if covered not in self._few:
                source = self._source(covered)
                is_few = self._count(source, _ALL) <= _RANGE_ROWS
                self._few[covered] = self._read(source, _ALL) if is_few else None
            return self._few[covered]

    def _source(self, covered: int) -> str:
        if covered >= 0:
            since = insertions(covered, self.snapshot)
            if _is_readable(self._connection, since):
                return since
        # If a snapshot in between has expired: more than needed does no harm.
        return f"lake.uid_index AT (VERSION => {self.snapshot})"

    def _count(self, source: str, bounds: HashRange) -> int:
        row = self._connection.execute(
            f"SELECT count(*) FROM {source} WHERE {bounds.condition}"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def _read(self, source: str, bounds: HashRange) -> Hashes:
        query = f"SELECT uid_hash FROM {source} WHERE {bounds.condition}"
        return _sort(_hashes(self._connection, query))


class _Run(NamedTuple):
    first: int
    last: int
    identity: str
    path: Path

    @property
    def size(self) -> int:
        return self.path.stat().st_size // _ITEM_BYTES

    def hashes(self) -> Hashes:
        if not self.size:
            return np.empty(0, np.uint64)
        return np.memmap(self.path, np.uint64, "r")

    def near(self, wanted: Hashes) -> Iterator[Hashes]:
        """What of it may equal one of some sorted hashes, in parts that are not empty."""
        known = self.hashes()
        if not len(wanted) or not len(known):
            return
        if len(wanted) <= _FEW:
            yield known
            return
        # Many would touch every page of the file, and all of it would count as our memory.
        start, stop = _bounds(known, wanted)
        for first in range(start, stop, _READ_ROWS):
            count = min(_READ_ROWS, stop - first)
            yield np.fromfile(self.path, np.uint64, count, offset=first * _ITEM_BYTES)


class KnownUids:
    """The cache of one lake; but for `glimpse`, use it under the lake's lock only.

    Args:
        folder: Where it is.
        identify: What tells a snapshot from another one of the same number.
        bounds: Of which hashes.
    """

    # Whether sources are compared with it before the lake's lock is taken, too.
    is_sharded = False

    def __init__(
        self,
        folder: Path,
        identify: Callable[[int], str] = lambda _: "",
        bounds: HashRange = _ALL,
    ) -> None:
        self.folder = folder / "uids"
        self.bounds = bounds
        self._identify = identify

    def refresh(self, connection: duckdb.DuckDBPyConnection, snapshot: int) -> Probe:
        """Learn what was committed since the last run, up to and with `snapshot`.

        Returns:
            What tells which uids may be known at that snapshot.
        """
        self.learn(CommittedUids(connection, snapshot, self._identify))
        return self.probe

    def learn(self, committed: CommittedUids) -> None:
        """The same, of what is read by somebody else, too."""
        make_folder(self.folder)
        runs = self._runs()
        covered = runs[-1].last if runs else -1
        if (covered > committed.snapshot and covered > committed.newest()) or (
            runs and runs[-1].identity != committed.identity(covered)
        ):
            self.forget()
            covered = -1
        if covered < committed.snapshot:
            self._add(
                covered + 1, committed.snapshot, committed.since(covered, self.bounds, self.parts)
            )

    @property
    def parts(self) -> Path:
        """Where the hashes of a long history are divided by range."""
        return self.folder / _PARTS

    @property
    def covered(self) -> int:
        """The last snapshot of which it knows everything; -1 if there is none."""
        runs = self._runs()
        return runs[-1].last if runs else -1

    @property
    def rows(self) -> int:
        """How many hashes it holds."""
        return sum(run.size for run in self._runs())

    def probe(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of some sorted hashes may be known."""
        found = np.zeros(len(hashes), np.bool_)
        for run in self._runs():
            for known in run.near(hashes):
                start, stop = _bounds(hashes, known)
                wanted = hashes[start:stop]
                places = np.searchsorted(known, wanted)
                places[places == len(known)] = 0
                found[start:stop] |= known[places] == wanted
        return found

    def glimpse(self, most: int) -> Iterator[Hashes]:
        """What the cache holds, in parts, if it is no more than `most` hashes; without the lock.

        Others may change the cache meanwhile: hashes may lack, stand twice, or be of a run that is
        thrown away.
        """
        with suppress(FileNotFoundError):
            paths = list(self.folder.glob("*.u64"))
            if sum(path.stat().st_size for path in paths) > most * _ITEM_BYTES:
                return
            for path in paths:
                yield np.fromfile(path, np.uint64)

    def add_commit(self, before: int, snapshot: int, ranges: Iterable[Hashes]) -> None:
        """Add what a commit brought that took the lake from snapshot `before` to `snapshot`.

        Args:
            before: The snapshot before the commit.
            snapshot: The snapshot that the commit made.
            ranges: Sorted hashes, range by range, as `StagedHashes` gives them.
        """
        if snapshot == before + 1 and self.covered == before:
            self._add(snapshot, snapshot, ranges)

    def forget(self) -> None:
        """Drop the cache; the next refresh builds it again."""
        for run in self.folder.glob("*.u64"):
            run.unlink()

    def _runs(self) -> list[_Run]:
        matches = [(path, _NAME.fullmatch(path.name)) for path in self.folder.glob("*.u64")]
        found = sorted(
            _Run(int(match[1]), int(match[2]), match[3][1:], path)
            for path, match in matches
            if match
        )
        runs: list[_Run] = []
        for run in found:
            if runs and runs[-1].first <= run.first and run.last <= runs[-1].last:
                continue  # A merge that died before it removed what it merged.
            while runs and run.first <= runs[-1].first:
                runs.pop()
            runs.append(run)
        starts = [0, *(run.last + 1 for run in runs[:-1])]
        if [run.first for run in runs] != starts[: len(runs)]:
            self.forget()
            return []
        return runs

    def _add(self, first: int, last: int, ranges: Iterable[Hashes]) -> None:
        """Write a run: one together with those before it that are no more than twice its size."""
        more = iter(ranges)
        hashes, second = next(more, np.empty(0, np.uint64)), next(more, None)
        if second is not None:
            self._write(first, last, chain([hashes, second], more))
            return
        runs, merged = self._runs(), []
        while runs and _mergeable(runs[-1].size, len(hashes)):
            merged.append(runs.pop())
            hashes = np.concatenate([merged[-1].hashes(), hashes])
            hashes.sort(kind="stable")  # Two sorted runs merge in linear time.
        self._write(merged[-1].first if merged else first, last, [hashes])
        for run in merged:
            run.path.unlink()

    def _write(self, first: int, last: int, ranges: Iterable[Hashes]) -> None:
        identity = self._identify(last)
        path = self.folder / f"{first}-{last}{f'-{identity}' if identity else ''}.u64"
        with (
            # What a power cut takes away is made again at the next refresh.
            write_durably(path, needed=False) as temporary,
            temporary.open("wb") as file,
        ):
            for hashes in ranges:
                hashes.tofile(file)


class StagedHashes:
    """The uid hashes of staged files, sorted, range by range, in bounded memory.

    Args:
        paths: Parquet files with `uid_hash`.
        rows: How many rows they have together.
    """

    def __init__(self, paths: Sequence[Path], rows: int) -> None:
        self.paths = paths
        self.rows = rows
        self._only: Hashes | None = None

    def __iter__(self) -> Iterator[Hashes]:
        """Read the files, once per range; what fits one range is kept for the next time."""
        if self._only is not None:
            yield self._only
            return
        count = -(-self.rows // _RANGE_ROWS)
        for each in _ALL.split(count) if count else ():
            hashes = np.concatenate([each.filter(found) for found in _batches(self.paths)])
            hashes = _sort(hashes)
            self._only = hashes if count == 1 else None
            yield hashes


def _batches(paths: Sequence[Path]) -> Iterator[Hashes]:
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(1 << 20, columns=["uid_hash"]):
                # Not by Arrow: its arrays import pandas first, as long as a small source takes.
                yield pl.Series(batch.column(0)).to_numpy()


def _sort(hashes: Hashes) -> Hashes:
    # Polars sorts on all cores, numpy on one.
    return pl.Series(hashes).sort().to_numpy()


def _bounds(hashes: Hashes, others: Hashes) -> tuple[int, int]:
    """Which of some sorted hashes lie between the first and the last of others, as a slice."""
    start = np.searchsorted(hashes, others[0], side="left")
    return int(start), int(np.searchsorted(hashes, others[-1], side="right"))


def _mergeable(older: int, newer: int) -> bool:
    return newer * 2 >= older and older + newer <= _MERGED_MAX


def insertions(covered: int, snapshot: int) -> str:
    """What came into the index of uids after a snapshot, up to and with another one."""
    return f"ducklake_table_insertions('lake', 'main', 'uid_index', {covered + 1:d}, {snapshot:d})"


def _sorted_parts(hashes: Iterable[Hashes], count: int, folder: Path) -> Iterator[Hashes]:
    """Sort hashes in so many ranges, in bounded memory: they are read once, however many there are."""
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    paths = [folder / f"{number}" for number in range(count)]
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for batch in hashes:
            for file, part in zip(files, _divide(batch, count), strict=True):
                part.tofile(file)
    for path in paths:
        yield _sort(np.fromfile(path, np.uint64))
        path.unlink()
    folder.rmdir()


def _divide(hashes: Hashes, count: int) -> list[Hashes]:
    """Hashes in so many ranges of the same width."""
    numbers = (((hashes >> 32) * count) >> 32).astype(np.uint16)
    # Of so short numbers that is linear; sorting the hashes themselves takes three times as long.
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=count))
    return np.split(hashes[order], ends[:-1])


def _stream(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[Hashes]:
    for batch in connection.execute(query).to_arrow_reader(_BATCH_ROWS):
        yield pl.Series(batch.column(0)).to_numpy()


def _is_readable(connection: duckdb.DuckDBPyConnection, source: str) -> bool:
    # The question may fail, and that would abort a transaction: it is asked beside it.
    with open_cursor(connection) as cursor:
        try:
            cursor.execute(f"SELECT count(*) FROM {source}").fetchone()
        except duckdb.InvalidInputException:
            return False
    return True


def _hashes(connection: duckdb.DuckDBPyConnection, query: str) -> Hashes:
    found: Hashes = connection.execute(query).fetchnumpy()["uid_hash"]
    return np.asarray(found, np.uint64)
