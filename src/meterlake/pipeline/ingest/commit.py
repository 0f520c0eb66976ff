"""The commit of one source: de-duplicated and registered in one lake transaction, under the lock."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import polars as pl

from meterlake.model.errors import Invalid, Unavailable, UnreadableSource
from meterlake.model.measurements.measurement import CALCULATION_ERROR, MeterFields
from meterlake.model.measurements.receipt import SAMPLE_MAX, Receipt
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.sql import identifier, quote
from meterlake.pipeline.ingest.derivations import account_codes
from meterlake.pipeline.ingest.sent_files import WHOLE, check_staged, is_inlined, new_name
from meterlake.stages.ingest import dedup
from meterlake.stores.files.durable import sync
from meterlake.stores.lake import ledger
from meterlake.stores.lake.connection import parquet, translate_errors
from meterlake.stores.lake.known_uids import Hashes, Probe, StagedHashes
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.staged_parquet import ROW_GROUP_ROWS, StagedFile
from meterlake.stores.lake.tables import newest_snapshot
from meterlake.stores.lake.uid_shards import uids_since
from meterlake.stores.state import State
from meterlake.stores.state.core.auto_accounts import create_auto_accounts


class Conflicting(Exception):
    """Another process committed what this attempt was about; look again."""


class Overtaken(Exception):
    """Rows that were chosen to be requeued were looked at meanwhile; choose again."""


@dataclass(frozen=True, slots=True)
class AccountsToCreate:
    """The accounts that a source brings: they are there before its measurements are.

    Attributes:
        ids: The id of each by its code.
    """

    state: State
    org_id: str
    ids: dict[str, str]

    def create(self) -> int:
        """Create them under the lake's lock; how many were new.

        Raises:
            Conflicting: Someone made an account of that code with another id meanwhile, or one of
                nearly that code.
        """
        if not self.ids:
            return 0
        # Those that other sources brought since this one was read: under the lock there come no more.
        present = account_codes(self.state, self.org_id)
        if any(map(present.is_near_miss, self.ids)):
            raise Conflicting
        created = create_auto_accounts(self.state, self.org_id, self.ids)
        if created is None:
            raise Conflicting
        mark_step("ingest.accounts_created")
        return created


@dataclass(frozen=True)
class Commit:
    """What one source brings to the lake. `receipt` counts all that passed as accepted."""

    receipt: Receipt
    # Asked when all but the ledger's row is written: nobody knows before how long that takes.
    now: Callable[[], datetime]
    meters: dict[str, MeterFields] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    files: list[StagedFile] = field(default_factory=list)
    folder: Path = Path()
    # Of files that were sent already: their paths below their tables' folders.
    names: Mapping[Path, str] = field(default_factory=dict)
    # Adds the texts of their rows to rejections: to those that turn out to contradict a known uid.
    complete: Callable[[list[Rejection]], list[Rejection]] = lambda rows: rows
    new_accounts: AccountsToCreate | None = None


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
    early = _deduplicate_early(lake, what)
    with lake.lock():
        mark_step("commit.locked")
        rows = _hashes(what.files).rows
        with lake.transaction(rows) as connection:
            before = newest_snapshot(connection)
            done = write(lake, connection, what, before, early=early)
        snapshot = lake.committed_snapshot()
        lake.sources.add_commit(before, snapshot, what.receipt.identity)
        with suppress(Unavailable, OSError):
            # Committed already: a cache that lacks the run is completed by the next refresh.
            _remember(lake, before, snapshot, _hashes(done.files), done.hashes)
    mark_step("commit.done")
    return replace(done.receipt, snapshot=snapshot)


def preview(lake: Lake, what: Commit) -> Receipt:
    """The receipt that a commit of the source would give; nothing is written.

    Raises:
        Unavailable: The disk or the lake failed.
    """
    hashes, known = _hashes(what.files), lake.uids
    if not hashes.rows:
        return what.receipt
    with lake.lock(), lake.reader() as connection:
        probe = known.refresh(connection, newest_snapshot(connection))
        return _deduplicate(connection, _suspects(probe, hashes, ()), what)[1]


class WrittenSource(NamedTuple):
    """What was written of a source: its final receipt, its files in the lake, its uids' hashes."""

    receipt: Receipt
    files: list[StagedFile]
    hashes: StagedHashes

    @property
    def stored(self) -> StagedHashes:
        """The hashes of the uids that came into the lake, where their files are now."""
        return _hashes(self.files)


