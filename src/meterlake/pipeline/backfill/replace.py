"""Replace: new source files take the place of the measurements of a window, in one commit.

The files are kept with the backfill. They are read when it is staged, to see what they change, and
once more when it is applied; what comes out must be the same.
"""

import filecmp
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from meterlake.model.errors import Busy, Conflict, Invalid
from meterlake.model.measurements.receipt import Delivery
from meterlake.model.values.failpoint import mark_step
from meterlake.model.work.backfill import Action
from meterlake.pipeline.backfill import incoming
from meterlake.pipeline.backfill.difference import difference
from meterlake.pipeline.backfill.edits import check_untouched, edit
from meterlake.pipeline.backfill.incoming import Incoming
from meterlake.pipeline.backfill.job import BackfillJob, Folder
from meterlake.pipeline.backfill.rederive import selection
from meterlake.pipeline.backfill.retract import refuse_deleted_accounts, refuse_taken, withdraw
from meterlake.pipeline.ingest.commit import Conflicting, WrittenSource, write
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.files import claiming, folder_mappings, load_mapping
from meterlake.pipeline.ingest.reporting import report_source
from meterlake.pipeline.ingest.run import prepare
from meterlake.pipeline.jobs.progress import OfFiles
from meterlake.stores.files.durable import disk, make_folder, sync
from meterlake.stores.lake.backfill.changes import MeterChange
from meterlake.stores.lake.backfill.replacing import stage_came
from meterlake.stores.lake.backfill.rows import (
    affected_by,
    bring_back,
    bring_back_errors,
    by_keys,
    delete_errors,
    delete_measurements,
    delete_uids,
    fingerprint,
    keys,
    stage_keys,
    taken_uids,
)
from meterlake.stores.lake.backfill.sources import sources_of_deliveries
from meterlake.stores.lake.backfill.steps import Next, forget_corrections, note_corrected
from meterlake.stores.lake.tables import newest_snapshot
from meterlake.stores.lake.withdrawals import note_emptied, note_retracted, note_withdrawn


def keep_sources(job: BackfillJob, files: list[Path], mapping: Path | None, *, ended: bool) -> None:
    """Keep copies of the files, so that the backfill can be applied, and applied again, later.

    With other files than before, it has to be staged again.

    Args:
        job: The backfill.
        files: The files.
        mapping: How to read them.
        ended: Whether nothing is kept any more, as it was applied, reverted or dropped.

    Raises:
        Conflict: It has ended, with other files.
    """
    folder = job.folder.sources
    pairs = [(path, folder / str(number)) for number, path in enumerate(files)]
    if mapping is not None:
        pairs.append((mapping, folder / "mapping"))
    if ended:
        for given, kept in pairs:
            # Whoever repeats himself may have cleared the file away.
            if kept.exists() and given.is_file() and not _alike(given, kept):
                raise Conflict(
                    f"backfill {job.backfill.id!r} is {job.backfill.status.value}, with another"
                    f" content of {given.name!r}: take another id"
                )
        return
    if (folder / Folder.WHOLE).exists() and all(_alike(*pair) for pair in pairs):
        return
    job.folder.begin()
    job.folder.clear(job.folder.sources_copy, folder)
    make_folder(folder)
    with disk():
        for path, target in pairs:
            make_folder(target)
            shutil.copyfile(path, target / path.name)
            sync(target / path.name)
            sync(target)
        (folder / Folder.WHOLE).touch()
    sync(folder)


def check_files(files: Sequence[Path], mapping: Path | None) -> None:
    """Check that files are there, before anything is written down.

    Raises:
        Invalid: One of them is not there.
    """
    for path in (*files, *([mapping] if mapping else ())):
        if not path.is_file():
            raise Invalid("file", str(path), "it must be a file that is there")


def _alike(path: Path, kept: Path) -> bool:
    with disk():
        return (kept / path.name).is_file() and filecmp.cmp(path, kept / path.name, shallow=False)


