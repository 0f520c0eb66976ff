"""Pages of the lines of a bill: where one comes from, and those that people put on the bill."""

from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from babel import Locale
from markupsafe import Markup
from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.bills.bills import BILLS
from meterlake.console.bills.line_start import late_start
from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.charts import bar_chart
from meterlake.console.shell.dates import in_words
from meterlake.console.shell.numbers import needed_number
from meterlake.console.shell.page import Visit, locale_of, money, page, two_places, words
from meterlake.model.values.period import format_instant

_LINES: Final = f"{BILLS}/{{id}}/lines"
_MEMOS: Final = f"{BILLS}/{{id}}/memos/{{kind}}"
_KINDS: Final = {"credit": "Credit", "debit": "Debit"}
_MEASUREMENTS: Final = 20
_ONE_DAY: Final = timedelta(days=1)


async def show_line(visit: Visit) -> Response:
    """One line: quantity, SQL, days and newest measurements, and the tree of its numbers."""
    id_, line_id = visit.request.path_params["id"], visit.request.path_params["line"]
    bill = await visit.api.get(f"/bills/{id_}")
    places = {each["id"]: number for number, each in enumerate(bill["lineItems"])}
    if line_id not in places:
        raise ApiRefusalError(404, "the bill has no such line any more; open the bill again")
    if visit.query("format") == "json":
        file = await visit.api.get(f"/bills/{id_}/lineitems/{line_id}/usage/json")
        return visit.go(file["downloadUrl"])
    rows = visit.query("rows") or _MEASUREMENTS
    found = await visit.api.get(
        f"/bills/{id_}/explain", line=line_id, days=True, newest=True, rows=rows
    )
    place = places[line_id]
    # Of the total, this line alone; the others are only named there.
    roots = [each for each in found["tree"].get("children", ()) if _is_line(each, line_id)]
    measured = [
        each for root in roots for each in walk(root) if "statement" in each.get("facts", {})
    ]
    return visit.page(
        "bills/line.html",
        late=await late_start(visit, bill, bill["lineItems"][place]),
        bill=bill,
        line=bill["lineItems"][place],
        before=bill["lineItems"][place - 1] if place else None,
        after=next(iter(bill["lineItems"][place + 1 :]), None),
        found=found,
        roots=roots,
        measured=[(each, days_chart(visit, each)) for each in measured],
    )


def _is_line(number: Mapping[str, Any], line_id: str) -> bool:
    return bool(number.get("facts", {}).get("id") == line_id)


