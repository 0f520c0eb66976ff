"""Exports over HTTP: asking for one, by a schedule or once, its job, and the link to its files."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from meterlake.api.entities import ordered_page, resource_ref
from meterlake.api.server import downloads
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.api.server.readable_fields import permit, permit_sum
from meterlake.model.configuration.exports import (
    ExportDestination,
    ExportSchedule,
    OperationalDataType,
    SourceType,
)
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.period import format_instant
from meterlake.model.work.export_request import Source
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.export import delivered
from meterlake.pipeline.export import destinations as export_destinations
from meterlake.pipeline.export import jobs as export_jobs
from meterlake.pipeline.export.jobs import ExportJobFilter
from meterlake.stages.export.exported_columns import (
    BILLS,
    FOCUS,
    MEASUREMENTS,
    Export,
    operational,
)

_PAGE_MAX: Final = 100
_KIND: Final = "export job"
_JOBS: Final = f"{ORGANIZATION}/dataexports/jobs"
_LINK: Final = timedelta(minutes=15)
_RESOURCE: Final = "dataexport"
# Which action lets data of a source out, whoever takes it out and however.
_USAGE: Final = "measurements:export"
_OPERATIONAL: Final = "config:export"
_ACTIONS: Final = {Source.USAGE: _USAGE, Source.OPERATIONAL: _OPERATIONAL}
# Whose right to read exports need that are made from no entity.
_READ: Final = {
    "bills": "bill",
    "billLineItems": "bill",
    "focus": "bill",
    "pricingBands": "pricing",
    "balanceTransactions": "balancetransaction",
}
_SCHEDULE: Final = BY_ENTITY[ExportSchedule]
_DESTINATION: Final = BY_ENTITY[ExportDestination]
_SCHEDULES: Final = f"{ORGANIZATION}/{_SCHEDULE.path}"


async def trigger(call: Call) -> Any:
    """Make the job of an export."""
    document = await call.document()
    _permit_document(call, document)
    return await call.run(export_jobs.trigger, call.organization, call.author, document)


async def create_schedule(call: Call) -> Any:
    """Make a schedule, which exports from then on without asking."""
    document, here = await call.document(), resource_ref(call, _SCHEDULE)
    _permit_document(call, document)
    return await call.run(entities.create, call.organization, call.author, here, document)


async def update_schedule(call: Call) -> Any:
    """Change a schedule."""
    document, here = await call.document(), resource_ref(call, _SCHEDULE)
    _permit_document(call, document)
    return await call.run(entities.update, call.organization, call.author, here, document)


def _permit_document(call: Call, document: Document) -> None:
    """Measurements, and what is configured and billed, are let out by permissions of their own.

    Raises:
        Forbidden: There is none for the source.
    """
    source, chosen = document.get("sourceType"), document.get("operationalDataTypes")
    # What is no document of an export is refused by whoever reads it.
    if source == SourceType.USAGE:
        permit_exports(call, [MEASUREMENTS])
    elif source == SourceType.OPERATIONAL:
        known = OperationalDataType.__members__
        names = chosen if isinstance(chosen, list) else []
        found = [operational(known[each]) for each in names if each in known]
        permit_exports(call, [*found, FOCUS] if document.get("focus") else found or [BILLS])


def permit_exports(call: Call, exports: Iterable[Export]) -> None:
    """Let only those take data out who may, and from whom nothing of them is withheld.

    Raises:
        Forbidden: The permission is missing, or some of the data may not be read.
    """
    for each in exports:
        action = _ACTIONS[each.source]
        permit(call, action, _RESOURCE)
        _permit_reading(call, each)


def _permit_reading(call: Call, export: Export) -> None:
    """A file of all of a type shows each of them.

    Raises:
        Forbidden: Some may not be read.
    """
    if export.source is Source.USAGE:
        permit_sum(call, "measurements", "measurements:retrieve")
    else:
        own = BY_ENTITY[export.entity].permission if export.entity else _READ[export.name]
        permit_sum(call, own)


async def list_jobs(call: Call) -> Any:
    """One page of jobs."""
    query = call.query
    filters = ExportJobFilter(
        ids=tuple(query.texts("ids")),
        schedule_id=query.text("scheduleId"),
        status=query.text("status"),
        start=query.instant("dateCreatedStart"),
        end=query.instant("dateCreatedEnd"),
    )
    this = ordered_page(call, _PAGE_MAX, "dateCreated")
    return await call.run(export_jobs.list_jobs, call.organization, filters, this)


async def get_job(call: Call) -> Any:
    """One job."""
    return await call.run(export_jobs.get_job, call.organization, member(call, _KIND))


async def cancel(call: Call) -> Any:
    """Stop a job."""
    return await call.run(export_jobs.cancel, call.organization, member(call, _KIND), call.author)


async def retry(call: Call) -> Any:
    """Run a job that failed once more, perhaps to where its destinations are by now."""
    id_ = member(call, _KIND)
    permit_exports(call, await call.run(export_jobs.exports_of_job, call.organization, id_))
    return await call.run(export_jobs.retry, call.organization, id_, call.author)


async def update_destination(call: Call) -> Any:
    """Change a destination, and so where its schedules export to."""
    document, here = await call.document(), resource_ref(call, _DESTINATION)
    id_ = member(call, "ExportDestination")
    permit_exports(call, await call.run(export_destinations.exports_to, call.organization, id_))
    return await call.run(entities.update, call.organization, call.author, here, document)


async def download_url(call: Call) -> Any:
    """A link to the file of a job."""
    id_ = member(call, _KIND, "jobId")
    for each in await call.run(export_jobs.exports_of_job, call.organization, id_):
        _permit_reading(call, each)
    download, kept_until = await call.run(export_jobs.download, call.organization, id_)
    now = call.stores.now()
    ends = min(now + _LINK, kept_until)
    url = await downloads.link(call, download, (ends - now).total_seconds())
    return {"url": url, "expirationTime": format_instant(ends)}


async def get_manifest(call: Call) -> Any:
    """The manifest of a job, where it lies."""
    id_ = await _readable_job(call)
    return await call.run(delivered.read_delivered, call.organization, id_, _place(call))


async def verify(call: Call) -> Any:
    """Whether the files of a job are as its manifest says."""
    id_ = await _readable_job(call)
    return await call.run(delivered.verify_delivered, call.organization, id_, _place(call))


async def file_url(call: Call) -> Any:
    """A link to one file of a job."""
    id_ = await _readable_job(call)
    name = call.path["file"]
    found = await call.run(delivered.delivered_download, call.organization, id_, name, _place(call))
    url = await downloads.link(call, found, _LINK.total_seconds())
    return {"url": url, "expirationTime": format_instant(call.stores.now() + _LINK)}


async def _readable_job(call: Call) -> str:
    """A job of which nothing is withheld from who asks.

    Raises:
        Forbidden: Some of what it exported may not be read.
    """
    id_ = member(call, _KIND)
    for each in await call.run(export_jobs.exports_of_job, call.organization, id_):
        _permit_reading(call, each)
    return id_


def _place(call: Call) -> str | None:
    return call.query.text("place")


async def check_destination(call: Call) -> Any:
    """Find out whether a destination can be written."""
    id_ = member(call, "ExportDestination")
    return await call.run(export_destinations.check_destination, call.organization, id_)


def _operation(
    name: str, method: str, path: str, action: str, handler: Handler, item: str = "id"
) -> Operation:
    return Operation(name, method, path, action, _RESOURCE, handler, item=item, feature="preview")


OPERATIONS: Final = (
    Operation(
        "TriggerDataExport",
        "POST",
        f"{ORGANIZATION}/dataexports/adhoc",
        _USAGE,
        _RESOURCE,
        trigger,
        feature="preview",
        or_action=_OPERATIONAL,
    ),
    Operation(
        "CreateSchedule",
        "POST",
        _SCHEDULES,
        "config:create",
        _SCHEDULE.permission,
        create_schedule,
        feature="preview",
    ),
    Operation(
        "UpdateSchedule",
        "PUT",
        f"{_SCHEDULES}/{{id}}",
        "config:update",
        _SCHEDULE.permission,
        update_schedule,
        feature="preview",
    ),
    Operation(
        "PutDestination",
        "PUT",
        f"{ORGANIZATION}/{_DESTINATION.path}/{{id}}",
        "config:update",
        _DESTINATION.permission,
        update_destination,
        feature="preview",
    ),
    _operation("listJobStatuses", "GET", _JOBS, "config:retrieve", list_jobs),
    _operation("GetJob", "GET", f"{_JOBS}/{{id}}", "config:retrieve", get_job),
    _operation(
        "GenerateDataExportFileDownloadUrl",
        "GET",
        f"{_JOBS}/{{jobId}}/getdownloadurl",
        "exports:download",
        download_url,
        item="jobId",
    ),
    # Of our own.
    _operation(
        "GetDataExportManifest", "GET", f"{_JOBS}/{{id}}/manifest", "exports:download", get_manifest
    ),
    _operation("VerifyDataExport", "POST", f"{_JOBS}/{{id}}/verify", "exports:download", verify),
    _operation(
        "GetDataExportFileUrl",
        "GET",
        f"{_JOBS}/{{id}}/files/{{file}}/getdownloadurl",
        "exports:download",
        file_url,
    ),
    Operation(
        "CheckExportDestination",
        "POST",
        f"{ORGANIZATION}/dataexports/destinations/{{id}}/check",
        "config:update",
        "exportdestination",
        check_destination,
        feature="preview",
    ),
    _operation("CancelDataExportJob", "POST", f"{_JOBS}/{{id}}/cancel", "config:update", cancel),
    _operation("RetryDataExportJob", "POST", f"{_JOBS}/{{id}}/retry", "config:update", retry),
)
