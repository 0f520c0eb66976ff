"""Signed URLs for one PUT of one announced file, where no object store has its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from meterlake.model.errors import Forbidden, Invalid, Unavailable
from meterlake.model.values import wire
from meterlake.stores.secrets import Secrets

PATH: Final = "/uploads"
# One sentence for all: it says nothing of which guess was nearer.
REFUSED: Final = "the upload URL was not made here, was changed, or has ended; ask for a new one"
# What else is encrypted with the home's key is no such URL.
_PURPOSE: Final = "upload"


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a URL allows: to begin to send one file of this length and type in time."""

    org_id: str
    job_id: str
    content_length: int
    content_type: str
    start_until: datetime


def ticket_path(secrets: Secrets, ticket: Ticket) -> str:
    """The path of a URL; nobody can change what it allows, or make one up.

    Raises:
        Unavailable: The home's key cannot be read or written.
    """
    claims = {
        "for": _PURPOSE,
        "org": ticket.org_id,
        "job": ticket.job_id,
        "length": ticket.content_length,
        "type": ticket.content_type,
        "ends": round(ticket.start_until.timestamp() * 1000),
    }
    return f"{PATH}/{secrets.encrypt(wire.dumps_sorted(claims))}"


def ticket_of(secrets: Secrets, token: str, now: datetime) -> Ticket:
    """What a URL allows.

    Args:
        secrets: The secrets of the home.
        token: What follows the last slash of the URL's path.
        now: The present instant.

    Raises:
        Forbidden: It is none of ours, or was changed.
    """
    claims = _read_claims(secrets, token)
    if claims.get("for") != _PURPOSE:
        raise Forbidden(REFUSED)
    ends = datetime.fromtimestamp(claims["ends"] / 1000, now.tzinfo)
    return Ticket(claims["org"], claims["job"], claims["length"], claims["type"], ends)


def _read_claims(secrets: Secrets, token: str) -> Mapping[str, Any]:
    try:
        found = wire.loads(secrets.decrypt(token))
    except (Invalid, Unavailable):
        return {}
    return found if isinstance(found, dict) else {}
