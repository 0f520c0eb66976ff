"""Ingest: one source from its bytes to one commit in the lake, exactly once.

Reading, validating and staging run outside the lake's lock; de-duplication and the commit run
under it. One lake transaction holds the measurements, the uids, the rejected rows and the row of
the ledger: a crash before it leaves nothing, a crash after it leaves everything, and the ledger
tells the next run which of the two it was.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import polars as pl

from meterlake.model import wire
from meterlake.model.errors import Busy, Invalid, UnbalancedBooks, UnreadableSource
from meterlake.model.failpoint import reached
from meterlake.model.mapping import Mapping
from meterlake.model.measurement import (
    LAKE_TABLES,
    Origin,
    Reason,
    Rejection,
)
from meterlake.model.receipt import SAMPLE_MAX, Delivery, Receipt, SourceFormat
from meterlake.pipeline.account_codes import account_codes
from meterlake.pipeline.commit import Commit, Conflicting, commit
from meterlake.pipeline.derivations import read_meters
from meterlake.pipeline.reading import ReadBlock, Reading, completed_again, read
from meterlake.pipeline.reporting import report_source
from meterlake.pipeline.staged_books import tell_unbalanced
from meterlake.stages.validate.account_codes import NewAccounts
from meterlake.stores import Stores, ledger, source_file
from meterlake.stores.staged import StagedFile, StagedFiles
from meterlake.stores.state.skeletons import create_skeletons

Progress = Callable[[int], None]

_TRIES: Final = 20
_REJECTED_BUFFER: Final = 50_000
_REJECTED_CHARACTERS: Final = 1 << 25


@dataclass(frozen=True)
class _Source:
    """A file with everything that identifies it."""

    path: Path
    delivery: Delivery
    sha256: str
    size_bytes: int
    identity: str
    format: SourceFormat | None
    mapping: Mapping | None

    def receipt(self, attempt: int) -> Receipt:
        return Receipt(
            delivery=self.delivery,
            identity=self.identity,
            attempt=attempt,
            sha256=self.sha256,
            size_bytes=self.size_bytes,
            format=str(self.format or "unknown"),
            mapping=self.mapping.fingerprint if self.mapping else None,
            status="done",
        )


@dataclass
class _Staging:
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


def ingest_file(
    stores: Stores,
    org_id: str,
    path: Path,
    delivery: Delivery,
    mapping: Mapping | None = None,
    progress: Progress | None = None,
) -> Receipt:
    """Ingest one file.

    Safe to repeat after a crash: the same delivery is committed once, and every repetition
    answers with the receipt of that one commit.

    Args:
        stores: The home's stores.
        org_id: The organization.
        path: The file; it must not change meanwhile.
        delivery: The arrival; repeat it with the same id to recover from a crash.
        mapping: How to read a file that is not in our own format.
        progress: Called with the number of measurements read since the last call.

    Returns:
        What became of its rows; a file that cannot be read has a receipt too, with a reason.

    Raises:
        UnbalancedBooks: What was counted is not what would be stored; nothing is.
        Unavailable: The disk or the lake failed; worth another try.
    """
    stores.lake(org_id).open_to_write()
    source, refusal = _identified(path, delivery, mapping)
    try:
        for _ in range(_TRIES):
            # Another process may commit this source, or its accounts, meanwhile: then look again.
            with suppress(Conflicting):
                receipt = _tried(stores, org_id, source, refusal, progress or (lambda _: None))
                report_source(stores, org_id, receipt)
                return receipt
    except UnbalancedBooks as error:
        tell_unbalanced(stores, org_id, error)
        raise
    finally:
        # Also what an earlier process left that died after its commit.
        stores.lake(org_id).drop_staging(delivery.id)
    raise Busy("source", f"{_TRIES} others ingested {delivery.name} at the same time")


def _tried(
    stores: Stores,
    org_id: str,
    source: _Source,
    refusal: UnreadableSource | None,
    progress: Progress,
) -> Receipt:
    if refusal is not None:
        return _failed(stores, org_id, source, refusal)
    try:
        return _attempt(stores, org_id, source, progress)
    except UnreadableSource as error:
        return _failed(stores, org_id, source, error)


def _identified(
    path: Path, delivery: Delivery, mapping: Mapping | None
) -> tuple[_Source, UnreadableSource | None]:
    """The source, and why it cannot be read if its name says so already."""
    sha256, size = source_file.digest(path)
    try:
        outside = _outside(delivery, mapping)
        if delivery.own:
            outside["delivery"] = delivery.id
        form = source_file.recognized(path, delivery.name, mapping)
    except UnreadableSource as error:
        return _Source(path, delivery, sha256, size, sha256, None, mapping), error
    return _Source(path, delivery, sha256, size, _identity(sha256, outside), form, mapping), None


def _outside(delivery: Delivery, mapping: Mapping | None) -> dict[str, str]:
    try:
        return mapping.outside_constants(delivery.name) if mapping else {}
    except Invalid as error:
        raise UnreadableSource(delivery.name, Reason.NO_ACCOUNT, str(error)) from None


def _identity(sha256: str, outside: dict[str, str]) -> str:
    if not outside:
        return sha256
    return hashlib.sha256(f"{sha256}\n{wire.dumps_sorted(outside)}".encode()).hexdigest()


def _attempt(stores: Stores, org_id: str, source: _Source, progress: Progress) -> Receipt:
    lake = stores.lake(org_id)
    past = lake.history(source.identity, source.delivery.id)
    if past.same_delivery is not None:
        with lake.reader() as connection:
            return ledger.with_sample(connection, past.same_delivery)
    receipt = source.receipt(past.attempts + 1)
    only = None
    if past.done is not None and _read_alike(past.done, receipt):
        with lake.reader() as connection:
            only = ledger.rejected_places(connection, past.done)
        if only.is_empty():
            receipt = replace(receipt, received=past.done.received, repeats=past.done.received)
            return commit(lake, Commit(receipt, stores.now()))
    reading = _reading(stores, org_id, source, only)
    staged = _stage(reading, receipt, progress)
    return _committed(stores, org_id, reading, receipt, staged)


def _read_alike(past: Receipt, receipt: Receipt) -> bool:
    """Whether the rows of an earlier attempt are those of this one, number by number."""
    return (past.mapping, past.format) == (receipt.mapping, receipt.format)


def _reading(
    stores: Stores,
    org_id: str,
    source: _Source,
    only: pl.DataFrame | None,
) -> Reading:
    assert source.format is not None
    meters, derivations = read_meters(stores.state, org_id)
    return Reading(
        path=source.path,
        name=source.delivery.name,
        format=source.format,
        mapping=source.mapping,
        meters=meters,
        accounts=account_codes(stores.state, org_id),
        origin=Origin(source.identity, source.delivery.received_at),
        settings=stores.settings,
        scratch=stores.lake(org_id).new_staging(source.delivery.id),
        only=only,
        derivations=derivations,
    )


def _stage(reading: Reading, receipt: Receipt, progress: Progress) -> _Staging:
    staging = _Staging(reading.scratch)
    files = StagedFiles(reading.scratch, reading.settings.threads)
    try:
        _stage_blocks(reading, receipt, staging, files, progress)
        origins = receipt.delivery.origins
        if origins:
            files.write("requeue", ledger.requeue_frame(origins, receipt.identity))
        staging.files = files.close()
    finally:
        files.abandon()
    reached("ingest.staged")
    return staging


def _stage_blocks(
    reading: Reading, receipt: Receipt, staging: _Staging, files: StagedFiles, progress: Progress
) -> None:
    waiting: list[Rejection] = []
    for block in read(reading):
        refused = _write(block, files, staging, reading)
        _note_errors(block, refused, staging, files, receipt)
        waiting += block.rejected + block.complete(refused)
        staging.received += block.seen
        staging.repeats += block.skipped
        staging.rounded += block.rounded
        if len(waiting) >= _REJECTED_BUFFER or _characters(waiting) >= _REJECTED_CHARACTERS:
            _note_rejected(waiting, staging, files, receipt)
            files.flush("rejected")
            waiting = []
        progress(block.seen)
    _note_rejected(waiting, staging, files, receipt)


def _write(
    block: ReadBlock, files: StagedFiles, staging: _Staging, reading: Reading
) -> list[Rejection]:
    refused: list[Rejection] = []
    for meter, whole, new_accounts in block.accepted:
        near = staging.accounts.admit(new_accounts)
        frame = whole
        if near:
            ids = {reading.accounts.new_id(code): code for code in near}
            late = pl.col("account_id").is_in(list(ids))
            refused += _near_misses(frame.filter(late), ids, meter.code)
            frame = frame.filter(~late)
        files.write_by_month(meter.table, _columns(frame, meter.columns))
        files.write("uid_index", _columns(frame, LAKE_TABLES["uid_index"]))
    return refused


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


def _characters(rows: list[Rejection]) -> int:
    return sum(len(row.original) + len(row.measurement or "") for row in rows)


def _note_rejected(
    rows: list[Rejection], staging: _Staging, files: StagedFiles, receipt: Receipt
) -> None:
    if not rows:
        return
    staging.reasons.update(row.reason for row in rows)
    staging.sample += rows[: SAMPLE_MAX - len(staging.sample)]
    frame = ledger.rejected_frame(rows, receipt.identity, receipt.attempt, receipt.delivery.name)
    files.write("rejected", frame)


def _note_errors(
    block: ReadBlock,
    refused: list[Rejection],
    staging: _Staging,
    files: StagedFiles,
    receipt: Receipt,
) -> None:
    """Stage what could not be calculated of the block's measurements, without the refused ones."""
    staging.used_accounts |= block.used
    gone = {row.place() for row in refused}
    errors = [row for row in block.errors if row.place() not in gone]
    if not errors:
        return
    staging.incomplete += len({row.place() for row in errors})
    staging.errors += errors[: SAMPLE_MAX - len(staging.errors)]
    frame = ledger.rejected_frame(errors, receipt.identity, receipt.attempt, receipt.delivery.name)
    files.write("calculation_error", frame)