def walk(number: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A number of an explanation, and all below and beside it."""
    yield number
    for each in (*number.get("children", ()), *number.get("beside", ())):
        yield from walk(each)


def days_chart(visit: Visit, number: Mapping[str, Any]) -> Markup:
    """What each day of a quantity alone came to."""
    locale = locale_of(visit.request)
    days = number.get("days", ())
    labels = [in_words(date.fromisoformat(each["day"]), "d MMM") for each in days]
    values = [_decimal(each.get("quantity")) for each in days]
    unit = str(number.get("unit") or "")
    return bar_chart(f"{number['name']} by day", labels, {"": values}, locale, unit)


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


# --- Credits and debits ---------------------------------------------------------------------------


async def show_memo_form(visit: Visit) -> Response:
    """The form of a credit or debit: a new one, or one that the bill has."""
    kind, memo = _kind(visit), {}
    bill = await visit.api.get(f"/bills/{visit.request.path_params['id']}")
    if "memo" in visit.request.path_params:
        memo = await visit.api.get(_memo_path(visit))
    else:
        visit.require(f"Post{_KINDS[kind]}LineItem")
    reasons = await visit.api.every(f"/picklists/{kind}reasons")
    about = await _bill_referred_to(visit, bill, memo)
    # A credit is about what was charged, not about another credit.
    lines = [
        each
        for each in about["lineItems"]
        if each.get("productId") and not each.get("referencedLineItemId")
    ]
    zone, locale = ZoneInfo(bill["timezone"]), locale_of(visit.request)
    start = memo.get("servicePeriodStartDate") or about["startDate"]
    end = memo.get("servicePeriodEndDate") or about["endDate"]
    return visit.page(
        "bills/memo.html",
        bill=bill,
        about=about,
        kind=kind,
        memo=memo,
        amount=Decimal(two_places(memo["amount"])) if "amount" in memo else "",
        reasons=[
            (each["id"], each["name"])
            for each in reasons
            if not each.get("archived") or each["id"] == memo.get(f"{kind}ReasonId")
        ],
        lines=[(each["id"], _line_name(each, about["currency"], locale)) for each in lines],
        line=memo.get("referencedLineItemId") or visit.query("line") or "",
        first=_day_of(start, zone),
        last=_day_of(end, zone) - _ONE_DAY,
        operation=f"{_KINDS[kind]}LineItem",
    )


def _line_name(line: Mapping[str, Any], currency: str, locale: Locale) -> str:
    name = line.get("description") or words(line["lineItemType"])
    amount = money(line["convertedSubtotal"], currency, locale).striptags()
    return f"{line.get('sequenceNumber', '')}. {name} ({amount})"


async def _bill_referred_to(
    visit: Visit, bill: Mapping[str, Any], memo: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The bill that a credit or debit is about: the one that it stands on, or an earlier one."""
    id_ = memo.get("referencedBillId") or visit.query("about") or bill["id"]
    return bill if id_ == bill["id"] else await visit.api.get(f"/bills/{id_}")


def _day_of(text: str, zone: ZoneInfo) -> date:
    """The day that an instant begins, or is within, in a time zone."""
    if "T" not in text:
        return date.fromisoformat(text)
    return datetime.fromisoformat(text).astimezone(zone).date()


async def save_memo(visit: Visit) -> Response:
    """Put a credit or debit on the bill, change it, or take it away."""
    kind, id_ = _kind(visit), visit.request.path_params["id"]
    target = f"{BILLS}/{id_}"
    has_memo = "memo" in visit.request.path_params
    match visit.field("action"):
        case "delete" if has_memo:
            await visit.api.send("DELETE", _memo_path(visit))
            return visit.go(target, f"You took the {kind} from the bill, which is pending again.")
        case "save":
            bill = await visit.api.get(f"/bills/{id_}")
            former = await visit.api.get(_memo_path(visit)) if has_memo else {}
            about = await _bill_referred_to(visit, bill, former)
            body = _memo_of(visit, about)
            if kind == "credit" and visit.field("above") != "yes":
                _refuse_above(visit, body, about)
            body |= await _new_reason(visit, kind)
            if has_memo:
                body = {**_kept(former), **body, "version": int(former["version"])}
                await visit.api.send("PUT", _memo_path(visit), body)
                return visit.go(target, f"You changed the {kind}. The bill is pending again.")
            await visit.api.send("POST", f"/bills/{id_}/{kind}lineitems", body)
            said = f"You put the {kind} on the bill, which waits for approval again."
            return visit.go(
                target, f"{said} You can change it and take it away until it is locked."
            )
        case _:
            raise visit.unknown_action(f"a {kind}")


_ENVELOPE: Final = frozenset(
    {"id", "billId", "version", "createdBy", "dtCreated", "lastModifiedBy", "dtLastModified"}
)


def _kept(memo: Mapping[str, Any]) -> dict[str, Any]:
    """What a change leaves as it was."""
    return {name: value for name, value in memo.items() if name not in _ENVELOPE}


def _memo_of(visit: Visit, bill: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a credit or debit, as the form says."""
    kind, line_id = _kind(visit), visit.field("line")
    line = next((each for each in bill["lineItems"] if each["id"] == line_id), None)
    body: dict[str, Any] = {
        "amount": needed_number("amount", visit.field("amount"), visit.decimal),
        "description": visit.field("description"),
        f"{kind}ReasonId": visit.field("reason") or None,
        "servicePeriodStartDate": _instant(visit.field("first"), bill, 0),
        "servicePeriodEndDate": _instant(visit.field("last"), bill, 1),
    }
    if line is not None:
        product = line.get("productId")
        body |= {
            "referencedBillId": bill["id"],
            "referencedLineItemId": line_id,
            "productId": product,
            "accountingProductId": line.get("accountingProductId") or product,
        }
    return {name: value for name, value in body.items() if value is not None}


async def _new_reason(visit: Visit, kind: str) -> dict[str, str]:
    """The reason that was typed, which the list has from now on; nothing if none was."""
    if not (name := visit.field("newReason")):
        return {}
    path = f"/picklists/{kind}reasons"
    named = (each for each in await visit.api.every(path) if each["name"].lower() == name.lower())
    found = next(named, None) or await visit.api.send("POST", path, {"name": name})
    return {f"{kind}ReasonId": found["id"]}


def _refuse_above(visit: Visit, memo: Mapping[str, Any], bill: Mapping[str, Any]) -> None:
    """Have a person look again at a credit that is more than its line, or than the whole bill."""
    lines = (each for each in bill["lineItems"] if each["id"] == memo.get("referencedLineItemId"))
    limits = [("the whole bill", bill["billTotal"])]
    limits += [("the line that it is about", each["convertedSubtotal"]) for each in lines]
    for what, limit in limits:
        if memo["amount"] > Decimal(limit):
            amount, most = (visit.written(Decimal(each)) for each in (memo["amount"], limit))
            raise ApiRefusalError(
                400,
                f"amount {amount} is more than {what}, which comes to {most}"
                f" {bill['currency']}; tick below that you mean it",
            )


def _instant(text: str, bill: Mapping[str, Any], days: int) -> str:
    """The beginning of a day, or of one some days later, in the bill's time zone."""
    try:
        day = date.fromisoformat(text) + timedelta(days=days)
    except (ValueError, OverflowError):
        raise ApiRefusalError(400, f"a day must be such as 2026-10-31, not {text!r}") from None
    return format_instant(datetime.combine(day, time(), ZoneInfo(bill["timezone"])))


def _kind(visit: Visit) -> str:
    kind: str = visit.request.path_params["kind"]
    if kind not in _KINDS:
        raise ApiRefusalError(404, f"a bill has credits and debits, and no {kind!r}")
    return kind


def _memo_path(visit: Visit) -> str:
    found = visit.request.path_params
    return f"/bills/{found['id']}/{found['kind']}lineitems/{found['memo']}"


ROUTES: Final = (
    Route(f"{_LINES}/{{line}}", page(show_line), methods=["GET"], name="ConsoleLine"),
    *(
        Route(path, page(function, back), methods=[method], name=f"Console{name}")
        for path, function, back, method, name in (
            (f"{_MEMOS}/new", show_memo_form, None, "GET", "NewMemo"),
            (f"{_MEMOS}/new", save_memo, show_memo_form, "POST", "NewMemoSave"),
            (f"{_MEMOS}/{{memo}}", show_memo_form, None, "GET", "Memo"),
            (f"{_MEMOS}/{{memo}}", save_memo, show_memo_form, "POST", "MemoSave"),
        )
    ),
)
