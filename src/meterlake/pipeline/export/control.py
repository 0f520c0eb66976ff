"""Schedules, destinations and jobs of exports for who works on the home: by code, with their state."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copyfileobj
from typing import Any, Final

from meterlake.model.configuration.exports import ExportDestination, ExportSchedule
from meterlake.model.errors import Invalid, NotFound, Unavailable
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.entity import Record
from meterlake.model.values.period import format_instant
from meterlake.model.work.export_request import KIND
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import Document, ResourceRef, id_of
from meterlake.pipeline.config.schedule_jobs import exports_enabled
from meterlake.pipeline.export.jobs import download, job_document
from meterlake.pipeline.export.schedules import next_due, submit_now
from meterlake.stores import Organization, Stores
from meterlake.stores.files.durable import disk, write_durably
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import JobFilters

# A wrong path, not a disk that fails.
_NO_FOLDER: Final = (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError)
_SCHEDULES: Final = ResourceRef(BY_ENTITY[ExportSchedule], {})
_DESTINATIONS: Final = ResourceRef(BY_ENTITY[ExportDestination], {})
# The fields that change, of a schedule as it is.
Changes = Callable[[Reader, Record[ExportSchedule]], Mapping[str, Any]]


def list_schedules(organization: Organization) -> list[Document]:
    """All schedules as on the wire, with when they run next and how they ended last.

    What is due and has no job yet runs next; nothing while the organization has exports switched
    off.
    """
    with organization.reading() as reader:
        return [_schedule(organization.stores, reader, each) for each in reader.all(ExportSchedule)]


def schedules_run(organization: Organization) -> bool:
    """Whether schedules make jobs at all: the organization has exports switched on."""
    with organization.reading() as reader:
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


def create_schedule(organization: Organization, author: str, document: Document) -> Document:
    """Make a schedule from a document of the wire; its first job is made with it, if it is enabled.

    Raises:
        Invalid: A field or a rule is broken.
        NotFound: A meter, an account or a destination does not exist.
        Conflict: The code is taken.
    """
    return entities.create(organization, author, _SCHEDULES, document)


def update_schedule(
    organization: Organization, author: str, name: str, changes: Changes
) -> Document:
    """Change fields of a schedule, and nothing else.

    Args:
        organization: The organization.
        author: Who changes it.
        name: Its code or id.
        changes: Gives the fields of the wire that change, of the schedule as it is; None empties
            what was there.

    Raises:
        Invalid: A rule is broken.
        NotFound: There is no such schedule, or no such meter, account or destination.
        Conflict: The code is taken, or somebody else changed the schedule meanwhile.
    """
    with organization.transaction(author) as transaction:
        before = transaction.get(ExportSchedule, id_of(transaction, ExportSchedule, name))
        return _update(
            transaction, organization.stores, _SCHEDULES, before, changes(transaction, before)
        )


def enable_schedule(
    organization: Organization, author: str, name: str, *, enabled: bool
) -> Document:
    """Have a schedule make jobs from now on, or none any more.

    Raises:
        NotFound: There is no schedule of that code or id.
    """
    id_ = schedule_named(organization, name)
    with organization.transaction(author) as transaction:
        before = transaction.get(ExportSchedule, id_)
        after = before
        if before.entity.enabled is not enabled:
            entity = before.entity.model_copy(update={"enabled": enabled})
            after = transaction.update(id_, before.version, entity)
    with organization.reading() as reader:
        return _schedule(organization.stores, reader, after)


def run_schedule(organization: Organization, author: str, name: str) -> str:
    """Make a job of a schedule now, beside its regular ones; the id of the job.

    Raises:
        NotFound: There is no schedule of that code or id.
    """
    return submit_now(organization, schedule_named(organization, name), author)


def delete_schedule(organization: Organization, author: str, name: str) -> Document:
    """Delete a schedule; its jobs stay.

    Raises:
        NotFound: There is no schedule of that code or id.
    """
    ref = replace(_SCHEDULES, id=schedule_named(organization, name))
    return entities.delete(organization, author, ref)


def schedule_named(organization: Organization, name: str) -> str:
    """The id of the schedule of a code, or of that id.

    Raises:
        NotFound: There is none.
    """
    with organization.reading() as reader:
        return id_of(reader, ExportSchedule, name)


def schedule_of_jobs(organization: Organization, name: str) -> str:
    """The id of the schedule of a code, or of that id: also of one that is deleted and left jobs.

    Raises:
        NotFound: There is none, and no job of one.
    """
    try:
        return schedule_named(organization, name)
    except NotFound:
        jobs, _ = organization.state.jobs.page(
            organization.id, KIND, JobFilters(schedule_id=name), Page(1)
        )
        if not jobs:
            raise
        return name


def list_destinations(organization: Organization) -> list[Document]:
    """All destinations as on the wire."""
    with organization.reading() as reader:
        return [each.to_wire() for each in reader.all(ExportDestination)]


def create_destination(organization: Organization, author: str, document: Document) -> Document:
    """Make a destination from a document of the wire.

    Raises:
        Invalid: A field or a rule is broken.
        Conflict: The code is taken.
    """
    return entities.create(organization, author, _DESTINATIONS, document)


def update_destination(
    organization: Organization, author: str, name: str, changes: Mapping[str, Any]
) -> Document:
    """Change fields of a destination, and nothing else; its type stays.

    Args:
        organization: The organization.
        author: Who changes it.
        name: Its code or id.
        changes: Fields of the wire; None empties what was there.

    Raises:
        Invalid: A field or a rule is broken.
        NotFound: There is no such destination.
        Conflict: The code is taken, or somebody else changed the destination meanwhile.
    """
    with organization.transaction(author) as transaction:
        before = transaction.get(ExportDestination, id_of(transaction, ExportDestination, name))
        return _update(transaction, organization.stores, _DESTINATIONS, before, changes)


def delete_destination(organization: Organization, author: str, name: str) -> Document:
    """Delete a destination; what lies there stays.

    Raises:
        NotFound: There is no destination of that code or id.
        StillReferenced: A schedule uses it.
    """
    ref = replace(_DESTINATIONS, id=destination_named(organization, name))
    return entities.delete(organization, author, ref)


def destination_named(organization: Organization, name: str) -> str:
    """The id of the destination of a code, or of that id.

    Raises:
        NotFound: There is none.
    """
    with organization.reading() as reader:
        return id_of(reader, ExportDestination, name)


def save_download(organization: Organization, job_id: str, folder: Path) -> Path:
    """Save what a job kept for its download into a folder.

    Raises:
        NotFound: There is no such job, or its file is gone.
        Invalid: The folder is none, and cannot be made.
        Conflict: It has nothing to download, or not any more.
        Unavailable: The disk or the object store failed.
    """
    found, _ = download(organization, job_id)
    try:
        with disk():
            folder.mkdir(parents=True, exist_ok=True)
    except Unavailable as error:
        if isinstance(error.__cause__, _NO_FOLDER):
            rule = f"it must be a folder, or a path at which one can be made: {error.__cause__.strerror}"
            raise Invalid("--to", str(folder), rule) from None
        raise
    path = folder / found.name
    with (
        organization.stores.objects.open(found.key) as source,
        write_durably(path) as temporary,
        temporary.open("wb") as target,
    ):
        copyfileobj(source, target)
    return path


def _update(
    transaction: Transaction,
    stores: Stores,
    ref: ResourceRef,
    before: Record[Any],
    changes: Mapping[str, Any],
) -> Document:
    document = {**before.entity.to_wire(), **changes}
    # As at the creation: who gives no name is content with the code.
    document["name"] = document["name"] or document["code"]
    entity = entities.parse(ref.resource, document, ref.members)
    after = entities.update_in(transaction, stores, before, before.version, entity)
    return entities.entity_document(after, transaction)


def _schedule(stores: Stores, reader: Reader, schedule: Record[ExportSchedule]) -> Document:
    due = next_due(reader, schedule, stores.now(), stores.settings)
    filters = JobFilters(schedule_id=schedule.id)
    jobs, _ = stores.state.jobs.page(reader.org_id, KIND, filters, Page(1))
    last = job_document(jobs[0]) if jobs else {}
    return {
        **schedule.to_wire(),
        "clock": clock_of(schedule.entity),
        "nextRun": due and format_instant(due),
        "lastJobId": last.get("id"),
        "lastStatus": last.get("status"),
    }
