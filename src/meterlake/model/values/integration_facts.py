"""What an integration does at the moment, beside what is configured."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrationFacts:
    """How an integration is doing.

    Attributes:
        disabled: Why nothing is sent; None if it is.
        is_refused: Whether the other system refused the credentials since they were changed.
        status: Where its newest run that has begun stands; None if none has.
        started: When it began.
        completed: When it ended.
        error: Why it failed.
        url: Where one sees in the other system what it made.
        external_id: What that is called there.
    """

    disabled: str | None = None
    is_refused: bool = False
    status: str | None = None
    started: datetime | None = None
    completed: datetime | None = None
    error: str | None = None
    url: str | None = None
    external_id: str | None = None


IDLE = IntegrationFacts()
