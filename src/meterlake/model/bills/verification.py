"""What a verification of bills found: what is stored, and what comes out of what it was made from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

# More of one bill say nothing more.
SHOWN_MAX: Final = 20


class DifferenceSubject(StrEnum):
    """What differs."""

    BILL = "bill"
    LINE = "line"
    POSTING = "posting"
    ENTITY = "entity"
    FILE = "file"
    CALCULATION = "calculation"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillDifference:
    """One thing that is not what it was.

    Attributes:
        name: Of a line its key, of a posting or bill its id, of an entity its kind and id, of a file
            its path in the lake.
        field: The path of the member that differs; empty if the thing is missing or is one too many.
        stored: What is stored now; None if nothing is.
        calculated: What comes out, or what was written; None if there is nothing to be.
        bill_id: The bill on which it is, or that was made from it; None if it is about several.
        line_id: The id of the line in the API.
        version: Of the bill's former content that differs; None of what it says now.
    """

    subject: DifferenceSubject
    name: str
    field: str = ""
    stored: Any = None
    calculated: Any = None
    bill_id: str | None = None
    line_id: str | None = None
    version: int | None = None

    def to_wire(self) -> dict[str, Any]:
        """The difference as plain data; nothing of what is not known."""
        found = {
            "subject": self.subject.value,
            "billId": self.bill_id,
            "version": self.version,
            "lineItemId": self.line_id,
            "name": self.name,
            "field": self.field or None,
            "stored": self.stored,
            "calculated": self.calculated,
        }
        return {name: value for name, value in found.items() if value is not None}

    def __str__(self) -> str:
        where = (
            f"bill {self.bill_id}: "
            if self.bill_id and self.subject != DifferenceSubject.BILL
            else ""
        )
        field = f" {self.field}" if self.field else ""
        if self.version is not None:
            where = f"bill {self.bill_id}, version {self.version}: "
        return (
            f"{where}{self.subject.value} {self.name}{field}:"
            f" stored {_shown(self.stored)}, calculated {_shown(self.calculated)}"
        )


@dataclass(frozen=True, slots=True)
class BillVerification:
    """What became of bills that were verified.

    Attributes:
        verified: How many were calculated again and compared.
        unpinned: The ids of those that nobody can calculate again: an earlier version made them.
        other_code: How many were made by other code, so that values were compared and not bytes.
        differences: What is not what it was.
        former: How many former contents were compared, too; None if nobody asked for them.
        expired: How many former contents were not: the snapshot that they were made from is gone.
    """

    verified: int = 0
    unpinned: Sequence[str] = ()
    other_code: int = 0
    differences: Sequence[BillDifference] = field(default_factory=tuple)
    former: int | None = None
    expired: int = 0

    @property
    def is_same(self) -> bool:
        """Whether everything is what it was."""
        return not self.differences

    def to_wire(self) -> dict[str, Any]:
        """The report as plain data."""
        asked = {} if self.former is None else {"former": self.former, "expired": self.expired}
        return {
            **asked,
            "verified": self.verified,
            "unpinned": list(self.unpinned),
            "otherCode": self.other_code,
            "same": self.is_same,
            "differences": [each.to_wire() for each in self.differences],
        }


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
