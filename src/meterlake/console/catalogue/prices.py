"""The page on which prices of many plans are raised: chosen, looked at with their effect, applied."""

import asyncio
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.catalogue.proposals import propose
from meterlake.console.shell.addresses import address_of
from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.entity_forms import label_of
from meterlake.console.shell.numbers import needed_number, typed_number
from meterlake.console.shell.page import Visit, page
from meterlake.model.errors import Invalid
from meterlake.model.values.money import exact
from meterlake.model.values.period import Month
from meterlake.model.values.plurals import counted

RAISE: Final = "/console/catalogue/raise-prices"
_NAMES_MAX: Final = 2


async def show_prices(visit: Visit) -> Response:
    """The form, and once it was filled in, old and new prices with what that would do."""
    plans, templates = await asyncio.gather(
        visit.api.every("/plans"), visit.api.every("/plantemplates")
    )
    found, status = None, 200
    try:
        found = await _propose(visit)
    except (Invalid, ApiRefusalError) as error:
        if visit.form or error.status != _WRONG:
            raise
        # The form comes back with what was typed, and says why.
        visit.refusal, status = ApiRefusalError(error.status, str(error)), error.status
    chosen = visit.form.get("plans") or visit.request.query_params.getlist("plans")
    return visit.page(
        "catalogue/raise_prices.html",
        choices=[*_choices(plans, "plan"), *_choices(templates, "template")],
        status=status,
        chosen=chosen,
        shared=_shared(found),
        found=found,
        owns=_owns(visit),
        effect_month=_effect_month(visit) or "",
        next_month=_next_month(visit),
        counted=counted,
    )


async def _propose(visit: Visit) -> Any:
    """Old and new prices with what they would do; None before plans and factors are chosen."""
    asked = _asked(visit)
    if not asked["plans"] or (asked["by"] is None and not asked["factors"]):
        return None
    body = {name: value for name, value in asked.items() if value is not None}
    found = await visit.api.send("POST", "/pricings/scale/propose", body)
    for each in found["changed"]:
        each["address"] = address_of(each["kind"], each["id"])
    return found


def _shared(found: Any) -> list[dict[str, Any]]:
    """Templates whose prices chosen plans have, with what the other plans and their customers are."""
    return [
        {
            **template,
            "others": [each for each in template["plans"] if not each["chosen"]],
            "own": [each for each in template["plans"] if each["chosen"]],
            "customers": sum(each["customers"] for each in template["plans"]),
        }
        for template in (found or {"templates": ()})["templates"]
    ]


def _choices(rows: list[Any], noun: str) -> list[tuple[str, str]]:
    """Codes with what people read; what has no code cannot be named."""
    named = [each for each in rows if each.get("code")]
    return [(each["code"], f"{label_of(each)}, {noun}") for each in sorted(named, key=label_of)]


def _next_month(visit: Visit) -> str:
    """The first day of the next month, from which prices are raised most."""
    today = visit.today
    return f"{today.year + today.month // 12}-{today.month % 12 + 1:02}-01"


def _asked(visit: Visit) -> dict[str, Any]:
    """What the address, or the form, says."""
    several = visit.form.get("plans") or visit.request.query_params.getlist("plans")
    texts = {name: visit.field(name) or visit.query(name) for name in _FIELDS}
    return {
        "plans": list(several),
        "from": texts["from"],
        "by": _factor(texts["by"], visit.decimal) if texts["by"] else None,
        "ownPrices": _owns(visit),
        "factors": [
            *_factors(texts["factors"] or "", visit.decimal),
            *_unit_prices(texts["prices"] or "", visit.decimal),
        ],
        "decimals": typed_number("decimals", texts["decimals"], visit.decimal)
        if texts["decimals"]
        else None,
        "effectMonth": _effect_month(visit),
    }


def _owns(visit: Visit) -> bool:
    return bool(visit.field("own") or visit.query("own"))


def _effect_month(visit: Visit) -> str | None:
    """The month whose bills are compared: last month, unless the person chose another one or none."""
    if "effect" in visit.request.query_params:
        return visit.query("effect") or None
    if not visit.may("ListBills"):
        return None
    return str(Month(visit.today.year, visit.today.month).moved(-1))


