"""Re-derive: derived fields of stored measurements once more, as meters and lookups are now."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import duckdb

from meterlake.model.errors import Conflict
from meterlake.model.measurements.measurement import CALCULATION_ERROR, MeterFields
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.sql import identifier
from meterlake.model.work.jobs import FanOutRunner
from meterlake.pipeline.backfill import partitions
from meterlake.pipeline.backfill.difference import difference
from meterlake.pipeline.backfill.edits import check_untouched
from meterlake.pipeline.backfill.job import BackfillJob, Folder
from meterlake.pipeline.backfill.month_tasks import open_job, read_notes
from meterlake.pipeline.backfill.partitions import Part, RecalculatedMonth, Recalculation
from meterlake.pipeline.ingest.derivations import Derivations, read_meters
from meterlake.stores import Stores
from meterlake.stores.fan_out import FanOutTask, runner_of
from meterlake.stores.lake.backfill.changes import MeterChange
from meterlake.stores.lake.backfill.recalculated import changed_keys, stage_errors
from meterlake.stores.lake.backfill.rows import (
    RowSelection,
    bring_back,
    bring_back_errors,
    by_keys,
    copy,
    delete_errors,
    delete_measurements,
    fingerprint,
    keys,
    rows_within,
)
from meterlake.stores.lake.backfill.steps import Next, forget_corrections, note_corrected


def selection(job: BackfillJob) -> RowSelection:
    """The measurements of the window."""
    spec = job.backfill.spec
    assert spec.window is not None
    return rows_within(spec.window.start, spec.window.end, spec.accounts, spec.meters)


def stage(job: BackfillJob) -> dict[str, Any]:
    """Calculate everything again, and keep what differs from what is stored."""
    folder, snapshot = job.folder, job.backfill.snapshot
    folder.begin()
    work, runner = _recalculation(job), runner_of(job.organization.stores)
    spread = None if runner is None else partial(_spread_parts, work, runner)
    found = partitions.calculate(work, spread)
    with job.lake.reader() as connection:
        stage_errors(
            connection,
            selection(job),
            job.backfill.snapshot,
            {each.meter_id for each in found},
            [path for each in found for path in each.errors],
            (job.folder.wrong, job.folder.errors),
        )
        changed = ((each.meter_id, each.rows) for each in found)
        rows = copy(connection, changed_keys(changed), folder.gone)
        marks = fingerprint(connection, selection(job), snapshot, snapshot)
    mark_step("backfill.keys_staged")
    changes = _changes(job, found)
    shown = difference(job.organization, snapshot, changes)
    files = [each.to_wire(folder.rows) for each in found if each.changed]
    folder.write(
        {"fingerprint": marks, "versions": work.versions, "rows": rows, "partitions": files}
    )
    seen = sum(each.seen for each in found)
    return {
        "measurementsSeen": seen,
        "measurementsGone": rows,
        "measurementsCame": rows,
        "partitions": len(found),
        **shown,
    }


@contextmanager
def staged_changes(job: BackfillJob) -> Iterator[list[MeterChange]]:
    """What is calculated anew, meter by meter, once it is staged."""
    staged = job.folder.read()["partitions"]
    yield _changes(job, [RecalculatedMonth.from_wire(line, job.folder.rows) for line in staged])


def _changes(job: BackfillJob, found: list[RecalculatedMonth]) -> list[MeterChange]:
    return [
        MeterChange(id_, keys(job.folder.gone), f"({partitions.rows_of(found, id_)})", columns)
        for id_, columns in partitions.changed_columns(found).items()
    ]


def _recalculation(job: BackfillJob) -> Recalculation:
    meters, derivations = read_meters(job.organization.state, job.organization.id)
    versions = _versions(job, meters, derivations)
    return Recalculation(job, selection(job), versions, meters, derivations)


def _spread_parts(
    work: Recalculation, runner: FanOutRunner, parts: Sequence[Part]
) -> list[RecalculatedMonth]:
    """Have a runner calculate partitions."""
    backfill, folder = work.job.backfill, work.job.folder.rows
    codes = {each.id: each.code for each in work.meters.values()}
    tasks = [
        FanOutTask(
            f"{codes[meter_id]} {month:%Y-%m} of backfill {backfill.id}",
            derive_part,
            (backfill.org_id, backfill.id, backfill.snapshot, work.digest, (meter_id, month)),
        )
        for meter_id, month in parts
    ]
    notes = read_notes(work.job, runner, tasks, lambda note: int(note["seen"]))
    return [RecalculatedMonth.from_wire(note, folder) for note in notes if note is not None]


def derive_part(
    stores: Stores, org_id: str, id: str, snapshot: int, digest: str, part: Part
) -> str:
    """Calculate one partition of a backfill, as a task; the name of its note.

    Raises:
        Busy: The backfill was begun again.
        Conflict: The configuration has changed since it was begun.
        Unavailable: A store failed.
    """
    work = _recalculation(open_job(stores.organization(org_id), id, snapshot))
    if work.digest != digest:
        raise Conflict(
            f"the configuration has changed since backfill {id!r} was begun:"
            " start it again with its id"
        )
    return partitions.calculate_part(work, part)


def _versions(
    job: BackfillJob, meters: dict[str, MeterFields], derivations: Derivations
) -> dict[str, int]:
    """The versions of all that the calculation reads."""
    spec = job.backfill.spec.meters
    mine = {each.id: each.version for each in meters.values() if not spec or each.id in spec}
    return {**derivations.versions, **derivations.accounts, **mine}


def change(job: BackfillJob, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Put the changed rows in the place of the old ones, within a transaction.

    Raises:
        Conflict: The lake or the configuration is not as it was staged.
    """
    folder, staged = job.folder, job.folder.read()
    check_untouched(job, connection, selection(job))
    meters, derivations = read_meters(job.organization.state, job.organization.id)
    if _versions(job, meters, derivations) != staged["versions"]:
        raise Conflict(
            f"the configuration has changed since backfill {job.backfill.id!r} was staged:"
            " start it again with its id"
        )
    delete_measurements(connection, folder.gone)
    mark_step("backfill.deleted")
    by_id = {each.id: each for each in meters.values()}
    for done, line in enumerate(staged["partitions"], 1):
        each = RecalculatedMonth.from_wire(line, folder.rows)
        job.lake.ensure_meter_table(connection, by_id[each.meter_id])
        partitions.register(job, connection, each)
        job.progress(each.changed, done, len(staged["partitions"]))
    replace_errors(connection, step, folder)


