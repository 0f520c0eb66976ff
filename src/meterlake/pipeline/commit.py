"""The commit of one source: de-duplicated and registered in one lake transaction, under the lock."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import duckdb
import numpy as np
import polars as pl

from meterlake.model.errors import Unavailable
from meterlake.model.failpoint import reached
from meterlake.model.measurement import CALCULATION_ERROR, MeterFields, Reason, Rejection
from meterlake.model.receipt import SAMPLE_MAX, Receipt
from meterlake.pipeline.staged_books import check_staged
from meterlake.stages import dedup
from meterlake.stores import ledger
from meterlake.stores.durable import sync
from meterlake.stores.known_uids import Hashes, KnownUids, StagedHashes
from meterlake.stores.lake import Lake, newest_snapshot, translated
from meterlake.stores.lake_connection import INLINED_ROWS_MAX, identifier, quoted
from meterlake.stores.staged import ROW_GROUP_ROWS, StagedFile

# Staged files whose rows stay whatever becomes of the measurements beside them.
_WHOLE: Final = frozenset({"rejected", "requeue"})
# Those that may have too few rows for a file of their own.
_INLINED: Final = _WHOLE | {CALCULATION_ERROR}


class Conflicting(Exception):
    """Another process committed what this attempt was about; look again."""


class Overtaken(Exception):
    """Rows that were chosen to be requeued were looked at meanwhile; choose again."""


@dataclass(frozen=True)
class Commit:
    """What one source brings to the lake. `receipt` counts all that passed as accepted."""

    receipt: Receipt
    finished_at: datetime
    meters: dict[str, MeterFields] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    files: list[StagedFile] = field(default_factory=list)
    folder: Path = Path()
    # Adds the texts of their rows to rejections: to those that turn out to contradict a known uid.
    complete: Callable[[list[Rejection]], list[Rejection]] = lambda rows: rows
    # Run under the lock before the transaction; gives the number of accounts it created.
    before: Callable[[], int] = lambda: 0


class _Dropped(NamedTuple):
    repeats: int
    contradictions: list[Rejection]


def commit(lake: Lake, what: Commit) -> Receipt:
    """Commit one source and answer with its final receipt.

    Raises:
        Conflicting: The ledger changed since the attempt began.
        UnbalancedBooks: What was counted is not what would be stored.
        Overtaken: A row that is given in again is not as it was when it was chosen.
        Unavailable: The disk or the lake failed.
    """
    with lake.lock():
        reached("commit.locked")
        uids = _uid_file(what.files)
        hashes = StagedHashes(uids.path, uids.rows) if uids else None
        known = KnownUids(lake.cache)
        with lake.transaction(uids.rows if uids else 0) as connection:
            before = newest_snapshot(connection)
            _check_ledger(lake, connection, before, what.receipt)
            created = what.before()
            files, receipt = what.files, what.receipt
            if hashes is not None:
                known.refresh(connection, before)
                files, receipt = _deduplicated(connection, _suspects(known, hashes), what)
            check_staged(receipt, files, what.meters)
            registered = _register(lake, connection, files, what)
            lake.insert(
                connection,
                "source",
                [ledger.source_row(receipt, what.finished_at, what.versions)],
            )
        snapshot = lake.committed_snapshot()
        lake.sources.committed(before, snapshot, what.receipt.identity)
        with suppress(Unavailable, OSError):
            # Committed already: a cache that lacks the run is completed by the next refresh.
            _remember(known, before, snapshot, _uid_file(registered), hashes)
    reached("commit.done")
    return replace(receipt, snapshot=snapshot, new_accounts=created)


def _uid_file(files: list[StagedFile]) -> StagedFile | None:
    return next((file for file in files if file.table == "uid_index"), None)


def _remember(
    known: KnownUids,
    before: int,
    snapshot: int,
    kept: StagedFile | None,
    hashes: StagedHashes | None,
) -> None:
    if kept is None:
        return
    if hashes is None or hashes.rows != kept.rows:
        hashes = StagedHashes(kept.path, kept.rows)
    hashes.path = kept.path
    known.committed(before, snapshot, hashes)


def _check_ledger(
    lake: Lake, connection: duckdb.DuckDBPyConnection, snapshot: int, receipt: Receipt
) -> None:
    past = lake.sources.history(connection, snapshot, receipt.identity, receipt.delivery.id)
    if past.attempts + 1 != receipt.attempt:
        raise Conflicting
    origins = receipt.delivery.origins
    if origins and not ledger.are_open(connection, origins):
        raise Overtaken


def _deduplicated(
    connection: duckdb.DuckDBPyConnection, suspects: Hashes, what: Commit
) -> tuple[list[StagedFile], Receipt]:
    uids = _uid_file(what.files)
    if uids is None or not len(suspects):
        return what.files, what.receipt
    staged = f"read_parquet({quoted(uids.path)})"
    connection.register("suspect_hash", pl.DataFrame({"uid_hash": suspects}).to_arrow())
    query = dedup.DROPPED.format(staged=staged, suspects="suspect_hash")
    connection.execute(f"CREATE OR REPLACE TEMP TABLE dropped AS {query}")
    connection.unregister("suspect_hash")
    dropped = _dropped(connection, what)
    if not dropped.repeats and not dropped.contradictions:
        return what.files, what.receipt
    files = [
        kept
        for file in what.files
        if (kept := file if file.table in _WHOLE else _kept(connection, file)) is not None
    ]
    receipt = _still_incomplete(connection, what.receipt, files)
    files += _contradiction_files(dropped.contradictions, what)
    return files, _recounted(receipt, dropped)


def _still_incomplete(
    connection: duckdb.DuckDBPyConnection, receipt: Receipt, files: list[StagedFile]
) -> Receipt:
    """The receipt without the calculation errors of rows that are not stored."""
    if not receipt.incomplete:
        return receipt
    left = next((file for file in files if file.table == CALCULATION_ERROR), None)
    staged = None if left is None else f"read_parquet({quoted(left.path)})"
    return ledger.still_incomplete(connection, receipt, staged)


def _suspects(known: KnownUids, staged: StagedHashes) -> Hashes:
    """Hashes that stand twice in the source or may stand in the lake."""
    found = [np.empty(0, np.uint64)]
    for hashes in staged:
        found += [hashes[1:][hashes[1:] == hashes[:-1]], hashes[known.probe(hashes)]]
    return np.unique(np.concatenate(found))


def _dropped(connection: duckdb.DuckDBPyConnection, what: Commit) -> _Dropped:
    counts = connection.execute("SELECT count(*) FILTER (repeat) FROM dropped").fetchone()
    assert counts is not None
    wrong = connection.execute(
        "SELECT row, part, uid, meter_id FROM dropped WHERE NOT repeat ORDER BY row, part"
    ).fetchall()
    codes = {meter.id: meter.code for meter in what.meters.values()}
    contradictions = [
        Rejection(
            row,
            Reason.DUPLICATE_UID,
            f"uid {uid!r} is known with other content",
            part=part,
            field="uid",
            meter=codes[meter_id],
            uid=uid,
        )
        for row, part, uid, meter_id in wrong
    ]
    return _Dropped(counts[0], what.complete(contradictions))


def _kept(connection: duckdb.DuckDBPyConnection, file: StagedFile) -> StagedFile | None:
    """The staged file without the dropped rows; None if nothing is left of it."""
    staged = f"read_parquet({quoted(file.path)}, hive_partitioning => false)"
    kept = dedup.KEPT.format(staged=staged, dropped="dropped")
    target = file.path.with_name(f"kept-{file.path.name}")
    with translated():
        written = connection.execute(
            f"COPY ({kept}) TO {quoted(target)} (FORMAT parquet, COMPRESSION zstd,"
            f" COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {ROW_GROUP_ROWS})"
        ).fetchone()
    assert written is not None
    rows = int(written[0])
    if rows == file.rows:
        return file
    sync(target)
    return file._replace(path=target, rows=rows) if rows else None


def _contradiction_files(rows: list[Rejection], what: Commit) -> list[StagedFile]:
    if not rows:
        return []
    receipt = what.receipt
    frame = ledger.rejected_frame(rows, receipt.identity, receipt.attempt, receipt.delivery.name)
    path = what.folder / "contradictions.parquet"
    frame.write_parquet(path, compression="zstd", compression_level=1)
    sync(path)
    return [StagedFile("rejected", "", path, len(frame))]


def _recounted(receipt: Receipt, dropped: _Dropped) -> Receipt:
    wrong = len(dropped.contradictions)
    reasons = Counter(receipt.reasons)
    if wrong:
        reasons[Reason.DUPLICATE_UID] += wrong
    sample = sorted([*receipt.sample, *dropped.contradictions], key=Rejection.place)[:SAMPLE_MAX]
    return replace(
        receipt,
        accepted=receipt.accepted - dropped.repeats - wrong,
        repeats=receipt.repeats + dropped.repeats,
        rejected=receipt.rejected + wrong,
        reasons=dict(reasons),
        sample=tuple(sample),
    )


def _register(
    lake: Lake, connection: duckdb.DuckDBPyConnection, files: list[StagedFile], what: Commit
) -> list[StagedFile]:
    """Make the staged files part of the lake; they come back with their new paths."""
    registered = []
    for table in dict.fromkeys(file.table for file in files):
        if table in what.meters:
            lake.ensure_meter_table(connection, what.meters[table])
    for file in files:
        if file.table in _INLINED and file.rows <= INLINED_ROWS_MAX:
            connection.execute(
                f"INSERT INTO lake.{identifier(file.table)} BY NAME"
                f" SELECT * FROM read_parquet({quoted(file.path)})"
            )
            continue
        name = f"{uuid4()}.parquet"
        below = f"{file.partition}/{name}" if file.partition else name
        path = lake.register(connection, file.table, file.path, below)
        registered.append(file._replace(path=path))
    return registered
