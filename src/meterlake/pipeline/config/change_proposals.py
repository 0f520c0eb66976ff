"""Changes of the configuration that wait for a review: made, looked at, decided on, applied.

A proposal keeps configuration files, and which versions of what they mention its author saw. It is
applied by the code of `config apply`, in one transaction with its own status: all, or nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.catalog.plans import PriceChange
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Conflict, Forbidden, Invalid, NotFound
from meterlake.model.resources import BY_NAME
from meterlake.model.resources.change_proposals import (
    NAME_MAX,
    TEXT_MAX,
    ChangeProposal,
    ProposalAct,
    ProposalStatus,
    SeenVersion,
)
from meterlake.model.resources.proposal import Document
from meterlake.model.values import wire
from meterlake.model.values.ids import UNNAMED
from meterlake.model.values.secrets import holds_secrets
from meterlake.pipeline.config.apply_configuration import (
    ApplyOptions,
    ChangeAction,
    ChangePlan,
    EntityChange,
    plan_changes,
    write_changes,
)
from meterlake.pipeline.config.webhook_addresses import address_policy
from meterlake.stages.config.price_changes import changed_prices
from meterlake.stages.config.scale_prices import replacing_price
from meterlake.stores import Organization
from meterlake.stores.custom_sql import limits_of
from meterlake.stores.state import Reader
from meterlake.stores.state.change_proposals import (
    KIND,
    add_proposal,
    find_proposals,
    get_proposal,
    note_act,
    page_of_proposals,
)
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

Answer = dict[str, Any]
_PRICES: Final = ("pricings", "counterPricings")
_NEEDED: Final = {
    ChangeAction.CREATED: "config:create",
    ChangeAction.UPDATED: "config:update",
    ChangeAction.DELETED: "config:delete",
}


@dataclass(frozen=True, slots=True)
class ChangeOrder:
    """What is proposed.

    Attributes:
        name: What people call it; no other open proposal has the name.
        reason: Why.
        documents: Configuration files, as `config apply` takes them.
    """

    name: str
    reason: str
    documents: Sequence[Document]


def plan_proposal(organization: Organization, documents: Sequence[Document]) -> list[EntityChange]:
    """What documents would change; nothing is written.

    Raises:
        Invalid: Something is wrong, as with `config apply`; or nothing changes.
    """
    with organization.reading() as reader:
        return _changes(_plan(organization, reader, documents))


def propose_change_set(organization: Organization, author: str, order: ChangeOrder) -> Answer:
    """Keep changes for a review.

    Raises:
        Invalid: Something is wrong, as with `config apply`; or nothing changes.
        Conflict: Another open proposal has the name.
    """
    name, reason = _text("name", order.name, NAME_MAX), _text("reason", order.reason, TEXT_MAX)
    with organization.transaction(author) as transaction:
        if any(each.status.is_open for each in find_proposals(transaction, name)):
            raise Conflict(
                f"there is an open change proposal {name!r} already; choose another name,"
                " or withdraw that one first"
            )
        plan = _plan(organization, transaction, order.documents)
        prices = changed_prices(plan.before, plan.proposals)
        proposal = ChangeProposal(
            id=transaction.new_id(),
            name=name,
            status=ProposalStatus.PROPOSED,
            created=transaction.now,
            acts=(ProposalAct(ProposalStatus.PROPOSED, transaction.now, author, reason),),
            documents=tuple(order.documents),
            seen=tuple(_seen(plan)),
            changes=tuple(_change_document(each) for each in _changes(plan)),
            prices=tuple(each.to_wire(plan.after) for each in prices),
        )
        add_proposal(transaction, proposal)
        return _document(get_proposal(transaction, proposal.id))


def same_order(organization: Organization, id: str) -> ChangeOrder:
    """What a proposal that was rejected or withdrawn asked for, to be proposed again.

    The new proposal is measured against the configuration of now.

    Raises:
        NotFound: There is none.
        Conflict: It is open, or applied.
    """
    with organization.reading() as reader:
        found = _open(reader, id, *(each for each in ProposalStatus if each.is_given_up))
    return ChangeOrder(found.name, found.reason, found.documents)


def price_documents(organization: Organization, id: str, change: PriceChange) -> list[Document]:
    """The configuration files that end a price at an instant and begin one with other bands.

    Raises:
        NotFound: There is no such price.
        Invalid: The price does not hold then.
    """
    with organization.reading() as reader:
        return replacing_price(StoredConfiguration(reader), id, change)


def _plan(organization: Organization, reader: Reader, documents: Sequence[Document]) -> ChangePlan:
    """What applying documents would do.

    Raises:
        Invalid: Something is wrong, or a kind has secrets, which proposals do not keep.
    """
    settings = organization.settings
    options = ApplyOptions(limits=limits_of(settings), addresses=address_policy(settings))
    plan = plan_changes(organization.state, reader, documents, options)
    for each in plan.proposals:
        if holds_secrets(each.resource.entity):
            rule = "it has secrets, which no proposal keeps; change it by itself"
            raise Invalid(each.resource.name, each.id, rule)
    return plan


def _changes(plan: ChangePlan) -> list[EntityChange]:
    """The entities that change.

    Raises:
        Invalid: None does.
    """
    found = [each for each in plan.changes if each.action is not ChangeAction.UNCHANGED]
    if not found:
        raise Invalid("configuration", {}, "it must change something; all is like this already")
    return found


def _seen(plan: ChangePlan) -> Iterator[SeenVersion]:
    """The stored entities of a plan; also those that it leaves as they are, for they may change."""
    for proposal, change in zip(plan.proposals, plan.changes, strict=True):
        if proposal.before is not None:
            version = proposal.before.version
            yield SeenVersion(change.kind, proposal.id, change.name, version)


def rights_needed(
    changes: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str], list[str]]:
    """What applying changes needs: an action and a type of resource, with the ids that there are."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in changes:
        action = ChangeAction(each["action"])
        if action is not ChangeAction.UNCHANGED:
            ids = found.setdefault((_NEEDED[action], BY_NAME[each["kind"]].permission), [])
            ids += [] if action is ChangeAction.CREATED else [each["id"]]
    return found


