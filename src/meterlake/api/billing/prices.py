"""Prices changed over HTTP, one or those of many plans: what that does to bills first, then the change."""

from typing import Any, Final

from meterlake.api.billing.bills import RESOURCE as BILL
from meterlake.api.billing.bills import permit_all
from meterlake.api.responses.prices import PriceScaleApplyRequest, PriceScaleProposeRequest
from meterlake.api.server.call import ORGANIZATION, Call, Operation, member
from meterlake.api.server.readable_fields import RETRIEVE, permit, permit_each
from meterlake.model.catalog.plans import Pricing
from meterlake.model.resources import BY_NAME, resource_of
from meterlake.model.values.period import Month
from meterlake.model.values.problems import read
from meterlake.pipeline.billing.what_if.price_change import (
    preview_price_change,
    price_effect,
    replace_pricing,
)
from meterlake.pipeline.config.lone_price_changes import must_propose, must_propose_price
from meterlake.pipeline.config.scale_prices import apply_prices, propose_prices
from meterlake.stages.config.scale_prices import ScaledPrice, ScaledPrices, UnchangedPrice

_SCALE: Final = f"{ORGANIZATION}/pricings/scale"
_PRICING: Final = "pricing"
_ONE: Final = f"{ORGANIZATION}/pricings/{{id}}"


async def propose(call: Call) -> Any:
    """What prices would be, and what that would do to the bills of a month."""
    asked = read(PriceScaleProposeRequest, await call.document())
    scale, month = asked.scale, asked.effect_month
    found = await call.run(propose_prices, call.organization, scale)
    await _permit(call, found, RETRIEVE)
    changed = [each.written for each in found.changed]
    alone = await call.run(must_propose, call.organization, call.author, changed)
    answer = {**found.to_wire(), "mustPropose": alone}
    if not call.permissions.unrestricted(RETRIEVE, "plan"):
        # Who has which plan is for those who may see plans.
        answer |= {"templates": [], "charges": []}
    if month is not None:
        # Who sees what all bills come to has the right to see them.
        permit(call, RETRIEVE, BILL)
        permit_all(call, RETRIEVE)
        answer["effect"] = await call.run(
            price_effect, call.organization, scale, Month.parse(month)
        )
    return answer


async def apply(call: Call) -> Any:
    """Change the prices as they were looked at: all, or none."""
    asked = read(PriceScaleApplyRequest, await call.document())
    found = await call.run(propose_prices, call.organization, asked.scale)
    await _permit(call, found, "config:update")
    permit(call, "config:create", _PRICING)
    done = await call.run(apply_prices, call.organization, call.author, asked.scale, asked.review)
    return {**done.to_wire(), "templates": [], "charges": []}


async def _permit(call: Call, found: ScaledPrices, action: str) -> None:
    """Who changes prices together may change each of them."""
    by_kind: dict[str, list[str]] = {}
    prices: list[ScaledPrice | UnchangedPrice] = [*found.changed, *found.unchanged]
    for each in prices:
        # The template's price stays as it is where a plan gets its own.
        if isinstance(each, ScaledPrice) and each.own_of and action != RETRIEVE:
            continue
        by_kind.setdefault(resource_of(each.record.entity).name, []).append(each.record.id)
    for kind, ids in by_kind.items():
        await permit_each(call, BY_NAME[kind].permission, ids, action)


async def _preview(call: Call) -> Any:
    permit(call, RETRIEVE, "bill")
    # It shows what bills come to, whichever these are.
    permit_all(call, RETRIEVE)
    id_, document = member(call, Pricing.__name__), await call.document()
    found = await call.run(preview_price_change, call.organization, id_, document)
    alone = await call.run(must_propose_price, call.organization, call.author, id_)
    return {**found, "mustPropose": alone}


async def _replace(call: Call) -> Any:
    permit(call, "config:create", _PRICING)
    id_, document = member(call, Pricing.__name__), await call.document()
    found = await call.run(replace_pricing, call.organization, call.author, id_, document)
    return {name: value for name, value in found.items() if value is not None}


OPERATIONS: Final = (
    Operation("ProposePriceScale", "POST", f"{_SCALE}/propose", RETRIEVE, _PRICING, propose),
    Operation("ApplyPriceScale", "POST", f"{_SCALE}/apply", "config:update", _PRICING, apply),
    Operation("PreviewPriceChange", "POST", f"{_ONE}/preview", RETRIEVE, _PRICING, _preview),
    Operation("ReplacePricing", "POST", f"{_ONE}/replace", "config:update", _PRICING, _replace),
)
