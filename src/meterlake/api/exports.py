"""Exports over HTTP: asking for one, its job, and the link to its files."""

from datetime import timedelta
from typing import Any, Final

from meterlake.api import downloads
from meterlake.api.call import Call
from meterlake.api.documents import member
from meterlake.api.entities import page
from meterlake.api.operations import ORGANIZATION, Handler, Operation
from meterlake.model.period import format_instant
from meterlake.pipeline import export_destinations, export_jobs
from meterlake.pipeline.export_jobs import Filters

_PAGE_MAX: Final = 100
_KIND: Final = "export job"
_JOBS: Final = f"{ORGANIZATION}/dataexports/jobs"
_LINK: Final = timedelta(minutes=15)


async def trigger(call: Call) -> Any:
    """Make the job of an export."""
    document = await call.document()
    return await call.run(export_jobs.trigger, call.stores, call.org_id, call.author, document)


async def list_jobs(call: Call) -> Any:
    """One page of jobs."""
    query = call.query
    filters = Filters(
        ids=tuple(query.texts("ids")),
        schedule_id=query.text("scheduleId"),
        status=query.text("status"),
        start=query.instant("dateCreatedStart"),
        end=query.instant("dateCreatedEnd"),
    )
    this = page(call, _PAGE_MAX)
    return await call.run(export_jobs.list_jobs, call.stores, call.org_id, filters, this)


async def get_job(call: Call) -> Any:
    """One job."""
    return await call.run(export_jobs.get_job, call.stores, call.org_id, member(call, _KIND))


async def cancel(call: Call) -> Any:
    """Stop a job."""
    return await call.run(export_jobs.cancel, call.stores, call.org_id, member(call, _KIND))


async def retry(call: Call) -> Any:
    """Run a job that failed once more."""
    return await call.run(export_jobs.retry, call.stores, call.org_id, member(call, _KIND))


async def download_url(call: Call) -> Any:
    """A link to the file of a job."""
    id_ = member(call, _KIND, "jobId")
    download = await call.run(export_jobs.download, call.stores, call.org_id, id_)
    ends = call.stores.now() + _LINK
    url = await downloads.link(call, download, _LINK.total_seconds())
    return {"url": url, "expirationTime": format_instant(ends)}


async def check_destination(call: Call) -> Any:
    """Find out whether a destination can be written."""
    id_ = member(call, "ExportDestination")
    return await call.run(export_destinations.check_destination, call.stores, call.org_id, id_)


def _operation(
    name: str, method: str, path: str, action: str, handler: Handler, item: str = "id"
) -> Operation:
    return Operation(
        name, method, path, action, "dataexport", handler, item=item, feature="preview"
    )


OPERATIONS: Final = (
    _operation(
        "TriggerDataExport",
        "POST",
        f"{ORGANIZATION}/dataexports/adhoc",
        "measurements:export",
        trigger,
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