# --- Looked at ---------------------------------------------------------------------------------


def proposal_named(organization: Organization, name: str) -> ChangeProposal:
    """The proposal of an id or a name: of several the open one, else the newest.

    Raises:
        NotFound: There is none.
    """
    with organization.reading() as reader:
        found = find_proposals(reader, name)
    if not found:
        raise NotFound(KIND, name, "; name one that this organization has")
    return next((each for each in found if each.status.is_open), found[0])


def list_proposals(
    organization: Organization,
    page: Page,
    statuses: Sequence[ProposalStatus] = (),
    entity_id: str | None = None,
) -> Answer:
    """One page of proposals, the newest first, without what they change.

    Args:
        organization: The organization.
        page: Which of them.
        statuses: Only those in these; all if none.
        entity_id: Only those that change this entity, or made it.

    Raises:
        Invalid: The token is none that a list gave.
    """
    with organization.reading() as reader:
        found, token = page_of_proposals(reader, page, statuses, entity_id)
    data = [_document(each) for each in found]
    return {"data": data, "nextToken": token} if token else {"data": data}


def show_proposal(organization: Organization, id: str) -> Answer:
    """A proposal with what it changes; while it is open, with what stands against applying it.

    Raises:
        NotFound: There is none.
    """
    with organization.reading() as reader:
        proposal = get_proposal(reader, id)
        problems: list[str] = []
        stale: list[Answer] = []
        if proposal.status.is_open:
            try:
                stale = _stale(proposal, _plan(organization, reader, proposal.documents))
            except (Invalid, NotFound, Conflict) as error:
                problems.append(str(error))
    return {
        **_document(proposal),
        "changes": list(proposal.changes),
        "prices": list(proposal.prices),
        "stale": stale,
        "problems": problems,
    }


