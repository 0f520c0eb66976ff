"""Schedules, destinations and jobs of exports for who works on the home: by code, with their state."""

from dataclasses import replace
from pathlib import Path
from shutil import copyfileobj
from typing import Any, Final

from meterlake.model.entity import Record
from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.export_clock import next_run
from meterlake.model.export_request import KIND
from meterlake.model.exports import ExportDestination, ExportSchedule
from meterlake.model.period import format_instant
from meterlake.model.resources import BY_ENTITY
from meterlake.pipeline import entities
from meterlake.pipeline.entities import Place
from meterlake.pipeline.export_jobs import download, shown
from meterlake.pipeline.export_schedules import exports_enabled, submit_now
from meterlake.pipeline.export_words import ScheduleWords, as_options, id_of, schedule_document
from meterlake.stores import Stores
from meterlake.stores.durable import disk, written
from meterlake.stores.state.jobs import JobFilters
from meterlake.stores.state.pages import Page

# A wrong path, not a disk that fails.
_NO_FOLDER: Final = (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError)
_SCHEDULES: Final = Place(BY_ENTITY[ExportSchedule], {})
_DESTINATIONS: Final = Place(BY_ENTITY[ExportDestination], {})


def list_schedules(stores: Stores, org_id: str) -> list[dict[str, Any]]:
    """All schedules as on the wire, with when they run next and how they ended last.

    None runs next while the organization has exports switched off.
    """
    with stores.state.reading(org_id) as reader:
        found = reader.all(ExportSchedule)
    return [_schedule(stores, org_id, each) for each in found]


def schedules_run(stores: Stores, org_id: str) -> bool:
    """Whether schedules make jobs at all: the organization has exports switched on."""
    with stores.state.reading(org_id) as reader:
        return exports_enabled(reader)


def clock_of(schedule: ExportSchedule) -> str:
    """When it runs, in words: `every 6 hours`, or its cron expression."""
    if schedule.cron_expression is not None:
        return f"cron {schedule.cron_expression}"
    assert schedule.schedule_type is not None
    unit, count = schedule.schedule_type.lower(), schedule.period
    every = f"every {unit}" if count == 1 else f"every {count} {unit}s"
    if schedule.offset is None:
        return every
    part = "minute" if unit == "hour" else "hour"
    return f"{every} at {part} {schedule.offset}"


def create_schedule(
    stores: Stores, org_id: str, author: str, words: ScheduleWords
) -> dict[str, Any]:
    """Make a schedule; its first job is made with it, unless it is disabled.

    Raises:
        Invalid: A rule is broken.
        NotFound: A meter, an account or a destination does not exist.
        Conflict: The code is taken.
    """
    with as_options():
        with stores.state.reading(org_id) as reader:
            document = schedule_document(reader, words)
        return entities.create(stores, org_id, author, _SCHEDULES, document)


def enable_schedule(
    stores: Stores, org_id: str, author: str, name: str, *, enabled: bool
) -> dict[str, Any]:
    """Have a schedule make jobs from now on, or none any more.

    Raises:
        NotFound: There is no schedule of that code or id.
    """
    id_ = schedule_named(stores, org_id, name)
    with stores.state.transaction(org_id, author) as transaction:
        before = transaction.get(ExportSchedule, id_)
        after = before
        if before.entity.enabled is not enabled:
            entity = before.entity.model_copy(update={"enabled": enabled})
            after = transaction.update(id_, before.version, entity)
    return _schedule(stores, org_id, after)


def run_schedule(stores: Stores, org_id: str, author: str, name: str) -> str:
    """Make a job of a schedule now, beside its regular ones; the id of the job.

    Raises:
        NotFound: There is no schedule of that code or id.
    """
    return submit_now(stores, org_id, schedule_named(stores, org_id, name), author)


def delete_schedule(stores: Stores, org_id: str, author: str, name: str) -> dict[str, Any]:
    """Delete a schedule; its jobs stay.

    Raises:
        NotFound: There is no schedule of that code or id.
    """
    place = replace(_SCHEDULES, id=schedule_named(stores, org_id, name))
    return entities.delete(stores, org_id, author, place)


def schedule_named(stores: Stores, org_id: str, name: str) -> str:
    """The id of the schedule of a code, or of that id.

    Raises:
        NotFound: There is none.
    """
    with stores.state.reading(org_id) as reader:
        return id_of(reader, ExportSchedule, name)


def list_destinations(stores: Stores, org_id: str) -> list[dict[str, Any]]:
    """All destinations as on the wire."""
    with stores.state.reading(org_id) as reader:
        return [each.to_wire() for each in reader.all(ExportDestination)]


def create_destination(
    stores: Stores, org_id: str, author: str, document: dict[str, Any]
) -> dict[str, Any]:
    """Make a destination from a document of the wire.

    Raises:
        Invalid: A field or a rule is broken.
        Conflict: The code is taken.
    """
    with as_options():
        return entities.create(stores, org_id, author, _DESTINATIONS, document)


def delete_destination(stores: Stores, org_id: str, author: str, name: str) -> dict[str, Any]:
    """Delete a destination; what lies there stays.

    Raises:
        NotFound: There is no destination of that code or id.
        StillReferenced: A schedule uses it.
    """
    place = replace(_DESTINATIONS, id=destination_named(stores, org_id, name))
    return entities.delete(stores, org_id, author, place)


def destination_named(stores: Stores, org_id: str, name: str) -> str:
    """The id of the destination of a code, or of that id.

    Raises:
        NotFound: There is none.
    """
    with stores.state.reading(org_id) as reader:
        return id_of(reader, ExportDestination, name)


def save_download(stores: Stores, org_id: str, job_id: str, folder: Path) -> Path:
    """Save what a job kept for its download into a folder.

    Raises:
        NotFound: There is no such job, or its file is gone.
        Invalid: The folder is none, and cannot be made.
        Conflict: It has nothing to download, or not any more.
        Unavailable: The disk or the object store failed.
    """
    found, _ = download(stores, org_id, job_id)
    path = _folder(folder) / found.name
    with (
        stores.objects.open(found.key) as source,
        written(path) as temporary,
        temporary.open("wb") as target,
    ):
        copyfileobj(source, target)
    return path


def _folder(path: Path) -> Path:
    try:
        with disk():
            path.mkdir(parents=True, exist_ok=True)
    except Unavailable as error:
        if isinstance(error.__cause__, _NO_FOLDER):
            rule = f"a folder, or a path at which one can be made: {error.__cause__.strerror}"
            raise Invalid("--to", str(path), rule) from None
        raise
    return path


def _schedule(stores: Stores, org_id: str, schedule: Record[ExportSchedule]) -> dict[str, Any]:
    due = None
    if schedules_run(stores, org_id):
        due = next_run(schedule.entity, schedule.created, stores.now())
    filters = JobFilters(schedule_id=schedule.id)
    [*jobs], _ = stores.state.jobs.listed(org_id, KIND, filters, Page(1))
    last = shown(jobs[0]) if jobs else {}
    return {
        **schedule.to_wire(),
        "clock": clock_of(schedule.entity),
        "nextRun": due and format_instant(due),
        "lastJobId": last.get("id"),
        "lastStatus": last.get("status"),
    }
