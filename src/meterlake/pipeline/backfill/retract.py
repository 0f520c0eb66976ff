"""Retract: measurements of one source, or chosen ones, are withdrawn; uid and identity are free."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import duckdb

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Conflict, MeterlakeError, NotFound
from meterlake.model.values.failpoint import mark_step
from meterlake.pipeline.backfill.difference import difference
from meterlake.pipeline.backfill.edits import check_untouched
from meterlake.pipeline.backfill.job import BackfillJob
from meterlake.stores.lake.backfill.changes import MeterChange
from meterlake.stores.lake.backfill.rows import (
    RowSelection,
    affected_by,
    bring_back,
    bring_back_errors,
    count_by_account,
    delete_errors,
    delete_measurements,
    delete_uids,
    fingerprint,
    keys,
    retracted_rows,
    stage_keys,
    taken_uids,
    uids_of,
)
from meterlake.stores.lake.backfill.sources import first_names
from meterlake.stores.lake.backfill.steps import Next, forget_corrections, note_corrected
from meterlake.stores.lake.rejected import count_waiting
from meterlake.stores.lake.withdrawals import (
    note_retracted,
    note_withdrawn_source,
    retracted_uids,
    retractions,
)
from meterlake.stores.state.core.auto_accounts import account_ids

_SHOWN_MAX: Final = 5


def selection(job: BackfillJob) -> RowSelection:
    """The measurements that are withdrawn."""
    return retracted_rows(job.backfill.spec)


def stage(job: BackfillJob) -> dict[str, Any]:
    """Find the measurements, and what becomes of the quantities without them.

    Raises:
        NotFound: There are none, or not all of the chosen ones.
        Conflict: They were withdrawn already.
    """
    folder, spec, snapshot = job.folder, job.backfill.spec, job.backfill.snapshot
    folder.begin()
    with job.lake.reader() as connection:
        rows = stage_keys(connection, selection(job), snapshot, folder.gone)
        waiting = 0 if spec.source is None else count_waiting(connection, spec.source)
        if rows + waiting == 0 or (spec.uids and rows != len(set(spec.uids))):
            raise _nothing(connection, job)
        mark_step("backfill.keys_staged")
        marks = fingerprint(connection, selection(job), snapshot, snapshot)
    job.progress(rows, 1, 1)
    with staged_changes(job) as changes:
        found = difference(job.organization, snapshot, changes)
    folder.write({"fingerprint": marks, "rows": rows})
    told = {"rejectedRowsWithdrawn": waiting} if spec.source is not None else {}
    return {"measurementsGone": rows, "measurementsCame": 0, **told, **found}


@contextmanager
def staged_changes(job: BackfillJob) -> Iterator[list[MeterChange]]:
    """What is withdrawn, meter by meter, once its keys are staged."""
    gone = job.folder.gone
    with job.lake.reader() as connection:
        meters = [each.meter_id for each in affected_by(connection, gone)]
    yield [MeterChange(each, gone=keys(gone)) for each in meters]


def _nothing(connection: duckdb.DuckDBPyConnection, job: BackfillJob) -> MeterlakeError:
    """Why there is nothing to withdraw: it never came, or is withdrawn already."""
    spec = job.backfill.spec
    if spec.source is not None:
        found = retractions(connection, [spec.source]).values()
        marks = [mark for each in found for mark in each]
        name = first_names(connection, [spec.source]).get(spec.source)
        what = f"all measurements of source {name!r} ({spec.source[:12]})"
        return _again(what, marks) if marks else NotFound("measurement of source", spec.source)
    missing = sorted(set(spec.uids).difference(uids_of(connection, job.folder.gone)))
    withdrawn = retracted_uids(connection, missing)
    if not withdrawn:
        return NotFound("measurement with uid", missing[0])
    shown = ", ".join(map(repr, sorted(withdrawn)[:_SHOWN_MAX]))
    rest = len(withdrawn) - _SHOWN_MAX
    what = f"the measurements with uid {shown}" + (f" and {rest:,} more" if rest > 0 else "")
    return _again(what, [mark for marks in withdrawn.values() for mark in marks[-1:]])


def _again(what: str, marks: Sequence[Mapping[str, Any]]) -> Conflict:
    by = dict.fromkeys(f"{mark['backfill']!r} ({mark['at']:%Y-%m-%d})" for mark in marks)
    listed = ", ".join(list(by)[:_SHOWN_MAX])
    return Conflict(
        f"{what} were withdrawn already, by backfill {listed}: nothing is left to do;"
        " revert that backfill to bring them back"
    )


def change(job: BackfillJob, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Withdraw them, within a transaction; of a source its rejected rows, too.

    Raises:
        Conflict: They are not as they were staged.
    """
    check_untouched(job, connection, selection(job))
    job.progress(withdraw(job, connection, step), 1, 1)
    if job.backfill.spec.source is not None:
        note_withdrawn_source(connection, step, job.backfill.spec.source)


def withdraw(job: BackfillJob, connection: duckdb.DuckDBPyConnection, step: Next) -> int:
    """Delete the measurements of `gone` with all that belongs to them, and note it; how many."""
    gone = job.folder.gone
    note_retracted(connection, step, gone)
    rows = delete_measurements(connection, gone)
    mark_step("backfill.deleted")
    delete_uids(connection, gone, rows)
    note_corrected(connection, step, gone)
    delete_errors(connection, gone)
    return rows


def undo(job: BackfillJob, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Bring them back as they were, within a transaction.

    Raises:
        Conflict: A uid was taken meanwhile.
    """
    gone = job.folder.gone
    refuse_taken(job, taken_uids(connection, gone))
    refuse_deleted_accounts(job, connection)
    bring_back(connection, gone, job.backfill.snapshot, with_uids=True)
    mark_step("backfill.brought_back")
    bring_back_errors(connection, gone, job.backfill.snapshot)
    forget_corrections(connection, job.backfill.id, step.number - 1)


def refuse_taken(job: BackfillJob, taken: list[str]) -> None:
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


def refuse_deleted_accounts(job: BackfillJob, connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse to bring measurements back whose accounts were deleted meanwhile.

    Raises:
        Conflict: There are some.
    """
    rows = count_by_account(connection, job.folder.gone)
    known = set(account_ids(job.organization.state, job.organization.id).values())
    with job.organization.reading() as reader:
        for account_id, count in rows:
            past = [] if account_id in known else reader.history(Account, account_id)
            # One that was gone before has no account afterwards, as it had none before.
            if past and past[-1].valid_from > job.backfill.created:
                codes = [each.entity.code for each in past if isinstance(each.entity, Account)]
                raise Conflict(
                    f"backfill {job.backfill.id!r} cannot be reverted: account {codes[-1]!r} was"
                    f" deleted since (measurements that would come back: {count:,}); deliver"
                    " their files again instead, that makes the account anew"
                )
