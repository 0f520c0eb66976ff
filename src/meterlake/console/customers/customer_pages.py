"""Pages that change a customer, and what a customer has: lists, forms, and what is done to one thing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.bills.bills import search_of_ids
from meterlake.console.customers.customer_forms import (
    CUSTOM,
    CustomerField,
    body_of,
    load_choices,
    name_of,
)
from meterlake.console.customers.customer_things import (
    ACCOUNT_FIELDS,
    BALANCES,
    COMPLETE,
    CUSTOMERS,
    PLANS,
    THINGS,
    Thing,
)
from meterlake.console.shell.api import ApiRefusalError, rows_of
from meterlake.console.shell.lists import NAMED, Column, Listing, show_list, start_of_day
from meterlake.console.shell.page import Visit, day, locale_of, page, page_routes
from meterlake.model.errors import Invalid
from meterlake.model.values.period import Month, local_date
from meterlake.model.values.plurals import counted

_BEFORE: Final = "To take it back, type what stands under “What happened” of the customer."
# What a plan in force can become, and what is booked on a balance.
_ENDING: Final = (CustomerField("endDate", "Last day", "last", required=True),)
_REPLACING: Final = (
    CustomerField("planId", "New plan", "choice", choices="/plans", none="A group of plans"),
    CustomerField(
        "planGroupId", "Or a group of plans", "choice", choices="/plangroups", none="One plan"
    ),
    CustomerField("startDate", "Its first day", "start", required=True),
)
_BOOKING: Final = (
    CustomerField("amount", "Amount", "amount", "Below zero it takes away.", required=True),
    CustomerField("description", "Description", hint="A reference of the payment, for instance."),
    CustomerField("transactionTypeId", "Type", "choice", choices="/picklists/transactiontypes"),
    CustomerField(
        "transactionDate", "Day of the payment", "start", "For your records; no bill depends on it."
    ),
    CustomerField(
        "paid",
        "Paid for it",
        "amount",
        "For your records, if the customer paid another amount than the one that counts above.",
    ),
    CustomerField(
        "currencyPaid",
        "Currency of the payment",
        "choice",
        "Of what was paid for it. The amount above is in the currency of the balance.",
        choices="/picklists/currency",
        none="That of the balance",
    ),
    CustomerField(
        "appliedDate",
        "Counts from",
        "start",
        "Empty: from the balance's first day, so that it also pays for bills that exist already,"
        " unless they are locked. A day: it pays only for bills dated after it.",
    ),
)
# What ends together when a customer leaves.
_LEAVING: Final = (
    CustomerField("endDate", "Last day", "last", required=True),
    CustomerField("ACCOUNTPLAN", "Plans", "tick"),
    CustomerField("CONTRACT", "Contracts", "tick"),
    CustomerField("PREPAYMENT", "Commitments", "tick"),
    CustomerField("PRICINGS", "Prices made for this customer", "tick"),
    CustomerField("COUNTER_PRICINGS", "Prices of counters made for this customer", "tick"),
    CustomerField("applyToChildren", "Of child customers, too", "tick"),
)
_CHILD: Final = (
    CustomerField(
        "child", "Customer", "account", "The code or the name of the customer.", required=True
    ),
)


# --- The customer itself ------------------------------------------------------------------------


async def _account_fields(visit: Visit) -> tuple[CustomerField, ...]:
    """The fields of a customer, with the custom fields that the organization has."""
    found = await visit.api.find("/customfields")
    of_accounts: Mapping[str, Any] = (found or {}).get("account") or {}
    return (
        *ACCOUNT_FIELDS,
        *(
            CustomerField(
                f"{CUSTOM}.{name}", name, "text" if isinstance(default, str) else "amount"
            )
            for name, default in sorted(of_accounts.items())
        ),
    )


async def new_customer(visit: Visit) -> Response:
    """The form of a new customer."""
    fields = await _account_fields(visit)
    return visit.page(
        "customers/form.html",
        title="New customer",
        back=CUSTOMERS,
        fields=fields,
        choices=await load_choices(visit, fields),
        document={"parentAccountId": visit.query("parent")},
        label="Make the customer",
        explained=(
            "Usage with this code counts for the customer from now on. You can edit all of it later,"
            " and delete the customer while nothing refers to it."
        ),
    )


async def make_customer(visit: Visit) -> Response:
    """Make a customer of the form."""
    body = await body_of(visit, await _account_fields(visit))
    made = await visit.api.send("POST", "/accounts", body)
    return visit.go(
        f"{CUSTOMERS}/{made['id']}",
        f"You made {made['name']}. Put the customer on a plan next; without one, usage is on no bill.",
    )


async def edit_customer(visit: Visit) -> Response:
    """The form of a customer."""
    customer, fields = await _customer(visit), await _account_fields(visit)
    parent = customer.get("parentAccountId")
    found = await visit.api.find(f"/accounts/{parent}") if parent else None
    return visit.page(
        "customers/form.html",
        title=f"Edit {customer['name']}",
        back=f"{CUSTOMERS}/{customer['id']}",
        fields=fields,
        choices=await load_choices(visit, fields, customer["id"]),
        document={**customer, "parentAccountId": found and found["code"]},
        label="Save",
        explained=(
            "Bills that are calculated from now on have it. What was there before stands under"
            " “What happened”, so that you can put it back."
        ),
        leaving=_LEAVING if visit.may("EndDateBillingEntitiesForAccount") else (),
        deletes=visit.may("DeleteAccount"),
        deleting="Nobody can undo it. It works while no plan, bill or anything else refers to it.",
    )


async def change_customer(visit: Visit) -> Response:
    """Save or delete a customer, or end what the customer has."""
    customer = await _customer(visit)
    place = f"/accounts/{customer['id']}"
    if visit.field("action") == "delete":
        await visit.api.send("DELETE", place)
        return visit.go(CUSTOMERS, f"You deleted {customer['name']}.")
    if visit.field("action") == "leave":
        return await _end_all(visit, customer["id"])
    body = await body_of(visit, await _account_fields(visit), customer)
    await visit.api.send("PUT", place, body)
    return visit.go(f"{CUSTOMERS}/{customer['id']}", f"You saved the customer. {_BEFORE}")


async def _end_all(visit: Visit, id_: str) -> Response:
    """End what a customer has of the ticked kinds, with one day."""
    body = await body_of(visit, _LEAVING)
    shared = ("endDate", "applyToChildren")
    asked: dict[str, Any] = {name: body[name] for name in shared if name in body}
    kinds = [name for name, ticked in body.items() if ticked is True and name not in shared]
    asked["billingEntities"] = kinds
    done = await visit.api.send("PUT", f"/accounts/{id_}/enddatebillingentities", asked)
    return visit.go(
        f"{CUSTOMERS}/{id_}",
        f"{done['statusMessage']}. To take it back, empty or move the last day of each.",
    )


async def _customer(visit: Visit) -> dict[str, Any]:
    found: dict[str, Any] = await visit.api.get(f"/accounts/{visit.request.path_params['id']}")
    return found


# --- Children -----------------------------------------------------------------------------------

_CHILDREN: Final = Listing(
    "Child customers",
    "/accounts/{id}/children",
    (
        Column("Name", "name", link=f"{CUSTOMERS}/{{id}}", sort="name"),
        Column("Code", "code", "code", sort="code"),
        Column("E-mail", "emailAddress", sort="emailAddress"),
    ),
    empty=("No child customers", "You attach one on the customer's page."),
    filters=(NAMED,),
)


async def list_children(visit: Visit) -> Response:
    """The children of a customer."""
    customer = await _customer(visit)
    links = ((customer["name"], f"{CUSTOMERS}/{customer['id']}"),)
    return await show_list(visit, replace(_CHILDREN, links=links))


async def attach_child(visit: Visit) -> Response:
    """The form that makes another customer a child of this one."""
    customer = await _customer(visit)
    return visit.page(
        "customers/form.html",
        title=f"A child of {customer['name']}",
        back=f"{CUSTOMERS}/{customer['id']}",
        fields=_CHILD,
        choices={},
        document={},
        label="Attach",
        explained=(
            "Plans of the child say who pays for its usage. You take it back by emptying the parent in"
            " the child's form."
        ),
    )


async def make_child(visit: Visit) -> Response:
    """Make another customer a child of this one."""
    customer = await _customer(visit)
    chosen = (await body_of(visit, _CHILD)).get("child")
    if chosen is None:
        raise ApiRefusalError(
            400, "Customer: type the code or the name of the customer that becomes a child"
        )
    child = await visit.api.get(f"/accounts/{chosen}")
    left_out = ("id", "createdBy", "dtCreated", "lastModifiedBy", "dtLastModified")
    body = {name: value for name, value in child.items() if name not in left_out}
    await visit.api.send("PUT", f"/accounts/{chosen}", {**body, "parentAccountId": customer["id"]})
    return visit.go(
        f"{CUSTOMERS}/{customer['id']}",
        f"{child['name']} is a child now. Empty the parent in its form to take that back.",
    )


# --- What a customer has ------------------------------------------------------------------------


def _thing(visit: Visit) -> Thing:
    kind = visit.request.path_params["kind"]
    if kind not in THINGS:
        raise ApiRefusalError(404, f"there is no page {kind!r} of a customer; go back")
    return THINGS[kind]


async def list_things(visit: Visit) -> Response:
    """The things of one kind that a customer has."""
    thing, customer = _thing(visit), await _customer(visit)
    place = thing.place(customer["id"])
    first, *rest = thing.columns
    listing = Listing(
        f"{thing.title} of {customer['name']}",
        thing.path,
        (replace(first, link=f"{place}/{{id}}"), *rest),
        empty=(f"No {thing.title.lower()}", thing.about),
        intro=thing.about,
        filters=thing.narrowed,
        fixed=((thing.owner_filter, customer["id"]), *thing.filters),
        create=(f"New {thing.one}", f"{place}/new", thing.operations[1]),
        complete=COMPLETE.get(thing.key),
        links=((customer["name"], f"{CUSTOMERS}/{customer['id']}"),),
    )
    return await show_list(visit, listing)


async def new_thing(visit: Visit) -> Response:
    """The form of a new thing."""
    thing, customer = _thing(visit), await _customer(visit)
    visit.require(thing.operations[1])
    currency = await _billed_in(visit, customer)
    return visit.page(
        "customers/form.html",
        title=f"New {thing.one} of {customer['name']}",
        back=f"{CUSTOMERS}/{customer['id']}",
        fields=thing.fields,
        choices=await load_choices(visit, thing.fields, customer["id"]),
        document={"startDate": None, "currency": currency},
        label=f"Make the {thing.one}",
        explained=f"{thing.makes} {thing.undo}",
    )


async def _billed_in(visit: Visit, customer: Mapping[str, Any]) -> str | None:
    """The currency of a customer: its own, else that of its newest bill, else the organization's."""
    if found := customer.get("currency"):
        return str(found)
    bills = await visit.api.find("/bills", accountId=customer["id"], pageSize=1)
    for each in rows_of(bills):
        return str(each["currency"])
    return (await visit.api.find("/organizationconfig") or {}).get("currency")