@contextmanager
def _prepare_files(job: BackfillJob) -> Iterator[list[Incoming]]:
    """The files, read and staged; what was staged is gone afterwards.

    Raises:
        UnreadableSource: One cannot be read at all.
        Invalid: Two of them are the same.
    """
    found: list[Incoming] = []
    ids: list[str] = []
    try:
        # The kept files, in their order, and how to read each.
        folder = job.folder.sources
        if not (folder / Folder.WHOLE).exists():
            raise Conflict(
                f"the files of backfill {job.backfill.id!r} are not here: give them again"
            )
        numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
        paths = [path for number in numbers for path in (folder / str(number)).iterdir()]
        given = [load_mapping(path) for path in folder.glob("mapping/*")]
        organization = job.organization
        known = given or folder_mappings(
            drop_folder(organization.stores, organization.code).mappings
        )
        sources = [(path, given[0] if given else claiming(known, path.name)) for path in paths]
        told = OfFiles([path for path, _ in sources], job.progress)
        for number, (path, mapping) in enumerate(sources):
            ids.append(f"{_prefix(job)}{number}")
            delivery = Delivery(ids[-1], path.name, job.backfill.created)
            what = prepare(job.organization, path, delivery, mapping, told)
            found.append(Incoming(number, what))
            told.finish(path)
        identities = {each.identity for each in found}
        if len(identities) < len(found):
            raise Invalid(
                "files",
                [each.name for each in found],
                "each file must have a name of its own; rename them",
            )
        yield found
    finally:
        for each in ids:
            job.lake.drop_staging(each)


def _prefix(job: BackfillJob) -> str:
    """What the ids of its deliveries begin with; a number follows."""
    return f"backfill-{job.backfill.id}-"


def tidy(job: BackfillJob) -> None:
    """Remove what a process staged that died."""
    prefix, staging = _prefix(job), job.lake.staging
    for path in staging.iterdir() if staging.is_dir() else ():
        if path.name.startswith(prefix) and path.name[len(prefix) :].isdigit():
            job.lake.drop_staging(path.name)


def stage(job: BackfillJob) -> dict[str, Any]:
    """Read the files, and find out what changes with them.

    Raises:
        Invalid: A file holds measurements that the backfill is not about.
    """
    folder, snapshot = job.folder, job.backfill.snapshot
    folder.begin()
    with _prepare_files(job) as found:
        with job.lake.reader() as connection:
            for each in found:
                incoming.check_inside(connection, each, selection(job))
            gone = stage_keys(connection, selection(job), snapshot, folder.gone)
            marks = fingerprint(connection, selection(job), snapshot, snapshot)
            outcome = incoming.foresee(connection, found, folder.gone, snapshot)
            rows = incoming.rows_foreseen(connection, found, outcome.dropped)
        mark_step("backfill.keys_staged")
        changes = _changes(job, found, outcome)
        shown = difference(job.organization, snapshot, changes)
        outcome.forget()
    came = sum(each["accepted"] for each in outcome.counts)
    read = [each.mark for each in found]
    folder.write({"fingerprint": marks, "counts": outcome.counts, "rows": rows, "read": read})
    return {
        "measurementsGone": gone,
        "measurementsCame": came,
        "files": outcome.counts,
        "rejected": outcome.rejected,
        **shown,
    }


@contextmanager
def staged_changes(job: BackfillJob) -> Iterator[list[MeterChange]]:
    """What files replace, meter by meter, while they are read once more.

    Raises:
        Conflict: They, or the configuration that they are read with, are not as they were staged.
    """
    with _prepare_files(job) as found:
        _check_alike_read(job, found)
        with job.lake.reader() as connection:
            outcome = incoming.foresee(connection, found, job.folder.gone, job.backfill.snapshot)
        try:
            yield _changes(job, found, outcome)
        finally:
            outcome.forget()