class _Deduplicated(NamedTuple):
    """A source without the rows that were repeats or contradictions as of a snapshot."""

    snapshot: int
    identity: str
    files: list[StagedFile]
    receipt: Receipt
    hashes: StagedHashes


def _deduplicate_early(lake: Lake, what: Commit) -> _Deduplicated | None:
    """Compare a source with a sharded lake before the lake's lock is taken; None for other lakes.

    What others commit meanwhile is compared under the lock.
    """
    hashes = _hashes(what.files)
    if not hashes.rows or not lake.uids.is_sharded:
        return None
    with lake.reader() as connection:
        snapshot = newest_snapshot(connection)
        identity = lake.catalog.identity(connection, snapshot)
        suspects = _suspects(lake.uids.refresh(connection, snapshot), hashes, ())
        files, receipt = _deduplicate(connection, suspects, what)
    return _Deduplicated(snapshot, identity, files, receipt, hashes)


def _still_holds(
    lake: Lake, connection: duckdb.DuckDBPyConnection, before: int, early: _Deduplicated
) -> bool:
    """Whether nothing of a source came into the lake since, and nothing left the lake."""
    checked = early.snapshot
    if checked > before or lake.identity(checked) != early.identity:
        return False  # The catalog was set back.
    came = np.empty(0, np.uint64) if checked == before else uids_since(connection, checked, before)
    return came is not None and not any(
        len(np.intersect1d(came, hashes)) for hashes in (early.hashes if len(came) else ())
    )


def write(
    lake: Lake,
    connection: duckdb.DuckDBPyConnection,
    what: Commit,
    before: int,
    earlier: Sequence[StagedHashes] = (),
    early: _Deduplicated | None = None,
) -> WrittenSource:
    """Write one source within a transaction, under the lock.

    Args:
        lake: The lake.
        connection: The transaction's.
        what: The source.
        before: The snapshot before the transaction.
        earlier: Of other sources that the same transaction has written already.
        early: What came of it before the lock was taken.

    Raises:
        Conflicting, UnbalancedBooks, Overtaken, Unavailable: As `commit` says.
    """
    hashes = early.hashes if early else _hashes(what.files)
    _check_ledger(lake, connection, before, what.receipt)
    created = 0 if what.new_accounts is None else what.new_accounts.create()
    files, receipt = what.files, what.receipt
    if early is not None and _still_holds(lake, connection, before, early):
        files, receipt = early.files, early.receipt
    elif hashes.rows:
        suspects = _suspects(lake.uids.refresh(connection, before), hashes, earlier)
        files, receipt = _deduplicate(connection, suspects, what)
    check_staged(receipt, files, what.meters)
    registered = _register(lake, connection, files, what)
    row = ledger.source_row(receipt, what.now(), what.versions)
    lake.insert(connection, "source", [row])
    return WrittenSource(replace(receipt, new_accounts=created), registered, hashes)


def _paths(files: list[StagedFile], table: str) -> list[Path]:
    return [file.path for file in files if file.table == table]


def _hashes(files: list[StagedFile]) -> StagedHashes:
    rows = sum(file.rows for file in files if file.table == "uid_index")
    return StagedHashes(_paths(files, "uid_index"), rows)


def _remember(
    lake: Lake, before: int, snapshot: int, kept: StagedHashes, staged: StagedHashes
) -> None:
    if not kept.rows:
        return
    if staged.rows == kept.rows:
        staged.paths = kept.paths  # Those in memory are still right.
        kept = staged
    lake.uids.add_commit(before, snapshot, kept)


def _check_ledger(
    lake: Lake, connection: duckdb.DuckDBPyConnection, snapshot: int, receipt: Receipt
) -> None:
    past = lake.sources.history(connection, snapshot, receipt.identity, receipt.delivery.id)
    if past.attempts + 1 != receipt.attempt:
        raise Conflicting
    origins = receipt.delivery.origins
    if origins and not ledger.are_as_chosen(connection, origins):
        raise Overtaken