async def make_thing(visit: Visit) -> Response:
    """Make a thing of the form."""
    thing, customer = _thing(visit), await _customer(visit)
    body = await body_of(visit, thing.fields)
    owned = {thing.owner: customer["id"], **(thing.fixed or {})}
    made = await visit.api.send("POST", thing.path, {**body, **owned})
    return visit.go(
        f"{thing.place(customer['id'])}/{made['id']}",
        f"You made the {thing.one}. To take it back: {thing.undo}",
    )


async def show_thing(visit: Visit) -> Response:
    """One thing, with its form and what can be done to it."""
    thing, customer = _thing(visit), await _customer(visit)
    found = await _found(visit, thing)
    rows = [dict(found)]
    if thing.key in COMPLETE:
        await COMPLETE[thing.key](visit, rows)
    await visit.people()
    extra: dict[str, Any] = {}
    if thing is BALANCES:
        extra = await _booked(visit, found)
    elif thing is PLANS:
        extra = {
            "ending": _ENDING if thing.may(visit, "update") and not found.get("endDate") else (),
            "replacing": _REPLACING if visit.may("ReplaceAccountPlan") else (),
        }
    fields = (*thing.fields, *extra.get("replacing", ()), *extra.get("booking", ()))
    start = visit.query("start") if thing is PLANS else None
    return visit.page(
        "customers/thing.html",
        customer=customer,
        thing=thing,
        found=found,
        start=start,
        filled={**found, "startDate": start_of_day(visit, start)} if start else found,
        row=rows[0],
        name=rows[0].get("name") or name_of(found),
        choices=await load_choices(visit, fields, customer["id"]),
        **{
            "ending": (),
            "replacing": (),
            "booking": (),
            "booked": None,
            "waiting": (),
            "drawn_by": {},
            **extra,
        },
    )


