"""Letters that bring people the links to sign in: invitations and new passwords."""

from typing import Any, Final

from meterlake.model.configuration.access import Invitation
from meterlake.pipeline.access.users import (
    NEW_PASSWORD,
    InvitationEmail,
    may_see_link,
    renew_password,
)
from meterlake.pipeline.access.users import invite as invite_person
from meterlake.stores import Organization, Stores
from meterlake.stores.mail import Outbox, without_links
from meterlake.stores.state.access.sessions import Purpose

PATH: Final = "/oauth/password"

_SUBJECTS: Final = {
    Purpose.INVITATION: "You are invited to meterlake",
    Purpose.PASSWORD: "Choose a new password for meterlake",
}
_TEXT: Final = """Hello {name},

{subject}. This link is for you alone, and works once:

{link}

If you did not expect this letter, ignore it: nothing happens.
"""


def invite(organization: Organization, author: str, invitation: Invitation) -> dict[str, Any]:
    """Invite a person and write the letter; without a mail server the answer has the link.

    Raises:
        Invalid: A policy does not exist, or the expiry is not in the future.
        Conflict: The person is a user already.
    """
    shown, email = invite_person(organization.state, organization.id, author, invitation)
    send(organization.stores, email)
    settings = organization.settings
    if settings.smtp_url is None:
        # No letter leaves this machine: whoever invites hands the link over, and sees it once.
        return {**shown, "link": f"{settings.public_url or ''}{PATH}?token={email.token}"}
    return shown


def send_new_password(organization: Organization, author: str, id: str) -> None:
    """Write a letter with which a user chooses a new password.

    Raises:
        NotFound: There is no such user.
    """
    send(organization.stores, renew_password(organization.state, organization.id, author, id))


def new_password(organization: Organization, author: str, id: str) -> dict[str, Any]:
    """As `send_new_password`; without a mail server the answer has the link, if that may be seen.

    Raises:
        NotFound: There is no such user.
    """
    state, settings = organization.state, organization.settings
    is_shown = settings.smtp_url is None and may_see_link(state, organization.id, author, id)
    email = renew_password(state, organization.id, author, id)
    send(organization.stores, email)
    made = {"id": id, "dtExpiry": organization.now() + NEW_PASSWORD}
    link = f"{settings.public_url or ''}{PATH}?token={email.token}"
    return {**made, "link": link} if is_shown else made


def send(stores: Stores, email: InvitationEmail) -> None:
    """Put a letter into the outbox of the home.

    Raises:
        Unavailable: The outbox cannot be written.
    """
    # Never from the request: whoever asks could lead the reader to a server of their own.
    base = stores.settings.public_url or "https://<the address of your meterlake server>"
    link = f"{base}{PATH}?token={email.token}"
    subject = _SUBJECTS[email.purpose]
    # Whoever invites chooses the name: a letter says what we say, and leads nowhere else.
    text = _TEXT.format(name=without_links(email.name), subject=subject, link=link)
    Outbox(stores.home).put(email.email, subject, text, stores.now())
