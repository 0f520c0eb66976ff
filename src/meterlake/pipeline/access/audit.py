"""The log of who did what in an organization, and the sessions of people that can be ended."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from meterlake.model.configuration.organization import CreditReason, DebitReason
from meterlake.model.errors import NotFound
from meterlake.model.resources import BY_KIND
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.pipeline.access.named_people import names_of_authors
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.access import people, sessions
from meterlake.stores.state.access.audit_log import (
    BILL_KIND,
    CLOSING_KIND,
    GRANT_KIND,
    LINK_KIND,
    PROPOSAL_KIND,
    REJECTED_KIND,
    REPLACED,
    RUN_KIND,
    AuditEntry,
    AuditFilter,
    page_of_log,
)
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.versions import content_change
from meterlake.stores.state.billing.memos.memos import line_id
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.pages import Page

Document = dict[str, Any]
# What the log is about besides entities, as the wire calls it.
_BESIDE: Final = {
    "bills": BILL_KIND,
    "changeProposals": PROPOSAL_KIND,
    "closings": CLOSING_KIND,
    "passwordLinks": LINK_KIND,
    "policyGrants": GRANT_KIND,
    "rejectedRows": REJECTED_KIND,
    "runs": RUN_KIND,
}
KINDS: Final = {**{each.name: kind for kind, each in BY_KIND.items()}, **_BESIDE}
_NAMES: Final = {kind: name for name, kind in KINDS.items()}


def audit_log(organization: Organization, wanted: AuditFilter, page: Page) -> Document:
    """One page of what was done, the newest first.

    Raises:
        Invalid: The token is none that a list gave.
    """
    with organization.reading() as reader:
        rows, token = page_of_log(reader, wanted, page)
        found = [_in_words(reader, each) for each in rows]
        bills = {each.name for each in found if each.kind == BILL_KIND and each.name}
        accounts = account_names.by_id(reader, bills)
    # Those to whom a policy was granted, or a link was given.
    of_people = {GRANT_KIND, LINK_KIND}
    holders = {each.name for each in found if each.kind in of_people and each.name}
    authors = [f"{word}_{id_}" for id_ in holders for word in ("USER", "SERVICE_USER")]
    people = names_of_authors(organization, authors)
    names = {id_: each.code for id_, each in accounts.items()}
    names |= {author.rpartition("_")[2]: name for author, name in people.items()}
    data = [_document(each, names) for each in found]
    return {"data": data, "nextToken": token} if token else {"data": data}


def _in_words(reader: Reader, entry: AuditEntry) -> AuditEntry:
    """An entry with what took the place of what a bill said: a calculation, or a line of a person."""
    if entry.action != REPLACED or entry.version is None:
        return entry
    change = content_change(reader, entry.entity_id, entry.version)
    line = change.after or change.before
    if change.is_deleted:
        return replace(entry, action="deleted")
    if line is None:
        return replace(entry, action="recalculated")
    amount = Decimal(line["convertedSubtotal"])
    if change.before is None:
        action = "credited" if amount < 0 else "charged"
    else:
        action = "lineRemoved" if change.after is None else "lineChanged"
    # What the person gave as the reason, and what the customer reads.
    kind = CreditReason if amount < 0 else DebitReason
    said = _name_of_reason(reader, kind, line.get("reasonId"))
    text = ": ".join([*said, str(line.get("description", ""))])
    text += _about(reader, line)
    return replace(entry, action=action, amount=plain(abs(amount)), reason=text)


def _name_of_reason(
    reader: Reader, kind: type[CreditReason | DebitReason], id: str | None
) -> list[str]:
    """What a reason is called; nothing if there is none, or it is gone."""
    if id is None:
        return []
    try:
        return [reader.get(kind, id).entity.name]
    except NotFound:
        return []


def _about(reader: Reader, line: Mapping[str, Any]) -> str:
    """The line that a credit or debit is about, if it is there: `, about line 6, API calls`."""
    bill_id, id_ = (str(line.get(f"referenced{each}Id", "")) for each in ("Bill", "LineItem"))
    try:
        bill = bills.get(reader, bill_id)
    except NotFound:
        return ""
    for number, each in enumerate(bill.content.lines, start=1):
        if line_id(bill_id, each.key) == id_:
            body = each.body if isinstance(each.body, Mapping) else wire.loads(each.body)
            return f", about line {number}, {body.get('description') or body['lineItemType']}"
    return ""


def _document(entry: AuditEntry, names: dict[str, str]) -> Document:
    name = names.get(entry.name or "", entry.name)
    shown: dict[str, Any] = {
        "id": entry.id,
        "at": entry.at,
        "by": entry.by,
        "kind": _NAMES.get(entry.kind, entry.kind),
        "action": entry.action,
        "entityId": entry.entity_id,
        "name": name,
        "version": entry.version,
        "period": entry.period,
        "amount": None if entry.amount is None else Decimal(entry.amount),
        "currency": entry.currency,
        "reason": entry.reason,
    }
    return {member: value for member, value in shown.items() if value is not None}


def list_sessions(organization: Organization, person_id: str) -> list[Document]:
    """The sign-ins of a user that live and lead into the organization, the newest first.

    Raises:
        NotFound: There is no such user.
    """
    with organization.reading() as reader:
        user = people.user(reader, person_id)
        found = sessions.living_sessions(reader.connection, person_id, organization.now())
    return [
        {"id": each.id, "dtCreated": each.created, "dtExpiry": each.expires}
        for each in found
        if not user.is_signed_out(each.created)
    ]


def end_sessions(organization: Organization, person_id: str) -> Document:
    """Sign a user out of the organization in all browsers; other organizations notice nothing.

    Raises:
        NotFound: There is no such user.
    """
    ended = len(list_sessions(organization, person_id))
    with organization.state.writing_home() as connection:
        people.sign_out(connection, organization.id, person_id, organization.now())
    return {"id": person_id, "ended": ended}


def end_all_sessions(organization: Organization, person_id: str) -> Document:
    """Sign a user out of all organizations: whatever came from a sign-in ends with it.

    Raises:
        NotFound: There is no such user.
    """
    ended = len(list_sessions(organization, person_id))
    with organization.state.writing_home() as connection:
        sessions.end_sessions(connection, person_id)
    return {"id": person_id, "ended": ended}
