"""The page of a month: is it all right, what is open, and the way to its approval."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, Final, NamedTuple

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.bills.approval_check import check_approval
from meterlake.console.bills.documents import AT_ONCE_MAX, begin_documents
from meterlake.console.bills.recalculation import CALCULATED_MAX
from meterlake.console.closing_words import checklist, done_steps, with_buttons
from meterlake.console.shell.api import ApiRefusalError, rows_of
from meterlake.console.shell.files import file_of
from meterlake.console.shell.page import Visit, page, percent, words
from meterlake.console.waiting import find_waiting
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month
from meterlake.model.values.plurals import counted

MONTHS: Final = "/console/months"
_ONE_DAY: Final = timedelta(days=1)


def growth(total: Decimal, before: Decimal) -> Decimal | None:
    """By how many percent a total grew, rounded to a tenth; None if there was nothing before."""
    if not before:
        return None
    with exact():
        added = total - before
    return percent(added, before)


async def current_month(visit: Visit) -> Response:
    """Lead on to the month that is billed now: the last one that is over."""
    return visit.go(f"{MONTHS}/{_last_month(visit)}", visit.session.said)


def _last_month(visit: Visit) -> Month:
    """The last month that is over."""
    return Month(visit.today.year, visit.today.month).moved(-1)


class Mending(NamedTuple):
    """How one mends what is open.

    Attributes:
        text: What it means.
        label: What the link or the button says.
        operation: What it takes.
        target: Where the link leads; empty if a button does it.
        action: What the button does.
    """

    text: str
    label: str
    operation: str
    target: str = ""
    action: str = ""


_MENDING: Final = {
    "MissingFile": Mending(
        "You expect these files, and none of them has come.",
        "Deliver a file",
        "GetMeasurementsStatus",
        "/console/data-in",
    ),
    "RejectedRows": Mending(
        "Rows of your files wait to be mended; the bills do not have them.",
        "Mend the rows",
        "ListRejectedRows",
        "/console/rejected",
    ),
    "LateUsage": Mending(
        "Usage came after these bills were made.",
        "Calculate these bills again",
        "RecalculateBillJob",
        action="recalculate",
    ),
    "UnpricedUsage": Mending(
        "No bill charges for this usage: give it a price, or put the customer on a plan that has one."
        " At stake is an estimate: what it would add to the customer's bill by the bands of the price"
        " that the bill has already; else by the unit prices of the price that most usage of this month"
        " has. Standing charges and minimums are not in it.",
        "Look at plans and prices",
        "ListProducts",
        "/console/catalogue",
    ),
    "FailedAccount": Mending(
        "These customers could not be billed. Mend the reason, then make the bills again.",
        "Make the bills again",
        "CreateBillJob",
        action="calculate",
    ),
    "MissingBill": Mending(
        "These customers should have a bill and have none.",
        "Make the bills",
        "CreateBillJob",
        action="calculate",
    ),
    "OutdatedBill": Mending(
        "These bills are not calculated from what holds now. At stake is what they would change by.",
        "Calculate again",
        "RecalculateBillJob",
        action="recalculate",
    ),
    "TotalJumped": Mending(
        "These bills are far from what is usual for their customers. Look where each comes from.",
        "",
        "",
    ),
    "LeftOpen": Mending(
        "The month was approved without these bills. Approve each on its page when it is right.",
        "",
        "",
    ),
}
_OTHER: Final = Mending("Somebody should look at this.", "", "")


class Cause(NamedTuple):
    """What is open for one reason.

    Attributes:
        stakes: How much money it is about, by currency.
        points: How many open points it has: one for each reason of rejected rows, and for each
            usage of each customer.
    """

    kind: str
    mending: Mending
    rows: list[dict[str, Any]]
    stakes: dict[str, Decimal]
    points: int

    @property
    def size(self) -> int:
        """How many it is about: rejected rows are counted, where others are one each."""
        return sum(int(each.get("count") or 1) for each in self.rows)

    @property
    def about(self) -> str:
        """What it counts, where that is not one for each open point."""
        match self.kind:
            case "RejectedRows":
                return "row" if self.size == 1 else "rows"
            case "UnpricedUsage":
                return "customer" if self.size == 1 else "customers"
            case _:
                return ""

    @property
    def counts(self) -> str:
        """How much it is, in words: `20 rejected rows for 10 reasons`."""
        match self.kind:
            case "RejectedRows":
                rows = counted(self.size, "rejected row", "rejected rows")
                return f"{rows} for {counted(self.points, 'reason')}"
            case "UnpricedUsage":
                usages = counted(self.points, "usage", "usages")
                return f"{usages} without a price, of {counted(self.size, 'customer')}"
            case _:
                return f"{self.points} {words(self.kind).lower()}"

    @property
    def bill_ids(self) -> list[str]:
        """The bills that it is about."""
        return sorted({each["billId"] for each in self.rows if each.get("billId")})


def causes_of(findings: list[dict[str, Any]], billed: Collection[str] = ()) -> list[Cause]:
    """What is open, one row for each cause.

    Args:
        findings: The open points.
        billed: The codes of the customers that have a bill of the month, if all are known.
    """
    ordered = sorted(findings, key=lambda each: str(each["kind"]))
    found = []
    for kind, some in groupby(ordered, lambda each: str(each["kind"])):
        rows = list(some)
        points = len(rows)
        if kind == "UnpricedUsage":
            rows = _by_customer(rows)
            for each in rows:
                each["is_unbilled"] = bool(billed) and each["subject"] not in billed
                each["is_too_early"] = _TOO_EARLY in each["detail"]
        stakes: dict[str, Decimal] = {}
        with exact():
            for each in rows:
                if each.get("amount") is not None:
                    known = stakes.get(each["currency"], ZERO)
                    stakes[each["currency"]] = known + abs(each["amount"])
        found.append(Cause(kind, _MENDING.get(kind, _OTHER), rows, stakes, points))
    return found


# Begins what says that usage is older than what charges for it.
_TOO_EARLY: Final = "used before the "
_REASONS: Final = {
    f"NoPricing: {_TOO_EARLY}": _TOO_EARLY,
    f"NoAccountPlan: {_TOO_EARLY}": _TOO_EARLY,
    "NoAccountPlan": "the customer is on no plan then",
    "NoPricing": "the customer's plan has no price for it",
    "UsageFilters": "the filters of the plan leave it out",
    "MeterNotPriced": "no plan has a price for it",
    "NoBillingPeriods": "the plan has no billing period then",
    "NoAccount": "no customer has this code",
    "MissingBill": "the bill was deleted",
}


def _by_customer(findings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Usage without a price, one row for each customer and currency, its reasons in plain words."""
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for each in findings:
        detail = each["detail"]
        for reason, text in _REASONS.items():
            detail = detail.replace(f"without a price: {reason}", f"without a price: {text}")
        own = found.setdefault(
            (each["subject"], each.get("currency")), {**each, "amount": None, "details": []}
        )
        own["details"].append(detail)
        own["command"] = each["command"]
        if each.get("amount") is not None:
            with exact():
                own["amount"] = (own["amount"] or ZERO) + each["amount"]
    for own in found.values():
        own["detail"] = "; ".join(own.pop("details"))
    return list(found.values())