def plan_open_proposal(organization: Organization, id: str) -> ChangePlan:
    """What an open proposal would change now.

    Raises:
        NotFound: There is none.
        Conflict: It is not open.
        Invalid: It breaks a rule now.
    """
    with organization.reading() as reader:
        open_ = [each for each in ProposalStatus if each.is_open]
        return _plan(organization, reader, _open(reader, id, *open_).documents)


def _stale(proposal: ChangeProposal, plan: ChangePlan) -> list[Answer]:
    """What is not as the author of a proposal saw it."""
    found = {each.id: each.before for each in plan.proposals if each.before is not None}
    seen = {each.id: each for each in proposal.seen}
    answer: list[Answer] = []
    for each in proposal.seen:
        now = found.get(each.id)
        named = {"kind": each.kind, "id": each.id, "name": each.name}
        if now is None:
            answer.append({**named, "what": "deleted"})
        elif now.version != each.version:
            answer.append({**named, "what": "changed", "at": now.modified, "by": now.modified_by})
    for change in plan.changes:
        created = found.get(change.id)
        if created is not None and change.id not in seen:
            named = {"kind": change.kind, "id": change.id, "name": change.name}
            at, by = created.created, created.created_by
            answer.append({**named, "what": "created", "at": at, "by": by})
    return answer


def _require_fit(proposal: ChangeProposal, plan: ChangePlan) -> None:
    """All is as the author of a proposal saw it.

    Raises:
        Conflict: Something is not.
    """
    stale = _stale(proposal, plan)
    if stale:
        listed = ", ".join(f"{each['kind']} {each['name'] or each['id']!r}" for each in stale[:10])
        raise Conflict(
            f"the change proposal {proposal.name!r} no longer fits: changed since it was made:"
            f" {listed}; make it again"
        )


# --- Decided on ---------------------------------------------------------------------------------


def approve_proposal(organization: Organization, author: str, id: str, comment: str = "") -> Answer:
    """Approve a proposal, so that it can be applied.

    Raises:
        NotFound: There is none.
        Conflict: It does not wait for a review, or no longer fits.
        Forbidden: The organization wants two persons, and the reviewer is its author.
    """
    comment = _text("comment", comment, TEXT_MAX, required=False)
    with organization.transaction(author) as transaction:
        proposal = _open(transaction, id, ProposalStatus.PROPOSED)
        _refuse_own(transaction, proposal, author)
        _require_fit(proposal, _plan(organization, transaction, proposal.documents))
        act = ProposalAct(ProposalStatus.APPROVED, transaction.now, author, comment)
        note_act(transaction, proposal, act)
        return _document(get_proposal(transaction, id))


def reject_proposal(organization: Organization, author: str, id: str, comment: str) -> Answer:
    """Reject a proposal, also one that is approved.

    Raises:
        NotFound: There is none.
        Conflict: It is not open any more.
    """
    return _end(organization, author, id, (ProposalStatus.REJECTED, comment))


def withdraw_proposal(
    organization: Organization, author: str, id: str, comment: str = ""
) -> Answer:
    """Withdraw one's own proposal.

    Raises:
        NotFound: There is none.
        Conflict: It is not open any more.
        Forbidden: Somebody else made it.
    """
    return _end(organization, author, id, (ProposalStatus.WITHDRAWN, comment))


def _end(
    organization: Organization, author: str, id: str, to: tuple[ProposalStatus, str]
) -> Answer:
    status, comment = to
    rejects = status is ProposalStatus.REJECTED
    comment = _text("comment", comment, TEXT_MAX, required=rejects)
    with organization.transaction(author) as transaction:
        proposal = _open(transaction, id, ProposalStatus.PROPOSED, ProposalStatus.APPROVED)
        if not rejects and proposal.author != author:
            raise Forbidden(
                "only who made a change proposal withdraws it; ask its author, or reject it"
            )
        note_act(transaction, proposal, ProposalAct(status, transaction.now, author, comment))
        return _document(get_proposal(transaction, id))


