"""Which uids a lake holds, by hash: a cache that can always be built again from the lake.

Sorted runs of 64-bit hashes, each named by the snapshots that it covers, like the levels of a
log-structured tree. A hash that is not here is new for certain; one that is here has to be looked
up in the lake. Runs are synced: a torn run could hide a uid.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numpy.typing import NDArray

from meterlake.stores.files.durable import make_folder, write_durably

Hashes = NDArray[np.uint64]

_NAME: Final = re.compile(r"([0-9]+)-([0-9]+)((?:-[0-9a-f_]+)?)\.u64")
_ITEM_BYTES: Final = 8
# Hashes that are held in memory at once: 128 MB, and 512 MB while two runs are merged.
_RANGE_ROWS: Final = 1 << 24
_MERGED_MAX: Final = 1 << 25
# So many hashes are looked up where the file lies; for more, it is read in parts of 32 MB.
_FEW: Final = 1 << 16
_READ_ROWS: Final = 1 << 22


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
    """

    def __init__(self, folder: Path, identify: Callable[[int], str] = lambda _: "") -> None:
        self.folder = folder / "uids"
        self._identify = identify

    def refresh(self, connection: duckdb.DuckDBPyConnection, snapshot: int) -> None:
        """Learn what was committed since the last run, up to and with `snapshot`."""
        make_folder(self.folder)
        runs = self._runs()
        covered = runs[-1].last if runs else -1
        if covered > snapshot or (runs and runs[-1].identity != self._identify(covered)):
            self.forget()
            covered = -1
        if covered < snapshot:
            self._add(covered + 1, snapshot, _committed_hashes(connection, covered, snapshot))

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
        if snapshot == before + 1:
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

    def _path(self, first: int, last: int) -> Path:
        identity = self._identify(last)
        return self.folder / f"{first}-{last}{f'-{identity}' if identity else ''}.u64"

    def _write(self, first: int, last: int, ranges: Iterable[Hashes]) -> None:
        with (
            # What a power cut takes away is made again at the next refresh.
            write_durably(self._path(first, last), needed=False) as temporary,
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
        for low, high in _ranges(count):
            hashes = np.concatenate([_within(found, low, high) for found in _batches(self.paths)])
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


def _within(hashes: Hashes, low: int | None, high: int | None) -> Hashes:
    if low is not None:
        hashes = hashes[hashes >= np.uint64(low)]
    return hashes if high is None else hashes[hashes < np.uint64(high)]


def _bounds(hashes: Hashes, others: Hashes) -> tuple[int, int]:
    """Which of some sorted hashes lie between the first and the last of others, as a slice."""
    start = np.searchsorted(hashes, others[0], side="left")
    return int(start), int(np.searchsorted(hashes, others[-1], side="right"))


def _mergeable(older: int, newer: int) -> bool:
    return newer * 2 >= older and older + newer <= _MERGED_MAX


def _ranges(count: int) -> Iterator[tuple[int | None, int | None]]:
    """All hashes in so many ranges: from the first bound on, and below the second one."""
    edges = [(1 << 64) * k // count for k in range(1, count)]
    return zip([None, *edges], [*edges, None], strict=True)


def _committed_hashes(
    connection: duckdb.DuckDBPyConnection, covered: int, snapshot: int
) -> Iterator[Hashes]:
    """The hashes that snapshots after `covered`, up to and with `snapshot`, brought, by ranges."""
    source = f"lake.uid_index AT (VERSION => {snapshot})"
    if covered >= 0:
        since = f"ducklake_table_insertions('lake', 'main', 'uid_index', {covered + 1}, {snapshot})"
        # If a snapshot in between has expired: more than needed does no harm.
        source = since if _is_readable(connection, since) else source
    row = connection.execute(f"SELECT count(*) FROM {source}").fetchone()
    assert row is not None
    for low, high in _ranges(max(1, -(-int(row[0]) // _RANGE_ROWS))):
        bounds = [f"uid_hash >= {low}::UBIGINT"] if low is not None else []
        bounds += [f"uid_hash < {high}::UBIGINT"] if high is not None else []
        where = " AND ".join(bounds or ["true"])
        yield _sort(_hashes(connection, f"SELECT uid_hash FROM {source} WHERE {where}"))


def _is_readable(connection: duckdb.DuckDBPyConnection, source: str) -> bool:
    # The question may fail, and that would abort a transaction: it is asked beside it.
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT count(*) FROM {source}").fetchone()
        except duckdb.InvalidInputException:
            return False
    return True


def _hashes(connection: duckdb.DuckDBPyConnection, query: str) -> Hashes:
    found: Hashes = connection.execute(query).fetchnumpy()["uid_hash"]
    return np.asarray(found, np.uint64)
