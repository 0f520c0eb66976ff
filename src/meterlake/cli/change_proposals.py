"""`meterlake config propose` and its kin: changes that wait for a review, and what becomes of them."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.file_problems import show_problems
from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options
from meterlake.model.errors import MeterlakeError
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from meterlake.model.resources.proposal import Document
    from meterlake.stores import Organization

_RESOURCE: Final = "changeproposal"
_PAGE: Final = 100
_PRICES: Final = ("pricings", "counterPricings")

ProposalName = Annotated[str, Parameter(name="PROPOSAL", required=True)]


def register(config: App) -> None:
    """Add the commands."""
    config.command(propose)
    config.command(list_proposals, name="proposals")
    config.command(show_proposal)
    config.command(approve)
    config.command(reject)
    config.command(withdraw)
    config.command(propose_again)
    config.command(apply_proposal)


def propose(
    *paths: Annotated[Path, Parameter(name="PATH", required=True)],
    name: str,
    reason: str,
    options: Options = NO_OPTIONS,
) -> int:
    """Propose the changes of your files for a review, instead of making them.

    You give files as for `meterlake config apply`. Nothing changes before somebody approves the
    proposal and applies it.

    Example: `meterlake config propose prices.yaml --name "Prices of 2027" --reason "Energy costs more"`

    Args:
        paths: Files, and folders of files.
        name: What people call the proposal; no other open one has the name.
        reason: Why you propose it.
    """
    from meterlake.pipeline.config.apply_configuration import read_documents

    documents: list[Document] = []
    try:
        documents += read_documents(paths)
        with options.open() as organization:
            made = propose_documents(organization, options, (name, reason), documents)
    except MeterlakeError as error:
        show_problems(documents, error, json=options.json)
        return 1
    show(made, options)
    return 0


def propose_documents(
    organization: "Organization",
    options: Options,
    called: tuple[str, str],
    documents: "Iterable[Document]",
) -> dict[str, Any]:
    """Keep a proposal of who gives the command, if they may see what it changes; it as shown.

    Args:
        organization: The organization.
        options: Who gives the command.
        called: The name and the reason.
        documents: Configuration files.
    """
    from meterlake.pipeline.config.change_proposals import (
        ChangeOrder,
        plan_proposal,
        propose_change_set,
        show_proposal,
    )

    documents = list(documents)
    author = options.permitted(organization, ("config:create", _RESOURCE))
    planned = plan_proposal(organization, documents)
    changes = [{"kind": each.kind, "id": each.id, "action": each.action} for each in planned]
    _permit(options, organization, changes, reading=True)
    made = propose_change_set(organization, author, ChangeOrder(*called, documents))
    return show_proposal(organization, made["id"])


def _permit(
    options: Options,
    organization: "Organization",
    changes: Iterable[Mapping[str, Any]],
    *,
    reading: bool = False,
) -> None:
    """Who gives the command may make each change, or read what it is about."""
    from meterlake.pipeline.config.change_proposals import rights_needed

    for (action, resource), ids in rights_needed(changes).items():
        options.permitted(organization, ("config:retrieve" if reading else action, resource), ids)


def list_proposals(
    *,
    status: str | None = None,
    entity: Annotated[str | None, Parameter(show_default=False)] = None,
    limit: Limit = 20,
    options: Options = NO_OPTIONS,
) -> None:
    """List the proposed changes, the newest first: who made each why, and where it stands.

    Example: `meterlake config proposals --status PROPOSED`

    Args:
        status: Only those in this status: PROPOSED, APPROVED, REJECTED, APPLIED, WITHDRAWN.
        entity: Only those that change the entity with this id, such as a price, or made it.
        limit: The largest number that you want to see.
    """
    from meterlake.model.errors import Invalid
    from meterlake.model.resources.change_proposals import ProposalStatus
    from meterlake.pipeline.access.named_people import with_names
    from meterlake.pipeline.config.change_proposals import list_proposals as find_proposals
    from meterlake.stores.state.core.pages import Page

    known = [each.value for each in ProposalStatus]
    if status is not None and status.upper() not in known:
        raise Invalid("--status", status, f"it must be one of {', '.join(known)}")
    wanted = [] if status is None else [ProposalStatus(status.upper())]
    found: list[dict[str, Any]] = []
    with options.open() as organization:
        token = None
        while len(found) < limit:
            page = Page(min(_PAGE, limit - len(found)), token)
            answer = find_proposals(organization, page, wanted, entity and entity.lower())
            found += answer["data"]
            token = answer.get("nextToken")
            if token is None:
                break
        found = with_names(organization, found, "createdBy")
    columns = ("!name", "status", "entities", "reason", "?createdBy=by", "?dtCreated=time")
    options.output.rows(found, columns, empty="Nobody has proposed a change.")


def show_proposal(
    proposal: ProposalName,
    /,
    *,
    effect: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> None:
    """Show what a proposal changes: each price before and after, and all other fields.

    While it is open you also see what no longer is as its author saw it.

    Example: `meterlake config show-proposal "Prices of 2027" --effect`

    Args:
        proposal: Its name or id.
        effect: Show what it would do to the bills of last month and this one, by customer.
    """
    from meterlake.pipeline.access.named_people import with_names
    from meterlake.pipeline.billing.what_if.price_change import proposal_effect
    from meterlake.pipeline.config.change_proposals import proposal_named
    from meterlake.pipeline.config.change_proposals import show_proposal as find

    with options.open() as organization:
        id_ = proposal_named(organization, proposal).id
        found = find(organization, id_)
        for member in ("acts", "stale"):
            found[member] = with_names(organization, found[member], "by")
        done = proposal_effect(organization, id_) if effect else None
    if options.json:
        options.output.line({**found, **({} if done is None else {"effect": done})})
        return
    show(found, options)
    if done is not None:
        columns = ("month", "currency", "before", "after", "difference")
        options.output.rows(done["byMonth"], columns, "Bills", empty="No bills in these months.")
        options.output.rows(done["byCustomer"], ("!account", *columns), "Customers")


def show(found: dict[str, Any], options: Options) -> None:
    """Print a proposal: its head, its prices, its other changes, and what stands against it."""
    output = options.output
    if options.json:
        output.line(found)
        return
    output.note(f"{found['name']}: {found['status'].lower()}. {found['reason']}")
    columns = (
        "!plan",
        "!priced",
        "from",
        "above",
        "old",
        "new",
        "?fixed",
        "?new fixed",
        "currency",
    )
    output.rows([row for each in found["prices"] for row in _bands(each)], columns)
    others = [each for each in found["changes"] if each["kind"] not in _PRICES]
    output.rows(
        [row for each in others for row in _fields(each)],
        ("action", "kind", "!name", "field", "old", "new"),
    )
    for each in found["acts"][1:]:
        said = f": {each['comment']}" if each.get("comment") else ""
        output.note(f"{each['status'].lower()} at {each['at']} by {each['by']}{said}")
    for each in found["stale"]:
        who = f" by {each['by']}" if each.get("by") else ""
        output.note(f"no longer fits: {each['kind']} {each['name']} was {each['what']}{who}")
    for each in found["problems"]:
        output.note(f"no longer fits: {each}")


def _bands(price: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for band in (*price["bands"], *price["overageBands"]):
        yield {
            "plan": price["plan"],
            "priced": price["priced"],
            "from": price["from"],
            "above": band["lowerLimit"],
            "old": band["unitPrice"].get("old"),
            "new": band["unitPrice"].get("new"),
            "fixed": band["fixedPrice"].get("old"),
            "new fixed": band["fixedPrice"].get("new"),
            "currency": price["currency"],
        }


def _fields(change: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    head = {name: change[name] for name in ("action", "kind", "name")}
    if change["action"] != "updated":
        yield head
        return
    for each in change["differences"]:
        yield {**head, "field": each["field"], "old": each.get("old"), "new": each.get("new")}


def approve(proposal: ProposalName, /, *, comment: str = "", options: Options = NO_OPTIONS) -> None:
    """Approve a proposal, so that it can be applied.

    If the organization wants two persons (`twoPersonApproval`), you cannot approve your own.

    Example: `meterlake config approve "Prices of 2027" --comment "As agreed with sales"`

    Args:
        proposal: Its name or id.
        comment: What you say about it.
    """
    from meterlake.pipeline.config.change_proposals import approve_proposal

    _act(
        options,
        proposal,
        "config:update",
        lambda org, by, id_: approve_proposal(org, by, id_, comment),
    )


def reject(proposal: ProposalName, /, *, comment: str, options: Options = NO_OPTIONS) -> None:
    """Reject a proposal, also one that is approved and not applied yet.

    Example: `meterlake config reject "Prices of 2027" --comment "Guaranteed until 2028"`

    Args:
        proposal: Its name or id.
        comment: Why.
    """
    from meterlake.pipeline.config.change_proposals import reject_proposal

    _act(
        options,
        proposal,
        "config:update",
        lambda org, by, id_: reject_proposal(org, by, id_, comment),
    )


def withdraw(
    proposal: ProposalName, /, *, comment: str = "", options: Options = NO_OPTIONS
) -> None:
    """Withdraw your own proposal.

    Example: `meterlake config withdraw "Prices of 2027"`

    Args:
        proposal: Its name or id.
        comment: Why.
    """
    from meterlake.pipeline.config.change_proposals import withdraw_proposal

    _act(
        options,
        proposal,
        "config:create",
        lambda org, by, id_: withdraw_proposal(org, by, id_, comment),
    )


def propose_again(proposal: ProposalName, /, *, options: Options = NO_OPTIONS) -> None:
    """Propose the changes of a rejected or withdrawn proposal again.

    The new proposal has the same name, reason and changes, and is measured against the
    configuration of now.

    Example: `meterlake config propose-again "Prices of 2027"`

    Args:
        proposal: Its name or id.
    """
    from meterlake.pipeline.config.change_proposals import proposal_named, same_order

    with options.open() as organization:
        order = same_order(organization, proposal_named(organization, proposal).id)
        called = (order.name, order.reason)
        made = propose_documents(organization, options, called, order.documents)
    show(made, options)


def apply_proposal(proposal: ProposalName, /, *, options: Options = NO_OPTIONS) -> None:
    """Make all changes of an approved proposal, or none.

    If something that it mentions has changed since it was made, you are told what, and nothing
    happens.

    Example: `meterlake config apply-proposal "Prices of 2027"`

    Args:
        proposal: Its name or id.
    """
    from meterlake.pipeline.config import change_proposals

    _act(options, proposal, "config:update", change_proposals.apply_proposal, applies=True)


def _act(
    options: Options,
    name: str,
    action: str,
    verb: "Callable[[Organization, str, str], dict[str, Any]]",
    *,
    applies: bool = False,
) -> None:
    """Do something with a proposal, and say where it stands then."""
    from meterlake.pipeline.config.change_proposals import proposal_named

    with options.open() as organization:
        found = proposal_named(organization, name)
        author = options.permitted(organization, (action, _RESOURCE), (found.id,))
        if applies:
            _permit(options, organization, found.changes)
        done = verb(organization, author, found.id)
    if options.json:
        options.output.line(done)
        return
    said = counted(done["entities"], "entity", "entities")
    options.output.note(f"{done['name']}: {done['status'].lower()} ({said})")