# Jobs that are looked through, and those that a page shows.
_JOBS: Final = 50
_JOBS_SHOWN: Final = 5
# Customers whose pages the month leads to; others are searched for.
_CUSTOMERS_MAX: Final = 100
# A job that has not ended is worth a look again.
_RUNNING: Final = frozenset({"PENDING", "INITIALIZING", "RUNNING"})


async def show_month(visit: Visit) -> Response:
    """The page of a month."""
    month = Month.parse(visit.request.path_params["month"])
    closing, jobs, revenue, _ = await asyncio.gather(
        visit.api.get(f"/closings/{month}", open="NOW" if visit.query("open") else "KNOWN"),
        visit.api.find("/billjobs", pageSize=_JOBS),
        visit.api.find("/revenue", groups="month", startMonth=month, endMonth=month),
        visit.people(),
    )
    newest = [each for each in rows_of(jobs) if _is_of(each, month)][:_JOBS_SHOWN]
    running = any(each["status"] in _RUNNING for each in newest)
    statuses = sum((Counter(each["statuses"]) for each in closing["totals"]), Counter[str]())
    is_first_page = month == _last_month(visit)
    # Only who is asked to approve has to know.
    asked = closing["bills"] if closing.get("review") or is_first_page else []
    check = await check_approval(visit, [each for each in asked if each["status"] == "PENDING"])
    codes = {each["account"] for each in closing["bills"]}
    billed = codes if len(closing["bills"]) == closing["billCount"] else ()
    waiting = []
    if is_first_page:
        to_approve = int(statuses["PENDING"]) - len(check.own)
        waiting = await find_waiting(visit, month, closing, to_approve, len(check.own))
    causes = causes_of(closing["open"], billed)
    return visit.page(
        "month.html",
        month=month,
        closing=closing,
        has_begun=month.first <= visit.today,
        is_over=month.after <= visit.today,
        checklist=checklist(closing),
        done_steps=done_steps,
        with_buttons=with_buttons,
        growth=growth,
        statuses=statuses,
        unnumbered=sum(int(each["unnumbered"]) for each in closing["totals"]),
        outdated=sum(sum(each["outdated"].values()) for each in closing["totals"]),
        # Only where it is another amount than the bills come to.
        revenue={
            each["currency"]: each
            for each in rows_of(revenue)
            if each["drawnAmount"] or each["chargedAheadAmount"]
        },
        waiting=waiting,
        causes=causes,
        points_at_approval=_points_at_approval(closing),
        changed_since=int(statuses["PENDING"])
        - sum(each["kind"] == "LeftOpen" for each in closing["open"]),
        # All that is left to make is for customers without a bill, and that is said of them.
        all_locked=statuses["LOCKED"] == closing["billCount"] > 0,
        customers=await _customers(visit, closing["open"]),
        rejected_elsewhere=await _count_rejected_elsewhere(visit, causes),
        jobs=newest,
        own=check.own,
        documents_at_once=AT_ONCE_MAX,
        running=running,
        earlier=month.moved(-1),
        later=month.moved(1),
    )


