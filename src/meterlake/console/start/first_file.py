"""From a CSV file of usage to a meter with a price, customers on a plan, and usage to bill.

A person says which column is what. Everything is made by the operations that programs call. What is
there already under the same code is taken, so that the form can be sent again after a refusal; a
row keeps its uid, so none counts twice.
"""

import asyncio
import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.month import MONTHS
from meterlake.console.shell.numbers import needed_number
from meterlake.console.shell.page import Visit, page
from meterlake.model.errors import Invalid
from meterlake.model.values.ids import slug
from meterlake.model.values.period import Month, format_instant
from meterlake.model.values.plurals import counted

FILE: Final = "/console/start/file"
_BYTES_MAX: Final = 900_000
_ROWS_MAX: Final = 10_000
_CUSTOMERS_MAX: Final = 500
_SHOWN: Final = 5
_BATCH: Final = 1_000
_AT_ONCE: Final = 10
# What files call the three columns.
_GUESSES: Final = {
    "customer": ("customer", "account", "client", "tenant", "user", "org"),
    "time": ("time", "ts", "date", "day", "when", "at"),
    "quantity": ("quantity", "amount", "usage", "units", "value", "count", "qty"),
}


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file as its head and its rows."""

    head: list[str]
    rows: list[list[str]]

    @classmethod
    def read(cls, text: str) -> "CsvFile":
        """Read comma, semicolon or tab separated text with a head line.

        Raises:
            Invalid: There is no row below a head line, a row is longer than it, or there are too
                many.
        """
        first = text.partition("\n")[0]
        sign = max(",;\t", key=first.count)
        lines = [each for each in csv.reader(io.StringIO(text, newline=""), delimiter=sign) if each]
        if len(lines) < 2:  # noqa: PLR2004 - a head and a row
            raise Invalid("file", first[:80], "it must have a head line and rows below it")
        head = [each.strip() for each in lines[0]]
        if len(set(head)) < len(head) or not all(head):
            raise Invalid("file", first[:80], "each column must have a name of its own")
        if len(lines) > _ROWS_MAX + 1:
            raise Invalid(
                "file", f"{len(lines) - 1} rows", f"it must have {_ROWS_MAX} rows or less here"
            )
        for number, line in enumerate(lines[1:], 2):
            if len(line) != len(head):
                raise Invalid(
                    f"line {number}", ",".join(line)[:80], "it must be as long as the head"
                )
        return cls(head, lines[1:])

    def column(self, name: str) -> list[str]:
        """The values of a column.

        Raises:
            Invalid: There is no such column.
        """
        if name not in self.head:
            raise Invalid("column", name, f"it must be one of {', '.join(self.head)}")
        place = self.head.index(name)
        return [row[place].strip() for row in self.rows]

    def guess(self, what: str) -> str:
        """The column that is called most like something."""
        for word in _GUESSES[what]:
            for name in self.head:
                if word in re.split("[^a-z]+", name.lower()):
                    return name
        numbers = [each for each in self.head if all(map(_is_number, self.column(each)))]
        return numbers[-1] if what == "quantity" and numbers else ""


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


async def ask_file(visit: Visit) -> Response:
    """Ask for the file; and what its columns are, once there is one."""
    text = visit.field("text")
    if not text:
        return visit.page("start_file.html", file=None)
    file = CsvFile.read(text)
    settings = await visit.api.get("/organizationconfig")
    currencies = await visit.api.every("/picklists/currency")
    return visit.page(
        "start_file.html",
        file=file,
        text=text,
        shown=file.rows[:_SHOWN],
        guesses={what: file.guess(what) for what in _GUESSES},
        currency=settings.get("currency", ""),
        currencies=[(each["code"], each["code"]) for each in currencies],
    )


async def read_file(visit: Visit) -> Response:
    """Take the file that was chosen; or, with the columns named, make everything of it."""
    if visit.field("action") != "make":
        text = _sent_text(visit)
        CsvFile.read(text)
        # Only now: a file that cannot be read leads back to the choice of one.
        visit.form["text"] = [text]
        return await ask_file(visit)
    usage = _read_usage(visit)
    await _refuse_other_customers(visit, usage)
    await _refuse_other_price(visit, usage)
    plan_id = await _make_price(visit, usage)
    await _make_customers(visit, usage, plan_id)
    for first in range(0, len(usage.measurements), _BATCH):
        some = usage.measurements[first : first + _BATCH]
        await visit.api.send("POST", "/measurements", {"measurements": some})
    return visit.go(
        f"{MONTHS}/{usage.last}",
        f"Accepted {counted(len(usage.measurements), 'row')} of"
        f" {counted(len(usage.customers), 'customer')}; the worker brings them in within seconds."
        f" The usage is from {usage.first} to {usage.last}. Make the bills"
        " here. The customers have placeholders for e-mail addresses: change them before you send"
        " anything.",
    )


def _sent_text(visit: Visit) -> str:
    chosen = visit.files.get("file", [])
    if not any(each.content for each in chosen):
        raise Invalid("file", "", "it must be a file that you choose")
    sent = chosen[-1]
    if len(sent.content) > _BYTES_MAX:
        raise Invalid(
            "file",
            sent.name,
            f"it must have {_BYTES_MAX} bytes or less here; Data in takes larger ones",
        )
    try:
        return sent.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid("file", sent.name, "it must be text in UTF-8") from None


@dataclass(frozen=True, slots=True)
class _Usage:
    """What a file says, checked.

    Attributes:
        what: What is measured, in the person's words.
        code: The code of all that is made for it.
        unit: The unit of a quantity.
        price: The price of one unit.
        currency: Its currency.
        customers: The names of customers, by their codes.
        measurements: For the Ingest API.
        start: The first instant of the first month.
        first: The first month.
        last: The last one.
    """

    what: str
    code: str
    unit: str
    price: Decimal
    currency: str
    customers: Mapping[str, str]
    measurements: Sequence[dict[str, Any]]
    start: datetime
    first: Month
    last: Month


def _read_usage(visit: Visit) -> _Usage:
    """Check all rows before anything is made.

    Raises:
        Invalid: A field or a row cannot be read.
    """
    file, zone = CsvFile.read(visit.field("text")), ZoneInfo(visit.session.zone)
    what = visit.field("what")
    code = slug(what)
    if not code:
        raise Invalid("what", what, "it must be a word or two that say what is measured")
    names = file.column(visit.field("customer"))
    times = [
        _instant(text, zone, line) for line, text in enumerate(file.column(visit.field("time")), 2)
    ]
    amounts = [
        _number(text, f"line {line}")
        for line, text in enumerate(file.column(visit.field("quantity")), 2)
    ]
    customers: dict[str, str] = {}
    for line, name in enumerate(names, 2):
        if not name:
            raise Invalid(f"line {line}", name, "it must name a customer")
        other = customers.setdefault(slug(name) or name, name)
        if other != name:
            rule = f"it must differ by more than accents, case and marks from {other!r}"
            raise Invalid(f"line {line}", name, rule)
    if len(customers) > _CUSTOMERS_MAX:
        raise Invalid("customers", len(customers), f"there must be {_CUSTOMERS_MAX} or less here")
    months = sorted(
        Month(local.year, local.month) for local in (each.astimezone(zone) for each in times)
    )
    digest = hashlib.sha256(visit.field("text").encode()).hexdigest()[:16]
    measurements = [
        {
            "uid": f"{digest}-{number}",
            "meter": code,
            "account": slug(name) or name,
            "ts": format_instant(time),
            "measure": {"quantity": amount},
        }
        for number, (name, time, amount) in enumerate(zip(names, times, amounts, strict=True), 1)
    ]
    return _Usage(
        what,
        code,
        visit.field("unit") or "1",
        _price(visit),
        visit.field("currency"),
        customers,
        measurements,
        datetime.combine(months[0].first, datetime.min.time(), zone),
        months[0],
        months[-1],
    )


def _instant(text: str, zone: ZoneInfo, line: int) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            f"line {line}", text, "it must be a time such as 2026-10-31 or 2026-10-31T12:00:00Z"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)


def _number(text: str, place: str) -> Decimal:
    if not _is_number(text) or Decimal(text) < 0:
        raise Invalid(place, text, "it must be a number of 0 or more, with a point: 12.5")
    return Decimal(text)


def _price(visit: Visit) -> Decimal:
    found = needed_number("price", visit.field("price"), visit.decimal)
    if found < 0:
        raise Invalid("price", visit.field("price"), "it must be 0 or more")
    return found


async def _refuse_other_customers(visit: Visit, usage: _Usage) -> None:
    """Let no usage come to a customer of another name, before anything is made.

    Raises:
        Invalid: The code that follows from a name is the code of a customer with another one.
    """
    codes = list(usage.customers)
    for first in range(0, len(codes), _AT_ONCE):
        some = ",".join(each for each in codes[first : first + _AT_ONCE] if "," not in each)
        for known in await visit.api.every("/accounts", codes=some):
            name = usage.customers.get(known["code"])
            if name not in {None, known["name"], known["code"]}:
                rule = (
                    f"it must not come to the code {known['code']}, which {known['name']!r} has;"
                    f" write {known['code']} in the file if you mean that customer"
                )
                raise Invalid("customer", name, rule)


async def _refuse_other_price(visit: Visit, usage: _Usage) -> None:
    """Let nobody type a price, currency or unit that would not count, before anything is made.

    Raises:
        Invalid: What is measured has another one already.
    """
    template, plan, aggregation = await asyncio.gather(
        _with_code(visit, "/plantemplates", usage.code),
        _with_code(visit, "/plans", usage.code),
        _with_code(visit, "/aggregations", usage.code.replace("-", "_")),
    )
    rule = f"it must be {{}}, which {usage.what!r} has already; change that in the catalogue, or"
    rule += " say something else for what is measured"
    if aggregation and aggregation["unit"] != usage.unit:
        raise Invalid("unit", usage.unit, rule.format(aggregation["unit"]))
    if template and template["currency"] != usage.currency:
        raise Invalid("currency", usage.currency, rule.format(template["currency"]))
    prices = await visit.api.every("/pricings", planId=plan["id"]) if plan else []
    known = [band["unitPrice"] for each in prices for band in each["pricingBands"]]
    if known and set(known) != {usage.price}:
        raise Invalid("price", usage.price, rule.format(" or ".join(f"{one:f}" for one in known)))


async def _make_price(visit: Visit, usage: _Usage) -> str:
    """The product, its meter, aggregation and plan, and the price; the id of the plan."""
    code, name = usage.code, usage.what
    field_ = {"category": "MEASURE", "code": "quantity", "name": name, "unit": usage.unit}
    product = await _ensure(visit, "/products", {"code": code, "name": name})
    meter = {"code": code, "name": name, "productId": product, "dataFields": [field_]}
    meter_id = await _ensure(visit, "/meters", {**meter, "derivedFields": []})
    aggregation = {"code": code.replace("-", "_"), "name": name, "meterId": meter_id}
    counted = {"targetField": "quantity", "aggregation": "SUM", "quantityPerUnit": 1}
    body = {**aggregation, **counted, "unit": usage.unit, "rounding": "NONE"}
    aggregation_id = await _ensure(visit, "/aggregations", body)
    template = {"code": code, "name": name, "productId": product, "currency": usage.currency}
    billed = {"standingCharge": 0, "billFrequency": "MONTHLY", "billFrequencyInterval": 1}
    template_id = await _ensure(visit, "/plantemplates", {**template, **billed})
    plan = {"code": code, "name": name, "planTemplateId": template_id}
    plan_id = await _ensure(visit, "/plans", plan)
    if not await visit.api.every("/pricings", planId=plan_id):
        band = {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": usage.price}
        pricing = {"planId": plan_id, "aggregationId": aggregation_id, "cumulative": False}
        start = {"startDate": format_instant(usage.start.astimezone(UTC)), "pricingBands": [band]}
        await visit.api.send("POST", "/pricings", {**pricing, **start})
    return plan_id


async def _make_customers(visit: Visit, usage: _Usage, plan_id: str) -> None:
    start = format_instant(usage.start.astimezone(UTC))
    attached = {each["accountId"] for each in await visit.api.every("/accountplans", plan=plan_id)}

    async def make(code: str, name: str) -> None:
        body = {
            "code": code,
            "name": name,
            "emailAddress": f"{slug(name) or 'customer'}@example.invalid",
        }
        id_ = await _ensure(visit, "/accounts", body)
        if id_ not in attached:
            plan = {"accountId": id_, "planId": plan_id, "startDate": start}
            await visit.api.send("POST", "/accountplans", plan)

    customers = list(usage.customers.items())
    for first in range(0, len(customers), _AT_ONCE):
        await asyncio.gather(*(make(*each) for each in customers[first : first + _AT_ONCE]))


async def _ensure(visit: Visit, path: str, body: dict[str, Any]) -> str:
    """The id of what has a code, made if there is none."""
    known = await _with_code(visit, path, body["code"])
    made = known or await visit.api.send("POST", path, body)
    return str(made["id"])


async def _with_code(visit: Visit, path: str, code: str) -> dict[str, Any] | None:
    # Not all lists can be asked for codes: they answer with everything.
    found = await visit.api.every(path, codes=code)
    return next((each for each in found if each["code"] == code), None)


ROUTES: Final = (
    Route(FILE, page(ask_file, needs="PostPricing"), methods=["GET"], name="ConsoleStartFile"),
    Route(FILE, page(read_file, ask_file), methods=["POST"], name="ConsoleStartFileMake"),
)
