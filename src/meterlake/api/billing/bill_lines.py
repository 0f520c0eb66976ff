"""Lines of bills over HTTP: those that were calculated, and those that people put on a bill."""

from typing import Any, Final

from meterlake.api.billing.bills import BILLS, PAGE_MAX, RESOURCE
from meterlake.api.entities import page
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.api.server.downloads import link
from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.memos import CreditLineItem, DebitLineItem, MemoLineItem
from meterlake.pipeline.billing import bills, memos
from meterlake.pipeline.billing.memos import MemoRef
from meterlake.stores.state.billing.bills.lists import LineFilters

_BILL_ID: Final = "billId"
_LINES: Final = f"{BILLS}/{{billId}}/lineitems"
_TYPES: Final = {each.value: each.value for each in LineItemType}


def _line(call: Call) -> tuple[str, str]:
    return member(call, RESOURCE, _BILL_ID), member(call, "line item")


async def _list_all(call: Call) -> Any:
    query = call.query
    bill_id, commitment_id = query.text("billId"), query.text("commitmentId")
    filters = LineFilters(
        bill_id=bill_id and bill_id.lower(),
        commitment_id=commitment_id and commitment_id.lower(),
        type=query.one_of("lineItemType", _TYPES, None),
    )
    here = page(call, PAGE_MAX)
    return await call.run(bills.list_lines, call.organization, filters, here)


async def _list(call: Call) -> Any:
    id_, here = member(call, RESOURCE, _BILL_ID), page(call, PAGE_MAX)
    return await call.run(bills.list_lines_of_bill, call.organization, id_, here)


async def _get(call: Call) -> Any:
    return await call.run(bills.get_line, call.organization, *_line(call))


async def _usage(call: Call) -> Any:
    file = await call.run(bills.usage_file, call.organization, *_line(call))
    return {"downloadUrl": await link(call, file, call.stores.settings.download_seconds)}


def _ref(call: Call, kind: type[MemoLineItem]) -> MemoRef:
    bill_id = member(call, RESOURCE, _BILL_ID)
    name = f"{kind.kind.value.lower()} line item"
    return MemoRef(kind, bill_id, member(call, name) if "id" in call.path else "")


def _memo_operations(kind: type[MemoLineItem]) -> tuple[Operation, ...]:
    """The five verbs of a kind of lines that people put on a bill."""
    name, path = kind.__name__, f"{BILLS}/{{billId}}/{kind.__name__.lower()}s"

    async def list_(call: Call) -> Any:
        ref, here = _ref(call, kind), page(call, PAGE_MAX)
        return await call.run(memos.list_memos, call.organization, ref, here)

    async def create(call: Call) -> Any:
        ref, document = _ref(call, kind), await call.document()
        return await call.run(memos.create_memo, call.organization, call.author, ref, document)

    async def retrieve(call: Call) -> Any:
        return await call.run(memos.get_memo, call.organization, _ref(call, kind))

    async def update(call: Call) -> Any:
        ref, document = _ref(call, kind), await call.document()
        return await call.run(memos.update_memo, call.organization, call.author, ref, document)

    async def delete(call: Call) -> Any:
        ref = _ref(call, kind)
        return await call.run(memos.delete_memo, call.organization, call.author, ref)

    return (
        _row(f"List{name}s", "GET", path, list_),
        _row(f"Post{name}", "POST", path, create, "config:create"),
        _row(f"Get{name}", "GET", f"{path}/{{id}}", retrieve),
        _row(f"Put{name}", "PUT", f"{path}/{{id}}", update, "config:update"),
        _row(f"Delete{name}", "DELETE", f"{path}/{{id}}", delete, "config:delete"),
    )


def _row(
    id: str, method: str, path: str, handler: Handler, action: str = "config:retrieve"
) -> Operation:
    return Operation(id, method, path, action, RESOURCE, handler, item=_BILL_ID)


OPERATIONS: Final = (
    _row("ListLineItems", "GET", f"{ORGANIZATION}/lineitems", _list_all),
    _row("ListBillLineItems", "GET", _LINES, _list),
    _row("GetBillLineItem", "GET", f"{_LINES}/{{id}}", _get),
    _row("GetBillLineItemJsonUsage", "GET", f"{_LINES}/{{id}}/usage/json", _usage),
    *_memo_operations(CreditLineItem),
    *_memo_operations(DebitLineItem),
)
