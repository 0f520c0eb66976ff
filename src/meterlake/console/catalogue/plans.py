"""What the page of a plan shows of its prices: those in force on a day, their bands, their times."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any, Final
from zoneinfo import ZoneInfo

from babel import Locale
from markupsafe import Markup

from meterlake.console.catalogue.price_picture import price_kind, price_picture
from meterlake.console.shell.addresses import address_of
from meterlake.console.shell.entity_forms import label_of
from meterlake.console.shell.page import Visit, locale_of
from meterlake.model.errors import Invalid

# What a plan says and else its template, as wire names with labels.
_TERMS: Final = (
    ("standingCharge", "Standing charge"),
    ("minimumSpend", "Minimum spend"),
)
# What a price is of, by kind: the member with the id, and the path where its name is.
_PRICED: Final = (
    ("pricings", "aggregationId", "aggregations"),
    ("pricings", "compoundAggregationId", "compoundaggregations"),
    ("counterPricings", "counterId", "counters"),
)


@dataclass(slots=True)
class ShownPrice:
    """A price of a plan.

    Attributes:
        price: The pricing as the API has it.
        address: Its page.
        is_own: Whether it is the plan's own, and not its template's.
        is_in_force: Whether it holds on the day.
        picture: Its bands as a drawing.
        kind: How its bands work.
    """

    price: Mapping[str, Any]
    address: str
    is_own: bool
    is_in_force: bool = False
    picture: Markup = Markup("")  # noqa: RUF009 - a text, which nobody changes
    kind: str = ""


@dataclass(slots=True)
class PricedThing:
    """Something that a plan prices, with all its prices by time.

    Attributes:
        label: What people call it, with its segment.
        address: Its page.
        unit: What one unit is called.
        prices: All its prices, the newest first.
    """

    label: str
    address: str
    unit: str
    prices: list[ShownPrice] = field(default_factory=list)

    @property
    def in_force(self) -> ShownPrice | None:
        """The price that holds on the day: the plan's own before that of its template."""
        found = [each for each in self.prices if each.is_in_force]
        return next((each for each in found if each.is_own), found[0] if found else None)


async def priced_values(visit: Visit, entity: Mapping[str, Any]) -> dict[str, Any]:
    """What a page shows of the prices of a plan, or of a plan template.

    Args:
        visit: The request; its address may say on which day prices are in force.
        entity: The plan or the template, as the API has it.
    """
    template_id = entity.get("planTemplateId")
    template = (
        await visit.api.find(f"/plantemplates/{template_id}") if template_id else entity
    ) or {}
    day = _day(visit)
    moment = datetime.combine(day, time.min, ZoneInfo(visit.session.zone)).astimezone(UTC)
    found = await _prices(visit, entity["id"], template_id)
    things = await _things(visit, found)
    locale, currency = locale_of(visit.request), str(template.get("currency", ""))
    for thing in things:
        for each in thing.prices:
            _complete(each, thing, moment, locale, currency)
    return {
        "day": day,
        "currency": currency,
        "plan_template": template,
        "terms": [_term(name, label, entity, template) for name, label in _TERMS],
        "things": things,
        "pricing": {"planId" if template_id else "planTemplateId": entity["id"]},
    }


def _day(visit: Visit) -> date:
    text = visit.query("date")
    if text is None:
        return visit.today
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Invalid("date", text, "it must be a date such as 2026-10-01") from None


def _term(
    name: str, label: str, entity: Mapping[str, Any], template: Mapping[str, Any]
) -> dict[str, Any]:
    """A charge of the plan, and whether its template says it."""
    own = entity.get(name)
    return {
        "label": label,
        "value": template.get(name) if own is None else own,
        "text": entity.get(f"{name}Description") or template.get(f"{name}Description"),
        "is_own": own is not None,
    }


async def _prices(
    visit: Visit, id_: str, template_id: str | None
) -> list[tuple[str, Mapping[str, Any], bool]]:
    """The prices of a plan and of its template: the kind, the pricing, whether it is the plan's."""
    member = "planId" if template_id else "planTemplateId"
    asked = [(kind, member, id_, True) for kind in ("pricings", "counterPricings")]
    if template_id:
        asked += [(kind, "planTemplateId", template_id, False) for kind, *_ in asked]
    answers = await asyncio.gather(
        *(visit.api.every(f"/{kind.lower()}", **{name: id_}) for kind, name, id_, _ in asked)
    )
    return [
        (kind, each, is_own)
        for (kind, *_, is_own), rows in zip(asked, answers, strict=True)
        for each in rows
    ]


async def _things(
    visit: Visit, found: Iterable[tuple[str, Mapping[str, Any], bool]]
) -> list[PricedThing]:
    """What is priced, by name, with its prices."""
    rows = list(found)
    entities = await _named(visit, rows)
    things: dict[tuple[Any, ...], PricedThing] = {}
    for kind, each, is_own in rows:
        member, path = _member_of(kind, each)
        entity = entities.get(each[member], {"id": each[member]})
        segment = each.get("segment") or {}
        key = (each[member], tuple(sorted(segment.items())), each.get("type"))
        if key not in things:
            said = ", ".join(f"{name} {value}" for name, value in sorted(segment.items()))
            label = f"{label_of(entity)}{f' ({said})' if said else ''}"
            unit = str(entity.get("unit", ""))
            things[key] = PricedThing(label, address_of(path, each[member]), unit)
        shown = ShownPrice(each, address_of(kind, each["id"]), is_own)
        things[key].prices.append(shown)
    for thing in things.values():
        thing.prices.sort(key=lambda each: str(each.price["startDate"]), reverse=True)
    return sorted(things.values(), key=lambda each: each.label.lower())


def _member_of(kind: str, price: Mapping[str, Any]) -> tuple[str, str]:
    """The member with the id of what is priced, and the kind of that."""
    names = {
        "aggregationId": "aggregations",
        "compoundAggregationId": "compoundAggregations",
        "counterId": "counters",
    }
    return next(
        (member, names[member]) for of, member, _ in _PRICED if of == kind and price.get(member)
    )


async def _named(
    visit: Visit, rows: Iterable[tuple[str, Mapping[str, Any], bool]]
) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for _, member, path in _PRICED:
        found |= await visit.api.by_id(f"/{path}", (each.get(member) for _, each, _ in rows))
    return found


def _complete(
    shown: ShownPrice, thing: PricedThing, moment: datetime, locale: Locale, currency: str
) -> None:
    price = shown.price
    end = price.get("endDate")
    shown.is_in_force = datetime.fromisoformat(price["startDate"]) <= moment and (
        end is None or moment < datetime.fromisoformat(end)
    )
    shown.kind = price_kind(price)
    title = f"{thing.label}: what a quantity costs"
    shown.picture = price_picture(title, price, locale, currency, thing.unit)
