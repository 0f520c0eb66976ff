"""The search in the head of each page: customers and bills by what people know of them."""

import asyncio
import re
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

from babel.numbers import NumberFormatError, parse_decimal
from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.bills.bills import BILLS
from meterlake.console.customers.customer_things import CUSTOMERS
from meterlake.console.shell.api import rows_of
from meterlake.console.shell.lists import SIGNS
from meterlake.console.shell.page import Visit, locale_of, page
from meterlake.model.values.ids import is_id

SEARCH: Final = "/console/search"
_FOUND: Final = 20


async def search(visit: Visit) -> Response:
    """Customers by name, code, order or id; bills by number, amount, reference, order or id.

    What is meant exactly, or found alone, leads to its page.
    """
    asked = (visit.query("q") or "").strip()
    if not asked:
        return visit.go(CUSTOMERS)
    if is_id(asked):
        for kind, target in (("accounts", CUSTOMERS), ("bills", BILLS)):
            if await visit.api.find(f"/{kind}/{asked}") is not None:
                return visit.go(f"{target}/{asked}")
    text = SIGNS.sub(" ", asked)
    customers, bills = await asyncio.gather(
        _found(visit, "accounts", _terms(text, "*", "name", "code", "purchaseOrderNumber")),
        _found(visit, "bills", [*_terms(text, "~", *_BILL_NAMES), *_amount(visit, asked)]),
    )
    exactly = [
        f"{CUSTOMERS}/{each['id']}"
        for each in customers
        if asked.lower() in {each["code"].lower(), each["name"].lower()}
    ]
    numbers = [each for each in bills if each.get("sequentialInvoiceNumber") == asked]
    exactly += [f"{BILLS}/{each['id']}" for each in numbers]
    if not exactly and not bills and len(customers) == 1:
        exactly = [f"{CUSTOMERS}/{customers[0]['id']}"]
    if len(exactly) == 1:
        return visit.go(exactly[0])
    return visit.page("found.html", customers=customers, bills=bills, asked=asked)


_BILL_NAMES: Final = (
    *("sequentialInvoiceNumber", "purchaseOrderNumber", "externalInvoiceReference"),
)


def _terms(text: str, comparator: str, *names: str) -> list[str]:
    return [f"{name}{comparator}{text}" for name in names] if text.strip() else []


# A currency before or behind an amount: its code or its sign.
_CURRENCY: Final = re.compile(
    r"^(?:[a-z]{3}\b|[^\w\s.,-])\s*|\s*(?:\b[a-z]{3}|[^\w\s.,-])$", re.IGNORECASE
)


def _amount(visit: Visit, text: str) -> list[str]:
    """An amount as people of the browser's language write it, or as the API and files do."""
    number = _CURRENCY.sub("", text)
    found = set()
    for locale in (locale_of(visit.request), "en"):
        with suppress(NumberFormatError):
            found.add(f"billTotal:{Decimal(parse_decimal(number, locale=locale, strict=True)):f}")
    return sorted(found)


async def _found(visit: Visit, kind: str, terms: list[str]) -> list[dict[str, Any]]:
    """What any of some terms finds."""
    if not terms:
        return []
    answer = await visit.api.find(
        f"/{kind}/search", searchQuery="$".join(terms), operator="OR", pageSize=_FOUND
    )
    return rows_of(answer)


ROUTES: Final = (Route(SEARCH, page(search), methods=["GET"], name="ConsoleSearch"),)