async def _count_rejected_elsewhere(visit: Visit, causes: list[Cause]) -> int:
    """How many rejected rows wait that are of other months: Data in counts these, too."""
    here = sum(each.size for each in causes if each.kind == "RejectedRows")
    status = await visit.api.find("/measurements/status") if here else None
    return sum((status or {}).get("rejected", {}).values()) - here if status else 0


def _points_at_approval(closing: Mapping[str, Any]) -> int:
    """How many points were open when the bills of a closed month were approved."""
    found = [each["outcome"].get("open") for each in closing["steps"] if each["step"] == "review"]
    return int(found[0] or 0) if found else 0


async def _customers(visit: Visit, findings: list[dict[str, Any]]) -> dict[str, str]:
    """The ids of the customers that usage without a price is of, by code."""
    codes = sorted({each["subject"] for each in findings if each["kind"] == "UnpricedUsage"})
    # A code with a comma in it cannot be asked for among others.
    asked = [each for each in codes if "," not in each][:_CUSTOMERS_MAX]
    found = await visit.api.every("/accounts", codes=",".join(asked)) if asked else []
    return {each["code"]: each["id"] for each in found}


def _is_of(job: dict[str, Any], month: Month) -> bool:
    """Whether a job makes bills of a month, or of days that nobody named."""
    day = job.get("lastDateInBillingPeriod")
    return day is None or str(day)[:7] == str(month)


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
            return await _approve(visit, month)
        case "reject":
            await visit.api.send("POST", place, {"reason": visit.field("reason")})
            said = "You rejected the bills. Mend what is wrong, then make the month ready again."
        case "reopen":
            done = await visit.api.send("POST", place, {"reason": visit.field("reason")})
            said = _said_of_reopening(done)
        case "calculate":
            last = month.after - _ONE_DAY
            order = {
                "billingFrequency": "MONTHLY",
                "lastDateInBillingPeriod": last.isoformat(),
            }
            await visit.api.send("POST", "/billjobs", order)
            said = "The worker makes the bills of the month now. This page shows when it is done."
        case "pdf" | "zip" as format_:
            return await begin_documents(visit, {"month": str(month), "format": format_})
        case "recalculate":
            said = await _recalculate(visit, visit.form.get("bill", []))
        case _:
            raise visit.unknown_action("a month")
    return visit.go(f"{MONTHS}/{month}", said)


