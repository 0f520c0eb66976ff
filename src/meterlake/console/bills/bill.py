"""The page of one bill: what it says, what it was, what people put on it, and what one does with it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.bills.approval_check import check_approval
from meterlake.console.bills.bills import (
    BILLS,
    name_customers,
    search_of_ids,
)
from meterlake.console.bills.confirmation import ask_first
from meterlake.console.bills.recalculation import check_recalculation, recalculate
from meterlake.console.bills.timeline import acts_of_bill
from meterlake.console.shell.api import ApiRefusalError, rows_of
from meterlake.console.shell.files import file_of
from meterlake.console.shell.page import Visit, page, page_routes, words
from meterlake.model.bills.bill import DRAWING_TYPES
from meterlake.model.bills.line_sections import sections_of_lines
from meterlake.model.values.money import ZERO, exact

_BILL: Final = f"{BILLS}/{{id}}"


class TotaledSection(NamedTuple):
    """The lines of a product, or others that stand together, and what they come to."""

    title: str
    lines: Sequence[Mapping[str, Any]]
    subtotal: Decimal


class Memo(NamedTuple):
    """A line that somebody put on the bill: `credit` or `debit`, what it is about, and why."""

    id: str
    kind: str
    about: str
    reason: str


async def _memos(
    visit: Visit, bill: Mapping[str, Any], kind: str, found: list[dict[str, Any]]
) -> list[Memo]:
    reasons = await visit.api.find(f"/picklists/{kind}reasons", pageSize=100) if found else None
    names = {each["id"]: each["name"] for each in rows_of(reasons)}
    lines = {each["id"]: each for each in bill["lineItems"]}
    return [
        Memo(
            each["id"],
            kind,
            _line_in_words(lines.get(each.get("referencedLineItemId"))),
            names.get(each.get(f"{kind}ReasonId") or each.get("reasonId"), ""),
        )
        for each in found
    ]


def _line_in_words(line: Mapping[str, Any] | None) -> str:
    if line is None:
        return "a line of another bill"
    return (
        f"line {line['sequenceNumber']}, {line.get('description') or words(line['lineItemType'])}"
    )


async def show_bill(visit: Visit) -> Response:
    """One bill, its lines in the sections and the order of its document."""
    id_ = visit.request.path_params["id"]
    bill = await visit.api.get(f"/bills/{id_}")
    acts, versions, runs, credited, debited, letters, around, *_ = await asyncio.gather(
        acts_of_bill(visit, id_),
        visit.api.find(f"/bills/{id_}/versions"),
        _deliveries(visit, id_),
        visit.api.every(f"/bills/{id_}/creditlineitems"),
        visit.api.every(f"/bills/{id_}/debitlineitems"),
        visit.api.find(f"/bills/{id_}/letters"),
        neighbours(visit, bill),
        visit.people(),
        name_customers(visit, [bill]),
    )
    check = await check_approval(visit, [bill])
    touched = await check_recalculation(visit, [] if bill["locked"] else [id_])
    memos = [
        *await _memos(visit, bill, "credit", credited),
        *await _memos(visit, bill, "debit", debited),
    ]
    return visit.page(
        "bills/bill.html",
        bill=bill,
        sections=[
            TotaledSection(each.title, each.lines, subtotal(each.lines))
            for each in sections_of_lines(bill["lineItems"])
        ],
        draws=any(each["lineItemType"] in DRAWING_TYPES for each in bill["lineItems"]),
        memos={each.id: each for each in memos},
        total=subtotal(bill["lineItems"]),
        acts=acts,
        versions=rows_of(versions),
        runs=runs,
        letters=letters,
        own=check.own.get(id_),
        check=check,
        touched=touched,
        before=around[0],
        after=around[1],
    )


async def _deliveries(visit: Visit, id: str) -> list[dict[str, Any]]:
    """What went to other systems of a bill, and what webhooks were told of it, the newest first."""
    runs, webhooks = await asyncio.gather(
        visit.api.find(f"/integrationruns/Bill/{id}", notifications=True, pageSize=50),
        visit.api.find("/integrationdestinations/webhooks", pageSize=100),
    )
    names = {each["id"]: each["name"] for each in rows_of(webhooks)}
    return [
        {**each, "target": names.get(each.get("destinationId"), words(each["destination"]))}
        for each in rows_of(runs)
    ]


def subtotal(lines: Iterable[Mapping[str, Any]]) -> Decimal:
    """What lines come to in the currency of their bill."""
    with exact():
        return sum((Decimal(each["convertedSubtotal"]) for each in lines), ZERO)


async def neighbours(visit: Visit, bill: Mapping[str, Any]) -> tuple[Any, Any]:
    """The bills of the same customer before and after this one; None where there is none."""
    answers = await asyncio.gather(
        *(
            visit.api.find(
                "/bills/search",
                searchQuery=f"accountId:{bill['accountId']}$billDate{sign}{bill['billDate']}",
                sortBy="billDate",
                sortOrder=order,
                pageSize=1,
            )
            for sign, order in (("<", "DESC"), (">", "ASC"))
        )
    )
    before, after = (next(iter(rows_of(each)), None) for each in answers)
    return before, after


async def change_bill(visit: Visit) -> Response:
    """Carry out what was asked of one bill, perhaps after a second look."""
    id_ = visit.request.path_params["id"]
    question = await ask_first(visit, search_of_ids([id_]), f"{BILLS}/{id_}")
    return question or await _change(visit, id_)


async def _change(visit: Visit, id_: str) -> Response:
    place, target = f"/bills/{id_}", f"{BILLS}/{id_}"
    match visit.field("action"):
        case "approve":
            await visit.api.send("PUT", f"{place}/status", {"status": "APPROVED"})
            said = "You approved the bill. You can take that back until it is locked."
        case "unapprove":
            await visit.api.send("PUT", f"{place}/status", {"status": "PENDING"})
            said = "You took the approval back. The bill is pending again."
        case "lock":
            await visit.api.send("PUT", f"{place}/lock")
            said = "You locked the bill. It never changes again."
        case "delete":
            await visit.api.send("DELETE", place)
            said, target = "You deleted the bill. The next run of its month makes it again.", BILLS
        case "recalculate":
            return await recalculate(visit, [id_], target)
        case "send":
            body = {"to": visit.field("to") or None, "again": visit.field("again") == "yes"}
            letter = await visit.api.send("POST", f"{place}/send", body)
            said = f"The worker sends the bill to {letter['to']}. Load this page again to see it."
        case "statement":
            await visit.api.send("POST", f"{place}/statement/csv")
            said = "The statement is made: download it as CSV or JSON."
        case _:
            raise visit.unknown_action("a bill")
    return visit.go(target, said)


async def show_versions(visit: Visit) -> Response:
    """The versions of a bill, and by which causes two of them differ."""
    id_ = visit.request.path_params["id"]
    bill, versions, _ = await asyncio.gather(
        visit.api.get(f"/bills/{id_}"), visit.api.get(f"/bills/{id_}/versions"), visit.people()
    )
    rows = versions["data"]
    start, end = visit.query("from"), visit.query("to")
    difference = None
    if visit.may("DiffBill") and (end == "now" or len(rows) > 1):
        difference = await visit.api.get(f"/bills/{id_}/diff", **{"from": start, "to": end})
    return visit.page("bills/versions.html", bill=bill, versions=rows, difference=difference)


async def compare_bill(visit: Visit) -> Response:
    """A bill beside another one, line by line: the customer's one before it if none is named."""
    id_ = visit.request.path_params["id"]
    found = await visit.api.get(f"/bills/{id_}/comparison", **{"with": visit.query("with")})
    return visit.page("bills/comparison.html", found=found)


