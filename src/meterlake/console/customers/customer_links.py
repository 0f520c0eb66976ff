"""Links to a customer's own page: make one, look at it once, list and revoke them."""

from datetime import timedelta
from typing import Any, Final

from starlette.responses import Response

from meterlake.console.customers.customer_forms import CustomerField
from meterlake.console.customers.customer_things import CUSTOMERS
from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.page import Visit, page_routes
from meterlake.model.values.period import format_instant

_PAGE: Final = 50
_DAYS: Final = (("7", "A week"), ("30", "30 days"), ("90", "90 days"), ("365", "A year"))
_FIELDS: Final = (
    CustomerField("name", "Who it is for", required=True, hint="So that you know which to revoke."),
    CustomerField("days", "How long it works", "choice", choices=_DAYS, none=""),
    CustomerField(
        "origins",
        "Pages that may show it in a frame",
        "area",
        "One origin a line, such as https://portal.example.com. Empty: none.",
    ),
)


async def show_links(visit: Visit, made: dict[str, Any] | None = None) -> Response:
    """The links of a customer, and the form of a new one.

    Args:
        visit: Whose page it is.
        made: The link that was just made, whose address is shown this once.
    """
    id_ = visit.request.path_params["id"]
    customer = await visit.api.get(f"/accounts/{id_}")
    answer = await visit.api.get(
        f"/accounts/{id_}/customerlinks", pageSize=_PAGE, nextToken=visit.query("page")
    )
    await visit.people()
    now = format_instant(visit.request.app.state.services.stores.now())
    return visit.page(
        "customers/links.html",
        customer=customer,
        links=[{**each, "status": _status(each, now)} for each in answer["data"]],
        later=answer.get("nextToken"),
        made=made,
        fields=_FIELDS,
        choices={"days": _DAYS},
    )


def _status(link: dict[str, Any], now: str) -> str:
    if link["revoked"]:
        return "REVOKED"
    return "ENDED" if link["dtExpiry"] <= now else "WORKS"


async def change_links(visit: Visit) -> Response:
    """Make a link, or revoke one."""
    id_ = visit.request.path_params["id"]
    place = f"/accounts/{id_}/customerlinks"
    match visit.field("action"):
        case "create":
            made = await visit.api.send("POST", place, _body(visit))
            # Not led on: the address is nowhere but in this answer.
            visit.has_acted = True
            return await show_links(visit, made)
        case "revoke":
            await visit.api.send("POST", f"{place}/{visit.field('link')}/revoke")
            return visit.go(
                f"{CUSTOMERS}/{id_}/links",
                "You revoked the link. It never works again; make a new one if it was a mistake.",
            )
        case "forget":
            await visit.api.send("DELETE", f"{place}/{visit.field('link')}")
            return visit.go(f"{CUSTOMERS}/{id_}/links", "You took the link off the list.")
        case _:
            raise visit.unknown_action("a link")


def _body(visit: Visit) -> dict[str, Any]:
    days = visit.field("days")
    if days not in dict(_DAYS):
        raise ApiRefusalError(400, f"How long it works: {days!r} is none of what is offered")
    ends = visit.request.app.state.services.stores.now() + timedelta(days=int(days))
    return {
        "name": visit.field("name"),
        "dtExpiry": format_instant(ends),
        "allowedOrigins": visit.field("origins").split(),
    }


async def _show(visit: Visit) -> Response:
    return await show_links(visit)


_PATH: Final = f"{CUSTOMERS}/{{id}}/links"
ROUTES: Final = (*page_routes(_PATH, _show, change_links, "ConsoleLinks"),)
