"""What somebody should look at before the bills of a month are approved."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ReviewKind(StrEnum):
    """What is open."""

    MISSING_FILE = "MissingFile"
    REJECTED_ROWS = "RejectedRows"
    LATE_USAGE = "LateUsage"
    UNPRICED_USAGE = "UnpricedUsage"
    FAILED_ACCOUNT = "FailedAccount"
    MISSING_BILL = "MissingBill"
    TOTAL_JUMPED = "TotalJumped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFinding:
    """One thing that is open.

    Attributes:
        subject: What it is about: the code of an account, a reason, the pattern of a file.
        detail: What is wrong with it, in words.
        command: The command that shows more.
        bill_id: The bill that it is about, if there is one.
    """

    kind: ReviewKind
    subject: str
    detail: str
    command: str
    bill_id: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """The finding as plain data."""
        found = {
            "kind": self.kind.value,
            "subject": self.subject,
            "detail": self.detail,
            "command": self.command,
            "billId": self.bill_id,
        }
        return {name: value for name, value in found.items() if value is not None}
