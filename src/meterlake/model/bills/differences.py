"""Why a bill came out differently: the difference of two contents, attributed to what changed.

Which members of two documents of the wire differ.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from meterlake.model.values.money import ZERO, exact

# Members that are not there on one of the sides.
_ABSENT: Final = object()


class CauseKind(StrEnum):
    """What may change a bill, in the order in which causes are applied."""

    USAGE = "usage"
    ENTITY = "entity"
    RATE = "rate"
    CORRECTION = "correction"
    BILL = "bill"
    CREDIT = "credit"
    MEMO = "memo"
    JOB = "job"
    CODE = "code"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceCause:
    """One thing that changed between two contents of a bill.

    Attributes:
        name: What people call it: a file, the code of an entity, a pair of currencies.
        id: What it is found by: the identity of a source, an id.
        detail: What happened to it.
        before: Its version, or value, for the former content; None if there is none.
        after: For the later content.
        author: Who changed it; None if nobody knows.
        at: When.
    """

    kind: CauseKind
    name: str
    id: str | None = None
    detail: str = ""
    before: str | None = None
    after: str | None = None
    author: str | None = None
    at: datetime | None = None

    def to_wire(self) -> dict[str, Any]:
        """The cause as plain data; nothing of what is not known."""
        found = {
            "cause": self.kind.value,
            "name": self.name,
            "id": self.id,
            "what": self.detail or None,
            "from": self.before,
            "to": self.after,
            "author": self.author,
            "at": self.at,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """What a cause does to a line: `before` and `after` are the amounts around it."""

    line_id: str
    type: str
    description: str
    before: Decimal | None
    after: Decimal | None

    @property
    def amount(self) -> Decimal:
        """By how much the line changes."""
        with exact():
            return (self.after or ZERO) - (self.before or ZERO)

    def to_wire(self) -> dict[str, Any]:
        """The part as plain data; a line that is not there has no amount."""
        found = {
            "lineItemId": self.line_id,
            "lineItemType": self.type,
            "description": self.description,
            "from": self.before,
            "to": self.after,
            "amount": self.amount,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedAmount:
    """How much of a later cause's part is there only because of an earlier cause."""

    name: str
    amount: Decimal

    def to_wire(self) -> dict[str, Any]:
        """The amount as plain data."""
        return {"name": self.name, "amount": self.amount}


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferencePart:
    """What a cause adds to a bill, in one currency.

    Attributes:
        causes: One, or several of which none can be applied without the others.
        amount: What it adds where it is applied after the causes before it.
        if_undone: What goes if it alone is undone; None if nobody can calculate that.
        shared: What goes with it of the parts of later causes: with `amount` it is `if_undone`.
        lines: The lines that it touches.
        header: The members of the header that it touches.
    """

    causes: Sequence[DifferenceCause]
    currency: str
    amount: Decimal
    if_undone: Decimal | None
    shared: Sequence[SharedAmount] = ()
    lines: Sequence[LineChange] = ()
    header: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The names of its causes."""
        return " + ".join(each.name for each in self.causes)

    def to_wire(self, *, lines: bool = True) -> dict[str, Any]:
        """The part as plain data; several causes are listed under `together`."""
        found = self.causes[-1].to_wire() | {"name": self.name}
        if len(self.causes) > 1:
            found["together"] = [each.to_wire() for each in self.causes]
        found |= {"currency": self.currency, "amount": self.amount}
        if self.if_undone is not None:
            found["ifUndone"] = self.if_undone
        if self.shared:
            found["shared"] = [each.to_wire() for each in self.shared]
        if self.header:
            found["header"] = list(self.header)
        if lines:
            found["lines"] = [each.to_wire() for each in self.lines]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedContent:
    """One of the two contents that are compared.

    Attributes:
        version: Of the bill; None for what it would be now.
        totals: By currency; a bill has one.
    """

    version: int | None
    snapshot: int
    at: datetime
    totals: Mapping[str, Decimal]

    def to_wire(self) -> dict[str, Any]:
        """The content as plain data."""
        return {
            "version": "now" if self.version is None else self.version,
            "snapshot": self.snapshot,
            "at": self.at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BillDiff:
    """The difference of two contents of a bill, by causes.

    Attributes:
        parts: In the order in which they were applied.
    """

    bill_id: str
    account_code: str
    bill_date: date
    before: ComparedContent
    after: ComparedContent
    parts: Sequence[DifferencePart]

    @property
    def currencies(self) -> list[str]:
        """Those of both contents; two if the currency of the bill changed."""
        return list(dict.fromkeys((*self.before.totals, *self.after.totals)))

    def whole(self, currency: str) -> Decimal:
        """By how much the totals differ in a currency: the sum of its parts."""
        before, after = (each.totals.get(currency, ZERO) for each in (self.before, self.after))
        with exact():
            return after - before

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.parts

    @property
    def is_explained(self) -> bool:
        """Whether everything has a cause that is known."""
        return all(
            each.kind is not CauseKind.UNKNOWN for part in self.parts for each in part.causes
        )

    def to_wire(self, *, lines: bool = True) -> dict[str, Any]:
        """The difference as plain data."""
        return {
            "billId": self.bill_id,
            "accountCode": self.account_code,
            "billDate": self.bill_date,
            "from": self.before.to_wire(),
            "to": self.after.to_wire(),
            "same": self.is_same,
            "totals": [
                {
                    "currency": each,
                    "from": self.before.totals.get(each, ZERO),
                    "to": self.after.totals.get(each, ZERO),
                    "difference": self.whole(each),
                }
                for each in self.currencies
            ],
            "differences": [each.to_wire(lines=lines) for each in self.parts],
        }


# What changes with every bill that changes, whatever the cause.
TOTAL_MEMBER: Final = "billTotal"


def differing_members(
    stored: Any, calculated: Any, path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """The members that differ, by their paths: `usagePerPricingBand[1].bandSubtotal`."""
    if isinstance(stored, dict) and isinstance(calculated, dict):
        for name in dict.fromkeys((*stored, *calculated)):
            sides = stored.get(name, _ABSENT), calculated.get(name, _ABSENT)
            yield from differing_members(*sides, f"{path}.{name}" if path else name)
    elif isinstance(stored, list) and isinstance(calculated, list):
        if len(stored) != len(calculated):
            yield path, stored, calculated
            return
        for number, sides in enumerate(zip(stored, calculated, strict=True)):
            yield from differing_members(*sides, f"{path}[{number}]")
    elif stored != calculated:
        yield path, _present(stored), _present(calculated)


def _present(value: Any) -> Any:
    return None if value is _ABSENT else value
