"""Ingest: one source from its bytes to one commit in the lake, exactly once.

Reading, validating and staging run outside the lake's lock; de-duplication and the commit run
under it. One lake transaction holds the measurements, the uids, the rejected rows and the row of
the ledger: a crash before it leaves nothing, a crash after it leaves everything, and the ledger
tells the next run which of the two it was.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from meterlake.model.errors import Busy, Invalid, NotReconciled, UnreadableSource
from meterlake.model.measurements.columns import ignored_sentence
from meterlake.model.measurements.mapping import Mapping
from meterlake.model.measurements.measurement import Origin
from meterlake.model.measurements.receipt import Delivery, Receipt, SourceFormat
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.values import wire
from meterlake.pipeline.ingest.commit import AccountsToCreate, Commit, Conflicting, commit, preview
from meterlake.pipeline.ingest.derivations import account_codes, read_meters
from meterlake.pipeline.ingest.reader_crashes import counting_deaths
from meterlake.pipeline.ingest.reading import Reading, completed_again
from meterlake.pipeline.ingest.reporting import report_source
from meterlake.pipeline.ingest.sent_files import SentFiles, tell_unbalanced
from meterlake.pipeline.ingest.staging import SourceStaging, stage
from meterlake.pipeline.jobs.progress import Progress, untold
from meterlake.stores import Organization
from meterlake.stores.files import source_file
from meterlake.stores.lake import ledger

_TRIES: Final = 20


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


def ingest_file(
    organization: Organization,
    path: Path,
    delivery: Delivery,
    mapping: Mapping | None = None,
    progress: Progress = untold,
) -> Receipt:
    """Ingest one file.

    Safe to repeat after a crash: the same delivery is committed once, and every repetition
    answers with the receipt of that one commit.

    Args:
        organization: The organization.
        path: The file; it must not change meanwhile.
        delivery: The arrival; repeat it with the same id to recover from a crash.
        mapping: How to read a file that is not in our own format.
        progress: Told how far the file is read, block by block.

    Returns:
        What became of its rows; a file that cannot be read has a receipt too, with a reason.

    Raises:
        UnbalancedBooks: What was counted is not what would be stored; nothing is.
        Unavailable: The disk or the lake failed; worth another try.
    """
    organization.lake.open_to_write()
    source, refusal = _identify(path, delivery, mapping)
    try:
        for _ in range(_TRIES):
            # Another process may commit this source, or its accounts, meanwhile: then look again.
            with suppress(Conflicting):
                receipt = _try_source(organization, source, refusal, progress)
                report_source(organization, receipt)
                return receipt
    except NotReconciled as error:
        tell_unbalanced(organization, error)
        raise
    finally:
        # Also what an earlier process left that died after its commit.
        organization.lake.drop_staging(delivery.id)
    raise Busy(
        "source", f"{_TRIES} others ingested {delivery.name} at the same time; try again later"
    )


def preview_file(
    organization: Organization,
    path: Path,
    delivery: Delivery,
    mapping: Mapping | None = None,
    progress: Progress = untold,
) -> Receipt:
    """Tell what would become of a file's rows if it were ingested now; nothing is stored.

    Args:
        organization: The organization.
        path: The file.
        delivery: An arrival that nobody else has the id of.
        mapping: How to read a file that is not in our own format.
        progress: Told how far the file is read, block by block.

    Raises:
        Unavailable: The disk or the lake failed.
    """
    lake = organization.lake
    source, refusal = _identify(path, delivery, mapping)
    receipt = source.receipt(lake.history(source.identity, delivery.id).attempts + 1)
    try:
        if refusal is not None:
            raise refusal
        reading = _reading(organization, source, None)
        staged = stage(reading, receipt, lake, progress)
        found = preview(lake, _prepare_commit(organization, reading, receipt, staged))
        return replace(found, new_accounts=len(staged.accounts.codes))
    except UnreadableSource as error:
        return replace(receipt, status="failed", reason=Reason(error.reason), detail=error.detail)
    finally:
        lake.drop_staging(delivery.id)


def open_reading(
    organization: Organization, path: Path, delivery: Delivery, mapping: Mapping | None
) -> Reading:
    """What decides what a file's bytes mean; whoever reads drops the delivery's staging folder.

    Raises:
        UnreadableSource: Its name or its first bytes say already that it cannot be read.
        Unavailable: The disk or the lake failed.
    """
    source, refusal = _identify(path, delivery, mapping)
    if refusal is not None:
        raise refusal
    return _reading(organization, source, None)


def prepare(
    organization: Organization,
    path: Path,
    delivery: Delivery,
    mapping: Mapping | None,
    progress: Progress = untold,
) -> Commit:
    """Read and stage a file whole, whatever is known of it, for a commit that somebody else does.

    Whoever does that drops the staging folder of the delivery afterwards.

    Raises:
        UnreadableSource: It cannot be read at all.
        Unavailable: The disk or the lake failed.
    """
    lake = organization.lake
    lake.open_to_write()
    source, refusal = _identify(path, delivery, mapping)
    if refusal is not None:
        raise refusal
    with lake.reader() as connection:
        past = ledger.history(connection, source.identity, delivery.id)
    receipt = source.receipt(past.attempts + 1)
    reading = _reading(organization, source, None)
    staged = stage(reading, receipt, lake, progress)
    return _prepare_commit(organization, reading, receipt, staged)


def _try_source(
    organization: Organization,
    source: _Source,
    refusal: UnreadableSource | None,
    progress: Progress,
) -> Receipt:
    if refusal is not None:
        return _report_failure(organization, source, refusal)
    try:
        return _attempt(organization, source, progress)
    except UnreadableSource as error:
        return _report_failure(organization, source, error)


def _identify(
    path: Path, delivery: Delivery, mapping: Mapping | None
) -> tuple[_Source, UnreadableSource | None]:
    """The source, and why it cannot be read if its name says so already."""
    sha256, size = source_file.digest(path)
    try:
        outside = _outside(delivery, mapping)
        if delivery.own:
            outside["delivery"] = delivery.id
        form = source_file.recognize_format(path, delivery.name, mapping)
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


def _attempt(organization: Organization, source: _Source, progress: Progress) -> Receipt:
    lake = organization.lake
    past = lake.history(source.identity, source.delivery.id)
    if past.same_delivery is not None:
        with lake.reader() as connection:
            return ledger.with_sample(connection, past.same_delivery)
    receipt = source.receipt(past.attempts + 1)
    only = None
    read_as = receipt.mapping, receipt.format
    # Read alike, the rows of an earlier attempt are those of this one, number by number.
    if past.done is not None and (past.done.mapping, past.done.format) == read_as:
        with lake.reader() as connection:
            only = ledger.missing_places(connection, past.done)
            if ledger.repeats_freed(connection, past.done, len(only)):
                only = None
        if only is not None and only.is_empty():
            receipt = replace(receipt, received=past.done.received, repeats=past.done.received)
            return commit(lake, Commit(receipt, organization.now))
    reading = _reading(organization, source, only)
    with lake.sending() as send:
        sent = None if send is None else SentFiles(send)
        with counting_deaths(organization.stores.home, organization.id, source.delivery):
            staged = stage(reading, receipt, lake, progress, sent.send if sent else None)
        what = _prepare_commit(organization, reading, receipt, staged)
        return commit(lake, replace(what, names=sent.names if sent else {}))


def _reading(organization: Organization, source: _Source, only: pl.DataFrame | None) -> Reading:
    assert source.format is not None
    meters, derivations = read_meters(organization.state, organization.id)
    return Reading(
        path=source.path,
        name=source.delivery.name,
        format=source.format,
        mapping=source.mapping,
        meters=meters,
        accounts=account_codes(organization.state, organization.id),
        origin=Origin(source.identity, source.delivery.received_at),
        settings=organization.settings,
        scratch=organization.lake.new_staging(source.delivery.id),
        only=only,
        derivations=derivations,
    )


def _prepare_commit(
    organization: Organization, reading: Reading, receipt: Receipt, staged: SourceStaging
) -> Commit:
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
        ignored=reading.ignored,
        detail=ignored_sentence(reading.ignored),
    )
    return Commit(
        counted,
        organization.now,
        meters={
            meter.table: replace(meter, former=tuple(sorted(staged.former.get(meter.table, ()))))
            for meter in reading.meters.values()
        },
        versions=reading.derivations.versions_used(staged.used_accounts)
        | {meter.id: meter.version for meter in reading.meters.values()},
        files=staged.files,
        folder=staged.folder,
        complete=lambda rows: completed_again(reading, rows),
        new_accounts=AccountsToCreate(
            organization.state,
            organization.id,
            {code: reading.accounts.new_id(code) for code in staged.accounts.codes},
        ),
    )


def _report_failure(
    organization: Organization, source: _Source, error: UnreadableSource
) -> Receipt:
    lake = organization.lake
    past = lake.history(source.identity, source.delivery.id)
    if past.same_delivery is not None:
        return past.same_delivery
    receipt = replace(
        source.receipt(past.attempts + 1),
        status="failed",
        reason=Reason(error.reason),
        detail=error.detail,
    )
    return commit(lake, Commit(receipt, organization.now))
