"""The page of a month: is it all right, what is open, and the way to its approval."""

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from itertools import groupby
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.page import Visit, page
from meterlake.model.values.money import RoundingMode, divide, exact, round_amount
from meterlake.model.values.period import Month

MONTHS: Final = "/console/months"


def growth(total: Decimal, before: Decimal) -> Decimal | None:
    """By how many percent a total grew, rounded to a tenth; None if there was nothing before."""
    if not before:
        return None
    with exact():
        added = (total - before) * 100
    return round_amount(divide(added, before), 1, RoundingMode.HALF_EVEN)


async def current_month(visit: Visit) -> Response:
    """Lead on to the month that is billed now: the last one that is over."""
    last = Month(visit.today.year, visit.today.month).moved(-1)
    return visit.go(f"{MONTHS}/{last}", visit.session.said)


async def show_month(visit: Visit) -> Response:
    """The page of a month."""
    month = Month.parse(visit.request.path_params["month"])
    closing = await visit.api.get(f"/closings/{month}")
    jobs = await visit.api.find("/billjobs", pageSize=5)
    late = await visit.api.find("/lateusage", period=month, pageSize=100)
    by_kind = sorted(closing["open"], key=lambda each: str(each["kind"]))
    return visit.page(
        "month.html",
        month=month,
        closing=closing,
        growth=growth,
        statuses=sum((Counter(each["statuses"]) for each in closing["totals"]), Counter()),
        findings={kind: list(rows) for kind, rows in groupby(by_kind, lambda each: each["kind"])},
        jobs=[] if jobs is None else jobs["data"],
        late=[] if late is None else late["data"],
        earlier=month.moved(-1),
        later=month.moved(1),
    )


async def change_month(visit: Visit) -> Response:
    """Carry out what was asked of a month's closing: review, approve, reject or reopen."""
    month = Month.parse(visit.request.path_params["month"])
    action = visit.field("action")
    place = f"/closings/{month}/{action}"
    match action:
        case "review":
            await visit.api.send("POST", place, {"early": visit.field("early") == "yes"})
            said = (
                "The worker makes the month ready for your review. This page shows when it is done."
            )
        case "approve":
            await visit.api.send("POST", place, {"review": visit.field("review")})
            said = "The worker approves the bills as you saw them."
        case "reject":
            await visit.api.send("POST", place, {"reason": visit.field("reason")})
            said = "You rejected the bills. Mend what is wrong, then make the month ready again."
        case "reopen":
            await visit.api.send("POST", place, {"reason": visit.field("reason")})
            said = "You opened the month again. Approved bills are pending now; locked ones stay."
        case "calculate":
            last = month.after - timedelta(days=1)
            order = {
                "billingFrequency": "MONTHLY",
                "lastDateInBillingPeriod": last.isoformat(),
            }
            job = await visit.api.send("POST", "/billjobs", order)
            said = f"The worker makes the bills of the month now; its job is {job['id']}."
        case _:
            raise ApiRefusalError(400, f"{action!r} is nothing that one does to a month")
    return visit.go(f"{MONTHS}/{month}", said)


ROUTES: Final = (
    Route(MONTHS, page(current_month), methods=["GET"], name="ConsoleCurrentMonth"),
    Route(f"{MONTHS}/{{month}}", page(show_month), methods=["GET"], name="ConsoleMonth"),
    Route(f"{MONTHS}/{{month}}", page(change_month), methods=["POST"], name="ConsoleMonthChange"),
)
