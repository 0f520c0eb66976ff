"""Pages of customers: the list, one customer, and what happened to it."""

import asyncio
from datetime import timedelta
from typing import Any, Final

from markupsafe import Markup
from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.bills.bills import BILLS
from meterlake.console.customers import customer_links, customer_pages, customer_prices, portal
from meterlake.console.customers.customer_things import BALANCES, COMPLETE, CUSTOMERS, THINGS
from meterlake.console.customers.day_charts import day_chart
from meterlake.console.shell.api import rows_of
from meterlake.console.shell.lists import Column, Listing, called_by, show_list
from meterlake.console.shell.page import Visit, page
from meterlake.model.values.period import Month

_SHOWN: Final = 8
_CHARTS: Final = 12
_ONE_DAY: Final = timedelta(days=1)
# What belongs to a customer, and has a history of its own.
_INCLUDED: Final = "accountPlans,contracts,commitments,balances,charges"
_OF_BILLS: Final = ("billing.bill.", "billing.credit", "billing.debit")
_OF_AMOUNTS: Final = "billing.balanceamount."

_LISTING: Final = Listing(
    "Customers",
    "/accounts",
    (
        Column("Name", "name", link=f"{CUSTOMERS}/{{id}}", sort="name"),
        Column("Code", "code", "code", sort="code"),
        Column("E-mail", "emailAddress", sort="emailAddress"),
        Column("Currency", "currency", sort="currency"),
        Column("Purchase order", "purchaseOrderNumber", sort="purchaseOrderNumber"),
        Column("Since", "dtCreated", "instant", sort="dtCreated"),
    ),
    empty=(
        "No customers yet",
        (
            "Customers are accounts. You make one here, with meterlake config apply or the API;"
            " files that name a new account can make it, too."
        ),
    ),
    filters=(called_by("name", "code", "purchaseOrderNumber"),),
    create=("New customer", f"{CUSTOMERS}/new", "PostAccount"),
)


async def list_customers(visit: Visit) -> Response:
    """One page of customers."""
    return await show_list(visit, _LISTING)


# --- One customer -------------------------------------------------------------------------------


async def show_customer(visit: Visit) -> Response:
    """One customer: what they are charged by, what they used and owe, what happened."""
    id_ = visit.request.path_params["id"]
    customer = await visit.api.get(f"/accounts/{id_}")
    month = _month(visit)
    things, usage, spend, bills, prices, family, happened, _ = await asyncio.gather(
        _things(visit, id_),
        _usage(visit, id_, month),
        visit.api.find(f"/accounts/{id_}/spend"),
        visit.api.find(
            "/bills", accountId=id_, excludeLineItems=True, includeBillTotal=True, pageSize=12
        ),
        prices_of(visit, id_),
        _family(visit, customer),
        history(visit, id_, _SHOWN),
        visit.people(),
    )
    return visit.page(
        "customers/customer.html",
        customer=customer,
        month=month,
        things=things,
        usage=usage,
        spend=spend,
        bills=rows_of(bills),
        prices=prices,
        **family,
        happened=happened,
    )


def _month(visit: Visit) -> Month:
    name = visit.query("month")
    return Month(visit.today.year, visit.today.month) if name is None else Month.parse(name)


async def _things(visit: Visit, id_: str) -> list[tuple[Any, list[dict[str, Any]], bool]]:
    """The first things of each kind, and whether there are more."""
    kinds = [each for each in THINGS.values() if each.may(visit, "list")]
    found = []
    for kind in kinds:
        query = {kind.owner_filter: id_, **dict(kind.filters)}
        answer = await visit.api.find(kind.path, pageSize=_SHOWN, **query)
        rows = rows_of(answer)
        if rows and kind.key in COMPLETE:
            await COMPLETE[kind.key](visit, rows)
        found.append((kind, rows, bool(answer and answer.get("nextToken"))))
    return found


async def _family(visit: Visit, customer: dict[str, Any]) -> dict[str, Any]:
    parent, id_ = customer.get("parentAccountId"), customer["id"]
    children = await visit.api.find(f"/accounts/{id_}/children", pageSize=_SHOWN)
    return {
        "parent": await visit.api.find(f"/accounts/{parent}") if parent else None,
        "children": rows_of(children),
        "more_children": bool(children and children.get("nextToken")),
    }


async def _usage(visit: Visit, id_: str, month: Month) -> list[tuple[dict[str, Any], Markup]]:
    """What was used in a month, with a chart of its days."""
    found = await visit.api.find(f"/accounts/{id_}/usage", month=month)
    rows = [] if found is None else found["aggregations"][:_CHARTS]
    return [(each, day_chart(visit.request, each, month)) for each in rows]


# --- Plans and prices in force ------------------------------------------------------------------


async def prices_of(visit: Visit, id_: str) -> list[dict[str, Any]]:
    """The prices that hold for a customer today, by plan."""
    attached = await visit.api.every("/accountplans", account=id_)
    plan_ids = [str(each["planId"]) for each in attached if each.get("planId")]
    groups = {each["planGroupId"] for each in attached if each.get("planGroupId")}
    for group in sorted(groups):
        links = await visit.api.every("/plangrouplinks", planGroup=group)
        plan_ids += [str(each["planId"]) for each in links]
    plans = await visit.api.by_id("/plans", plan_ids)
    templates = await visit.api.by_id(
        "/plantemplates", (each["planTemplateId"] for each in plans.values())
    )
    found = await asyncio.gather(
        *(
            _prices_of_plan(visit, each, templates.get(each["planTemplateId"], {}))
            for each in plans.values()
        )
    )
    await _name_aggregations(visit, [price for each in found for price in each["prices"]])
    return sorted(found, key=lambda each: str(each["plan"]["name"]))


