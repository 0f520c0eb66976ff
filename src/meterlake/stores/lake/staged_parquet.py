"""Validated measurements on their way into the lake: Parquet files outside it, one per partition."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from meterlake.stores.files.durable import disk, sync

ROW_GROUP_ROWS: Final = 122_880
# A file with usage of many years must not run out of file handles.
_OPEN_MAX: Final = 100
_BUFFERED_ROWS_MAX: Final = 1_000_000
# A row may have fifteen texts of a thousand characters.
_PART_BYTES_MAX: Final = 48 << 20
_BUFFERED_BYTES_MAX: Final = 128 << 20
# Where files are sent as they are finished: large enough to be few, small enough to begin early.
SENT_ROWS: Final = 4 * ROW_GROUP_ROWS
_INCOMPRESSIBLE: Final = frozenset({"uid", "uid_hash", "content_hash"})
# Uids without a length before each one are compressed in half the time.
_ENCODINGS: Final = {"row": "DELTA_BINARY_PACKED", "uid": "DELTA_LENGTH_BYTE_ARRAY"}
_BOUNDED_TEXTS: Final = frozenset({"account_id", "source", "identity", "meter_id"})


class StagedFile(NamedTuple):
    """One file that waits to be registered; `partition` is its folder below the table's."""

    table: str
    partition: str
    path: Path
    rows: int


class _Partition:
    """One file, seldom more. Row groups are written on the pool's threads, one after the other."""

    def __init__(
        self,
        path: Path,
        pool: ThreadPoolExecutor,
        *,
        synced: bool,
        send: Callable[[Path, int], None] | None = None,
    ) -> None:
        self.path = path
        self.pool = pool
        self.synced = synced
        self.send = send
        self.finished: list[tuple[Path, int]] = []
        self.writing: Future[None] | None = None
        self.closing = False
        self.rows = 0
        self.buffered = self.buffered_bytes = 0
        self.frames: list[pl.DataFrame] = []
        self.writer: pq.ParquetWriter | None = None

    def add(self, frame: pl.DataFrame) -> None:
        self.frames.append(frame)
        self.buffered += len(frame)
        self.buffered_bytes += int(frame.estimated_size())

    def flush(self) -> None:
        if not self.frames:
            return
        self._wait()
        if self.send is not None and self.rows + self.buffered >= SENT_ROWS:
            self.begin_finish()
            return
        self.writing = self.pool.submit(self._write, self.frames)
        self.rows += self.buffered
        self.frames, self.buffered, self.buffered_bytes = [], 0, 0

    def _wait(self) -> None:
        if self.writing is not None:
            with disk():
                self.writing.result()
        if self.closing:
            if self.rows:
                self.finished.append((self._path, self.rows))
            self.writer, self.writing, self.rows, self.closing = None, None, 0, False

    def _write(self, frames: list[pl.DataFrame]) -> None:
        table = pl.concat(frames).to_arrow(compat_level=pl.CompatLevel.oldest())
        if self.writer is None:
            self.writer = pq.ParquetWriter(
                self._path, table.schema, **parquet_options(table.schema)
            )
        self.writer.write_table(table, row_group_size=ROW_GROUP_ROWS)

    @property
    def _path(self) -> Path:
        return self.path.with_name(f"{self.path.name}-{len(self.finished)}.parquet")

    def finish(self) -> None:
        """Write what there is; later rows make a further file."""
        self.begin_finish()
        self.end_finish()

    def begin_finish(self) -> None:
        """Begin to do that, on a thread of the pool."""
        self._wait()
        frames, self.frames = self.frames, []
        self.rows += self.buffered
        self.buffered = self.buffered_bytes = 0
        self.writing = self.pool.submit(self._finish, frames, self.rows)
        self.closing = True

    def end_finish(self) -> None:
        """Wait until it is done."""
        self._wait()

    def _finish(self, frames: list[pl.DataFrame], rows: int) -> None:
        if frames:
            self._write(frames)
        if self.writer is None:
            return
        self.writer.close()
        if self.synced:
            sync(self._path)
        if self.send is not None and rows:
            self.send(self._path, rows)


class _Key(NamedTuple):
    """What the rows of one file have in common."""

    table: str
    partition: str
    aside: bool
    columns: tuple[str, ...]


