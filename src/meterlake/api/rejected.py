"""Rejected rows and receipts over HTTP: find rows, give them in again, see where a uid came from."""

from typing import Any, Final

from meterlake.api.entities import ORDERS, page
from meterlake.api.responses.rejected import (
    RejectedRowsDismissRequest,
    RejectedRowsReopenRequest,
    RejectedRowsRequeueRequest,
)
from meterlake.api.server import body
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation
from meterlake.model.errors import Invalid, NotFound, Required
from meterlake.model.measurements.editable_row import members_of
from meterlake.model.values.plurals import counted
from meterlake.model.values.problems import read
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.pipeline.ingest import rejected_rows
from meterlake.pipeline.rejected import receipts
from meterlake.pipeline.rejected import requeue as rejected
from meterlake.pipeline.rejected.rejected_files import edit_of
from meterlake.stores.lake.rejected import SORTS, RejectedFilter, RejectedOrder, Status

_REJECTED: Final = f"{ORGANIZATION}/measurements/rejected"
_PAGE_MAX: Final = 200
_STATUSES: Final[dict[str, Status | None]] = {
    "open": "open",
    "dismissed": "dismissed",
    "withdrawn": "withdrawn",
    "requeued": "requeued",
    "all": None,
}


async def list_rows(call: Call) -> Any:
    """One page of rejected rows, in the order of their sources and rows, or of a member."""
    query, this = call.query, page(call, _PAGE_MAX)
    order = RejectedOrder(
        query.one_of("sortBy", {each: each for each in SORTS}, default=None),
        query.one_of("sortOrder", ORDERS, default=True),
    )
    filters = RejectedFilter(
        source=query.text("source"),
        delivery=query.text("delivery"),
        reason=query.text("reason"),
        meter=query.text("meter"),
        uid=query.text("uid"),
        since=query.instant("since"),
        until=query.instant("until"),
        status=query.one_of("status", _STATUSES, default="open"),
    )
    try:
        rows = await call.run(
            rejected_rows.list_rejected, call.organization, filters, this.size, this.token, order
        )
    except (Invalid, NotFound):
        raise Invalid(
            "nextToken", this.token, "it must be the nextToken of the page before"
        ) from None
    token = None if len(rows) < this.size else rejected_rows.mark_of(rows[-1], order)
    return envelope([_row_document(row.to_wire()) for row in rows], token)


async def get_row(call: Call) -> Any:
    """One rejected row, and what became of it."""
    found = await call.run(rejected_rows.show_rejected, call.organization, call.path["id"])
    return _row_document(found)


def _row_document(row: Document) -> Document:
    """A row whose measurement is an object that can be edited, its numbers digit by digit."""
    text = row.get("measurement")
    return {**row, "measurement": members_of(text)} if text else row


async def requeue(call: Call) -> Any:
    """Give rows in again: those that filters mean as they are, or some as they were edited."""
    request = read(RejectedRowsRequeueRequest, await _document(call))
    meant = request.model_dump(exclude={"rows"}, exclude_none=True)
    if request.rows is None and not meant:
        raise Required("rows, or a filter")
    if request.rows is not None and meant:
        raise Invalid(
            "rows",
            counted(len(request.rows), "row"),
            "give them alone, without a filter: they say which rows are meant",
        )
    if request.rows is None:
        done = await call.run(
            rejected.requeue, call.organization, RejectedFilter(**meant), call.author
        )
    else:
        edits = [
            edit_of(row.id, row.measurement, f"rows[{index}]")
            for index, row in enumerate(request.rows)
        ]
        done = await call.run(rejected.requeue_edited, call.organization, edits, call.author)
    return done.to_wire()


async def dismiss(call: Call) -> Any:
    """Give rows up, for a reason: those that filters mean, or some by their ids."""
    request = read(RejectedRowsDismissRequest, await _document(call))
    choice = _choice(request)
    done = await call.run(rejected.dismiss, call.organization, choice, request.because, call.author)
    return done.to_wire()


async def reopen(call: Call) -> Any:
    """Take dismissed rows up again."""
    choice = _choice(read(RejectedRowsReopenRequest, await _document(call)))
    done = await call.run(rejected.reopen, call.organization, choice, call.author)
    return done.to_wire()


def _choice(request: RejectedRowsReopenRequest) -> rejected.RowChoice:
    meant = request.model_dump(exclude={"rows", "because"}, exclude_none=True)
    return rejected.RowChoice(request.rows or (), RejectedFilter(**meant))


async def _document(call: Call) -> Document:
    """The body with its numbers digit by digit, as they go into a measurement again."""
    body.check_type(call.request.headers.get("content-type", ""))
    data = await body.content(call.request, body.BODY_MAX)
    try:
        return members_of(data.decode())
    except (ValueError, RecursionError) as error:
        raise Invalid(
            "body", data[:80].decode("utf-8", "replace"), f"it must be JSON: {error}"
        ) from None


async def get_receipt(call: Call) -> Any:
    """Where the measurement of a uid was first seen, and what came under it later."""
    uid = call.query.text("uid")
    if uid is None:
        raise Required("uid")
    [found] = await call.run(receipts.uid_receipts, call.organization, [uid])
    return found


def _operation(id_: str, path: str, handler: Handler) -> Operation:
    return Operation(id_, "GET", path, "measurements:retrieve", "measurements", handler)


def _decision(id_: str, verb: str, handler: Handler) -> Operation:
    path = f"{_REJECTED}/{verb}"
    return Operation(id_, "POST", path, "measurements:upload", "measurements", handler)


OPERATIONS: Final = (
    _operation("ListRejectedRows", _REJECTED, list_rows),
    _operation("GetRejectedRow", f"{_REJECTED}/{{id}}", get_row),
    _decision("RequeueRejectedRows", "requeue", requeue),
    _decision("DismissRejectedRows", "dismiss", dismiss),
    _decision("ReopenRejectedRows", "reopen", reopen),
    _operation("GetMeasurementReceipt", f"{ORGANIZATION}/measurements/receipt", get_receipt),
)
