"""Why a line of usage begins later than the bill that it is on."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from meterlake.console.shell.api import rows_of
from meterlake.console.shell.page import Visit
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month


class LateStart(NamedTuple):
    """What charges for a line from a day on, and the usage before it.

    Attributes:
        plan: The name of the plan that begins then.
        account_plan: The id of its attachment to the customer.
        day: Its first day.
        before: What was used in the month before it, in the unit of the quantity; None if unknown.
    """

    plan: str
    account_plan: str
    day: date
    before: Decimal | None


async def late_start(
    visit: Visit, bill: Mapping[str, Any], line: Mapping[str, Any]
) -> LateStart | None:
    """Why nothing before a day is on a line; None if it is, or another line has it."""
    aggregation = line.get("aggregationId")
    start = _day(line.get("servicePeriodStartDate"), bill)
    if aggregation is None or start is None or start <= date.fromisoformat(bill["startDate"]):
        return None
    same = (each for each in bill["lineItems"] if each.get("aggregationId") == aggregation)
    begun = (_day(each.get("servicePeriodStartDate"), bill) for each in same)
    if any(each is not None and each < start for each in begun):
        return None
    attached = await visit.api.find(
        "/accountplans", account=bill["accountId"], includeall=True, pageSize=100
    )
    for each in rows_of(attached):
        if each.get("planId") and _day(each["startDate"], bill) == start:
            plan = await visit.api.find(f"/plans/{each['planId']}") or {}
            before = await _used_before(visit, bill, aggregation, start)
            return LateStart(str(plan.get("name", "the plan")), each["id"], start, before)
    return None


async def _used_before(
    visit: Visit, bill: Mapping[str, Any], aggregation: str, start: date
) -> Decimal | None:
    """What the days of the month before a day come to."""
    month = Month(start.year, start.month)
    found = await visit.api.find(f"/accounts/{bill['accountId']}/usage", month=month)
    rows = (found or {}).get("aggregations", ())
    used = next((each for each in rows if each["aggregationId"] == aggregation), None)
    if used is None or used.get("quantity") is None:
        return None
    days = {date.fromisoformat(each["date"]): Decimal(each["quantity"]) for each in used["days"]}
    with exact():
        # Of a maximum, say, the days do not add up.
        if sum(days.values(), ZERO) != Decimal(used["quantity"]):
            return None
        return sum((each for day, each in days.items() if day < start), ZERO)


def _day(text: str | None, bill: Mapping[str, Any]) -> date | None:
    """The day that an instant begins or is within, by the clocks of a bill."""
    if text is None:
        return None
    if "T" not in text:
        return date.fromisoformat(text)
    return datetime.fromisoformat(text).astimezone(ZoneInfo(bill["timezone"])).date()
