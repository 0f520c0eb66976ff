"""Pages of customers: the list, one customer, and the search over customers and bills."""

import asyncio
import re
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.bills import BILLS
from meterlake.console.shell.lists import Column, Listing, show_list
from meterlake.console.shell.page import Visit, page

CUSTOMERS: Final = "/console/customers"
SEARCH: Final = "/console/search"
_FOUND: Final = 20
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# What means something in the query of a search, or ends a term of it.
_SIGNS: Final = re.compile(r"[~:<>$&|]")


_LISTING: Final = Listing(
    "Customers",
    "/accounts",
    (
        Column("Name", "name", link=f"{CUSTOMERS}/{{id}}"),
        Column("Code", "code", "code"),
        Column("E-mail", "emailAddress"),
        Column("Currency", "currency"),
        Column("Since", "dtCreated", "instant"),
    ),
    empty=(
        "No customers yet",
        "You make a customer with meterlake config apply or the API.",
    ),
)


async def list_customers(visit: Visit) -> Response:
    """One page of customers."""
    return await show_list(visit, _LISTING)


async def search(visit: Visit) -> Response:
    """Customers by name, code or id, and bills by id; one that is meant leads to its page."""
    asked = (visit.query("q") or "").strip()
    if not asked:
        return visit.go(CUSTOMERS)
    if _ID.fullmatch(asked):
        for kind, target in (("accounts", CUSTOMERS), ("bills", BILLS)):
            if await visit.api.find(f"/{kind}/{asked}") is not None:
                return visit.go(f"{target}/{asked}")
    text = _SIGNS.sub(" ", asked)
    answers = await asyncio.gather(
        *(
            visit.api.find("/accounts/search", searchQuery=f"{name}~{text}", pageSize=_FOUND)
            for name in ("name", "code")
        )
    )
    found: dict[str, Any] = {
        each["id"]: each for answer in answers if answer is not None for each in answer["data"]
    }
    exactly = [
        each
        for each in found.values()
        if asked.lower() in {each["code"].lower(), each["name"].lower()}
    ]
    if len(exactly) == 1:
        return visit.go(f"{CUSTOMERS}/{exactly[0]['id']}")
    return visit.page("found.html", customers=list(found.values()), asked=asked)


async def show_customer(visit: Visit) -> Response:
    """One customer: plans in force, bills, balances, commitments, contracts, what happened."""
    id_ = visit.request.path_params["id"]
    customer = await visit.api.get(f"/accounts/{id_}")
    plans, balances, commitments, contracts, bills, events = await asyncio.gather(
        visit.api.every("/accountplans", account=id_),
        visit.api.every("/balances", accountId=id_),
        visit.api.every("/commitments", accountId=id_),
        visit.api.every("/contracts", accountId=id_),
        visit.api.find(
            "/bills", accountId=id_, excludeLineItems=True, includeBillTotal=True, pageSize=24
        ),
        visit.api.find("/events", accountId=id_, includeActioned=True, pageSize=20),
    )
    parent = customer.get("parentAccountId")
    return visit.page(
        "customer.html",
        customer=customer,
        parent=await visit.api.find(f"/accounts/{parent}") if parent else None,
        children=await visit.api.every(f"/accounts/{id_}/children"),
        plans=plans,
        names=await plan_names(visit, plans),
        balances=balances,
        commitments=commitments,
        contracts=contracts,
        bills=[] if bills is None else bills["data"],
        events=[] if events is None else events["data"],
    )


async def plan_names(visit: Visit, attached: list[Any]) -> dict[str, str]:
    """The names of attached plans, and of groups of plans, by id."""
    names: dict[str, str] = {}
    for kind, member in (("plans", "planId"), ("plangroups", "planGroupId")):
        ids = sorted({each[member] for each in attached if each.get(member)})
        if ids:
            rows = await visit.api.every(f"/{kind}", ids=",".join(ids))
            names |= {each["id"]: each["name"] for each in rows}
    return names


ROUTES: Final = (
    Route(CUSTOMERS, page(list_customers), methods=["GET"], name="ConsoleCustomers"),
    Route(f"{CUSTOMERS}/{{id}}", page(show_customer), methods=["GET"], name="ConsoleCustomer"),
    Route(SEARCH, page(search), methods=["GET"], name="ConsoleSearch"),
)
