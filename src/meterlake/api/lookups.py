"""Lookup tables beyond the standard verbs: status and data of revisions."""

from typing import Any, Final

from meterlake.api.entities import filters, page, resource_ref, searched_page
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.api.server.downloads import base_url
from meterlake.model.catalog.lookups import ITEMS_MAX, LookupTable, LookupTableRevision
from meterlake.model.errors import Invalid
from meterlake.model.resources import BY_ENTITY
from meterlake.pipeline.config import entities
from meterlake.pipeline.lookups import jobs as lookup_jobs
from meterlake.pipeline.lookups import lookups
from meterlake.pipeline.lookups.lookups import At

_TABLES: Final = f"{ORGANIZATION}/lookuptables"
_REVISIONS: Final = f"{_TABLES}/{{lookupTableId}}/revisions"
_DATA: Final = f"{_REVISIONS}/{{lookupTableRevisionId}}/data"
_JOBS_MAX: Final = 100


async def retrieve_table(call: Call) -> Any:
    """One table; `additional=activeRevision` adds the published revision."""
    here, active = resource_ref(call, BY_ENTITY[LookupTable]), _wants(call, lookups.ACTIVE_REVISION)
    at = call.query.instant("asOf")
    if at is not None:
        return await call.run(entities.as_of, call.organization, here, at)
    table = await call.run(entities.retrieve, call.organization, here)
    if not active:
        return table
    return (await call.run(lookups.with_active, call.organization, [table]))[0]


async def list_tables(call: Call) -> Any:
    """One page of tables; `additional=activeRevision` adds the published revisions."""
    resource = BY_ENTITY[LookupTable]
    criteria, active = filters(call, resource), _wants(call, lookups.ACTIVE_REVISION)
    this = searched_page(call, resource)
    found = await call.run(entities.list_page, call.organization, resource, criteria, this)
    if active:
        data = await call.run(lookups.with_active, call.organization, found["data"])
        found = {**found, "data": data}
    return found


async def delete_revision(call: Call) -> Any:
    """Delete a revision and its data."""
    return await call.run(lookups.delete_revision, call.organization, call.author, _at(call, "id"))


async def set_status(call: Call) -> Any:
    """Publish or archive a revision."""
    document, at = await call.document(), _at(call, "id")
    return await call.run(lookups.set_status, call.organization, call.author, at, document)


async def read_data(call: Call) -> Any:
    """The items of a revision."""
    limit = call.query.integer("limit", ITEMS_MAX, least=1, most=ITEMS_MAX)
    assert limit is not None
    keys = _wants(call, "lookupKey")
    return await call.run(lookups.read_data, call.organization, _at(call), limit, keys=keys)


async def write_data(call: Call) -> Any:
    """Write items into a draft."""
    document, keys = await call.document(), _wants(call, "lookupKey")
    return await call.run(
        lookups.write_data, call.organization, call.author, _at(call), document, keys=keys
    )


async def delete_data(call: Call) -> Any:
    """Delete all items of a draft."""
    return await call.run(lookups.delete_data, call.organization, call.author, _at(call))


async def read_item(call: Call) -> Any:
    """One item."""
    return await call.run(lookups.read_item, call.organization, _at(call))


async def write_item(call: Call) -> Any:
    """Write one item into a draft."""
    document, keys = await call.document(), _wants(call, "lookupKey")
    return await call.run(
        lookups.write_item, call.organization, call.author, _at(call), document, keys=keys
    )


async def delete_item(call: Call) -> Any:
    """Delete one item from a draft; the body, which may be absent, can name a version."""
    document = await _document_if_any(call)
    return await call.run(lookups.delete_item, call.organization, call.author, _at(call), document)


async def copy_data(call: Call) -> Any:
    """Copy the data of a revision into another, or into a new one."""
    document = await _document_if_any(call)
    return await call.run(lookups.copy_data, call.organization, call.author, _at(call), document)


async def list_jobs(call: Call) -> Any:
    """One page of the jobs of a revision."""
    this = page(call, _JOBS_MAX)
    base = base_url(call)
    return await call.run(lookup_jobs.list_jobs, call.organization, _at(call), this, base)


async def read_job(call: Call) -> Any:
    """One job of a revision."""
    id_, base = member(call, LookupTableRevision.__name__), base_url(call)
    return await call.run(lookup_jobs.read_job, call.organization, _at(call), id_, base)


