"""Statements of bills over HTTP: jobs that make them, and links to their files."""

from collections.abc import Sequence
from typing import Any, Final

from meterlake.api.billing.bills import BILLS
from meterlake.api.billing.bills import RESOURCE as BILL
from meterlake.api.entities import page
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.api.server.downloads import link
from meterlake.api.server.readable_fields import RETRIEVE, permit_each, visible_rows
from meterlake.model.bills.statements import StatementFormat, StatementOrder
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.pipeline.statements import jobs
from meterlake.pipeline.statements.files import file_download
from meterlake.pipeline.statements.jobs import StatementJobFilter, StatementJobView

PAGE_MAX: Final = 100
_KIND: Final = "statement job"
_RESOURCE: Final = "statementjob"
_JOBS: Final = f"{ORGANIZATION}/statementjobs"
_URLS: Final = {each: f"presigned{each.name.title()}StatementUrl" for each in StatementFormat}


async def create(call: Call) -> Any:
    """Make the job of a statement."""
    document = await call.document()
    await _permit_bills(call, [document.get("billId")])
    made = await call.run(jobs.create, call.organization, call.author, document)
    return (await _documents(call, [made]))[0]


async def create_batch(call: Call) -> Any:
    """Make the jobs of statements of several bills."""
    document = await call.document()
    ids = document.get("billIds")
    await _permit_bills(call, ids if isinstance(ids, list) else [])
    made = await call.run(jobs.create_batch, call.organization, call.author, document)
    return await _documents(call, made)


async def _permit_bills(call: Call, ids: Sequence[object]) -> None:
    """A statement says what a bill says: whoever may not see the bill has none made.

    Raises:
        Forbidden: One of the bills is denied.
    """
    await permit_each(call, BILL, [each for each in ids if isinstance(each, str)])


async def list_jobs(call: Call) -> Any:
    """One page of jobs."""
    query, this = call.query, page(call, PAGE_MAX)
    bill_id = query.text("billId")
    wanted = StatementJobFilter(
        active=query.flag("active") if "active" in query else None,
        status=query.text("status"),
        bill_id=bill_id and bill_id.lower(),
    )
    found, token = await call.run(jobs.list_jobs, call.organization, wanted, this)
    return envelope(await _documents(call, found), token)


async def get_job(call: Call) -> Any:
    """One job."""
    found = await call.run(jobs.get_job, call.organization, member(call, _KIND))
    return (await _documents(call, [found]))[0]


async def cancel(call: Call) -> Any:
    """Stop a job."""
    found = await call.run(jobs.cancel, call.organization, member(call, _KIND), call.author)
    return (await _documents(call, [found]))[0]


async def _documents(call: Call, found: Sequence[StatementJobView]) -> list[Document]:
    """Jobs with links to their files, where whoever asks may see the bill."""
    shown = await visible_rows(call, BILL, [each.document for each in found], "billId")
    permitted = {each["billId"] for each in shown}
    lifetime_s = call.stores.settings.download_seconds
    documents = []
    for each in found:
        document = dict(each.document)
        downloads = each.downloads if each.bill_id in permitted else {}
        for format_, download in downloads.items():
            document[_URLS[format_]] = await link(call, download, lifetime_s)
        documents.append(document)
    return documents


async def create_csv(call: Call) -> Any:
    """A link to the statement as CSV, which is made unless the bill has it as it is now."""
    order = StatementOrder(member(call, BILL), csv=True)
    files = await call.run(jobs.ensure_statement, call.organization, call.author, order)
    download = file_download(files[StatementFormat.CSV])
    return {"downloadUrl": await link(call, download, call.stores.settings.download_seconds)}


def _get_statement(format: StatementFormat) -> Handler:
    async def get_statement(call: Call) -> Any:
        id_ = member(call, BILL)
        download = await call.run(jobs.read_statement, call.organization, id_, format)
        return {"downloadUrl": await link(call, download, call.stores.settings.download_seconds)}

    return get_statement


def _operation(name: str, method: str, path: str, action: str, handler: Handler) -> Operation:
    return Operation(name, method, f"{_JOBS}{path}", f"config:{action}", _RESOURCE, handler)


def _of_bill(name: str, method: str, format: str, action: str, handler: Handler) -> Operation:
    path = f"{BILLS}/{{id}}/statement/{format}"
    return Operation(name, method, path, f"config:{action}", BILL, handler, reads=RETRIEVE)


OPERATIONS: Final = (
    _operation("ListStatementJobs", "GET", "", "retrieve", list_jobs),
    _operation("CreateStatementJob", "POST", "", "create", create),
    _operation("CreateStatementJobBatch", "POST", "/batch", "create", create_batch),
    _operation("GetStatementJob", "GET", "/{id}", "retrieve", get_job),
    _operation("CancelStatementJob", "POST", "/{id}/cancel", "update", cancel),
    _of_bill("CreateBillCsvStatement", "POST", "csv", "create", create_csv),
    _of_bill("GetBillCsvStatement", "GET", "csv", "retrieve", _get_statement(StatementFormat.CSV)),
    _of_bill(
        "GetBillJsonStatement", "GET", "json", "retrieve", _get_statement(StatementFormat.JSON)
    ),
)