def _changes(
    job: BackfillJob, found: list[Incoming], outcome: incoming.ReplacementOutcome
) -> list[MeterChange]:
    gone = job.folder.gone
    with job.lake.reader() as connection:
        meters = {each.meter_id for each in affected_by(connection, gone)}
    return [
        MeterChange(
            id_,
            keys(gone) if meters else None,
            incoming.rows_of(found, id_, outcome.dropped),
            incoming.columns_of(found, id_),
        )
        for id_ in sorted(meters | incoming.meters_of(found))
    ]


def _check_alike_read(job: BackfillJob, found: list[Incoming]) -> None:
    if [each.mark for each in found] != job.folder.read()["read"]:
        raise Conflict(
            "the files or the configuration that they are read with have changed since"
            f" backfill {job.backfill.id!r} was staged: start it again with its id"
        )


def apply(job: BackfillJob) -> int:
    """Put the new measurements in the place of the old ones; the snapshot that this made.

    Raises:
        Conflict: The lake, the configuration or the outcome is not as it was staged.
        Busy: Somebody ingested the same files at the same time.
    """
    written: list[WrittenSource] = []

    def change(connection: duckdb.DuckDBPyConnection, step: Next) -> None:
        check_untouched(job, connection, selection(job))
        _check_alike_read(job, found)
        before = newest_snapshot(connection)
        # Before anything is deleted: should this be rolled back, the cache must know all uids.
        job.lake.uids.refresh(connection, before)
        job.progress(withdraw(job, connection, step), 1, 1 + len(found))
        note_emptied(connection, step, job.folder.gone)
        # Not by the snapshot before: within a transaction that shows what it wrote, too.
        stayed = incoming.rows_stored(connection, found)
        for each in found:
            hashes = [one.stored for one in written]
            written.append(write(job.lake, connection, each.what, before, hashes))
            job.progress(written[-1].receipt.accepted, 1 + len(written), 1 + len(found))
        counts = [incoming.count(one.receipt) for one in written]
        rows = incoming.rows_more(incoming.rows_stored(connection, found), stayed)
        staged = job.folder.read()
        # As many of other rows are not the same measurements.
        if counts != staged["counts"] or rows != staged["rows"]:
            raise Conflict(
                f"the files of backfill {job.backfill.id!r} would come out otherwise than they"
                " did when it was staged: start it again with its id"
            )

    with _prepare_files(job) as found:
        try:
            made = edit(job, Action.APPLY, change)
        except Conflicting:
            raise Busy(
                "source", "others ingested the same files at the same time; try again later"
            ) from None
    for each in written:
        report_source(job.organization, each.receipt)
    return made


def undo(job: BackfillJob, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Bring the old measurements back in the place of the new ones, within a transaction.

    Raises:
        Conflict: The new ones are not as they were left, or a uid was taken meanwhile.
    """
    folder, applied = job.folder, job.backfill.applied
    assert applied is not None
    snapshots = job.backfill.snapshot, applied
    sources = sources_of_deliveries(connection, _deliveries(job))
    stage_came(connection, sources, snapshots, folder.gone, folder.came)
    brought = by_keys(folder.came, selection(job))
    if fingerprint(connection, brought, applied, None) != fingerprint(
        connection, brought, applied, applied
    ):
        raise Conflict(
            f"backfill {job.backfill.id!r} cannot be reverted: a later backfill changed or"
            " withdrew some of what it brought; revert that one first"
        )
    refuse_taken(job, taken_uids(connection, folder.gone, but=folder.came))
    refuse_deleted_accounts(job, connection)
    note_retracted(connection, step, folder.came)
    note_withdrawn(connection, step, _deliveries(job))
    rows = delete_measurements(connection, folder.came)
    delete_uids(connection, folder.came, rows)
    note_corrected(connection, step, folder.came)
    delete_errors(connection, folder.came)
    bring_back(connection, folder.gone, job.backfill.snapshot, with_uids=True)
    mark_step("backfill.brought_back")
    bring_back_errors(connection, folder.gone, job.backfill.snapshot)
    forget_corrections(connection, job.backfill.id, step.number - 1)


def _deliveries(job: BackfillJob) -> str:
    """A pattern of the ids of its deliveries."""
    return f"{re.escape(_prefix(job))}[0-9]+"
