"""The page of all bills."""

from datetime import timedelta
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.page import Visit, page
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


async def change_bills(visit: Visit) -> Response:
    """Approve the bills that were ticked."""
    ids = visit.form.get("bill", [])
    if not ids:
        raise ApiRefusalError(400, "No bill was ticked. Tick those that you mean.")
    answer = await visit.api.send("POST", "/bills/approve", {"billIds": ids})
    return visit.go(f"{BILLS}?{visit.request.url.query}", answer["message"])


ROUTES: Final = (
    Route(BILLS, page(list_bills), methods=["GET"], name="ConsoleBills"),
    Route(BILLS, page(change_bills), methods=["POST"], name="ConsoleBillsChange"),
)