def apply_proposal(organization: Organization, author: str, id: str) -> Answer:
    """Make the changes of an approved proposal: all of them, or none.

    Raises:
        NotFound: There is none.
        Conflict: It is not approved, or something has changed since it was made.
        Invalid: A rule is broken now.
        Forbidden: The organization wants two persons, and its author approved it.
    """
    with organization.transaction(author) as transaction:
        proposal = _open(transaction, id, ProposalStatus.APPROVED)
        # The organization may have come to want two persons since.
        _refuse_own(transaction, proposal, proposal.approver or author)
        plan = _plan(organization, transaction, proposal.documents)
        _require_fit(proposal, plan)
        write_changes(organization.state, transaction, plan)
        act = ProposalAct(ProposalStatus.APPLIED, transaction.now, author, "")
        made = [_change_document(each) for each in _changes(plan)]
        note_act(transaction, proposal, act, made)
        return _document(get_proposal(transaction, id))


def _open(reader: Reader, id: str, *statuses: ProposalStatus) -> ChangeProposal:
    """A proposal that something can be done with.

    Raises:
        NotFound: There is none.
        Conflict: It has another status.
    """
    found = get_proposal(reader, id)
    if found.status not in statuses:
        wanted = " or ".join(each.value.lower() for each in statuses)
        raise Conflict(
            f"the change proposal {found.name!r} is {_word(found)}, and must be {wanted} for that"
        )
    return found


def _word(proposal: ChangeProposal) -> str:
    return proposal.status.value.lower()


def _refuse_own(reader: Reader, proposal: ChangeProposal, reviewer: str) -> None:
    """Two persons look at a proposal, if the organization wants that.

    Raises:
        Forbidden: It does, and one of them has no name, or both are the same.
    """
    [config] = reader.all(OrganizationConfig)
    if not config.entity.two_person_approval:
        return
    if reviewer == UNNAMED:
        reason = "you gave no name; say with `--as` who you are"
    elif proposal.author == UNNAMED:
        reason = "nobody knows who made it; withdraw it, and make it again with `--as`"
    elif proposal.author == reviewer:
        reason = "you made it; ask a colleague"
    else:
        return
    raise Forbidden(
        f"the change proposal {proposal.name!r} needs another person's approval"
        f" (`twoPersonApproval`): {reason}"
    )


def _text(field: str, text: str, longest: int, *, required: bool = True) -> str:
    """A text that people wrote, without blanks around it.

    Raises:
        Invalid: It is too long, or missing.
    """
    text = text.strip()
    if len(text) > longest or (required and not text):
        least = 1 if required else 0
        rule = f"it must be text of at least {least} and at most {longest} characters"
        raise Invalid(field, text, rule)
    return text


def _change_document(change: EntityChange) -> Answer:
    found = {
        "kind": change.kind,
        "id": change.id,
        "name": change.name,
        "action": change.action.value,
        "differences": [
            {
                "field": each.field,
                **{k: v for k, v in (("old", each.old), ("new", each.new)) if v is not None},
            }
            for each in change.differences
        ],
        "notes": list(change.without_effect),
    }
    plain: Answer = wire.to_plain(found)
    return plain


def _document(proposal: ChangeProposal) -> Answer:
    return {
        "id": proposal.id,
        "name": proposal.name,
        "reason": proposal.reason,
        "status": proposal.status.value,
        "createdBy": proposal.author,
        "dtCreated": proposal.created,
        "entities": len(proposal.changes),
        # A price that ends and the one that follows are two entities, and one price to look at.
        "priceCount": len(proposal.prices),
        "otherCount": sum(each["kind"] not in _PRICES for each in proposal.changes),
        "acts": [
            {
                "status": each.status.value,
                "at": each.at,
                "by": each.author,
                **({"comment": each.comment} if each.comment else {}),
            }
            for each in proposal.acts
        ],
    }
