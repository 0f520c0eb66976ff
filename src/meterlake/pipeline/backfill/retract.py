"""Retract: measurements of one source, or chosen ones, are withdrawn; uid and identity are free."""

from typing import Any

import duckdb

from meterlake.model.errors import Conflict, NotFound
from meterlake.model.failpoint import reached
from meterlake.pipeline.backfill.difference import difference
from meterlake.pipeline.backfill.edits import check_untouched
from meterlake.pipeline.backfill.job import Job
from meterlake.pipeline.backfill.reach import Change
from meterlake.stores.backfill_rows import (
    Selection,
    bring_back,
    bring_back_errors,
    delete_errors,
    delete_measurements,
    delete_uids,
    fingerprint,
    keys,
    stage_keys,
    taken_uids,
    touched,
)
from meterlake.stores.backfill_steps import Next, forget_books, note_corrected, note_retracted


def selection(job: Job) -> Selection:
    """The measurements that are withdrawn."""
    wanted = job.backfill.wanted
    if wanted.source is not None:
        return Selection("m.source = $source", {"source": wanted.source})
    uids = {"uids": list(wanted.uids)}
    return Selection("m.uid IN (SELECT unnest(CAST($uids AS VARCHAR[])))", uids)


def stage(job: Job) -> dict[str, Any]:
    """Find the measurements, and what becomes of the quantities without them.

    Raises:
        NotFound: There are none, or not all of the chosen ones.
    """
    folder, wanted, snapshot = job.folder, job.backfill.wanted, job.backfill.snapshot
    folder.begin()
    with job.lake.reader() as connection:
        rows = stage_keys(connection, selection(job), snapshot, folder.gone)
        if rows == 0 or (wanted.uids and rows != len(set(wanted.uids))):
            raise _nothing(connection, job)
        reached("backfill.keys_staged")
        marks = fingerprint(connection, selection(job), snapshot, snapshot)
        meters = [each.meter_id for each in touched(connection, folder.gone)]
    job.progress(rows)
    changes = [Change(each, gone=keys(folder.gone)) for each in meters]
    found = difference(job.stores, job.backfill.org_id, snapshot, changes)
    folder.write({"fingerprint": marks, "rows": rows})
    return {"measurementsGone": rows, "measurementsCame": 0, **found}


def _nothing(connection: duckdb.DuckDBPyConnection, job: Job) -> NotFound:
    wanted = job.backfill.wanted
    if wanted.source is not None:
        return NotFound("measurement of source", wanted.source)
    found = connection.execute(f"SELECT uid FROM {keys(job.folder.gone)}").fetchall()
    missing = sorted(set(wanted.uids).difference(row[0] for row in found))
    return NotFound("measurement with uid", missing[0])


def change(job: Job, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Withdraw them, within a transaction.

    Raises:
        Conflict: They are not as they were staged.
    """
    check_untouched(job, connection, selection(job))
    withdraw(job, connection, step)


def withdraw(job: Job, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Delete the measurements of `gone` with all that belongs to them, and note it."""
    gone = job.folder.gone
    rows = delete_measurements(connection, gone)
    reached("backfill.deleted")
    delete_uids(connection, gone, rows)
    note_corrected(connection, step, gone)
    delete_errors(connection, gone)
    note_retracted(connection, step, gone)


def undo(job: Job, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Bring them back as they were, within a transaction.

    Raises:
        Conflict: A uid was taken meanwhile.
    """
    gone = job.folder.gone
    refuse_taken(job, taken_uids(connection, gone))
    bring_back(connection, gone, job.backfill.snapshot, with_uids=True)
    reached("backfill.brought_back")
    bring_back_errors(connection, gone, job.backfill.snapshot)
    forget_books(connection, job.backfill.id, step.number - 1)


def refuse_taken(job: Job, taken: list[str]) -> None:
    """Refuse to bring measurements back whose uids others have.

    Raises:
        Conflict: There are some.
    """
    if taken:
        raise Conflict(
            f"backfill {job.backfill.id!r} cannot be reverted: measurements with the uids of what"
            f" it withdrew came in since, such as {', '.join(map(repr, taken))};"
            " retract those first"
        )
