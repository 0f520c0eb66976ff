"""Bill jobs over HTTP: bills that are to be made, how far that is, and previews."""

from typing import Any, Final

from meterlake.api.billing.documents import member
from meterlake.api.entities import page
from meterlake.api.server.call import Call
from meterlake.api.server.operations import ORGANIZATION, Handler, Operation
from meterlake.pipeline.billing.jobs import jobs
from meterlake.pipeline.billing.preview import preview

_PAGE_MAX: Final = 100
_KIND: Final = "bill job"
_RESOURCE: Final = "billjob"
_JOBS: Final = f"{ORGANIZATION}/billjobs"


async def create(call: Call) -> Any:
    """Make the job of bills."""
    document = await call.document()
    return await call.run(jobs.create, call.stores, call.org_id, call.author, document)


async def recalculate(call: Call) -> Any:
    """Make the job that makes chosen bills again."""
    document = await call.document()
    return await call.run(jobs.recalculate, call.stores, call.org_id, call.author, document)


async def list_jobs(call: Call) -> Any:
    """One page of jobs."""
    query, this = call.query, page(call, _PAGE_MAX)
    return await call.run(
        jobs.list_jobs,
        call.stores,
        call.org_id,
        this,
        active=query.flag("active"),
        status=query.text("status"),
    )


async def get_job(call: Call) -> Any:
    """One job."""
    return await call.run(jobs.get_job, call.stores, call.org_id, member(call, _KIND))


async def cancel(call: Call) -> Any:
    """Stop a job."""
    return await call.run(jobs.cancel, call.stores, call.org_id, member(call, _KIND))


async def preview_bill(call: Call) -> Any:
    """What a bill would be."""
    document = await call.document()
    return await call.run(preview, call.stores, call.org_id, call.author, document)


def _operation(name: str, method: str, path: str, action: str, handler: Handler) -> Operation:
    return Operation(name, method, f"{_JOBS}{path}", f"config:{action}", _RESOURCE, handler)


OPERATIONS: Final = (
    _operation("ListBillJobs", "GET", "", "retrieve", list_jobs),
    _operation("CreateBillJob", "POST", "", "create", create),
    _operation("RecalculateBillJob", "POST", "/recalculate", "create", recalculate),
    _operation("GetBillJob", "GET", "/{id}", "retrieve", get_job),
    _operation("CancelBillJob", "POST", "/{id}/cancel", "update", cancel),
    Operation(
        "PreviewBill",
        "POST",
        f"{ORGANIZATION}/bills/preview",
        "config:retrieve",
        "bill",
        preview_bill,
    ),
)