def _factor(text: str, decimal: str) -> Decimal:
    """A factor, or by how many percent prices rise or fall: `1.07`, `7 %`, `+7%`, `-3 %`.

    Raises:
        Invalid: It is neither.
    """
    signed = text.strip()
    percent = signed.removesuffix("%").strip()
    # What has a sign and no percent might mean both.
    if signed[:1] in {"+", "-"} and percent == signed:
        rule = f"write a factor such as 1{decimal}07, or percent such as {signed}%"
        raise Invalid("by", text, rule)
    if percent == signed:
        return needed_number("by", signed, decimal)
    with exact():
        return 1 + needed_number("by", percent, decimal).scaleb(-2)


_WRONG: Final = 400
_FIELDS: Final = ("from", "by", "factors", "prices", "decimals")
# Of a line with a factor; a comma without a space may stand before the decimals.
_BETWEEN: Final = (r";", r",\s+", r",")


def _cells(line: str, decimal: str) -> list[str]:
    """The parts of a line: they end where the last one is a number."""
    for between in _BETWEEN:
        cells = [each.strip() for each in re.split(between, line)]
        if len(cells) > 1 and isinstance(typed_number("factors", cells[-1], decimal), Decimal):
            return cells
    return [each.strip() for each in line.split(",")]


def _factors(text: str, decimal: str) -> Iterator[dict[str, Any]]:
    """The lines of a table: `aggregation, factor`, or `plan, aggregation, factor`."""
    for line in text.splitlines():
        *names, factor = _cells(line, decimal)
        if not line.strip():
            continue
        if not 0 < len(names) <= _NAMES_MAX:
            rule = "write an aggregation and a factor, or a plan, an aggregation and a factor"
            raise Invalid("factors", line, rule)
        named = dict(zip(("aggregation", "plan"), reversed(names), strict=False))
        yield {
            **{name: each for name, each in named.items() if each},
            "by": needed_number("factors", factor, decimal),
        }


def _unit_prices(text: str, decimal: str) -> Iterator[dict[str, Any]]:
    """The lines of a table: `plan, aggregation, price`, or `plan, aggregation, above, price`."""
    for line in text.splitlines():
        if not line.strip():
            continue
        # As a spreadsheet copies it, or as people type it.
        cells = [each.strip() for each in line.split("\t")]
        plan, aggregation, *numbers = cells if len(cells) > 1 else [*_cells(line, decimal), "", ""]
        numbers = [each for each in numbers if each]
        if not 0 < len(numbers) <= _NAMES_MAX:
            rule = "write a plan, an aggregation, the lower limit of a band if there are several, and a price"
            raise Invalid("prices", line, rule)
        *above, price = (needed_number("prices", each, decimal) for each in numbers)
        limit = {"lowerLimit": above[0]} if above else {}
        yield {"plan": plan, "aggregation": aggregation, **limit, "unitPrice": price}


async def apply_prices(visit: Visit) -> Response:
    """Change the prices that the person has looked at, or propose that."""
    body = {**_asked(visit), "review": visit.field("review")}
    del body["effectMonth"]
    if visit.field("action") == "propose":
        del body["review"]
        return await propose(visit, {"scale": {k: v for k, v in body.items() if v is not None}})
    kept = {name: value for name, value in body.items() if value is not None}
    done = await visit.api.send("POST", "/pricings/scale/apply", kept)
    said = (
        f"You changed {counted(len(done['changed']), 'price', 'prices')}. Each has its old one in its history;"
        " the same page with the inverse factor changes them back."
    )
    return visit.go("/console/catalogue/pricings", said)


ROUTES: Final = (
    Route(
        RAISE,
        page(show_prices, needs="ProposePriceScale"),
        methods=["GET"],
        name="ConsoleRaisePrices",
    ),
    Route(RAISE, page(apply_prices, show_prices), methods=["POST"], name="ConsoleApplyPrices"),
)
