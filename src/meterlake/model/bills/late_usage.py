"""Late usage: what came, or went, after the bill of its period was made, and what was done about it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple, Self

from meterlake.model.values.money import ZERO, exact


class LateUsageStatus(StrEnum):
    """What became of the late usage of a bill."""

    OPEN = "OPEN"
    RECALCULATED = "RECALCULATED"
    CARRIED = "CARRIED"
    WAITING = "WAITING"
    REPORTED = "REPORTED"
    UNCHANGED = "UNCHANGED"
    FAILED = "FAILED"


# Nothing was done about it for good.
UNDECIDED = (
    LateUsageStatus.OPEN,
    LateUsageStatus.WAITING,
    LateUsageStatus.REPORTED,
    LateUsageStatus.FAILED,
)


class LateSourceKind(StrEnum):
    """What brought late usage."""

    SOURCE = "source"
    BACKFILL = "backfill"
    BILL = "bill"


class LateSource(NamedTuple):
    """What brought late usage, or took it away.

    Attributes:
        id: The identity of a source, the id of a backfill, or that of a bill that was made again.
        name: What people know it by: the name of a file, what a backfill did.
        measurements: How many it has for the bill; None if nobody counted them.
        first: When the first of them came, aware UTC.
        last: When the last of them came.
    """

    kind: LateSourceKind
    id: str
    name: str
    measurements: int | None
    first: datetime
    last: datetime

    def to_wire(self) -> dict[str, Any]:
        """As plain data."""
        found = {
            "kind": self.kind.value,
            "id": self.id,
            "name": self.name,
            "measurements": self.measurements,
            "firstReceived": self.first,
            "lastReceived": self.last,
        }
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_wire(cls, found: Mapping[str, Any]) -> Self:
        """Read it back."""
        return cls(
            LateSourceKind(found["kind"]),
            found["id"],
            found["name"],
            None if "measurements" not in found else int(found["measurements"]),
            datetime.fromisoformat(found["firstReceived"]),
            datetime.fromisoformat(found["lastReceived"]),
        )


def is_correction(sources: Collection[LateSource]) -> bool:
    """Whether nothing came late: memos carry what the bill itself has by now, or has lost."""
    return bool(sources) and all(each.kind is LateSourceKind.BILL for each in sources)


def merge_sources(old: Iterable[LateSource], new: Iterable[LateSource]) -> tuple[LateSource, ...]:
    """Sources of before with those of now; one that brought more is listed once."""
    found: dict[tuple[str, str, str], LateSource] = {}
    for each in (*old, *new):
        key = (each.kind, each.id, each.name)
        known = found.get(key)
        if known is not None:
            counts = [count for count in (known.measurements, each.measurements) if count]
            first, last = min(known.first, each.first), max(known.last, each.last)
            each = each._replace(measurements=sum(counts) or None, first=first, last=last)  # noqa: PLW2901
        found[key] = each
    return tuple(found.values())


class LateLine(NamedTuple):
    """By how much late usage changes a line of a bill, and what was done about it.

    Attributes:
        key: The key of the line on its bill.
        line_id: Its id in the API; None if the bill has no such line.
        amount: In the currency of the bill.
        memo_bill_id: The bill that carries it; None if none does.
        memo_id: The memo there.
    """

    key: str
    line_id: str | None
    description: str
    amount: Decimal
    memo_bill_id: str | None = None
    memo_id: str | None = None
    memo_amount: Decimal | None = None
    memo_currency: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """As plain data."""
        found = {
            "lineItemId": self.line_id,
            "description": self.description,
            "amount": self.amount,
            "memoBillId": self.memo_bill_id,
            "memoLineItemId": self.memo_id,
            "memoAmount": self.memo_amount,
            "memoCurrency": self.memo_currency,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class LateUsage:
    """The late usage of one bill, and what was done about it.

    Attributes:
        since: What came after this snapshot of the lake is late.
        until: It was looked for until this snapshot.
        bill_version: The version of the content that lacks it.
        sources: What brought it.
        lines: By how much each line differs, and which memo carries that.
        new_version: The version of the bill that has it.
        reason: Why nothing, or nothing else, was done.
    """

    id: str
    bill_id: str
    account_id: str
    account_code: str = ""
    period: str
    bill_date: date
    currency: str
    since: int
    until: int
    status: LateUsageStatus
    bill_version: int
    sources: Sequence[LateSource]
    difference: Decimal | None = None
    lines: Sequence[LateLine] = ()
    new_version: int | None = None
    reason: str | None = None
    found: datetime
    decided: datetime | None = None
    carriers: Mapping[str, date] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether something may still be done about it."""
        return self.status in UNDECIDED

    @property
    def is_correction(self) -> bool:
        """Whether it takes memos back of which the bill itself has what they carry."""
        return is_correction(self.sources)

    @property
    def measurements(self) -> int | None:
        """How many measurements came; None if nobody counted any."""
        counts = [each.measurements for each in self.sources if each.measurements is not None]
        return sum(counts) if counts else None

    def to_wire(self) -> dict[str, Any]:
        """The item of a list, and the line of `--json`."""
        found = {
            "id": self.id,
            "status": self.status.value,
            "accountId": self.account_id,
            "accountCode": self.account_code,
            "period": self.period,
            "billId": self.bill_id,
            "billDate": self.bill_date,
            "billVersion": self.bill_version,
            "currency": self.currency,
            "difference": self.difference,
            "measurements": self.measurements,
            "newBillVersion": self.new_version,
            "reason": self.reason,
            "dtFound": self.found,
            "dtDecided": self.decided,
            "sources": [each.to_wire() for each in self.sources],
            "lineItems": [each.to_wire() for each in self.lines],
        }
        return {name: value for name, value in found.items() if value is not None}


def total_of(lines: Iterable[LateLine]) -> Decimal:
    """What lines come to."""
    with exact():
        return sum((each.amount for each in lines), ZERO)
