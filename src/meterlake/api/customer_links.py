"""Links to the page of one customer, and what whoever has one may read: this customer, and no more.

Who follows a link is nobody whom the server knows. So each member of an answer is named here, and
everything is asked for by the account of the link.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from meterlake.api.server.answers import WireResponse, failure
from meterlake.api.server.call import ORGANIZATION, Call, Operation, QueryParameters, member
from meterlake.api.server.dispatch import Services
from meterlake.api.server.downloads import base_url, content_response
from meterlake.api.server.limits import Limit, network
from meterlake.model.bills.document import AppendixDetail, DocumentFormat
from meterlake.model.customers.accounts import PAGE_PATH, Account, CustomerLink
from meterlake.model.errors import MeterlakeError, NotFound, TooMany, Unauthorized
from meterlake.model.values.ids import is_id
from meterlake.model.values.period import Month
from meterlake.pipeline.access import customer_links
from meterlake.pipeline.access.customer_links import OpenedLink
from meterlake.pipeline.billing import customer_page
from meterlake.pipeline.billing.customer_page import read_spend
from meterlake.pipeline.documents.render import make_document
from meterlake.pipeline.explorer.account_usage import read_account_usage
from meterlake.stores.state.core.pages import Page

# What the page of a link reads.
PATH: Final = "/customerpages"
_LINKS: Final = f"{ORGANIZATION}/accounts/{{accountId}}/customerlinks"
_RESOURCE: Final = "customerlink"
_PAGE: Final = 50
_NO_STORE: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
# Wrong links from one place: sixty at once, then one a second.
_BAD_LINKS: Final = Limit("links that do not work from the address", 1.0, 60)


async def _create(call: Call) -> Any:
    account_id, document = member(call, Account.__name__, "accountId"), await call.document()
    made, token = await call.run(
        customer_links.create_link, call.organization, call.author, account_id, document
    )
    return {**made, "token": token, "url": f"{base_url(call)}{PAGE_PATH}/{token}"}


async def _revoke(call: Call) -> Any:
    account_id = member(call, Account.__name__, "accountId")
    id_ = member(call, CustomerLink.__name__)
    return await call.run(
        customer_links.revoke_link, call.organization, call.author, account_id, id_
    )


async def _spend(call: Call) -> Any:
    return await call.run(read_spend, call.organization, member(call, Account.__name__))


OPERATIONS: Final = (
    Operation(
        "GetAccountSpend",
        "GET",
        f"{ORGANIZATION}/accounts/{{id}}/spend",
        "config:retrieve",
        "bill",
        _spend,
        item="",
    ),
    Operation("CreateCustomerLink", "POST", _LINKS, "config:create", _RESOURCE, _create),
    Operation(
        "RevokeCustomerLink",
        "POST",
        f"{_LINKS}/{{id}}/revoke",
        "config:update",
        _RESOURCE,
        _revoke,
    ),
)


# --- For whoever has a link --------------------------------------------------------------------

Reading = Callable[[Request, OpenedLink], Any]


def _of_link(name: str, read: Reading) -> Callable[[Request], Awaitable[Response]]:
    """An answer to whoever has a link; every link that does not work has the same one."""

    async def answer(request: Request) -> Response:
        services: Services = request.app.state.services
        request.scope["meterlake.operation"] = name
        address = request.client.host if request.client else "unknown"
        try:
            services.limits.check_address("config", address)
            token = request.path_params["token"]
            opened = await run_in_threadpool(customer_links.open_link, services.stores, token)
            services.limits.check_organization("config", opened.organization.id)
            run = services.costly.run
            found = await run(opened.organization.id, read, request, opened)
            return found if isinstance(found, Response) else WireResponse(found, headers=_NO_STORE)
        except Unauthorized as error:
            try:
                await run_in_threadpool(services.limits.take, _BAD_LINKS, network(address))
            except TooMany as many:
                return failure(many)
            return failure(error)
        except MeterlakeError as error:
            return failure(error)

    return answer


def _read_page(_: Request, opened: OpenedLink) -> dict[str, Any]:
    return {
        **customer_page.read_customer(opened.organization, opened.account_id),
        "allowedOrigins": list(opened.link.allowed_origins),
        "dtExpiry": opened.link.dt_expiry,
    }


def _read_usage(request: Request, opened: OpenedLink) -> dict[str, Any]:
    query = QueryParameters(request.query_params.multi_items())
    name = query.text("month")
    month = None if name is None else Month.parse(name)
    return read_account_usage(opened.organization, opened.account_id, month)


def _read_spend(_: Request, opened: OpenedLink) -> dict[str, Any]:
    return customer_page.read_customer_spend(opened.organization, opened.account_id)


def _list_bills(request: Request, opened: OpenedLink) -> dict[str, Any]:
    query = QueryParameters(request.query_params.multi_items())
    size = query.integer("pageSize", _PAGE, least=1, most=_PAGE)
    here = Page(size or _PAGE, query.text("nextToken"))
    return customer_page.list_customer_bills(opened.organization, opened.account_id, here)


def _read_bill(request: Request, opened: OpenedLink) -> dict[str, Any]:
    return customer_page.read_customer_bill(
        opened.organization, opened.account_id, _bill_id(request)
    )


def _make_document(request: Request, opened: OpenedLink) -> Response:
    id_ = _bill_id(request)
    # Only of a bill that the link leads to.
    customer_page.read_customer_bill(opened.organization, opened.account_id, id_)
    made = make_document(opened.organization, id_, DocumentFormat.PDF, AppendixDetail.AUTO)
    return content_response(made.name, made.media_type, made.data)


def _bill_id(request: Request) -> str:
    found: str = request.path_params["id"]
    if not is_id(found):
        raise NotFound("bill", found)
    return found.lower()


def _route(name: str, path: str, read: Reading) -> Route:
    return Route(f"{PATH}/{{token}}{path}", _of_link(name, read), methods=["GET"], name=name)


ROUTES: Final = (
    _route("GetCustomerPage", "", _read_page),
    _route("GetCustomerPageUsage", "/usage", _read_usage),
    _route("GetCustomerPageSpend", "/spend", _read_spend),
    _route("ListCustomerPageBills", "/bills", _list_bills),
    _route("GetCustomerPageBill", "/bills/{id}", _read_bill),
    _route("GetCustomerPageDocument", "/bills/{id}/document", _make_document),
)
