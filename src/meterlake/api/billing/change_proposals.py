"""Changes of the configuration over HTTP that wait for a review: made, looked at, decided on, applied."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from meterlake.api.billing.bills import RESOURCE as BILL
from meterlake.api.billing.bills import permit_all
from meterlake.api.entities import ordered_page
from meterlake.api.responses.change_proposals import (
    ChangeProposalRequest,
    ProposalCommentRequest,
    ProposalRejectRequest,
)
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.api.server.readable_fields import (
    RETRIEVE,
    permit,
    permit_each,
    visible_rows,
    with_author_names,
)
from meterlake.model.errors import Invalid
from meterlake.model.resources.change_proposals import ProposalStatus
from meterlake.model.resources.proposal import Document
from meterlake.model.values import wire
from meterlake.model.values.problems import read
from meterlake.pipeline.billing.what_if.price_change import proposal_effect
from meterlake.pipeline.config.change_proposals import (
    ChangeOrder,
    apply_proposal,
    approve_proposal,
    list_proposals,
    plan_proposal,
    price_documents,
    propose_change_set,
    reject_proposal,
    rights_needed,
    same_order,
    show_proposal,
    withdraw_proposal,
)
from meterlake.pipeline.config.scale_prices import propose_prices
from meterlake.stores import Organization

RESOURCE: Final = "changeproposal"
PAGE_MAX: Final = 100
_PROPOSALS: Final = f"{ORGANIZATION}/changeproposals"
_STATUSES: Final = {each.value: each for each in ProposalStatus}


async def _propose(call: Call) -> Any:
    """Keep changes for a review: who proposes sees what they change, so may read it."""
    request = read(ChangeProposalRequest, await call.document())

    def order(organization: Organization) -> ChangeOrder:
        return ChangeOrder(request.name, request.reason, _documents(organization, request))

    return await _keep(call, order)


async def _propose_again(call: Call) -> Any:
    """Keep the changes of a proposal that has ended, as they are against the configuration of now."""
    id_ = _id(call)
    return await _keep(call, lambda organization: same_order(organization, id_))


async def _keep(call: Call, ordered: Callable[[Organization], ChangeOrder]) -> Any:
    def plan(organization: Organization) -> tuple[ChangeOrder, list[dict[str, Any]]]:
        order = ordered(organization)
        found = plan_proposal(organization, order.documents)
        return order, [
            {"kind": each.kind, "id": each.id, "action": each.action.value} for each in found
        ]

    order, changes = await call.run(plan, call.organization)
    await _permit(call, changes, lambda _: RETRIEVE)
    return await call.run(propose_change_set, call.organization, call.author, order)


def _documents(organization: Organization, request: ChangeProposalRequest) -> list[Document]:
    """The configuration files of a request.

    Raises:
        Invalid: It says nothing, or too much.
    """
    given = [
        name for name in ("configuration", "scale", "price") if getattr(request, name) is not None
    ]
    if len(given) != 1:
        rule = "give exactly one of configuration, scale and price"
        raise Invalid("configuration", given, rule)
    if request.scale is not None:
        return propose_prices(organization, request.scale).documents()
    if request.price is not None:
        return price_documents(organization, request.price.pricing_id, request.price)
    return [Document("configuration", wire.loads(wire.dumps(request.configuration)))]


async def _permit(
    call: Call, changes: Sequence[Mapping[str, Any]], action_for: Callable[[str], str]
) -> None:
    """Whoever asks may do something with each entity that changes; with new ones by their type."""
    for (action, resource), ids in rights_needed(changes).items():
        if ids:
            await permit_each(call, resource, ids, action_for(action))
        else:
            permit(call, action_for(action), resource)


async def _list(call: Call) -> Any:
    status = call.query.one_of("status", _STATUSES, default=None)
    statuses = [] if status is None else [status]
    this = ordered_page(call, PAGE_MAX, "dtCreated")
    entity_id = call.query.text("entityId")
    found = await call.run(
        list_proposals, call.organization, this, statuses, entity_id and entity_id.lower()
    )
    found["data"] = await visible_rows(call, RESOURCE, found["data"])
    found["data"] = await with_author_names(call, found["data"])
    return found


async def _get(call: Call) -> Any:
    found = await call.run(show_proposal, call.organization, _id(call))
    await _permit(call, found["changes"], lambda _: RETRIEVE)
    found["acts"] = await with_author_names(call, found["acts"], "by")
    [found] = await with_author_names(call, [found])
    return found


async def _effect(call: Call) -> Any:
    permit(call, RETRIEVE, BILL)
    # It shows what bills come to, whichever these are.
    permit_all(call, RETRIEVE)
    return await call.run(proposal_effect, call.organization, _id(call))


async def _approve(call: Call) -> Any:
    asked = read(ProposalCommentRequest, await call.document(may_be_empty=True))
    return await _act(call, approve_proposal, asked.comment)


async def _reject(call: Call) -> Any:
    asked = read(ProposalRejectRequest, await call.document())
    return await _act(call, reject_proposal, asked.comment)


async def _withdraw(call: Call) -> Any:
    asked = read(ProposalCommentRequest, await call.document(may_be_empty=True))
    return await _act(call, withdraw_proposal, asked.comment)


async def _apply(call: Call) -> Any:
    """Who applies a proposal may make each of its changes."""
    found = await call.run(show_proposal, call.organization, _id(call))
    await _permit(call, found["changes"], lambda action: action)
    return await _act(call, apply_proposal)


async def _act(call: Call, verb: Callable[..., Any], *values: str) -> Any:
    return await call.run(verb, call.organization, call.author, _id(call), *values)


def _id(call: Call) -> str:
    return member(call, RESOURCE)


def _operation(name: str, method: str, path: str, action: str, handler: Handler) -> Operation:
    return Operation(name, method, f"{_PROPOSALS}{path}", f"config:{action}", RESOURCE, handler)


OPERATIONS: Final = (
    _operation("ListChangeProposals", "GET", "", "retrieve", _list),
    _operation("ProposeChanges", "POST", "", "create", _propose),
    _operation("GetChangeProposal", "GET", "/{id}", "retrieve", _get),
    _operation("GetChangeProposalEffect", "GET", "/{id}/effect", "retrieve", _effect),
    _operation("ApproveChangeProposal", "POST", "/{id}/approve", "update", _approve),
    _operation("RejectChangeProposal", "POST", "/{id}/reject", "update", _reject),
    _operation("WithdrawChangeProposal", "POST", "/{id}/withdraw", "create", _withdraw),
    _operation("ProposeChangesAgain", "POST", "/{id}/again", "create", _propose_again),
    _operation("ApplyChangeProposal", "POST", "/{id}/apply", "update", _apply),
)
