"""One price changed over HTTP: what new bands would do to bills first, and then from a day on."""

from typing import Any, Final

from meterlake.api.billing.bills import permit_all
from meterlake.api.server.call import ORGANIZATION, Call, Operation, member
from meterlake.api.server.visible import RETRIEVE
from meterlake.model.catalog.pricing import Pricing
from meterlake.model.errors import Forbidden
from meterlake.pipeline.billing.what_if.price_change import preview_price_change, replace_pricing

_PRICING: Final = "pricing"
_ONE: Final = f"{ORGANIZATION}/pricings/{{id}}"


async def _preview(call: Call) -> Any:
    _require(call, RETRIEVE, "bill")
    # It shows what bills come to, whichever these are.
    permit_all(call, RETRIEVE)
    id_, document = member(call, Pricing.__name__), await call.document()
    return await call.run(preview_price_change, call.organization, id_, document)


async def _replace(call: Call) -> Any:
    _require(call, "config:create", _PRICING)
    id_, document = member(call, Pricing.__name__), await call.document()
    found = await call.run(replace_pricing, call.organization, call.author, id_, document)
    return {name: value for name, value in found.items() if value is not None}


def _require(call: Call, action: str, resource: str) -> None:
    if not call.permissions.allows(action, resource):
        raise Forbidden(f"no permission for {action} on {resource}; ask an administrator for it")


OPERATIONS: Final = (
    Operation("PreviewPriceChange", "POST", f"{_ONE}/preview", RETRIEVE, _PRICING, _preview),
    Operation("ReplacePricing", "POST", f"{_ONE}/replace", "config:update", _PRICING, _replace),
)
