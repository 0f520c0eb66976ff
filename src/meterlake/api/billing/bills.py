"""Bills over HTTP: their jobs, previews, lists, search, approval, lock, deletion, and files of many."""

from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from typing import Any, Final, Literal

from starlette.responses import Response

from meterlake.api.entities import page, search_criteria
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.api.server.downloads import content_response, file_response, link
from meterlake.api.server.readable_fields import RETRIEVE, permit_each, visible_rows
from meterlake.model.bills.document import AppendixDetail, DocumentFormat
from meterlake.model.bills.explanation import ROWS_SHOWN, ROWS_SHOWN_MAX
from meterlake.model.bills.jobs import BillJobRecalculateRequest
from meterlake.model.bills.requests import (
    ApproveBillsRequest,
    BillStatus,
    DownloadCsvRequest,
    DownloadDocumentsRequest,
    PreviewLetterRequest,
    SendBillRequest,
    UpdateBillStatusRequest,
)
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Forbidden, Invalid, NotFound, Required
from meterlake.model.values.ids import is_id
from meterlake.model.values.period import Month
from meterlake.model.values.problems import read
from meterlake.pipeline.billing import bills
from meterlake.pipeline.billing.bill_csv import write_bills
from meterlake.pipeline.billing.calculation.preview import preview
from meterlake.pipeline.billing.comparison import compare_bills
from meterlake.pipeline.billing.differences.compared_contents import NOW, DiffChoice
from meterlake.pipeline.billing.differences.diff import diff_bill_to_wire
from meterlake.pipeline.billing.explanation.explain import ExplanationRequest, explain_as_wire
from meterlake.pipeline.billing.jobs import jobs, recalculation
from meterlake.pipeline.billing.open_points import count_open_points, describe_open_points
from meterlake.pipeline.billing.two_persons import check_approval
from meterlake.pipeline.billing.verification.verify import verify_bill
from meterlake.pipeline.documents.bill_emails import list_letters, preview_letter, send_bill
from meterlake.pipeline.documents.bundle import bills_of_documents, check_count, make_bundle
from meterlake.pipeline.documents.bundle_jobs import get_documents_job, submit_documents
from meterlake.pipeline.documents.render import make_document
from meterlake.stores.downloads import Download
from meterlake.stores.state.billing.bills.lists import SEARCH_FIELDS, BillFilters, of_billing_period

PAGE_MAX: Final = 100
RESOURCE: Final = "bill"
BILLS: Final = f"{ORGANIZATION}/bills"
_PERIOD: Final = f"{BILLS}/billingperiod/{{lastDateInBillingPeriod}}/{{billingFrequency}}"
_STATUSES: Final = {each.value: each for each in BillStatus}
_FREQUENCIES: Final = {each.value: each.value for each in BillingFrequency}
_APPROVAL_FILTERS: Final = ("accountIds", "externalInvoiceDateStart", "externalInvoiceDateEnd")
_DOCUMENT_FORMATS: Final = {each.value: each for each in DocumentFormat}
_USAGE_DETAILS: Final = {each.value: each for each in AppendixDetail}
_UPDATE: Final = "config:update"
_JOB: Final = "bill job"
_JOBS: Final = f"{ORGANIZATION}/billjobs"


async def _list(call: Call) -> Any:
    query = call.query
    account_ids, job_id = query.text("accountId") or "", query.text("billJobId")
    filters = BillFilters(
        ids=tuple(each.lower() for each in query.texts("ids")),
        account_ids=tuple(each.lower() for each in account_ids.split(",") if each),
        locked=query.flag("locked", default=True),
        status=query.one_of("status", _STATUSES, None),
        frequency=query.one_of("billingFrequency", _FREQUENCIES, None),
        bill_date=query.day("billDate"),
        date_from=query.day("billDateStart"),
        date_before=query.day("billDateEnd"),
        invoiced_from=query.day("externalInvoiceDateStart"),
        invoiced_before=query.day("externalInvoiceDateEnd"),
        job_id=job_id and job_id.lower(),
    )
    return await call.run(
        bills.list_bills,
        call.organization,
        filters,
        page(call, PAGE_MAX),
        lines=not query.flag("excludeLineItems"),
        total=query.flag("includeBillTotal"),
    )