def replace_errors(connection: duckdb.DuckDBPyConnection, step: Next, folder: Folder) -> None:
    """Put the staged calculation errors in the place of the old ones, within a transaction."""
    note_corrected(connection, step, folder.wrong, keys(folder.errors))
    delete_errors(connection, folder.wrong)
    connection.execute(
        f"INSERT INTO lake.{identifier(CALCULATION_ERROR)} BY NAME FROM {keys(folder.errors)}"
    )


def undo(job: BackfillJob, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Put the old rows back, within a transaction.

    Raises:
        Conflict: They are not as the backfill left them.
    """
    folder, snapshot = job.folder, job.backfill.snapshot
    applied = job.backfill.applied
    assert applied is not None
    for path in (folder.gone, folder.wrong):
        mine = by_keys(path, selection(job))
        left = fingerprint(connection, mine, applied, applied)
        if fingerprint(connection, mine, applied, None) != left:
            raise Conflict(
                f"backfill {job.backfill.id!r} cannot be reverted: a later backfill changed or"
                " withdrew some of its measurements; revert that one first"
            )
    delete_measurements(connection, folder.gone)
    bring_back(connection, folder.gone, snapshot, with_uids=False)
    mark_step("backfill.brought_back")
    delete_errors(connection, folder.wrong)
    bring_back_errors(connection, folder.wrong, snapshot)
    forget_corrections(connection, job.backfill.id, step.number - 1)
