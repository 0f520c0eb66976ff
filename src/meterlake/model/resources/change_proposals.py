"""Changes of the configuration that somebody proposes, and what became of them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from meterlake.model.resources.proposal import Document

NAME_MAX: Final = 200
TEXT_MAX: Final = 1_000


class ProposalStatus(StrEnum):
    """Where a proposal stands; each act on it brings it to one."""

    PROPOSED = "PROPOSED"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    APPLIED = "APPLIED"
    WITHDRAWN = "WITHDRAWN"

    @property
    def is_open(self) -> bool:
        """Whether something may still become of it.

        >>> ProposalStatus.APPROVED.is_open, ProposalStatus.APPLIED.is_open
        (True, False)
        """
        return self in {ProposalStatus.PROPOSED, ProposalStatus.APPROVED}

    @property
    def is_given_up(self) -> bool:
        """Whether nothing became of it, so that it may be made again.

        >>> ProposalStatus.WITHDRAWN.is_given_up, ProposalStatus.APPLIED.is_given_up
        (True, False)
        """
        return self in {ProposalStatus.REJECTED, ProposalStatus.WITHDRAWN}


@dataclass(frozen=True, slots=True)
class ProposalAct:
    """What somebody did with a proposal; the first act is that it was made, with its reason."""

    status: ProposalStatus
    at: datetime
    author: str
    comment: str


@dataclass(frozen=True, slots=True)
class SeenVersion:
    """An entity as it was when a proposal was made."""

    kind: str
    id: str
    name: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeProposal:
    """A set of changes that `config apply` could make, kept for a review.

    Attributes:
        acts: What was done with it, the first act first.
        documents: The configuration files.
        seen: The stored entities that they mention: while these have their versions, it fits.
        changes: What the files change, entity by entity, as it was looked at.
        prices: The prices that they change, band by band.
    """

    id: str
    name: str
    status: ProposalStatus
    created: datetime
    acts: tuple[ProposalAct, ...]
    documents: tuple[Document, ...]
    seen: tuple[SeenVersion, ...]
    changes: tuple[dict[str, Any], ...]
    prices: tuple[dict[str, Any], ...]

    @property
    def author(self) -> str:
        """Who made it."""
        return self.acts[0].author

    @property
    def reason(self) -> str:
        """Why it was made."""
        return self.acts[0].comment

    @property
    def approver(self) -> str | None:
        """Who approved it last; None if nobody did."""
        found = [each.author for each in self.acts if each.status is ProposalStatus.APPROVED]
        return found[-1] if found else None