def _committed(
    stores: Stores, org_id: str, reading: Reading, receipt: Receipt, staged: _Staging
) -> Receipt:
    counted = replace(
        receipt,
        received=staged.received,
        accepted=staged.received - staged.repeats - staged.reasons.total(),
        repeats=staged.repeats,
        rejected=staged.reasons.total(),
        rounded=staged.rounded,
        reasons=dict(staged.reasons),
        sample=tuple(sorted(staged.sample, key=Rejection.place)),
        incomplete=staged.incomplete,
        errors=tuple(sorted(staged.errors, key=Rejection.place)),
    )
    return commit(
        stores.lake(org_id),
        Commit(
            counted,
            stores.now(),
            meters={meter.table: meter for meter in reading.meters.values()},
            versions=reading.derivations.pinned(staged.used_accounts)
            | {meter.id: meter.version for meter in reading.meters.values()},
            files=staged.files,
            folder=staged.folder,
            complete=lambda rows: completed_again(reading, rows),
            before=lambda: _create_accounts(stores, org_id, reading, staged.accounts.codes),
        ),
    )


def _create_accounts(stores: Stores, org_id: str, reading: Reading, codes: Iterable[str]) -> int:
    """Create the skeleton accounts of the new codes.

    Raises:
        Conflicting: Someone made an account of that code with another id meanwhile, or one of
            nearly that code.
    """
    wanted = {code: reading.accounts.new_id(code) for code in codes}
    if not wanted:
        return 0
    # Those that other sources brought since this one was read: under the lock there come no more.
    present = account_codes(stores.state, org_id)
    if any(map(present.is_near_miss, wanted)):
        raise Conflicting
    created = create_skeletons(stores.state, org_id, wanted)
    if created is None:
        raise Conflicting
    reached("ingest.accounts_created")
    return created


def _failed(stores: Stores, org_id: str, source: _Source, error: UnreadableSource) -> Receipt:
    lake = stores.lake(org_id)
    past = lake.history(source.identity, source.delivery.id)
    if past.same_delivery is not None:
        return past.same_delivery
    receipt = replace(
        source.receipt(past.attempts + 1),
        status="failed",
        reason=Reason(error.reason),
        detail=error.detail,
    )
    return commit(lake, Commit(receipt, stores.now()))