async def _list_of_account(call: Call) -> Any:
    id_, here = member(call, Account.__name__, "accountId"), page(call, PAGE_MAX)
    return await call.run(bills.list_bills_of_account, call.organization, id_, here)


async def _list_of_period(call: Call) -> Any:
    here = page(call, PAGE_MAX)
    return await call.run(bills.list_bills_of_period, call.organization, *_period(call), here)


def _period(call: Call) -> tuple[date, str]:
    """The last day and the frequency that a path names."""
    day, frequency = call.path["lastDateInBillingPeriod"], call.path["billingFrequency"]
    if frequency not in _FREQUENCIES:
        raise Invalid("billingFrequency", frequency, f"it must be one of {', '.join(_FREQUENCIES)}")
    try:
        return date.fromisoformat(day), frequency
    except ValueError:
        raise Invalid(
            "lastDateInBillingPeriod", day, "it must be a date such as 2026-10-31"
        ) from None


async def _search(call: Call) -> Any:
    criteria = search_criteria(call, SEARCH_FIELDS, PAGE_MAX)
    lines = not call.query.flag("excludeLineItems")
    return await call.run(bills.search_bills, call.organization, criteria, lines=lines)


async def _total(call: Call) -> Any:
    """What found bills come to says something of all of them."""
    permit_all(call, RETRIEVE)
    criteria = search_criteria(call, SEARCH_FIELDS, PAGE_MAX)
    return await call.run(bills.total_found, call.organization, criteria)


async def _latest(call: Call) -> Any:
    id_ = member(call, Account.__name__, "accountId")
    found = await call.run(bills.latest_bill, call.organization, id_)
    await permit_each(call, RESOURCE, [found["id"]])
    return found


def _of_bill(function: Callable[..., Any]) -> Handler:
    async def handler(call: Call) -> Any:
        return await call.run(function, call.organization, member(call, RESOURCE))

    return handler


async def _verify(call: Call) -> Any:
    look = partial(verify_bill, former=call.query.flag("former"))
    return await call.run(look, call.organization, member(call, RESOURCE))


async def _diff(call: Call) -> Any:
    first = call.query.integer("from", least=1)
    last: int | Literal["now"] | None = NOW
    if call.query.text("to") != NOW:
        last = call.query.integer("to", least=1)
    choice, id_ = DiffChoice(first, last), member(call, RESOURCE)
    return await call.run(diff_bill_to_wire, call.organization, id_, choice)


async def _compare(call: Call) -> Any:
    other = call.query.text("with")
    return await call.run(compare_bills, call.organization, member(call, RESOURCE), other)


async def _document(call: Call) -> Response:
    format_ = call.query.one_of("format", _DOCUMENT_FORMATS, DocumentFormat.PDF)
    detail = call.query.one_of("usage", _USAGE_DETAILS, AppendixDetail.AUTO)
    id_ = member(call, RESOURCE)
    made = await call.run(make_document, call.organization, id_, format_, detail)
    return content_response(made.name, made.media_type, made.data)


def _changing(function: Callable[..., Any]) -> Handler:
    async def handler(call: Call) -> Any:
        id_ = member(call, RESOURCE)
        return await call.run(function, call.organization, call.author, id_)

    return handler


async def _explain(call: Call) -> Any:
    query = call.query
    rows = query.integer("rows", ROWS_SHOWN, least=0, most=ROWS_SHOWN_MAX)
    version = query.integer("version", least=1)
    assert rows is not None
    id_ = member(call, RESOURCE)
    request = ExplanationRequest(
        id_,
        query.text("line"),
        version,
        rows,
        newest=query.flag("newest"),
        days=query.flag("days"),
    )
    return await call.run(explain_as_wire, call.organization, request)