class StagedFiles:
    """Writes frames to files by table and partition, in bounded memory.

    One file for a table without partitions; more than one only where there are very many partitions,
    or where files are sent. Rows that are set aside go to files of their own, and so do rows with
    other columns.

    Args:
        folder: Where the files are written.
        threads: How many are written at the same time.
        synced: Whether they stay when the power goes. What is uploaded before it counts needs not.
        send: Takes each file as soon as it is finished, on any thread, but those set aside; None if
            they are not sent before all are there.
    """

    def __init__(
        self,
        folder: Path,
        threads: int = 2,
        *,
        synced: bool = True,
        send: Callable[[StagedFile], None] | None = None,
    ) -> None:
        self.folder = folder
        self._send = send
        self._synced = synced
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="stage")
        self._partitions: dict[_Key, _Partition] = {}
        self._buffered = 0

    def write_by_month(self, table: str, frame: pl.DataFrame, *, aside: bool = False) -> None:
        """Add measurements to the files of the months of their `ts`."""
        first, last = frame["ts"].min(), frame["ts"].max()
        assert isinstance(first, datetime)
        assert isinstance(last, datetime)
        if (first.year, first.month) == (last.year, last.month):
            self.write(table, frame, _month_folder(first.year, first.month), aside=aside)
            return
        months = frame["ts"].dt.truncate("1mo")
        for month in months.unique().sort():
            folder = _month_folder(month.year, month.month)
            self.write(table, frame.filter(months == month), folder, aside=aside)

    def write(
        self, table: str, frame: pl.DataFrame, partition: str = "", *, aside: bool = False
    ) -> None:
        """Add rows to the file of one partition, or to the one for rows that are set aside."""
        key = _Key(table, partition, aside, tuple(frame.columns))
        if key not in self._partitions:
            # All in one folder: making and removing others costs as much as a small file.
            kind = "aside" if aside else "rows"
            number = len(self._partitions)
            name = "-".join([table, *partition.split("/"), kind, str(number)])
            self._partitions[key] = _Partition(
                self.folder / name, self._pool, synced=self._synced, send=self._sender(key)
            )
        part = self._partitions[key]
        part.add(frame)
        self._buffered += len(frame)
        if part.buffered >= ROW_GROUP_ROWS or part.buffered_bytes >= _PART_BYTES_MAX:
            self._flush([part])
        elif (
            self._buffered > _BUFFERED_ROWS_MAX
            or sum(part.buffered_bytes for part in self._partitions.values()) > _BUFFERED_BYTES_MAX
        ):
            self._flush(list(self._partitions.values()))

    def _sender(self, key: _Key) -> Callable[[Path, int], None] | None:
        send = self._send
        if send is None or key.aside:
            return None
        return lambda path, rows: send(StagedFile(key.table, key.partition, path, rows))

    def flush(self, table: str) -> None:
        """Write what is buffered of a table without partitions, as its rows may be large."""
        self._flush([part for key, part in self._partitions.items() if key.table == table])

    def _flush(self, parts: list[_Partition]) -> None:
        for part in parts:
            self._buffered -= part.buffered
            part.flush()
            writing = [
                open_part
                for key, open_part in self._partitions.items()
                if key.partition and open_part.writing is not None
            ]
            if len(writing) > _OPEN_MAX:
                for open_part in writing:
                    self._buffered -= open_part.buffered
                    open_part.finish()

    def close(self) -> list[StagedFile]:
        """Finish all files."""
        try:
            return list(self._close_files())
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Stop writing; what was written is of no use then."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _close_files(self) -> Iterator[StagedFile]:
        for part in self._partitions.values():
            part.begin_finish()
        for key, part in self._partitions.items():
            part.end_finish()
            for path, rows in part.finished:
                yield StagedFile(key.table, key.partition, path, rows)


def _compression(name: str, schema: pa.Schema) -> str:
    # Hashes do not compress, and the uids beside them are seldom read.
    return "none" if "uid_hash" in schema.names and name in _INCOMPRESSIBLE else "zstd"


def _month_folder(year: int, month: int) -> str:
    return f"year={year}/month={month}"


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """How lake files are written: zstd 1, dictionaries where texts repeat.

    Bounds of texts cost as much as their encoding and prune nothing, but for accounts and sources.
    """
    texts = [
        field.name
        for field in schema
        if bool(pa.types.is_large_string(field.type) or pa.types.is_dictionary(field.type))
    ]
    bounded = [name for name in schema.names if name not in texts or name in _BOUNDED_TEXTS]
    return {
        "compression": {name: _compression(name, schema) for name in schema.names},
        "compression_level": {
            name: 1 for name in schema.names if _compression(name, schema) == "zstd"
        },
        "use_dictionary": [name for name in texts if name != "uid"],
        "column_encoding": {name: _ENCODINGS[name] for name in schema.names if name in _ENCODINGS},
        "write_statistics": bounded,
    }
