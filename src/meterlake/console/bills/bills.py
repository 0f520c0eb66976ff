"""The list of bills, and what people do with several of them at once."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.bills.approval_check import check_approval, message_in_words
from meterlake.console.bills.confirmation import ask_first
from meterlake.console.bills.documents import begin_documents, is_at_once, show_few
from meterlake.console.bills.recalculation import (
    CALCULATED_MAX,
    check_recalculation,
    recalculate,
)
from meterlake.console.shell.api import ApiRefusalError, rows_of
from meterlake.console.shell.lists import (
    SIGNS,
    Column,
    ListFilter,
    Listing,
    refuse_others,
    show_list,
    shown_rows,
)
from meterlake.console.shell.numbers import needed_number
from meterlake.console.shell.page import Visit, page
from meterlake.model.values.ids import is_id
from meterlake.model.values.period import Month

BILLS: Final = "/console/bills"
SELECTION: Final = f"{BILLS}/selection"
# What one looks at and acts on at once.
_CHOSEN_MAX: Final = 1_000
_PAGE_MAX: Final = 100
_STATUS: Final = re.compile(r"(?<=[?&])status=[A-Z]*&?")
_STATUSES: Final = {
    "PENDING": "status:PENDING$locked:false",
    "APPROVED": "status:APPROVED$locked:false",
    "LOCKED": "locked:true",
}


@dataclass(frozen=True, slots=True)
class BillListing(Listing):
    """Bills by month, status and customer, in any order."""

    def sorted_by(self, visit: Visit) -> tuple[str | None, str]:
        """The bills of a month by customer; of all months the newest first, which an index knows."""
        if visit.query("sort") is None and visit.query("month") is None:
            return "billDate", visit.query("order") or "DESC"
        return Listing.sorted_by(self, visit)

    def parameters(self, visit: Visit) -> dict[str, Any]:
        """What the person chose, as a search."""
        order = self.order(visit)
        return {"searchQuery": search_of(visit), **order, "excludeLineItems": True}


async def name_customers(visit: Visit, bills: Sequence[dict[str, Any]]) -> None:
    """Give bills the names of their customers, as far as the person may read them."""
    found = await visit.api.by_id("/accounts", (each["accountId"] for each in bills))
    for each in bills:
        each["accountName"] = found.get(each["accountId"], {}).get("name")


async def _complete(visit: Visit, bills: Sequence[dict[str, Any]]) -> None:
    await name_customers(visit, bills)
    for each in bills:
        # The API has the day after the last one.
        if (after := each.get("endDate")) is not None:
            each["lastDay"] = (date.fromisoformat(after) - timedelta(days=1)).isoformat()


def search_of(visit: Visit) -> str:
    """The search for the bills that the address asks for."""
    terms = []
    if (name := visit.query("month")) is not None:
        # A bill's last day is in the month; `endDate` is the day after it.
        month = Month.parse(name)
        terms += [f"endDate>{month.first}", f"endDate<={month.after}"]
    if (status := visit.query("status")) is not None:
        refuse_others("Status", status, list(_STATUSES))
        terms.append(_STATUSES[status])
    if (due := visit.query("due")) is not None:
        refuse_others("Out of date", due, ["yes", "no"])
        terms.append(f"recalculationDue:{'true' if due == 'yes' else 'false'}")
    if (customer := visit.query("customer")) is not None:
        field = "accountId:" if is_id(customer) else "accountCode*"
        terms.append(f"{field}{SIGNS.sub(' ', customer)}")
    if (currency := visit.query("currency")) is not None:
        terms.append(f"currency:{SIGNS.sub(' ', currency).strip().upper()}")
    for name, label, sign in (("above", "Total from", ">="), ("below", "Total up to", "<=")):
        if (amount := visit.query(name)) is not None:
            terms.append(f"billTotal{sign}{needed_number(label, amount, visit.decimal):f}")
    return "$".join(terms)


_LISTING: Final = BillListing(
    "Bills",
    "/bills/search",
    (
        Column("Customer", "accountCode", "code", f"{BILLS}/{{id}}", sort="accountCode"),
        Column("Name", "accountName", link="/console/customers/{accountId}"),
        Column("Bill date", "billDate", "day", sort="billDate"),
        Column("First day", "startDate", "day"),
        Column("Last day", "lastDay", "day"),
        Column("Invoice", "sequentialInvoiceNumber", sort="sequentialInvoiceNumber"),
        Column("Status", "status", "status", sort="status"),
        Column("Locked", "locked"),
        Column("Out of date", "recalculationDue"),
        Column("Approved by", "approvedBy", "author", sort="approvedBy"),
        Column("Total", "billTotal", "money", sort="billTotal"),
        Column("Currency", "currency"),
    ),
    empty=(
        "No bills here",
        "You make the bills of a month on the page of the month.",
    ),
    filters=(
        ListFilter("month", "Month", type="month"),
        ListFilter(
            "status",
            "Status",
            (("PENDING", "Pending"), ("APPROVED", "Approved"), ("LOCKED", "Locked")),
        ),
        ListFilter("due", "Out of date", (("yes", "Yes"), ("no", "No"))),
        ListFilter("customer", "Code of the customer contains", type="search"),
        ListFilter("currency", "Currency"),
        ListFilter("above", "Total from"),
        ListFilter("below", "Total up to"),
    ),
    complete=_complete,
    sort="accountCode",
)


async def list_bills(visit: Visit) -> Response:
    """One page of bills with the total of all of them, or the file with all."""
    if visit.query("format") == "csv":
        return await show_list(visit, _LISTING)
    rows, later = await shown_rows(visit, _LISTING)
    totals = await visit.api.find("/bills/totals", searchQuery=search_of(visit))
    await visit.people()
    return visit.page(
        "bills/list.html",
        listing=_LISTING,
        rows=rows,
        later=later,
        totals=rows_of(totals),
    )


# --- Several bills ----------------------------------------------------------------------------------


async def show_selection(visit: Visit, left_out: int = 0) -> Response:
    """The bills that were ticked, or all that the address asks for, and what one can do with them."""
    ids = visit.form.get("bill", [])
    search = search_of_ids(ids) if visit.form else search_of(visit)
    if visit.form and not ids:
        raise ApiRefusalError(400, "No bill was ticked. Tick those that you mean.")
    rows = await _every(visit, search)
    totals = await visit.api.get("/bills/totals", searchQuery=search)
    letters = await visit.api.find(f"/bills/{rows[0]['id']}/letters") if rows else None
    pending = [each for each in rows if each["status"] == "PENDING" and not each["locked"]]
    approved = [each for each in rows if each["status"] == "APPROVED" and not each["locked"]]
    check, touched, _ = await asyncio.gather(
        check_approval(visit, [*pending, *approved]),
        check_recalculation(visit, [each["id"] for each in pending]),
        name_customers(visit, rows),
    )
    return visit.page(
        "bills/selection.html",
        left_out=left_out,
        rows=rows,
        totals=totals["data"],
        count=sum(int(each["bills"]) for each in totals["data"]),
        most=_CHOSEN_MAX,
        pending=pending,
        approvable=[each for each in pending if each["id"] not in check.own],
        check=check,
        touched=touched,
        calculated_max=CALCULATED_MAX,
        approved=approved,
        signed=[each for each in rows if each["status"] == "APPROVED"],
        mail=bool(letters and letters["available"]),
        back=_back(visit) if visit.form else visit.link().replace(SELECTION, BILLS),
    )


def search_of_ids(ids: Sequence[str]) -> str:
    """The search for some bills."""
    return f"ids:{','.join(SIGNS.sub('', each).replace(',', '') for each in ids)}"


async def _every(visit: Visit, search: str) -> list[dict[str, Any]]:
    """All bills of a search, the largest first, up to so many as one acts on at once."""
    rows: list[dict[str, Any]] = []
    token = None
    while len(rows) < _CHOSEN_MAX:
        answer = await visit.api.get(
            "/bills/search",
            searchQuery=search,
            sortBy="billTotal",
            sortOrder="DESC",
            excludeLineItems=True,
            pageSize=_PAGE_MAX,
            nextToken=token,
        )
        rows += answer["data"]
        token = answer.get("nextToken")
        if not token:
            break
    return rows[:_CHOSEN_MAX]


_SENT: Final = frozenset({"action", "back", "csrf", "once"})


def _ids_in(visit: Visit, field: str) -> list[str]:
    return [each for each in visit.field(field).split(",") if each]


async def change_selection(visit: Visit) -> Response:
    """Carry out what was asked of the bills that were chosen."""
    ids = visit.form.get("bill", [])
    if not ids:
        return visit.go(_back(visit), "No bill was ticked. Tick those that you mean.")
    if shown := _ids_in(visit, "shown"):
        if set(shown) != set(ids):
            return await show_selection(visit, len(set(shown) - set(ids)))
        ids = _ids_in(visit, f"for.{visit.field('action')}") or ids
        # The page that asks once more sends what it is about, and nothing else.
        fields = {name: found for name, found in visit.form.items() if name in _SENT}
        visit.form = fields | {"bill": ids}
    match visit.field("action"):
        case "look":
            return await show_selection(visit)
        case "pdf" | "zip" as format_:
            return await _documents(visit, ids, format_)
        case "recalculate":
            return await recalculate(visit, ids, _back(visit))
        case action:
            return await _change_or_ask(visit, action, ids)


async def _documents(visit: Visit, ids: Sequence[str], format: str) -> Response:
    if is_at_once(visit, ids):
        return show_few(visit, ids, format)
    return await begin_documents(visit, {"billIds": ids, "format": format})


async def _change_or_ask(visit: Visit, action: str, ids: Sequence[str]) -> Response:
    """Do to bills what was asked, after a second look at what nobody can undo."""
    if question := await ask_first(visit, search_of_ids(ids), _back(visit)):
        return question
    said = await _change(visit, action, ids)
    # What was done has another status now: the list shows it, too.
    return visit.go(_STATUS.sub("", _back(visit)), said)


async def _change(visit: Visit, action: str, ids: Sequence[str]) -> str:
    """Do to bills what was asked; what it came to, in words."""
    match action:
        case "approve":
            answer = await visit.api.send("POST", "/bills/approve", {"billIds": ids})
            told = message_in_words(answer["message"])
            return f"{told}. You can take an approval back until the bill is locked."
        case "unapprove":
            await _each(visit, ids, "status", {"status": "PENDING"})
            return f"You took back {len(ids)} {'approval' if len(ids) == 1 else 'approvals'}."
        case "lock":
            await _each(visit, ids, "lock", None)
            return f"You locked {len(ids)} {'bill' if len(ids) == 1 else 'bills'} for ever."
        case "send":
            return await _send(visit, ids)
    raise visit.unknown_action("bills")


def _back(visit: Visit) -> str:
    """The list that the bills were chosen from."""
    back = visit.field("back")
    return back if back.startswith(f"{BILLS}?") else BILLS


async def _send(visit: Visit, ids: Sequence[str]) -> str:
    """Send each bill to its customer; one that is refused stops no other."""
    refused = []
    for id_ in ids:
        try:
            await visit.api.send("POST", f"/bills/{id_}/send", {})
        except ApiRefusalError as refusal:
            refused.append(refusal.reason)
    sent = len(ids) - len(refused)
    said = f"The worker sends {sent} {'bill' if sent == 1 else 'bills'}."
    return f"{said} {len(refused)} are not sent; the first: {refused[0]}" if refused else said


async def _each(visit: Visit, ids: Sequence[str], verb: str, body: Any) -> None:
    """Do the same to one bill after the other; the first refusal says how many are done."""
    for number, id_ in enumerate(ids):
        try:
            await visit.api.send("PUT", f"/bills/{id_}/{verb}", body)
        except ApiRefusalError as refusal:
            reason = f"{number} of {len(ids)} are done; then: {refusal.reason}"
            raise ApiRefusalError(refusal.status, reason) from None


ROUTES: Final = (
    Route(BILLS, page(list_bills), methods=["GET"], name="ConsoleBills"),
    Route(SELECTION, page(show_selection), methods=["GET"], name="ConsoleSelection"),
    Route(SELECTION, page(change_selection), methods=["POST"], name="ConsoleSelectionChange"),
)