async def _set_status(call: Call) -> Any:
    id_ = member(call, RESOURCE)
    status = read(UpdateBillStatusRequest, await call.document()).status
    return await call.run(bills.set_status, call.organization, call.author, id_, status)


async def _approve(call: Call) -> Any:
    document = await call.document(may_be_empty=True)
    # Whoever calls with the SDK and means the filters has to name bills, and names none.
    filtered = document.get("billIds") in (None, []) and any(
        name in call.query for name in _APPROVAL_FILTERS
    )
    if document.get("billIds") is not None and not filtered:
        ids = read(ApproveBillsRequest, document).bill_ids
        await permit_each(call, RESOURCE, ids, _UPDATE)
        told = await _open_points(call, BillFilters(ids=tuple(ids)))
        count = await call.run(bills.approve_bills, call.organization, call.author, ids)
        return _approved(count, told)
    permit_all(call, _UPDATE)
    accounts = tuple(each.lower() for each in call.query.texts("accountIds"))
    for account_id in accounts:
        if not is_id(account_id):
            raise NotFound(Account.__name__, account_id)
    start = call.query.day("externalInvoiceDateStart")
    end = call.query.day("externalInvoiceDateEnd")
    if not accounts and start is None and end is None:
        raise Required("billIds")
    filters = BillFilters(account_ids=accounts, invoiced_from=start, invoiced_before=end)
    told = await _open_points(call, filters)
    count = await call.run(bills.approve_filtered, call.organization, call.author, filters)
    return _approved(count, told)


async def _check_approval(call: Call) -> Any:
    """What an approval would be refused for."""
    ids = read(ApproveBillsRequest, await call.document()).bill_ids
    await permit_each(call, RESOURCE, ids, _UPDATE)
    refused = await call.run(check_approval, call.organization, call.author, ids)
    if not call.permissions.unrestricted(RETRIEVE, RESOURCE):
        return {"refused": refused}
    filters = BillFilters(ids=tuple(ids))
    points = await call.run(count_open_points, call.organization, filters, also_approved=True)
    told = {"open": points.describe(), "points": points.to_wire()} if points.counts else {}
    return {"refused": refused, **told}


async def _open_points(call: Call, filters: BillFilters) -> str:
    """What is open about the bills, for who may read all of them."""
    if not call.permissions.unrestricted(RETRIEVE, RESOURCE):
        return ""
    found: str = await call.run(describe_open_points, call.organization, filters)
    return found


def permit_all(call: Call, action: str) -> None:
    """What is about many bills that nobody names needs permission for all of them.

    Raises:
        Forbidden: Some are treated unlike others.
    """
    if call.permissions.singles_out(action, RESOURCE):
        raise Forbidden(f"no permission for {action} on every {RESOURCE}; name the bills")


async def _approve_period(call: Call) -> Any:
    permit_all(call, _UPDATE)
    period = _period(call)
    told = await _open_points(call, of_billing_period(*period))
    count = await call.run(bills.approve_period, call.organization, call.author, *period)
    return _approved(count, told)


def _approved(count: int, told: str) -> dict[str, str]:
    message = f"{count} {'bill was' if count == 1 else 'bills were'} approved"
    return {"message": "; ".join(filter(None, (message, told if count else "")))}


async def _download_url(call: Call) -> Any:
    file = await _write_csv(call)
    return {"downloadUrl": await link(call, file, call.stores.settings.download_seconds)}


async def _download(call: Call) -> Any:
    return await call.run(file_response, call.stores, await _write_csv(call))


async def _write_csv(call: Call) -> Download:
    permit_all(call, RETRIEVE)
    request = read(DownloadCsvRequest, await call.document())
    return await call.run(write_bills, call.organization, request)


