"""The page of a month: is it all right, what is open, and the way to its approval."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, Final, NamedTuple

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.page import Visit, page
from meterlake.model.values.money import ZERO

MONTHS: Final = "/console/months"
_MONTHS_A_YEAR: Final = 12


class CurrencyTotal(NamedTuple):
    """The bills of a month in one currency, beside those of the month before."""

    currency: str
    bills: int
    total: Decimal
    before: Decimal

    @property
    def growth(self) -> Decimal | None:
        """By how many percent it grew, rounded to a tenth; None if there was nothing before."""
        if not self.before:
            return None
        return ((self.total - self.before) * 100 / self.before).quantize(Decimal("0.1"))


def neighbour(month: str, by: int) -> str:
    """The month so many months later."""
    year, number = map(int, month.split("-"))
    years, index = divmod(year * _MONTHS_A_YEAR + number - 1 + by, _MONTHS_A_YEAR)
    return f"{years:04}-{index + 1:02}"


def month_of(day: date) -> str:
    """The month of a day."""
    return f"{day:%Y-%m}"


def totals(
    now: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]
) -> list[CurrencyTotal]:
    """What a month's bills come to by currency, beside those of the month before."""
    then = {each["currency"]: Decimal(each["total"]) for each in before}
    found = [
        CurrencyTotal(
            each["currency"],
            each["bills"],
            Decimal(each["total"]),
            then.pop(each["currency"], ZERO),
        )
        for each in now
    ]
    found += [CurrencyTotal(currency, 0, ZERO, total) for currency, total in then.items()]
    return sorted(found, key=lambda each: (-each.bills, each.currency))


async def current_month(visit: Visit) -> Response:
    """Lead on to the month that is billed now: the last one that is over."""
    return visit.go(f"{MONTHS}/{neighbour(month_of(visit.today), -1)}", visit.session.said)


async def show_month(visit: Visit) -> Response:
    """The page of a month."""
    month = visit.request.path_params["month"]
    closing = await visit.api.get(f"/closings/{month}")
    before = await visit.api.find(f"/closings/{neighbour(month, -1)}")
    jobs = await visit.api.find("/billjobs", pageSize=5)
    late = await visit.api.find("/lateusage", period=month, pageSize=100)
    by_kind = sorted(closing["open"], key=lambda each: str(each["kind"]))
    return visit.page(
        "month.html",
        month=month,
        closing=closing,
        totals=totals(closing["totals"], (before or {}).get("totals", ())),
        statuses=sum((Counter(each["statuses"]) for each in closing["totals"]), Counter()),
        findings={kind: list(rows) for kind, rows in groupby(by_kind, lambda each: each["kind"])},
        jobs=[] if jobs is None else jobs["data"],
        late=[] if late is None else late["data"],
        earlier=neighbour(month, -1),
        later=neighbour(month, 1),
    )


async def change_month(visit: Visit) -> Response:
    """Carry out what was asked of a month's closing: review, approve, reject or reopen."""
    month, action = visit.request.path_params["month"], visit.field("action")
    place = f"/closings/{month}/{action}"
    match action:
        case "review":
            await visit.api.send("POST", place, {"early": visit.field("early") == "yes"})
            said = (
                "The worker makes the month ready for your review. Load this page again to see it."
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
            job = await visit.api.send("POST", "/billjobs", _job_of(month))
            said = f"The worker makes the bills of the month now; its job is {job['id']}."
        case _:
            raise ApiRefusalError(400, f"{action!r} is nothing that one does to a month")
    return visit.go(f"{MONTHS}/{month}", said)


def _job_of(month: str) -> dict[str, str]:
    last = date.fromisoformat(f"{neighbour(month, 1)}-01") - timedelta(days=1)
    return {"billingFrequency": "MONTHLY", "lastDateInBillingPeriod": last.isoformat()}


ROUTES: Final = (
    Route("/console", page(current_month), methods=["GET"], name="ConsoleHome"),
    Route(f"{MONTHS}/{{month}}", page(show_month), methods=["GET"], name="ConsoleMonth"),
    Route(f"{MONTHS}/{{month}}", page(change_month), methods=["POST"], name="ConsoleMonthChange"),
)
