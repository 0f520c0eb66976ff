"""Pages of bills: the list, one bill with its lines, where its numbers come from."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.page import Visit, page
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month

BILLS: Final = "/console/bills"
_PAGE: Final = 50
_ONE_DAY: Final = timedelta(days=1)


async def list_bills(visit: Visit) -> Response:
    """One page of bills, by month, status and customer."""
    days = {}
    if (name := visit.query("month")) is not None:
        # A bill's date is the day after its last one.
        month = Month.parse(name)
        days = {"billDateStart": month.first + _ONE_DAY, "billDateEnd": month.after + _ONE_DAY}
    answer = await visit.api.get(
        "/bills",
        accountId=visit.query("customer"),
        status=visit.query("status"),
        excludeLineItems=True,
        includeBillTotal=True,
        pageSize=_PAGE,
        nextToken=visit.query("page"),
        **days,
    )
    return visit.page("bills.html", bills=answer["data"], later=answer.get("nextToken"))


async def show_bill(visit: Visit) -> Response:
    """One bill with its lines by product."""
    id_ = visit.request.path_params["id"]
    bill = await visit.api.get(f"/bills/{id_}")
    lines = sorted(bill["lineItems"], key=lambda each: str(each.get("productName") or ""))
    products = [
        (name, rows, subtotal(rows))
        for name, found in groupby(lines, lambda each: str(each.get("productName") or ""))
        if (rows := sorted(found, key=lambda each: each.get("sequenceNumber") or 0))
    ]
    events = await visit.api.find("/events", resourceId=id_, includeActioned=True, pageSize=20)
    return visit.page(
        "bill.html",
        bill=bill,
        products=products,
        total=subtotal(lines),
        events=[] if events is None else events["data"],
    )


def subtotal(lines: list[Mapping[str, Any]]) -> Decimal:
    """What lines come to in the currency of their bill."""
    with exact():
        return sum((Decimal(each["convertedSubtotal"]) for each in lines), ZERO)


async def change_bills(visit: Visit) -> Response:
    """Approve the bills that were ticked."""
    ids = visit.form.get("bill", [])
    if not ids:
        raise ApiRefusalError(400, "No bill was ticked. Tick those that you mean.")
    answer = await visit.api.send("POST", "/bills/approve", {"billIds": ids})
    return visit.go(f"{BILLS}?{visit.request.url.query}", answer["message"])


async def change_bill(visit: Visit) -> Response:
    """Carry out what was asked of one bill."""
    id_ = visit.request.path_params["id"]
    place, target = f"/bills/{id_}", f"{BILLS}/{id_}"
    match visit.field("action"):
        case "approve":
            await visit.api.send("PUT", f"{place}/status", {"status": "APPROVED"})
            return visit.go(
                target, "You approved the bill. You can take that back until it is locked."
            )
        case "unapprove":
            await visit.api.send("PUT", f"{place}/status", {"status": "PENDING"})
            return visit.go(target, "You took the approval back.")
        case "lock":
            await visit.api.send("PUT", f"{place}/lock")
            return visit.go(target, "You locked the bill. It never changes again.")
        case "delete":
            await visit.api.send("DELETE", place)
            return visit.go(
                BILLS, "You deleted the bill. The next run of its month makes it again."
            )
        case "recalculate":
            job = await visit.api.send("POST", "/billjobs/recalculate", {"billIds": [id_]})
            return visit.go(target, f"The worker makes the bill again; its job is {job['id']}.")
        case action:
            raise ApiRefusalError(400, f"{action!r} is nothing that one does to a bill")


async def explain_bill(visit: Visit) -> Response:
    """Where each number of a bill comes from, as a tree that opens."""
    id_ = visit.request.path_params["id"]
    found = await visit.api.get(f"/bills/{id_}/explain", line=visit.query("line"))
    return visit.page("explanation.html", found=found, bill=found["bill"])


async def bill_document(visit: Visit) -> Response:
    """The document of a bill for its customer."""
    id_, format_ = visit.request.path_params["id"], visit.query("format") or "pdf"
    file = await visit.api.fetch(f"/bills/{id_}/document", format=format_)
    kept = ("content-type", "content-disposition", "content-security-policy")
    headers = {name: file.headers[name] for name in kept if name in file.headers}
    return Response(file.content, headers={**headers, "Cache-Control": "no-store"})


ROUTES: Final = (
    Route(BILLS, page(list_bills), methods=["GET"], name="ConsoleBills"),
    Route(BILLS, page(change_bills), methods=["POST"], name="ConsoleBillsChange"),
    Route(f"{BILLS}/{{id}}", page(show_bill), methods=["GET"], name="ConsoleBill"),
    Route(
        f"{BILLS}/{{id}}", page(change_bill, show_bill), methods=["POST"], name="ConsoleBillChange"
    ),
    Route(f"{BILLS}/{{id}}/explain", page(explain_bill), methods=["GET"], name="ConsoleExplain"),
    Route(f"{BILLS}/{{id}}/document", page(bill_document), methods=["GET"], name="ConsoleDocument"),
)