async def begin_earlier(visit: Visit) -> Response:
    """Lead on to the plan that begins within a month, with the month's first day filled in."""
    id_, month = visit.request.path_params["id"], Month.parse(visit.query("month") or "")
    plans = await visit.api.every(PLANS.path, account=id_, includeall=True)
    zone = ZoneInfo(visit.session.zone)
    begun = [
        (local_date(datetime.fromisoformat(each["startDate"]), zone), each["id"]) for each in plans
    ]
    first = min((each for each in begun if month.first < each[0] < month.after), default=None)
    if first is None:
        return visit.go(PLANS.place(id_), f"No plan of the customer begins within {month}.")
    return visit.go(f"{PLANS.place(id_)}/{first[1]}?start={month.first}#edit")


async def _booked(visit: Visit, balance: Mapping[str, Any]) -> dict[str, Any]:
    answer = await visit.api.find(
        f"/balances/{balance['id']}/transactions",
        includeReversed=True,
        pageSize=50,
        nextToken=visit.query("page"),
    )
    booked = rows_of(answer)
    bills = [str(each["entityId"]) for each in booked if each["entityType"] == "BILL"]
    return {
        "booking": _BOOKING if visit.may("PostBalanceTransaction") else (),
        "booked": booked,
        "drawn_by": await _bills_by_id(visit, bills),
        "waiting": await _waiting_bills(visit, balance),
        "later": answer and answer.get("nextToken"),
    }