async def _submit_documents(call: Call) -> Any:
    """Have the worker make the documents of bills that are named, or of all of a month."""
    request = read(DownloadDocumentsRequest, await call.document())
    made = await call.run(
        submit_documents,
        call.organization,
        call.author,
        await _chosen_bills(call, request),
        request.format,
        request.usage,
    )
    return made.document


async def _documents_job(call: Call) -> Any:
    """How far such a job is, and a link to its file."""
    found = await call.run(get_documents_job, call.organization, member(call, "job of documents"))
    await permit_each(call, RESOURCE, found.bill_ids)
    if found.download is None:
        return found.document
    seconds = call.stores.settings.download_seconds
    return {**found.document, "downloadUrl": await link(call, found.download, seconds)}


async def _documents(call: Call) -> Response:
    """The documents of bills that are named, or of all of a month, as one file."""
    request = read(DownloadDocumentsRequest, await call.document())
    ids = await _chosen_bills(call, request)
    check_count(ids)
    wanted = ids, request.format, request.usage
    made = await call.run(make_bundle, call.organization, *wanted)
    return content_response(made.name, made.media_type, made.data)


async def _chosen_bills(call: Call, request: DownloadDocumentsRequest) -> Sequence[str]:
    """The bills of which somebody wants documents, as far as they may be read."""
    if request.month is None:
        if not request.bill_ids:
            raise Required("billIds")
        await permit_each(call, RESOURCE, list(request.bill_ids))
        return request.bill_ids
    if request.bill_ids:
        raise Invalid("month", request.month, "leave it out when you give billIds")
    permit_all(call, RETRIEVE)
    month = Month.parse(request.month)
    found: list[str] = await call.run(bills_of_documents, call.organization, month)
    return found


async def _send(call: Call) -> Any:
    id_ = member(call, RESOURCE)
    request = read(SendBillRequest, await call.document(may_be_empty=True))
    return await call.run(send_bill, call.organization, call.author, id_, request)


async def _preview_letter(call: Call) -> Any:
    id_ = member(call, RESOURCE)
    request = read(PreviewLetterRequest, await call.document(may_be_empty=True))
    return await call.run(preview_letter, call.organization, id_, request)


def _row(id: str, method: str, path: str, handler: Handler, action: str = RETRIEVE) -> Operation:
    return Operation(id, method, path, action, RESOURCE, handler)


async def create_job(call: Call) -> Any:
    """Make the job of bills."""
    document = await call.document()
    return await call.run(jobs.create, call.organization, call.author, document)


async def recalculate_job(call: Call) -> Any:
    """Make the job that makes chosen bills again."""
    document = await call.document()
    return await call.run(jobs.recalculate, call.organization, call.author, document)


async def check_recalculation(call: Call) -> Any:
    """What else a calculation of chosen bills touches."""
    ids = read(BillJobRecalculateRequest, await call.document()).bill_ids
    await permit_each(call, RESOURCE, ids)
    found = await call.run(recalculation.check_recalculation, call.organization, ids)
    return {"data": await visible_rows(call, RESOURCE, found["data"], "billId")}


async def list_changed(call: Call) -> Any:
    """What a job changed that made chosen bills again."""
    job_id = member(call, _JOB)
    found = await call.run(recalculation.list_changed_bills, call.organization, job_id)
    return {"data": await visible_rows(call, RESOURCE, found["data"], "billId")}


async def list_jobs(call: Call) -> Any:
    """One page of jobs."""
    query, this = call.query, page(call, PAGE_MAX)
    return await call.run(
        jobs.list_jobs,
        call.organization,
        this,
        active=query.flag("active"),
        status=query.text("status"),
    )


async def get_job(call: Call) -> Any:
    """One job."""
    return await call.run(jobs.get_job, call.organization, member(call, _JOB))


async def cancel_job(call: Call) -> Any:
    """Stop a job."""
    return await call.run(jobs.cancel, call.organization, member(call, _JOB), call.author)


async def preview_bill(call: Call) -> Any:
    """What a bill would be."""
    document = await call.document()
    return await call.run(preview, call.organization, call.author, document)


