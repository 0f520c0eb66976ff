"""Closings of months over HTTP: looked at, made ready for a review, approved, rejected, reopened.

Also the usage that came after the bills of a month.
"""

from typing import Any, Final

from meterlake.api.billing.bills import RESOURCE, permit_all
from meterlake.api.entities import ordered_page
from meterlake.api.responses.closings import (
    ClosingApproveRequest,
    ClosingReasonRequest,
    ClosingReviewRequest,
)
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation
from meterlake.api.server.readable_fields import RETRIEVE, visible_rows
from meterlake.model.values.period import Month
from meterlake.model.values.problems import read
from meterlake.pipeline.billing.late_usage.lists import list_page
from meterlake.pipeline.closing.close_month import OPERATIONS as WORDS
from meterlake.pipeline.closing.close_month import Closing
from meterlake.pipeline.closing.closing_bills import reject_shown
from meterlake.pipeline.closing.closing_requests import (
    ClosingAction,
    ClosingRequest,
    describe_closing,
    submit_closing,
)
from meterlake.pipeline.closing.left_open import name_left_open
from meterlake.pipeline.closing.reopening import reopen_month
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.config.months import month_named
from meterlake.stores import Organization, Stores

_CLOSING: Final = f"{ORGANIZATION}/closings/{{month}}"
_UPDATE: Final = "config:update"
PAGE_MAX: Final = 100
# Whether what is open may be what was known before.
_OPEN: Final = {"NOW": False, "KNOWN": True}


async def _get(call: Call) -> Any:
    """What is said of a month is said of all its bills."""
    permit_all(call, RETRIEVE)
    known = call.query.one_of("open", _OPEN, False)
    return await call.run(_describe, call.organization, call.path["month"], known)


def _describe(organization: Organization, month: str, known: bool) -> Document:
    found = month_named(organization, month)
    return describe_closing(organization, found, is_known_enough=known)


async def _review(call: Call) -> Any:
    asked = read(ClosingReviewRequest, await call.document(may_be_empty=True))
    request = ClosingRequest(
        ClosingAction.REVIEW, early=asked.early, files=asked.files, backfills=asked.backfills
    )
    return await _submit(call, request)


async def _approve(call: Call) -> Any:
    permit_all(call, _UPDATE)
    asked = read(ClosingApproveRequest, await call.document())
    named = [(each.bill, each.reason) for each in asked.leave_open]
    left_open = await call.run(name_left_open, call.organization, await _month(call), named)
    request = ClosingRequest(
        ClosingAction.APPROVE, review=asked.review, early=asked.early, left_open=left_open
    )
    return await _submit(call, request)


async def _submit(call: Call, request: ClosingRequest) -> Any:
    permit_all(call, _UPDATE)

    def submit(organization: Organization, name: str) -> Document:
        month = month_named(organization, name)
        submit_closing(organization, month, request, call.author)
        return {"month": str(month), "pending": request.action.value}

    return await call.run(submit, call.organization, call.path["month"])


async def _reject(call: Call) -> Any:
    permit_all(call, _UPDATE)
    asked = read(ClosingReasonRequest, await call.document())

    def reject(stores: Stores, month: Month) -> Document:
        reject_shown(_closing(call, stores, month), asked.reason)
        return {"month": str(month), "reason": asked.reason}

    return await call.run(reject, call.stores, await _month(call))


async def _reopen(call: Call) -> Any:
    permit_all(call, _UPDATE)
    asked = read(ClosingReasonRequest, await call.document())

    def reopen(stores: Stores, month: Month) -> Document:
        done = reopen_month(_closing(call, stores, month), asked.reason)
        return {name: value for name, value in done.to_wire().items() if name != "type"}

    return await call.run(reopen, call.stores, await _month(call))


def _closing(call: Call, stores: Stores, month: Month) -> Closing:
    return Closing(stores.organization(call.org_id), month, call.author, WORDS)


async def _month(call: Call) -> Month:
    found: Month = await call.run(month_named, call.organization, call.path["month"])
    return found


def _decision(id_: str, verb: str, handler: Handler) -> Operation:
    return Operation(id_, "POST", f"{_CLOSING}/{verb}", _UPDATE, RESOURCE, handler)


async def _list(call: Call) -> Any:
    """One page, without the late usage of bills that whoever asks may not see."""
    query = call.query
    account_id, month = query.text("accountId"), query.text("period")
    found = await call.run(
        list_page,
        call.organization,
        ordered_page(call, PAGE_MAX, "dtFound"),
        period=month,
        account_id=None if account_id is None else account_id.lower(),
        status=query.text("status"),
    )
    found["data"] = await visible_rows(call, RESOURCE, found["data"], "billId")
    return found


OPERATIONS: Final = (
    Operation("GetClosing", "GET", _CLOSING, RETRIEVE, RESOURCE, _get),
    _decision("ReviewClosing", "review", _review),
    _decision("ApproveClosing", "approve", _approve),
    _decision("RejectClosing", "reject", _reject),
    _decision("ReopenClosing", "reopen", _reopen),
    Operation("ListLateUsage", "GET", f"{ORGANIZATION}/lateusage", RETRIEVE, RESOURCE, _list),
)
