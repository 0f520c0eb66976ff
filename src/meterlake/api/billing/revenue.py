"""Revenue over HTTP: what was billed, in groups."""

from typing import Any, Final

from meterlake.api.billing.bills import RESOURCE, permit_all
from meterlake.api.entities import page
from meterlake.api.server.call import ORGANIZATION, Call, Operation
from meterlake.api.server.readable_fields import RETRIEVE, permit_sum
from meterlake.model.errors import Invalid
from meterlake.pipeline.billing import revenue
from meterlake.pipeline.billing.margins import margins
from meterlake.pipeline.billing.revenue import RevenueGroup, RevenueRequest

PAGE_MAX: Final = 1000
_GROUPS: Final = {each.value: each for each in RevenueGroup}
_MARGIN_GROUPS: Final = {each.value: each for each in (RevenueGroup.PRODUCT, RevenueGroup.CUSTOMER)}


async def get_revenue(call: Call) -> Any:
    """Sums say what each bill says: who asks may read all of them."""
    permit_all(call, RETRIEVE)
    query = call.query
    groups = query.texts("groups")
    for each in groups:
        if each not in _GROUPS:
            raise Invalid("groups", each, f"it must be one of {', '.join(_GROUPS)}")
    request = RevenueRequest(
        groups=[_GROUPS[each] for each in groups] or (RevenueGroup.MONTH,),
        first=query.text("startMonth"),
        last=query.text("endMonth"),
        currency=query.text("currency"),
        reporting=query.text("reportingCurrency"),
        account_ids=[each.lower() for each in query.texts("accountIds")],
    )
    return await call.run(revenue.revenue, call.organization, request, page(call, PAGE_MAX))


async def get_margins(call: Call) -> Any:
    """Costs say what was measured: who asks may ask about all usage, too."""
    permit_all(call, RETRIEVE)
    permit_sum(call, "measurements", "measurements:retrieve")
    query = call.query
    return await call.run(
        margins,
        call.organization,
        query.text("month") or "last",
        query.one_of("group", _MARGIN_GROUPS, RevenueGroup.PRODUCT),
        query.text("reportingCurrency"),
        page(call, PAGE_MAX),
    )


OPERATIONS: Final = (
    Operation(
        "GetMargins",
        "GET",
        f"{ORGANIZATION}/revenue/margins",
        RETRIEVE,
        RESOURCE,
        get_margins,
        besides=("analytics:query", "usage"),
    ),
    Operation("GetRevenue", "GET", f"{ORGANIZATION}/revenue", RETRIEVE, RESOURCE, get_revenue),
)
