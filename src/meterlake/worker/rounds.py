"""The worker: the one long-lived process that ingests what comes in, for all organizations.

Threads with stores of their own, so that what is submitted never waits for a large file: one works
the drop folders, one the closed segments, one the uploads and the files of lookup tables, one the
bucket inboxes, one the exports that wait, one the steps of backfills. Each gives all organizations
their turns, some at once (`turns`), so that none waits long for another one. One looks which
exports are due, however long those take that run. One more tells what went wrong with sources, if
whoever ingested them did not come to it,
looks for alerts, and removes what was kept for its download long enough.

`python -m meterlake.worker` runs it; `meterlake serve` starts it as a child. Drop folders
and segments are ingested directly, without Prefect: a round that finds nothing costs a look at a
few folders. The uploads that wait of an organization, what waits in its inboxes, an export, and a
step of a backfill are flow runs while a Prefect server answers, in processes that are kept warm.
"""

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from meterlake.model.receipt import Receipt
from meterlake.pipeline.backfill.background import backfill_round
from meterlake.pipeline.events.alerts import check_alerts
from meterlake.pipeline.export.jobs import forget_downloads
from meterlake.pipeline.export.round import export_round
from meterlake.pipeline.export.schedules import submit_due
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import DropFolder, drop_folder, left_alone
from meterlake.pipeline.ingest.inbox import inboxes_wait, poll_inboxes
from meterlake.pipeline.ingest.reporting import report
from meterlake.pipeline.ingest.segments import ingest_segments
from meterlake.pipeline.ingest.uploads import ingest_uploads, waiting
from meterlake.pipeline.jobs.turns import Stop, Verb, give_turns, rest
from meterlake.stores import Stores
from meterlake.worker.flow_runs import Executor

POLL_S: Final = 1.0
# A measurement can be queried within seconds of its answer.
SEGMENTS_POLL_S: Final = 0.25
# Nor is a small upload much later than its file.
UPLOADS_POLL_S: Final = 0.25
WARM_S: Final = 1.0
ALERTS_POLL_S: Final = 60.0
_log: Final = logging.getLogger("meterlake.worker")


def work(stores: Stores, stop: Stop, poll_seconds: float = POLL_S) -> None:
    """Ingest what is dropped until `stop` says so; the file at hand is finished first.

    A failing world (a full disk, a locked catalog) is logged and tried again, more slowly.
    """
    _share(stores, partial(_dropped, set()), stop, poll_seconds)


def work_segments(stores: Stores, stop: Stop, poll_seconds: float = SEGMENTS_POLL_S) -> None:
    """Ingest what is submitted until `stop` says so; the segment at hand is finished first."""
    _share(stores, ingest_segments, stop, poll_seconds)


def work_uploads(
    stores: Stores,
    stop: Stop,
    poll_seconds: float = UPLOADS_POLL_S,
    executor: Executor | None = None,
) -> None:
    """Ingest what is uploaded until `stop` says so; the file at hand is finished first."""
    runner = executor or Executor(stores.settings, stop)
    _share(stores, partial(_uploads, runner), stop, poll_seconds)


def work_inboxes(
    stores: Stores,
    stop: Stop,
    poll_seconds: float | None = None,
    executor: Executor | None = None,
) -> None:
    """Ingest what lies in bucket inboxes until `stop` says so; the object at hand is finished."""
    seconds = stores.settings.inbox_seconds if poll_seconds is None else poll_seconds
    runner = executor or Executor(stores.settings, stop)
    _share(stores, partial(_inboxes, runner), stop, seconds)


def work_exports(
    stores: Stores, stop: Stop, poll_seconds: float = POLL_S, executor: Executor | None = None
) -> None:
    """Run the exports that wait until `stop` says so; the job at hand is finished."""
    runner = executor or Executor(stores.settings, stop)
    _share(stores, partial(export_round, runner), stop, poll_seconds)


def work_backfills(
    stores: Stores, stop: Stop, poll_seconds: float = POLL_S, executor: Executor | None = None
) -> None:
    """Run the steps of backfills that wait until `stop` says so; those at hand are left in order."""
    runner = executor or Executor(stores.settings, stop)
    _share(stores, partial(backfill_round, runner, stop), stop, poll_seconds)


def keep_runners_warm(executor: Executor, stop: Stop) -> None:
    """See to it that jobs find a process that runs them at once, until `stop` says so."""
    while not stop():
        executor.keep_warm()
        rest(WARM_S, stop)


def work_schedules(stores: Stores, stop: Stop, poll_seconds: float = POLL_S) -> None:
    """Make the jobs of exports that are due until `stop` says so; others run them."""
    give_turns(stores, _due, stop, poll_seconds)


def work_alerts(stores: Stores, stop: Stop, poll_seconds: float = ALERTS_POLL_S) -> None:
    """Report what was not reported yet, look for what is not as it should be, and tidy up."""
    give_turns(stores, _alerts, stop, poll_seconds)


def _share(stores: Stores, verb: Verb, stop: Stop, poll_seconds: float) -> None:
    give_turns(stores, verb, stop, poll_seconds, stores.settings.organizations_at_once)


def _dropped(told: set[Path], stores: Stores, org_id: str, stop: Stop) -> Iterator[Receipt]:
    folder = drop_folder(stores, stores.state.organization(org_id).code)
    _tell_left_alone(folder, told)
    return ingest_inbox(stores, org_id, folder, stop=stop)


def _tell_left_alone(folder: DropFolder, told: set[Path]) -> None:
    found = {folder.inbox / name for name in left_alone(folder.inbox)}
    for path in sorted(found - told):
        _log.warning("%s is left alone: it is no file", path)
    told |= found


def _uploads(executor: Executor, stores: Stores, org_id: str, stop: Stop) -> Iterable[Receipt]:
    files = waiting(stores, org_id)
    if not files or stop():
        return ()
    name = files[0].name if len(files) == 1 else f"{len(files):,} files"
    verb = partial(ingest_uploads, stores, org_id, stop)
    return executor.run("upload", {"org": _code(stores, org_id), "name": name}, verb, stop)


def _inboxes(executor: Executor, stores: Stores, org_id: str, stop: Stop) -> Iterable[Receipt]:
    if not inboxes_wait(stores, org_id):
        return ()
    verb = partial(poll_inboxes, stores, org_id, stop)
    return executor.run("inbox", {"org": [_code(stores, org_id)]}, verb, stop)


def _code(stores: Stores, org_id: str) -> str:
    """How people know an organization, in the runs that they see."""
    return stores.state.organization(org_id).code


def _due(stores: Stores, org_id: str, stop: Stop) -> Iterable[Receipt]:
    if not stop():
        submit_due(stores, org_id)
    return ()


def _alerts(stores: Stores, org_id: str, stop: Stop) -> Iterable[Receipt]:
    if not stop():
        report(stores, org_id)
        check_alerts(stores, org_id)
        forget_downloads(stores, org_id)
    return ()


# What is worked beside the drop folders, each in a thread with stores of its own.
BESIDE: Final = (
    work_segments,
    work_uploads,
    work_inboxes,
    work_schedules,
    work_exports,
    work_backfills,
    work_alerts,
)
# Those of them whose jobs are flow runs.
WITH_RUNS: Final = frozenset({work_uploads, work_inboxes, work_exports, work_backfills})
