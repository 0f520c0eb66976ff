"""Schedules of exports: the jobs that are due, each made once.

A run of a schedule is known by the instant at which it is due; whoever looks makes the jobs of the
runs that have none. So it does not matter who looks, how often, or how many do at a time.
"""

from collections import deque
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Final

from meterlake.model.configuration.exports import ExportSchedule
from meterlake.model.errors import NotFound, Unavailable
from meterlake.model.values.entity import Entity, Record
from meterlake.model.work.export_request import next_run, runs
from meterlake.pipeline.config.schedule_jobs import exports_enabled, submit_run
from meterlake.pipeline.export.jobs import forget_downloads
from meterlake.pipeline.export.run import EXPORT_JOBS, Exported
from meterlake.pipeline.jobs.waiting import JobOutcome, run_all_waiting
from meterlake.settings import Settings
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.jobs import newest_due

AUTHOR: Final = "export schedules"
# After a long time without a worker, jobs are made bit by bit.
_AT_ONCE: Final = 100


def submit_due(organization: Organization) -> list[str]:
    """Make the jobs of the runs that are due and have none; see the setting `export_missed`.

    While the organization has exports switched off, there are none: what falls due is missed.

    Returns:
        The ids of the new jobs, the sooner due first.

    Raises:
        Unavailable: State cannot be reached.
    """
    with organization.reading() as reader:
        all_ = reader.all(ExportSchedule) if exports_enabled(reader) else []
        late = [
            each.id
            for each in all_
            if _missing(reader, each, organization.now(), organization.settings)
        ]
    made: list[str] = []
    for id_ in late:
        with suppress(NotFound), organization.transaction(AUTHOR) as transaction:
            # Read again: somebody may have been faster, or have changed or deleted it.
            if not exports_enabled(transaction):
                break
            schedule = transaction.get(ExportSchedule, id_)
            due = _missing(transaction, schedule, transaction.now, organization.settings)
            made += [submit_run(transaction, schedule, each) for each in due]
    return made


def next_due(
    reader: Reader, schedule: Record[ExportSchedule], now: datetime, settings: Settings
) -> datetime | None:
    """The run that a job is made of next: the first that is due and has none, or the next to come.

    Returns:
        None if there is none: the schedule is disabled, or exports are switched off.
    """
    if not exports_enabled(reader):
        return None
    for due in _missing(reader, schedule, now, settings):
        return due
    return next_run(schedule.entity, schedule.created, now)


def submit_now(organization: Organization, id: str, author: str) -> str:
    """Run a schedule once more, now, also a disabled one; its regular runs stay what they are.

    Returns:
        The id of the job.

    Raises:
        NotFound: There is no such schedule.
    """
    with organization.transaction(author) as transaction:
        schedule = transaction.get(ExportSchedule, id)
        return submit_run(transaction, schedule, None)


def _missing(
    reader: Reader, schedule: Record[ExportSchedule], now: datetime, settings: Settings
) -> list[datetime]:
    """The runs that a schedule has no job of yet."""
    if not schedule.entity.enabled:
        return []
    known = newest_due(reader.connection, schedule.id)
    if known is not None and known < schedule.created:
        known = None  # Of an earlier schedule that had its id, and was deleted.
    if next(runs(schedule.entity, schedule.created, known, now), None) is None:
        return []
    since = _clock_since(reader, schedule)
    if since is not None and since > schedule.created:
        # While it was disabled, or had another clock, nothing was missed.
        known = since if known is None else max(known, since)
    found = runs(schedule.entity, schedule.created, known, now)
    if settings.export_missed == "skip":
        return list(deque(found, maxlen=1))
    return list(islice(found, _AT_ONCE))


def _clock_since(reader: Reader, schedule: Record[ExportSchedule]) -> datetime | None:
    """When it was enabled last, or got its clock; None if it is as it was created."""
    since = None
    for past in reversed(reader.history(ExportSchedule, schedule.id)):
        if _clock(past.entity) != _clock(schedule.entity):
            return since
        since = past.valid_from
    return None


def _clock(schedule: Entity | None) -> tuple[object, ...]:
    if not isinstance(schedule, ExportSchedule):
        return ()  # It was deleted then.
    return (
        schedule.enabled,
        schedule.schedule_type,
        schedule.period,
        schedule.offset,
        schedule.cron_expression,
    )


def whole_round(organization: Organization) -> tuple[int, list[JobOutcome[Exported]]]:
    """All that the worker does for exports, where there is no worker, one after the other.

    Returns:
        How many jobs were due, and what became of those that waited.

    Raises:
        Unavailable: State cannot be reached.
    """
    due = submit_due(organization)
    ran = list(run_all_waiting(organization, EXPORT_JOBS))
    with suppress(Unavailable):  # The next look removes them.
        forget_downloads(organization)
    return len(due), ran
