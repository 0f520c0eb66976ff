"""Accounts and what hangs on them: children, ending together, replacing, lists of more than fields."""

from collections.abc import Callable
from typing import Any, Final

from meterlake.api.entities import filters, resource_ref, searched_page
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation
from meterlake.api.server.readable_fields import permit
from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.catalog.counters import CounterAdjustment
from meterlake.model.catalog.plans import Plan
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.contracts import Contract
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.entity import Entity
from meterlake.pipeline.config import end_dating, entities, lists

_CHILDREN_PAGE: Final = 200
_ORDERS: Final = {"ASC": True, "DESC": False}
# What can be ended, and the type of resource that it is.
_ENDED: Final = {
    "CONTRACT": "contract",
    "ACCOUNTPLAN": "accountplan",
    "PREPAYMENT": "commitment",
    "PRICINGS": "pricing",
    "COUNTER_PRICINGS": "counterpricing",
}


async def _children(call: Call) -> Any:
    id_ = _id(call, Account)
    criteria = searched_page(call, BY_ENTITY[Account], _CHILDREN_PAGE)
    return await call.run(lists.list_children, call.organization, id_, criteria)


def _with_document(kind: type[Entity], function: Callable[..., Any]) -> Handler:
    async def handler(call: Call) -> Any:
        id_, document = _id(call, kind), await call.document()
        _permit_kinds(call, document.get("billingEntities"))
        return await call.run(function, call.organization, call.author, id_, document)

    return handler


def _permit_kinds(call: Call, kinds: Any) -> None:
    """What ends entities of other kinds needs permission for each kind."""
    for kind in kinds if isinstance(kinds, list) else ():
        resource = _ENDED.get(kind) if isinstance(kind, str) else None
        if resource:
            permit(call, "config:update", resource)


async def _account_plans(call: Call) -> Any:
    resource = BY_ENTITY[AccountPlan]
    criteria = filters(call, resource)
    here = searched_page(call, resource)
    return await call.run(lists.list_account_plans, call.organization, criteria, here)


def _by_product(kind: type[Entity]) -> Handler:
    resource = BY_ENTITY[kind]

    async def list_(call: Call) -> Any:
        criteria, here = filters(call, resource), searched_page(call, resource)
        return await call.run(lists.list_by_product, call.organization, resource, criteria, here)

    return list_


async def _adjustments(call: Call) -> Any:
    resource = BY_ENTITY[CounterAdjustment]
    criteria, here = filters(call, resource), searched_page(call, resource)
    # By its day, as clients know it, unless they name a field.
    if "sortOrder" not in call.query or "sortBy" in call.query:
        return await call.run(entities.list_page, call.organization, resource, criteria, here)
    ascending = call.query.one_of("sortOrder", _ORDERS, default=False)
    return await call.run(
        lists.list_adjustments, call.organization, criteria, here, ascending=ascending
    )


def _id(call: Call, kind: type[Entity]) -> str:
    id_ = resource_ref(call, BY_ENTITY[kind]).id
    assert id_ is not None
    return id_


def _row(id: str, method: str, path: str, kind: type[Entity], handler: Handler) -> Operation:
    action = "config:retrieve" if method == "GET" else "config:update"
    resource = BY_ENTITY[kind].permission
    return Operation(id, method, f"{ORGANIZATION}/{path}", action, resource, handler)


OPERATIONS: Final[tuple[Operation, ...]] = (
    _row("ListAccountChildren", "GET", "accounts/{id}/children", Account, _children),
    _row(
        "EndDateBillingEntitiesForAccount",
        "PUT",
        "accounts/{id}/enddatebillingentities",
        Account,
        _with_document(Account, end_dating.end_account),
    ),
    _row(
        "EndDateBillingEntitiesForContract",
        "PUT",
        "contracts/{id}/enddatebillingentities",
        Contract,
        _with_document(Contract, end_dating.end_contract),
    ),
    _row(
        "ReplaceAccountPlan",
        "POST",
        "accountplans/{id}/replace",
        AccountPlan,
        _with_document(AccountPlan, end_dating.replace_account_plan),
    ),
    _row("ListAccountPlans", "GET", "accountplans", AccountPlan, _account_plans),
    _row("ListPlans", "GET", "plans", Plan, _by_product(Plan)),
    _row("ListAggregations", "GET", "aggregations", Aggregation, _by_product(Aggregation)),
    _row("ListCounterAdjustments", "GET", "counteradjustments", CounterAdjustment, _adjustments),
)
