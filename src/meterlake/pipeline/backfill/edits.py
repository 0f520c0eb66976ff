"""One transaction of a lake that does a step of a backfill, or finds that it is done."""

from collections.abc import Callable

import duckdb

from meterlake.model.errors import Conflict
from meterlake.model.values.failpoint import mark_step
from meterlake.model.work.backfill import Action
from meterlake.pipeline.backfill.job import BackfillJob
from meterlake.stores.lake.backfill.rows import RowSelection, fingerprint
from meterlake.stores.lake.backfill.steps import BackfillStep, Next, last_step, write_step
from meterlake.stores.lake.tables import newest_snapshot

Body = Callable[[duckdb.DuckDBPyConnection, Next], None]


def edit(job: BackfillJob, action: Action, body: Body) -> int:
    """Do a step once, however often it is asked for; the number of the snapshot that it made.

    Args:
        job: The backfill.
        action: What is done.
        body: Does it, within the transaction and under the lake's lock.

    Raises:
        Conflict: The lake has changed since the backfill was staged, in a way that matters.
        Unavailable: The disk or the lake failed.
    """
    lake = job.lake
    with lake.lock():
        mark_step("backfill.locked")
        with lake.transaction() as connection:
            last = last_step(connection, job.backfill.id)
            if last is not None and last.action is action:
                return last.made
            snapshot = newest_snapshot(connection)
            step = Next(job.backfill, last.number + 1 if last else 1, job.now)
            with lake.files.securing():
                body(connection, step)
                # Not when it began: it may take long.
                done = step._replace(at=job.now)
                write_step(lake, connection, done, action, job.author, snapshot)
            mark_step("backfill.changed")
        made = lake.committed_snapshot()
    mark_step("backfill.committed")
    return made


def last(job: BackfillJob) -> BackfillStep | None:
    """The last step that the lake knows of."""
    with job.lake.reader() as connection:
        return last_step(connection, job.backfill.id)


def check_untouched(
    job: BackfillJob, connection: duckdb.DuckDBPyConnection, selection: RowSelection
) -> None:
    """Check that what was staged is still what the lake holds.

    Raises:
        Conflict: It is not.
    """
    if newest_snapshot(connection) == job.backfill.snapshot:
        return
    staged = job.folder.read()["fingerprint"]
    now = fingerprint(connection, selection, job.backfill.snapshot, None)
    if now != staged:
        raise Conflict(
            f"the lake has changed since backfill {job.backfill.id!r} was staged, in what it is"
            " about: start it again with its id to see the difference as it is now"
        )
