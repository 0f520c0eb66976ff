"""The customer's page: what whoever has a link sees of one customer, signed in or not.

It reads the operations of the link, and no other: no session, no cookie, no script, and only pages
of the link's origins may frame it. Every link that does not work leads to the same page.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from meterlake.api.customer_links import PATH
from meterlake.console.customers.day_charts import day_chart
from meterlake.console.shell.api import ApiClient, ApiRefusalError, file_headers
from meterlake.console.shell.page import locale_of, page_text
from meterlake.console.shell.session import api_of_link
from meterlake.model.customers.accounts import PAGE_PATH
from meterlake.model.errors import MeterlakeError
from meterlake.model.values.ids import is_id
from meterlake.model.values.period import Month

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_BILLS: Final = 12
_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors {}"
)
_HEADERS: Final = {
    "Cache-Control": "no-store",
    # The address holds the link: nobody else is told of it.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}

Answer = Callable[[Request, ApiClient, dict[str, Any]], Awaitable[Response]]


def _of_link(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    """A page of a link that works; the same page for every other one."""

    async def answered(request: Request) -> Response:
        token = request.path_params["token"]
        if not _TOKEN.fullmatch(token):
            token = "-"  # noqa: S105 - no link at all: it counts as a wrong one
        async with api_of_link(request, PATH) as api:
            customer: dict[str, Any] | None = None
            try:
                customer = await api.get(f"/{token}")
                return await answer(request, api, customer)
            except ApiRefusalError as refusal:
                return _refused(request, refusal.status, refusal.reason, customer)
            except MeterlakeError as error:
                return _refused(request, error.status, str(error), customer)

    return answered


def _refused(
    request: Request, status: int, reason: str, customer: dict[str, Any] | None
) -> Response:
    if customer is None and status == _UNAUTHORIZED:
        return _shown(request, "portal/dead.html", (), status=_NOT_FOUND)
    framing = () if customer is None else customer["allowedOrigins"]
    return _shown(request, "portal/refused.html", framing, status=status, reason=reason)


def _shown(
    request: Request, template: str, framing: Sequence[str], status: int = 200, **values: Any
) -> Response:
    """A page that only some origins may frame."""
    here = f"{PAGE_PATH}/{request.path_params['token']}"
    text = page_text(template, locale=locale_of(request), here=here, **values)
    headers = {**_HEADERS, "Content-Security-Policy": _POLICY.format(" ".join(framing) or "'none'")}
    if not framing:
        headers["X-Frame-Options"] = "DENY"
    return HTMLResponse(text, status, headers)


async def _page(request: Request, api: ApiClient, customer: dict[str, Any]) -> Response:
    token, month = request.path_params["token"], _month(request, customer["timezone"])
    usage, spend, bills = await asyncio.gather(
        api.get(f"/{token}/usage", month=month),
        api.get(f"/{token}/spend"),
        api.get(
            f"/{token}/bills", pageSize=_BILLS, nextToken=request.query_params.get("page") or None
        ),
    )
    rows = [(each, day_chart(request, each, month)) for each in usage["aggregations"]]
    return _shown(
        request,
        "portal/page.html",
        customer["allowedOrigins"],
        customer=customer,
        month=month,
        usage=rows,
        spend=spend,
        bills=bills["data"],
        later=bills.get("nextToken"),
    )


def _month(request: Request, zone: str) -> Month:
    name = request.query_params.get("month")
    if name:
        return Month.parse(name)
    now: datetime = request.app.state.services.stores.now()
    today = now.astimezone(ZoneInfo(zone)).date()
    return Month(today.year, today.month)


async def _bill(request: Request, api: ApiClient, customer: dict[str, Any]) -> Response:
    bill = await api.get(_bill_path(request))
    framing = customer["allowedOrigins"]
    return _shown(request, "portal/bill.html", framing, customer=customer, bill=bill)


async def _document(request: Request, api: ApiClient, _: dict[str, Any]) -> Response:
    file = await api.fetch(f"{_bill_path(request)}/document")
    return Response(file.content, headers={**_HEADERS, **file_headers(file)})


def _bill_path(request: Request) -> str:
    token, id_ = request.path_params["token"], request.path_params["id"]
    if not is_id(id_):
        raise ApiRefusalError(_NOT_FOUND, "there is no such bill")
    return f"/{token}/bills/{id_}"


_LINK: Final = f"{PAGE_PATH}/{{token}}"
ROUTES: Final = (
    Route(_LINK, _of_link(_page), methods=["GET"], name="CustomerPage"),
    Route(f"{_LINK}/bills/{{id}}", _of_link(_bill), methods=["GET"], name="CustomerPageBill"),
    Route(
        f"{_LINK}/bills/{{id}}/document",
        _of_link(_document),
        methods=["GET"],
        name="CustomerPageDocument",
    ),
)
