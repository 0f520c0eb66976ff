"""What a source holds, validated and written to files that wait for its commit; outside the lock.

A measurement whose uid came before is staged aside from the others: most likely the commit drops it,
and then it need not write all others again without it. Which rows stay is the commit's matter alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from pathlib import Path
from typing import Final

import polars as pl

from meterlake.model.measurements.measurement import (
    CALCULATION_ERROR,
    LAKE_TABLES,
    Field,
    MeterFields,
)
from meterlake.model.measurements.receipt import SAMPLE_MAX, Receipt
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.values.failpoint import mark_step
from meterlake.pipeline.ingest.reading import ReadBlock, Reading, read
from meterlake.pipeline.jobs.progress import Progress
from meterlake.stages.ingest.dedup import SeenUids
from meterlake.stages.ingest.validate import Accepted
from meterlake.stages.ingest.validate.account_codes import NewAccounts
from meterlake.stores.lake import ledger
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.staged_parquet import StagedFile, StagedFiles

_REJECTED_BUFFER: Final = 50_000
_REJECTED_CHARACTERS: Final = 1 << 25


@dataclass
class SourceStaging:
    """What reading a source leaves: files that wait for the commit, and counts."""

    folder: Path
    accounts: NewAccounts = field(default_factory=NewAccounts)
    received: int = 0
    repeats: int = 0
    rounded: int = 0
    reasons: Counter[Reason] = field(default_factory=Counter)
    sample: list[Rejection] = field(default_factory=list)
    incomplete: int = 0
    errors: list[Rejection] = field(default_factory=list)
    used_accounts: set[str] = field(default_factory=set)
    files: list[StagedFile] = field(default_factory=list)
    # By table: fields of measurements that their meter has no more.
    former: dict[str, set[Field]] = field(default_factory=dict)


def stage(
    reading: Reading,
    receipt: Receipt,
    lake: Lake,
    progress: Progress,
    send: Callable[[StagedFile], None] | None = None,
) -> SourceStaging:
    """Read a source and stage what it holds.

    Args:
        reading: How to read it, and where to write.
        receipt: What is known of it so far.
        lake: The lake that it is for.
        progress: Told how far the file is read, block by block.
        send: Takes each file that is finished, if somebody does.

    Raises:
        UnreadableSource: The file cannot be read at all.
        Unavailable: The disk failed.
    """
    threads, synced = reading.settings.threads, lake.files.is_local
    files = StagedFiles(reading.scratch, threads, synced=synced, send=send)
    # What tells the rows to set aside; of a source of one block it is not worth the second file.
    if receipt.size_bytes <= reading.settings.block_bytes:
        seen = None
    else:
        seen = SeenUids(receipt.size_bytes)
        for hashes in lake.uids.glimpse(seen.capacity):
            seen.learn(hashes)
    work = _Work(reading, receipt, files, seen)
    try:
        work.blocks(progress)
        origins = receipt.delivery.origins
        if origins:
            files.write("requeue", ledger.requeue_frame(origins, receipt.identity))
        work.done.files = files.close()
    finally:
        files.abandon()
    mark_step("ingest.staged")
    return work.done


@dataclass
class _Work:
    """One source on its way into staged files."""

    reading: Reading
    receipt: Receipt
    files: StagedFiles
    seen: SeenUids | None
    done: SourceStaging = field(init=False)

    def __post_init__(self) -> None:
        self.done = SourceStaging(self.reading.scratch)

    def blocks(self, progress: Progress) -> None:
        waiting: list[Rejection] = []
        for block in read(self.reading):
            waiting += block.rejected + block.complete(self.block(block))
            self.done.received += block.seen
            self.done.repeats += block.skipped
            self.done.rounded += block.rounded
            if len(waiting) >= _REJECTED_BUFFER or _characters(waiting) >= _REJECTED_CHARACTERS:
                self.note_rejected(waiting)
                self.files.flush("rejected")
                waiting = []
            progress(block.seen, self.reading.position.bytes, self.receipt.size_bytes)
        self.note_rejected(waiting)

    def block(self, block: ReadBlock) -> list[Rejection]:
        """Stage what was accepted of a block; answers with what is refused of that."""
        refused: list[Rejection] = []
        aside: set[tuple[int, int]] = set()
        for each in block.accepted:
            near, good = self.without_near_misses(each)
            refused += near
            self.note_fields(each.meter)
            for rows, suspect in self.partition(good):
                measured = _columns(rows, self.columns(each.meter))
                self.files.write_by_month(each.meter.table, measured, aside=suspect)
                self.files.write(
                    "uid_index", _columns(rows, LAKE_TABLES["uid_index"]), aside=suspect
                )
                if suspect and block.errors:
                    aside |= set(rows.select("row", "part").iter_rows())
        self.note_errors(block, {row.place() for row in refused}, aside)
        return refused

    def columns(self, meter: MeterFields) -> Iterable[str]:
        """The columns of measurements that may have other fields than their meter has today.

        They have the meter's columns, too: of one that lay in no file, DuckLake would not know that
        it has nulls.
        """
        return dict.fromkeys([*self.reading.meters[meter.code].columns, *meter.columns])

    def note_fields(self, meter: MeterFields) -> None:
        former = set(meter.fields).difference(self.reading.meters[meter.code].fields)
        if former:
            self.done.former.setdefault(meter.table, set()).update(former)

    def without_near_misses(self, accepted: Accepted) -> tuple[list[Rejection], pl.DataFrame]:
        near = self.done.accounts.admit(accepted.new_accounts)
        if not near:
            return [], accepted.frame
        ids = {self.reading.accounts.new_id(code): code for code in near}
        late = pl.col("account_id").is_in(list(ids))
        refused = _near_misses(accepted.frame.filter(late), ids, accepted.meter.code)
        return refused, accepted.frame.filter(~late)

    def partition(self, frame: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, bool]]:
        """The rows, and whether they are suspects, that is to be set aside."""
        suspects = None if self.seen is None else self.seen.suspects(frame["uid_hash"].to_numpy())
        places = None if suspects is None else pl.Series(suspects)
        others = frame if places is None else frame.filter(~places)
        if len(others):
            yield others, False
        if places is not None:
            # Some rows of a frame without the memory of the others, which their texts would hold on
            # to.
            few = frame.filter(places)
            texts = [column for column in few if column.dtype == pl.String]
            oldest = pl.CompatLevel.oldest()
            alone = few.with_columns(
                pl.Series(column.name, column.to_arrow(compat_level=oldest)) for column in texts
            )
            yield alone, True

    def note_rejected(self, rows: list[Rejection]) -> None:
        if not rows:
            return
        self.done.reasons.update(row.reason for row in rows)
        self.done.sample += _first(rows, SAMPLE_MAX - len(self.done.sample))
        self.files.write("rejected", self.problems(rows))

    def note_errors(
        self, block: ReadBlock, gone: set[tuple[int, int]], aside: set[tuple[int, int]]
    ) -> None:
        """Stage what could not be calculated of the block's measurements, but for those gone."""
        self.done.used_accounts |= block.used
        errors = [row for row in block.errors if row.place() not in gone]
        self.done.incomplete += len({row.place() for row in errors})
        self.done.errors += _first(errors, SAMPLE_MAX - len(self.done.errors))
        for suspect in (False, True):
            rows = [row for row in errors if (row.place() in aside) == suspect]
            if rows:
                self.files.write(CALCULATION_ERROR, self.problems(rows), aside=suspect)

    def problems(self, rows: list[Rejection]) -> pl.DataFrame:
        receipt = self.receipt
        return ledger.rejected_frame(rows, receipt.identity, receipt.attempt, receipt.delivery.name)


def _columns(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    # Not `select`: it would wait for the threads that read.
    return pl.DataFrame([frame[name] for name in names])


def _near_misses(rows: pl.DataFrame, codes: dict[str, str], meter: str) -> list[Rejection]:
    return [
        Rejection(
            row,
            Reason.INVALID_ACCOUNT_CODE,
            f"{codes[account]!r} is nearly the code of another new account of the file",
            part=part,
            field="account",
            meter=meter,
            uid=uid,
        )
        for row, part, uid, account in rows.select("row", "part", "uid", "account_id").iter_rows()
    ]


def _first(rows: list[Rejection], count: int) -> list[Rejection]:
    """The first rows of the source: within a block they come check by check."""
    return nsmallest(count, rows, key=Rejection.place)


def _characters(rows: list[Rejection]) -> int:
    return sum(len(row.original) + len(row.measurement or "") for row in rows)