async def _bills_by_id(visit: Visit, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Bills that draw from a balance, by their ids; those that are deleted are not among them."""
    if not ids:
        return {}
    search = search_of_ids(sorted(set(ids)))
    answer = await visit.api.find(
        "/bills/search", searchQuery=search, excludeLineItems=True, pageSize=100
    )
    return {each["id"]: each for each in rows_of(answer)}


async def _found(visit: Visit, thing: Thing) -> dict[str, Any]:
    """The thing of the address, if it is this customer's."""
    path = visit.request.path_params
    found: dict[str, Any] = await visit.api.get(f"{thing.path}/{path['item']}")
    if found.get(thing.owner) != path["id"].lower():
        raise ApiRefusalError(404, f"the customer has no such {thing.one}; look at its list")
    return found


async def change_thing(visit: Visit) -> Response:
    """Do what was asked of one thing: save, delete, end, replace, book."""
    thing = _thing(visit)
    found = await _found(visit, thing)
    action = visit.field("action")
    target = f"{thing.place(found[thing.owner])}/{found['id']}"
    place = f"{thing.path}/{found['id']}"
    match action:
        case "save":
            body = await body_of(visit, thing.fields, found, thing.computed)
            await visit.api.send("PUT", place, body)
            return visit.go(target, f"You saved the {thing.one}. {_BEFORE}")
        case "delete":
            await visit.api.send("DELETE", place)
            return visit.go(f"{CUSTOMERS}/{found[thing.owner]}", f"You deleted the {thing.one}.")
        case "end" if thing is PLANS:
            body = await body_of(visit, _ENDING, found, thing.computed)
            await visit.api.send("PUT", place, body)
            return visit.go(target, "The plan ends then. Empty its last day to take that back.")
        case "replace" if thing is PLANS:
            return await _replace(visit, found)
        case "book" if thing is BALANCES:
            body = await body_of(visit, _BOOKING)
            if body.get("amount") == 0:
                raise Invalid("amount", visit.field("amount"), "it must not be zero")
            booked = await visit.api.send("POST", f"{place}/transactions", body)
            waiting = await _waiting_bills(visit, found)
            return visit.go(target, _said_of_booking(visit, found, body, booked, len(waiting)))
        case _:
            raise visit.unknown_action(f"a {thing.one}")


async def _waiting_bills(visit: Visit, balance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The newest bills of the customer that would draw something else if they were calculated."""
    answer = await visit.api.find(
        "/bills",
        accountId=balance["accountId"],
        excludeLineItems=True,
        includeBillTotal=True,
        pageSize=100,
    )
    return [each for each in rows_of(answer) if each.get("recalculationDue")]


def _said_of_booking(
    visit: Visit,
    balance: Mapping[str, Any],
    body: Mapping[str, Any],
    booked: Mapping[str, Any],
    waiting: int,
) -> str:
    """What was booked, and what one should know of it: it came too late, or bills wait for it."""
    said = ["You booked it. Book the opposite amount to take it back."]
    ends = balance.get("rolloverEndDate") or balance["endDate"]
    applied, end = (datetime.fromisoformat(str(each)) for each in (booked["appliedDate"], ends))
    if body.get("appliedDate") and applied >= end:
        zone, locale = ZoneInfo(visit.session.zone), locale_of(visit.request)
        first, last = (
            day(local_date(each, zone), locale).striptags()
            for each in (applied, end - timedelta.resolution)
        )
        said.append(
            f"It counts from {first}, after the last day of the balance, {last}: only bills that"
            " are dated later and charge for time before can draw it. If you mean bills that exist"
            " already, take it back and leave “Counts from” empty."
        )
    if waiting:
        said.append(
            f"{counted(waiting, 'bill')} {'waits' if waiting == 1 else 'wait'} to be calculated"
            " again: see below."
        )
    return " ".join(said)


async def _replace(visit: Visit, found: Mapping[str, Any]) -> Response:
    """End a plan where another one begins."""
    body = await body_of(visit, _REPLACING)
    kept = ("accountId", "childBillingMode", "contractId", "billEpoch", "endDate")
    before = {name: found[name] for name in kept if found.get(name) is not None}
    answer = await visit.api.send("POST", f"{PLANS.path}/{found['id']}/replace", {**before, **body})
    made = answer["newAccountPlan"]
    return visit.go(
        f"{PLANS.place(found['accountId'])}/{made['id']}",
        "The new plan begins where the other one ends. To take it back, delete this one and empty"
        " the last day of the other.",
    )


_CUSTOMER: Final = f"{CUSTOMERS}/{{id}}"
ROUTES: Final = (
    *page_routes(
        f"{CUSTOMERS}/new", new_customer, make_customer, "ConsoleCustomerNew", "PostAccount"
    ),
    *page_routes(
        f"{_CUSTOMER}/edit", edit_customer, change_customer, "ConsoleCustomerEdit", "PutAccount"
    ),
    *page_routes(f"{_CUSTOMER}/children", list_children, None, "ConsoleChildren"),
    *page_routes(
        f"{_CUSTOMER}/children/attach", attach_child, make_child, "ConsoleChildAttach", "PutAccount"
    ),
    Route(
        f"{_CUSTOMER}/plans/earlier",
        page(begin_earlier),
        methods=["GET"],
        name="ConsoleBeginEarlier",
    ),
    *page_routes(f"{_CUSTOMER}/{{kind}}", list_things, None, "ConsoleThings"),
    *page_routes(f"{_CUSTOMER}/{{kind}}/new", new_thing, make_thing, "ConsoleThingNew"),
    *page_routes(f"{_CUSTOMER}/{{kind}}/{{item}}", show_thing, change_thing, "ConsoleThing"),
)
