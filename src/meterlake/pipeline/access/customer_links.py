"""Links to the page of one customer: made for a while, revoked, and opened by whoever has one.

The token of a link is 256 random bits. It is shown once; State has its SHA-256 alone.
"""

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from meterlake.model.customers.accounts import Account, CustomerLink
from meterlake.model.errors import Conflict, Invalid, NotFound, Unauthorized
from meterlake.model.values.period import format_instant
from meterlake.model.values.problems import read
from meterlake.stores import Organization, Stores
from meterlake.stores.state.access import sessions
from meterlake.stores.state.access.access import digest
from meterlake.stores.state.access.sessions import OneTimeToken, Purpose

Document = dict[str, Any]

_TOKEN_BYTES: Final = 32
_LONGEST: Final = timedelta(days=366)
# One sentence for all: it says nothing of which guess was nearer.
DEAD: Final = "the link was not made here, has ended, or was revoked; ask for a new one"


@dataclass(frozen=True, slots=True)
class OpenedLink:
    """What a link that works leads to.

    Attributes:
        organization: The organization of the customer.
        account_id: The one customer that may be shown.
        link: The link itself.
    """

    organization: Organization
    account_id: str
    link: CustomerLink


def create_link(
    organization: Organization, author: str, account_id: str, document: Document
) -> tuple[Document, str]:
    """Make a link for a customer; the link, and its token, which nobody can read again.

    Raises:
        NotFound: There is no such account.
        Invalid: A field breaks a rule, or the link would end too early or too late.
    """
    if document.get("revoked"):
        raise Invalid("revoked", document["revoked"], "a new link works; leave it out")
    given = document.get("accountId")
    if given is not None and given != account_id:
        raise Invalid("accountId", given, f"it must be {account_id}, as in the path")
    link = read(CustomerLink, {**document, "accountId": account_id})
    with organization.transaction(author) as transaction:
        transaction.get(Account, account_id)
        latest = transaction.now + _LONGEST
        if not transaction.now < link.dt_expiry <= latest:
            rule = f"it must be an instant from now until {format_instant(latest)}"
            raise Invalid("dtExpiry", format_instant(link.dt_expiry), rule)
        record = transaction.create(link)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        made = OneTimeToken(
            digest(token), Purpose.CUSTOMER_PAGE, organization.id, record.id, link.dt_expiry
        )
        sessions.add_one_time_token(transaction.connection, made)
        return record.to_wire(), token


def revoke_link(organization: Organization, author: str, account_id: str, id: str) -> Document:
    """Have a link work no more, for good.

    Raises:
        NotFound: The account has no such link.
        Conflict: It was revoked before.
    """
    with organization.transaction(author) as transaction:
        before = transaction.get(CustomerLink, id)
        if before.entity.account_id != account_id:
            raise NotFound(CustomerLink.__name__, id)
        if before.entity.revoked:
            raise Conflict(f"link {before.entity.name!r} was revoked before; make a new one")
        revoked = before.entity.model_copy(update={"revoked": True})
        return transaction.update(before.id, before.version, revoked).to_wire()


def list_links(organization: Organization, account_id: str) -> list[Document]:
    """The links of a customer, the newest first, each with what has become of it.

    Raises:
        NotFound: There is no such account.
    """
    now = organization.now()
    with organization.reading() as reader:
        reader.get(Account, account_id)
        found = reader.referring(CustomerLink, Account, account_id)
    newest = sorted(found, key=lambda each: (each.created, each.id), reverse=True)
    return [{**each.to_wire(), "status": _status(each.entity, now)} for each in newest]


def _status(link: CustomerLink, now: datetime) -> str:
    if link.revoked:
        return "REVOKED"
    return "ENDED" if link.dt_expiry <= now else "WORKS"


def link_named(organization: Organization, account_id: str, name: str) -> str:
    """The id of a link of a customer: by that id, or by a name that one link has which works.

    Raises:
        NotFound: There is none, or there are several.
    """
    found = list_links(organization, account_id)
    by_name = [each for each in found if each["name"] == name and each["status"] == "WORKS"]
    for each in found:
        if each["id"] == name:
            return name
    if len(by_name) == 1:
        return str(by_name[0]["id"])
    listed = ", ".join(str(each["id"]) for each in by_name or found) or "there is none"
    raise NotFound(CustomerLink.__name__, name, f"; give the id of one: {listed}")


def open_link(stores: Stores, token: str) -> OpenedLink:
    """What a token leads to.

    Raises:
        Unauthorized: It is unknown, over or revoked; which of these, nobody is told.
    """
    sha256, now = digest(token), stores.state.now()
    with stores.state.reading_home() as connection:
        found = sessions.one_time_token(connection, sha256)
    if (
        found is None
        or not hmac.compare_digest(found.token_sha256, sha256)
        or found.purpose is not Purpose.CUSTOMER_PAGE
        or found.expires <= now
    ):
        raise Unauthorized(DEAD)
    organization = stores.organization(found.org)
    with organization.reading() as reader:
        try:
            link = reader.get(CustomerLink, found.subject_id).entity
        except NotFound:
            raise Unauthorized(DEAD) from None
    if link.revoked or link.dt_expiry <= now:
        raise Unauthorized(DEAD)
    return OpenedLink(organization, link.account_id, link)
