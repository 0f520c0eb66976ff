"""The inboxes of an organization, and what pollers took from each; it loads nothing of ingest."""

from typing import Any, NamedTuple

from meterlake.stores import Organization
from meterlake.stores.state.ingest.inboxes import Claim, Inbox, Inboxes


class ListedInbox(NamedTuple):
    """An inbox with the newest objects that were taken from it."""

    inbox: Inbox
    claims: list[Claim]

    def to_wire(self) -> dict[str, Any]:
        """The members that lists show."""
        return {
            "id": self.inbox.id,
            "url": self.inbox.url,
            "afterwards": self.inbox.afterwards.value,
            "author": self.inbox.author,
            "objects": [_object(each) for each in self.claims],
        }


def list_inboxes(organization: Organization, most: int) -> list[ListedInbox]:
    """The inboxes, the oldest first.

    Args:
        organization: The organization.
        most: How many of the newest objects of each.
    """
    inboxes = Inboxes(organization.state)
    return [
        ListedInbox(inbox, inboxes.recent(inbox, most)) for inbox in inboxes.all(organization.id)
    ]


def _object(claim: Claim) -> dict[str, Any]:
    counts = claim.report
    return {
        "key": claim.key,
        "status": claim.status.value,
        "received": claim.received.isoformat(timespec="seconds"),
        "attempt": claim.job.attempt,
        "accepted": counts.get("accepted"),
        "rejected": counts.get("rejected"),
        "error": claim.job.error or _why(counts),
    }


def _why(report: dict[str, Any]) -> str | None:
    """Why an object could not be read at all."""
    return f"{report['reason']}: {report['detail']}" if report.get("status") == "failed" else None