async def delete_job(call: Call) -> Any:
    """Forget a job of a revision."""
    id_ = member(call, LookupTableRevision.__name__)
    return await call.run(lookup_jobs.delete_job, call.organization, call.author, _at(call), id_)


async def announce_file(call: Call) -> Any:
    """Make a job for a file of items, and the URL that takes the file."""
    document, base = await call.document(), base_url(call)
    return await call.run(
        lookup_jobs.announce, call.organization, call.author, _at(call), document, base
    )


async def write_file(call: Call) -> Any:
    """Make a job that writes the items to a file."""
    document = await call.document()
    return await call.run(
        lookup_jobs.write_file, call.organization, call.author, _at(call), document
    )


async def archived_url(call: Call) -> Any:
    """A link to the archived items."""
    document, base = await call.document(), base_url(call)
    return await call.run(lookup_jobs.archive_link, call.organization, _at(call), document, base)


def _at(call: Call, revision: str = "lookupTableRevisionId") -> At:
    kind = LookupTableRevision.__name__
    table_id, revision_id = (member(call, kind, name) for name in ("lookupTableId", revision))
    return At(table_id, revision_id, call.path.get("lookupKey", ""))


def _wants(call: Call, what: str) -> bool:
    """Whether `additional` asks for something; it can ask for nothing else."""
    criteria = call.query.texts("additional")
    for each in criteria:
        if each != what:
            raise Invalid("additional", each, f"it must be {what}")
    return bool(criteria)


async def _document_if_any(call: Call) -> dict[str, Any]:
    headers = call.request.headers
    some = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    return await call.document() if some else {}


def _revision(name: str, method: str, path: str, action: str, handler: Handler) -> Operation:
    return Operation(
        name, method, path, f"config:{action}", "lookuptablerevision", handler, feature="beta"
    )


def _data(name: str, method: str, path: str, action: str, handler: Handler) -> Operation:
    return Operation(
        name,
        method,
        f"{_DATA}{path}",
        f"config:{action}",
        "lookuptablerevision",
        handler,
        item="lookupTableRevisionId",
        feature="beta",
    )


def _table(name: str, path: str, handler: Handler) -> Operation:
    return Operation(name, "GET", path, "config:retrieve", "lookuptable", handler, feature="beta")


# Words that stand where a key may stand come before it.
OPERATIONS: Final = (
    _table("ListLookupTable", _TABLES, list_tables),
    _table("GetLookupTable", f"{_TABLES}/{{id}}", retrieve_table),
    _revision(
        "DeleteLookupTableRevision", "DELETE", f"{_REVISIONS}/{{id}}", "delete", delete_revision
    ),
    _revision(
        "UpdateLookupTableRevisionStatus",
        "PUT",
        f"{_REVISIONS}/{{id}}/status",
        "update",
        set_status,
    ),
    _data("GetLookupTableRevisionData", "GET", "", "retrieve", read_data),
    _data("PutLookupTableRevisionData", "PUT", "", "update", write_data),
    _data("DeleteLookupTableRevisionData", "DELETE", "", "update", delete_data),
    _data("GetLookupTableRevisionArchivedDataUrl", "POST", "/archived", "retrieve", archived_url),
    _data("CopyLookupTableRevisionData", "POST", "/copy", "create", copy_data),
    _data(
        "GenerateLookupTableDataUploadUrl", "POST", "/generateuploadurl", "update", announce_file
    ),
    _data("ListLookupTableRevisionDataJobs", "GET", "/jobs", "retrieve", list_jobs),
    _data(
        "TriggerLookupTableRevisionDataDownloadJob",
        "POST",
        "/jobs/download",
        "retrieve",
        write_file,
    ),
    _data("GetLookupTableRevisionDataJobResponse", "GET", "/jobs/{id}", "retrieve", read_job),
    _data("DeleteLookupTableRevisionDataJobResponse", "DELETE", "/jobs/{id}", "delete", delete_job),
    _data("GetLookupTableRevisionDataEntry", "GET", "/{lookupKey}", "retrieve", read_item),
    _data("PutLookupTableRevisionDataEntry", "PUT", "/{lookupKey}", "update", write_item),
    _data("DeleteLookupTableRevisionDataEntry", "DELETE", "/{lookupKey}", "update", delete_item),
)
