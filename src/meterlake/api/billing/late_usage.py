"""Late usage of bills over HTTP."""

from typing import Any, Final

from meterlake.api.billing.bills import RESOURCE
from meterlake.api.entities import page
from meterlake.api.server.call import Call
from meterlake.api.server.operations import ORGANIZATION, Operation
from meterlake.api.server.visible import RETRIEVE, visible_rows
from meterlake.pipeline.billing.late_usage.lists import list_page

PAGE_MAX: Final = 100


async def _list(call: Call) -> Any:
    """One page, without the late usage of bills that whoever asks may not see."""
    query = call.query
    account_id, month = query.text("accountId"), query.text("period")
    found = await call.run(
        list_page,
        call.stores,
        call.org_id,
        page(call, PAGE_MAX),
        period=month,
        account_id=None if account_id is None else account_id.lower(),
        status=query.text("status"),
    )
    found["data"] = await visible_rows(call, RESOURCE, found["data"], "billId")
    return found


OPERATIONS: Final = (
    Operation("ListLateUsage", "GET", f"{ORGANIZATION}/lateusage", RETRIEVE, RESOURCE, _list),
)
