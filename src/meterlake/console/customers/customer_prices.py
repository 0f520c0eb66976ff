"""Another price, of a customer or of all: what it would do to two months' bills, then from a day on."""

import asyncio
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from meterlake.console.catalogue.proposals import propose
from meterlake.console.customers.customer_things import CUSTOMERS
from meterlake.console.shell.numbers import typed_number
from meterlake.console.shell.page import Visit, page_routes
from meterlake.model.values.period import Month, format_instant, midnight

_PRICINGS: Final = "/console/catalogue/pricings"
# Empty rows of the form, for bands more than the price has.
_MORE_BANDS: Final = 2
_BANDS_MAX: Final = 100
_BAND: Final = ("lowerLimit", "unitPrice", "fixedPrice")


async def show_price(visit: Visit, effect: Mapping[str, Any] | None = None) -> Response:
    """One price, the form for another one, and what that would do to a customer, or to all.

    Args:
        visit: Whose page it is.
        effect: What the bills would come to with what was typed.
    """
    path = visit.request.path_params
    price = await visit.api.get(f"/pricings/{path['price']}")
    customer = await visit.api.get(f"/accounts/{path['id']}") if "id" in path else None
    named, others, currency = await asyncio.gather(
        _priced(visit, price), _others(visit, price, path.get("id", "")), _currency(visit, price)
    )
    return visit.page(
        "customers/price.html",
        customer=customer,
        place=_place(visit),
        price=price,
        named=named,
        others=others,
        currency=currency,
        rows=_rows(visit, price),
        start=visit.field("start") or str(_next_month(visit).first),
        effect=effect,
        typed=_typed(visit),
        bands=[] if effect is None else _bands(visit),
    )


def _place(visit: Visit) -> str:
    """The page that the price was opened from."""
    path = visit.request.path_params
    return f"{CUSTOMERS}/{path['id']}" if "id" in path else f"{_PRICINGS}/{path['price']}"


def _rows(visit: Visit, price: Mapping[str, Any]) -> list[dict[str, str]]:
    """The bands of the form: what was typed, or what holds, and some empty ones."""
    typed = _typed(visit)
    held = typed or [
        {name: visit.written(Decimal(band.get(name, 0))) for name in _BAND}
        for band in price["pricingBands"]
    ]
    return [*held, *(dict.fromkeys(_BAND, "") for _ in range(_MORE_BANDS))]


def _typed(visit: Visit) -> list[dict[str, str]]:
    """The bands that were typed; rows without a price are left out."""
    columns = [visit.form.get(name, [])[:_BANDS_MAX] for name in _BAND]
    rows = (dict(zip(_BAND, row, strict=True)) for row in zip(*columns, strict=False))
    return [row for row in rows if any(value.strip() for value in row.values())]


def _next_month(visit: Visit) -> Month:
    return Month(visit.today.year, visit.today.month).moved(1)


async def _priced(visit: Visit, price: Mapping[str, Any]) -> dict[str, Any]:
    """What a price prices."""
    id_, compound = price.get("aggregationId"), price.get("compoundAggregationId")
    place = f"/aggregations/{id_}" if id_ else f"/compoundaggregations/{compound}"
    return await visit.api.find(place) or {"name": price.get("code") or "A price"}


async def _others(visit: Visit, price: Mapping[str, Any], customer: str) -> int | None:
    """How many other customers have the price's plan now; None if it is a template's."""
    if not price.get("planId"):
        return None
    rows = await visit.api.every("/accountplans", plan=price["planId"])
    return len({each["accountId"] for each in rows} - {customer})


async def _currency(visit: Visit, price: Mapping[str, Any]) -> str:
    template = price.get("planTemplateId")
    if not template:
        plan = await visit.api.find(f"/plans/{price['planId']}") or {}
        template = plan.get("planTemplateId")
    found = await visit.api.find(f"/plantemplates/{template}") if template else None
    return str((found or {}).get("currency", ""))


async def change_price(visit: Visit) -> Response:
    """Calculate what another price would do, or save or propose it as it was looked at."""
    path = visit.request.path_params
    match visit.field("action"):
        case "try":
            this = Month(visit.today.year, visit.today.month)
            asked = {
                "pricingBands": _bands(visit),
                "accountIds": [path["id"]] if "id" in path else [],
                "firstMonth": str(this.moved(-1)),
                "lastMonth": str(this),
            }
            effect = await visit.api.send("POST", f"/pricings/{path['price']}/preview", asked)
            return await show_price(visit, effect)
        case "save":
            change = {
                "version": visit.version,
                "startDate": _start(visit),
                "pricingBands": _bands(visit),
            }
            await visit.api.send("POST", f"/pricings/{path['price']}/replace", change)
            return visit.go(
                _place(visit),
                "You saved the price. To take it back, delete the new one in the catalogue, and empty"
                " the end of the one before.",
            )
        case "propose":
            change = {
                "pricingId": path["price"],
                "startDate": _start(visit),
                "pricingBands": _bands(visit),
            }
            return await propose(visit, {"price": change})
        case _:
            raise visit.unknown_action("a price")


def _bands(visit: Visit) -> list[dict[str, Any]]:
    return [
        {name: typed_number(name, row[name].strip() or "0", visit.decimal) for name in _BAND}
        for row in _typed(visit)
    ]


def _start(visit: Visit) -> str:
    """The instant at which the day begins in the organization's zone."""
    try:
        day = date.fromisoformat(visit.field("start"))
    except ValueError:
        return visit.field("start")
    return format_instant(midnight(day, ZoneInfo(visit.session.zone)))


async def _show(visit: Visit) -> Response:
    return await show_price(visit)


_PATH: Final = f"{CUSTOMERS}/{{id}}/prices/{{price}}"
ROUTES: Final = (
    *page_routes(_PATH, _show, change_price, "ConsolePrice"),
    *page_routes(f"{_PRICINGS}/{{price}}/another", _show, change_price, "ConsoleAnotherPrice"),
)