async def explain_bill(visit: Visit) -> Response:
    """Where each number of a bill comes from, as a tree that opens."""
    id_ = visit.request.path_params["id"]
    found = await visit.api.get(
        f"/bills/{id_}/explain", version=visit.query("version"), rows=_ROWS_OF_TREE
    )
    return visit.page("bills/explanation.html", found=found, bill=found["bill"])


_ROWS_OF_TREE: Final = 5


async def bill_document(visit: Visit) -> Response:
    """The document of a bill for its customer."""
    id_, format_ = visit.request.path_params["id"], visit.query("format") or "pdf"
    file = await visit.api.fetch(f"/bills/{id_}/document", format=format_)
    return file_of(file)


async def bill_statement(visit: Visit) -> Response:
    """Lead on to the statement that a bill has."""
    id_, format_ = visit.request.path_params["id"], visit.query("format") or "csv"
    if format_ not in {"csv", "json"}:
        raise ApiRefusalError(400, f"a statement is csv or json, not {format_!r}")
    found = await visit.api.get(f"/bills/{id_}/statement/{format_}")
    return visit.go(found["downloadUrl"])


ROUTES: Final = (
    *page_routes(_BILL, show_bill, change_bill, "ConsoleBill"),
    Route(f"{_BILL}/versions", page(show_versions), methods=["GET"], name="ConsoleBillVersions"),
    Route(f"{_BILL}/compare", page(compare_bill), methods=["GET"], name="ConsoleBillCompare"),
    Route(f"{_BILL}/explain", page(explain_bill), methods=["GET"], name="ConsoleExplain"),
    Route(f"{_BILL}/document", page(bill_document), methods=["GET"], name="ConsoleDocument"),
    Route(f"{_BILL}/statement", page(bill_statement), methods=["GET"], name="ConsoleStatement"),
)