def _job(name: str, method: str, path: str, action: str, handler: Handler) -> Operation:
    return Operation(name, method, f"{_JOBS}{path}", f"config:{action}", "billjob", handler)


OPERATIONS: Final = (
    _row("ListBills", "GET", BILLS, _list),
    _row("GetAllBillsForAccount", "GET", f"{BILLS}/accountid/{{accountId}}", _list_of_account),
    _row("GetAllBillsInBillingPeriod", "GET", _PERIOD, _list_of_period),
    _row("GetLatestBill", "GET", f"{BILLS}/latest/{{accountId}}", _latest),
    _row("SearchBills", "GET", f"{BILLS}/search", _search),
    _row("TotalBills", "GET", f"{BILLS}/totals", _total),
    _row("GetBill", "GET", f"{BILLS}/{{id}}", _of_bill(bills.get_bill)),
    _row("ListBillVersions", "GET", f"{BILLS}/{{id}}/versions", _of_bill(bills.list_bill_versions)),
    _row("VerifyBill", "GET", f"{BILLS}/{{id}}/verify", _verify),
    _row("DiffBill", "GET", f"{BILLS}/{{id}}/diff", _diff),
    _row("CompareBill", "GET", f"{BILLS}/{{id}}/comparison", _compare),
    _row("GetBillDocument", "GET", f"{BILLS}/{{id}}/document", _document),
    _row("ExplainBill", "GET", f"{BILLS}/{{id}}/explain", _explain),
    _row("CheckBillApproval", "POST", f"{BILLS}/approve/check", _check_approval, _UPDATE),
    _row("ApproveBills", "POST", f"{BILLS}/approve", _approve, _UPDATE),
    _row("ApproveAllBillsInBillingPeriod", "POST", f"{_PERIOD}/approve", _approve_period, _UPDATE),
    _row("UpdateBillStatus", "PUT", f"{BILLS}/{{id}}/status", _set_status, _UPDATE),
    _row("SendBill", "POST", f"{BILLS}/{{id}}/send", _send, _UPDATE),
    _row("PreviewBillLetter", "POST", f"{BILLS}/{{id}}/letters/preview", _preview_letter),
    _row("ListBillLetters", "GET", f"{BILLS}/{{id}}/letters", _of_bill(list_letters)),
    _row("LockBill", "PUT", f"{BILLS}/{{id}}/lock", _changing(bills.lock_bill), _UPDATE),
    _row("DeleteBill", "DELETE", f"{BILLS}/{{id}}", _changing(bills.delete_bill), "config:delete"),
    _row("DownloadBillDocuments", "POST", f"{BILLS}/download/documents", _documents),
    _row("CreateBillDocumentsJob", "POST", f"{BILLS}/documents/jobs", _submit_documents),
    _row("GetBillDocumentsJob", "GET", f"{BILLS}/documents/jobs/{{id}}", _documents_job),
    _row("DownloadBillsCsvUrl", "POST", f"{BILLS}/download/csv/url", _download_url),
    _row("DownloadBillsCsv", "POST", f"{BILLS}/download/csv", _download),
    _job("ListBillJobs", "GET", "", "retrieve", list_jobs),
    _job("CreateBillJob", "POST", "", "create", create_job),
    _job("RecalculateBillJob", "POST", "/recalculate", "create", recalculate_job),
    _job("CheckBillRecalculation", "POST", "/recalculate/check", "retrieve", check_recalculation),
    _job("GetBillJob", "GET", "/{id}", "retrieve", get_job),
    _job("ListChangedBills", "GET", "/{id}/changedbills", "retrieve", list_changed),
    _job("CancelBillJob", "POST", "/{id}/cancel", "update", cancel_job),
    Operation(
        "PreviewBill",
        "POST",
        f"{ORGANIZATION}/bills/preview",
        "config:retrieve",
        "bill",
        preview_bill,
    ),
)