def _deduplicate(
    connection: duckdb.DuckDBPyConnection, suspects: Hashes, what: Commit
) -> tuple[list[StagedFile], Receipt]:
    if not len(suspects):
        return what.files, what.receipt
    staged = parquet(_paths(what.files, "uid_index"))
    connection.register("suspect_hash", pl.DataFrame({"uid_hash": suspects}).to_arrow())
    query = dedup.DROPPED.format(staged=staged, suspects="suspect_hash")
    connection.execute(f"CREATE OR REPLACE TEMP TABLE dropped AS {query}")
    connection.unregister("suspect_hash")
    dropped = _drop_known(connection, what)
    if not dropped.repeats and not dropped.contradictions:
        return what.files, what.receipt
    files = [
        kept
        for file in what.files
        if (kept := file if file.table in WHOLE else _keep_rest(connection, file)) is not None
    ]
    receipt = what.receipt
    if receipt.incomplete:
        # Without the calculation errors of rows that are not stored.
        left = _paths(files, CALCULATION_ERROR)
        receipt = ledger.still_incomplete(connection, receipt, parquet(left) if left else None)
    files += _contradiction_files(dropped.contradictions, what)
    return files, _recount(receipt, dropped)


def _suspects(probe: Probe, staged: StagedHashes, earlier: Sequence[StagedHashes]) -> Hashes:
    """Hashes that stand twice in the source, in an earlier one, or may stand in the lake."""
    found = [np.empty(0, np.uint64)]
    for hashes in staged:
        found += [hashes[1:][hashes[1:] == hashes[:-1]], hashes[probe(hashes)]]
        found += [np.intersect1d(hashes, others) for each in earlier for others in each]
    return np.unique(np.concatenate(found))


def _drop_known(connection: duckdb.DuckDBPyConnection, what: Commit) -> _Dropped:
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


def _keep_rest(connection: duckdb.DuckDBPyConnection, file: StagedFile) -> StagedFile | None:
    """The staged file without the dropped rows; None if nothing is left of it."""
    staged = parquet([file.path])
    with translate_errors():
        found = connection.execute(dedup.GOING.format(staged=staged, dropped="dropped")).fetchone()
    assert found is not None
    rows = file.rows - int(found[0])
    if rows in {0, file.rows}:
        return file if rows else None
    kept = dedup.KEPT.format(staged=staged, dropped="dropped")
    target = file.path.with_name(f"kept-{file.path.name}")
    with translate_errors():
        connection.execute(
            f"COPY ({kept}) TO {quote(target)} (FORMAT parquet, COMPRESSION zstd,"
            f" COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {ROW_GROUP_ROWS})"
        )
    sync(target)
    return file._replace(path=target, rows=rows)


def _contradiction_files(rows: list[Rejection], what: Commit) -> list[StagedFile]:
    if not rows:
        return []
    receipt = what.receipt
    frame = ledger.rejected_frame(rows, receipt.identity, receipt.attempt, receipt.delivery.name)
    path = what.folder / "contradictions.parquet"
    frame.write_parquet(path, compression="zstd", compression_level=1)
    sync(path)
    return [StagedFile("rejected", "", path, len(frame))]


def _recount(receipt: Receipt, dropped: _Dropped) -> Receipt:
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


def _ensure_columns(
    lake: Lake, connection: duckdb.DuckDBPyConnection, what: Commit, table: str
) -> None:
    """Have a meter's table take the source's measurements.

    Raises:
        UnreadableSource: They have fields that their meter has no more, and that it cannot take.
    """
    try:
        lake.ensure_meter_table(connection, what.meters[table])
    except Invalid as error:
        name = what.receipt.delivery.name
        raise UnreadableSource(name, Reason.UNKNOWN_FIELD, str(error)) from None


def _register(
    lake: Lake, connection: duckdb.DuckDBPyConnection, files: list[StagedFile], what: Commit
) -> list[StagedFile]:
    """Make the staged files part of the lake; they come back with their new paths."""
    small = [file for file in files if is_inlined(file)]
    large = [file for file in files if file not in small]
    for table in dict.fromkeys(file.table for file in files):
        if table in what.meters:
            _ensure_columns(lake, connection, what, table)
    for file in small:
        connection.execute(
            f"INSERT INTO lake.{identifier(file.table)} BY NAME SELECT * FROM {parquet([file.path])}"
        )
    names = [what.names.get(file.path) or new_name(file) for file in large]
    new = [(file.table, file.path, name) for file, name in zip(large, names, strict=True)]
    paths = lake.register_all(connection, new)
    return [file._replace(path=path) for file, path in zip(large, paths, strict=True)]