async def _prices_of_plan(
    visit: Visit, plan: dict[str, Any], template: dict[str, Any]
) -> dict[str, Any]:
    own, common = await asyncio.gather(
        visit.api.every("/pricings", planId=plan["id"], date=visit.today),
        visit.api.every("/pricings", planTemplateId=plan["planTemplateId"], date=visit.today),
    )
    terms = {
        name: plan.get(name, template.get(name)) for name in ("standingCharge", "minimumSpend")
    }
    replaced = {_priced(each) for each in own}
    in_force = [*own, *(each for each in common if _priced(each) not in replaced)]
    return {"plan": plan, "template": template, "prices": in_force, **terms}


def _priced(price: dict[str, Any]) -> tuple[Any, ...]:
    """What a price of a plan replaces of its template's prices, as bills see it."""
    thing = price.get("aggregationId") or price.get("compoundAggregationId")
    return thing, price.get("type"), tuple(sorted((price.get("segment") or {}).items()))


async def _name_aggregations(visit: Visit, prices: list[dict[str, Any]]) -> None:
    names: dict[str, dict[str, Any]] = {}
    for kind, member in (
        ("aggregations", "aggregationId"),
        ("compoundaggregations", "compoundAggregationId"),
    ):
        names |= await visit.api.by_id(f"/{kind}", (each.get(member) for each in prices))
    for each in prices:
        id_ = str(each.get("aggregationId") or each.get("compoundAggregationId"))
        each["aggregation"] = names.get(id_, {"name": each.get("code") or "A price", "unit": ""})


# --- What happened ------------------------------------------------------------------------------


async def history(visit: Visit, id_: str, most: int) -> list[dict[str, Any]]:
    """What happened to a customer, the newest first: changes by whom, and what became of bills."""
    changes, events = await asyncio.gather(
        visit.api.find(f"/configuration/accounts/{id_}/changes", including=_INCLUDED, limit=most),
        visit.api.find("/events", accountId=id_, includeActioned=True, pageSize=min(100, most)),
    )
    found = [_change(each) for each in rows_of(changes)]
    for each in rows_of(events):
        if each["eventName"].startswith(_OF_BILLS):
            found.append(_event(each))
        elif each["eventName"].startswith(_OF_AMOUNTS):
            found.append(_amount(each))
    return sorted(found, key=lambda each: str(each["at"]), reverse=True)[:most]


def _change(change: dict[str, Any]) -> dict[str, Any]:
    what = {"accounts": "customer", "accountPlans": "plan"}.get(change["kind"], change["kind"])
    return {
        "at": change["at"],
        "by": change["by"],
        "what": f"{what.removesuffix('s')} {change['action']}",
        "name": change["label"],
        "changes": change["changes"] if change["action"] == "updated" else [],
    }


def _event(event: dict[str, Any]) -> dict[str, Any]:
    data = event["m3terEvent"]["eventData"]
    now = data.get("newDto") or data.get("oldDto") or {}
    is_bill = event["eventName"].startswith("billing.bill.")
    return {
        "at": event["eventTime"],
        "by": now.get("lastModifiedBy"),
        "what": event["eventName"].removeprefix("billing.").replace(".", " "),
        "name": now.get("sequentialInvoiceNumber") or now.get("billDate") or "",
        "link": f"{BILLS}/{now['id']}" if is_bill and "id" in now else "",
        "status": now.get("status"),
        "total": now.get("billTotal"),
        "currency": now.get("currency"),
        "changes": [],
    }


def _amount(event: dict[str, Any]) -> dict[str, Any]:
    """What a balance held after something was booked, drawn or expired."""
    now = event["m3terEvent"]["eventData"]["newDto"]
    return {
        "at": event["eventTime"],
        "what": "balance holds",
        "name": now["name"],
        "link": f"{CUSTOMERS}/{now['accountId']}/{BALANCES.key}/{now['balanceId']}",
        "total": now["amount"],
        "currency": now["currency"],
        "changes": [],
    }


async def show_history(visit: Visit) -> Response:
    """All that happened to a customer."""
    id_ = visit.request.path_params["id"]
    customer, happened, _ = await asyncio.gather(
        visit.api.get(f"/accounts/{id_}"), history(visit, id_, 1_000), visit.people()
    )
    return visit.page("customers/history.html", customer=customer, happened=happened)


_CUSTOMER: Final = f"{CUSTOMERS}/{{id}}"
# In this order: a later one would take the addresses of an earlier one for a customer's.
ROUTES: Final = (
    Route(CUSTOMERS, page(list_customers), methods=["GET"], name="ConsoleCustomers"),
    Route(
        f"{_CUSTOMER}/history", page(show_history), methods=["GET"], name="ConsoleCustomerHistory"
    ),
    *customer_links.ROUTES,
    *customer_prices.ROUTES,
    *customer_pages.ROUTES,
    Route(_CUSTOMER, page(show_customer), methods=["GET"], name="ConsoleCustomer"),
    # What customers see of themselves.
    *portal.ROUTES,
)