async def _recalculate(visit: Visit, ids: Sequence[str]) -> str:
    """Have the worker calculate bills again, in as many jobs as that takes."""
    for start in range(0, len(ids), CALCULATED_MAX):
        some = {"billIds": ids[start : start + CALCULATED_MAX]}
        await visit.api.send("POST", "/billjobs/recalculate", some)
    return "The worker calculates these bills again. This page shows when it is done."


async def _approve(visit: Visit, month: Month) -> Response:
    """Approve the bills of a month, after a second look if points are open."""
    target = f"{MONTHS}/{month}"
    names = [each.strip() for each in visit.field("bills").splitlines() if each.strip()]
    if visit.field("but") and not names:
        raise ApiRefusalError(400, "Bills that stay open: name one at least, or approve them all.")
    reason = visit.field("reason")
    if visit.field("sure") != "yes":
        closing = await visit.api.get(f"/closings/{month}", open="KNOWN")
        if closing["open"]:
            return visit.page(
                "closing_question.html",
                month=month,
                points=len(closing["open"]),
                causes=causes_of(closing["open"]),
                unnumbered=sum(int(each["unnumbered"]) for each in closing["totals"]),
                review=visit.field("review"),
                left_open=names,
                reason=reason,
                back=target,
            )
    body = {
        "review": visit.field("review"),
        "leaveOpen": [{"bill": each, "reason": reason} for each in names],
    }
    await visit.api.send("POST", f"/closings/{month}/approve", body)
    but = f" but for {', '.join(names)}" if names else ""
    return visit.go(target, f"The worker approves the bills as you saw them{but}.")


def _said_of_reopening(done: Mapping[str, Any]) -> str:
    """What became of the bills of a month that was opened again."""
    pending, kept = done["undone"]["pendingBills"], done["kept"]
    said = ["You opened the month again."]
    if pending:
        said.append(f"{counted(pending, 'bill')} {'is' if pending == 1 else 'are'} pending now.")
    else:
        said.append("No bill became pending.")
    for name, why in (("lockedBills", "locked"), ("sentBills", "in other systems already")):
        if count := kept[name]:
            one = count == 1
            said.append(
                f"{counted(count, 'bill')} {'is' if one else 'are'} {why} and"
                f" {'stays' if one else 'stay'} as {'it is' if one else 'they are'}."
            )
    return " ".join(said)


async def month_file(visit: Visit) -> Response:
    """The bills of a month as a file: for bookkeeping, for spreadsheets, or their documents."""
    month = Month.parse(visit.request.path_params["month"])
    match visit.query("as"):
        case "standard" | "xero" as system:
            # A bill's date is the day after its last one.
            days = {
                "startDate": (month.first + _ONE_DAY).isoformat(),
                "endDate": (month.after + _ONE_DAY).isoformat(),
            }
            approved = visit.query("bills") == "approved"
            body = {**days, "externalSystem": system.upper(), "approvedOnly": approved}
            name = "xero" if system == "xero" else "bill-lines"
            found = await visit.api.fetch_made("/bills/download/csv", body)
            return file_of(found, f"{name}{'-approved' if approved else ''}_{month}.csv")
        case "pdf" | "zip" as format_:
            body = {"month": str(month), "format": format_}
            found = await visit.api.fetch_made("/bills/download/documents", body)
            return file_of(found, f"bills_{month}.{format_}")
        case "ledger":
            # It has all postings until now, whatever month they are of.
            found = await visit.api.fetch("/ledger/beancount")
            return file_of(found, f"ledger_until-{visit.today}.beancount")
        case other:
            raise ApiRefusalError(
                400, f"files are standard, xero, pdf, zip or ledger, not {other!r}"
            )


ROUTES: Final = (
    Route(MONTHS, page(current_month), methods=["GET"], name="ConsoleCurrentMonth"),
    Route(f"{MONTHS}/{{month}}", page(show_month), methods=["GET"], name="ConsoleMonth"),
    Route(f"{MONTHS}/{{month}}/files", page(month_file), methods=["GET"], name="ConsoleMonthFile"),
    Route(f"{MONTHS}/{{month}}", page(change_month), methods=["POST"], name="ConsoleMonthChange"),
)
