"""Pages of proposed changes: what they change, what that does to bills, and what reviewers say."""

from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.addresses import ADDRESSES, address_of
from meterlake.console.shell.lists import Column, Listing, show_list, status_filter
from meterlake.console.shell.page import Visit, page, page_routes
from meterlake.model.resources import BY_NAME
from meterlake.model.resources.change_proposals import ProposalStatus

PROPOSALS: Final = "/console/catalogue/proposals"
_VERBS: Final = {"created": "create", "updated": "update", "deleted": "delete"}
_PRICES: Final = ("pricings", "counterPricings")
_LISTING: Final = Listing(
    "Proposed changes",
    "/changeproposals",
    (
        Column("Name", "name", link=f"{PROPOSALS}/{{id}}"),
        Column("Status", "status", "status"),
        Column("Reason", "reason"),
        Column("Prices", "priceCount", "number"),
        Column("Other changes", "otherCount", "number"),
        Column("Proposed", "dtCreated", "instant", sort="dtCreated"),
        Column("By", "createdBy", "author"),
    ),
    empty=(
        "Nobody has proposed a change",
        "Raise prices, or try another price, and choose “Propose” instead of changing it at once.",
    ),
    intro="Changes that wait for a review, and what became of them. Nothing changes before one is applied.",
    filters=(status_filter(ProposalStatus),),
    links=(("Catalogue", "/console/catalogue"),),
)


async def list_proposals(visit: Visit) -> Response:
    """One page of proposals."""
    await visit.people()
    return await show_list(visit, _LISTING)


async def show_proposal(visit: Visit) -> Response:
    """One proposal: its prices before and after, its other changes, its effect, what was done."""
    id_ = visit.request.path_params["id"]
    found = await visit.api.get(f"/changeproposals/{id_}")
    await visit.people()
    status = ProposalStatus(found["status"])
    can_be_told = (
        status.is_open
        and not found["problems"]
        and visit.may("GetChangeProposalEffect", "ListBills")
    )
    effect = None
    if can_be_told and visit.query("effect"):
        effect = await visit.api.get(f"/changeproposals/{id_}/effect")
    for each in found["prices"]:
        each["address"] = address_of(each["kind"], each["id"]) if "id" in each else ""
    is_own = found["createdBy"] == visit.author
    return visit.page(
        "catalogue/proposal.html",
        found=found,
        is_open=status.is_open,
        is_own=is_own,
        may_be_made_again=status.is_given_up,
        can_be_told=can_be_told,
        effect=effect,
        needs_another=is_own and await _wants_two_persons(visit),
        may_apply=visit.may("ApplyChangeProposal", *_operations(found["changes"])),
        others=[each for each in found["changes"] if each["kind"] not in _PRICES],
        addresses=ADDRESSES,
    )


async def _wants_two_persons(visit: Visit) -> bool:
    """Whether somebody else has to approve, as far as the person may know."""
    if not visit.may("GetOrganizationConfig"):
        return False
    config = await visit.api.get("/organizationconfig")
    return bool(config.get("twoPersonApproval"))


def _operations(changes: list[dict[str, Any]]) -> set[str]:
    """The operations that changes take when they are made one by one."""
    return {
        BY_NAME[each["kind"]].operation_name(_VERBS[each["action"]])  # type: ignore[arg-type]
        for each in changes
    }


async def change_proposal(visit: Visit) -> Response:
    """Approve, reject, withdraw or apply a proposal."""
    here = f"/changeproposals/{visit.request.path_params['id']}"
    comment = {"comment": visit.field("comment")}
    match visit.field("action"):
        case "approve":
            await visit.api.send("POST", f"{here}/approve", comment)
            said = "You approved the proposal. Nothing has changed yet: it is applied next, or rejected."
        case "reject":
            await visit.api.send("POST", f"{here}/reject", comment)
            said = "You rejected the proposal. Nothing has changed; its author can make it again."
        case "withdraw":
            await visit.api.send("POST", f"{here}/withdraw", comment)
            said = "You withdrew the proposal. Nothing has changed; you can make it again."
        case "apply":
            await visit.api.send("POST", f"{here}/apply")
            said = (
                "You applied the proposal: all of its changes are made. Each entity has what it was before"
                " in its history; a proposal with the old values takes them back."
            )
        case "again":
            made = await visit.api.send("POST", f"{here}/again")
            said = "You proposed the same changes again, against the configuration of now."
            return visit.go(f"{PROPOSALS}/{made['id']}", said)
        case _:
            raise visit.unknown_action("a proposal")
    return visit.go(f"{PROPOSALS}/{visit.request.path_params['id']}", said)


async def propose(visit: Visit, what: dict[str, Any]) -> Response:
    """Keep a change for a review, by the name and the reason of a form, and lead to it.

    Args:
        visit: The request with the form.
        what: The change: a `scale`, a `price` or a `configuration`.
    """
    body = {"name": visit.field("name"), "reason": visit.field("reason"), **what}
    made = await visit.api.send("POST", "/changeproposals", body)
    said = (
        "You proposed the change. Nothing has changed yet: a reviewer approves or rejects it here."
    )
    return visit.go(f"{PROPOSALS}/{made['id']}", said)


ROUTES: Final = (
    Route(PROPOSALS, page(list_proposals), methods=["GET"], name="ConsoleProposals"),
    *page_routes(f"{PROPOSALS}/{{id}}", show_proposal, change_proposal, "ConsoleProposal"),
)
