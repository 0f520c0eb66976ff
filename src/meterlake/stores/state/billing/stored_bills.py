"""Bills and their lines as values, and as rows have them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar, Final, Self

from meterlake.model.bills.ledger import BillRank, Consumption
from meterlake.model.bills.requests import BillStatus
from meterlake.model.errors import Invalid
from meterlake.model.values import wire
from meterlake.stores.state.core.reader import DamagedRow

# Where a bill's body has the day after its last one.
BODY_END: Final = "endDate"
# The columns of a row that a stored bill has as they are.
ENVELOPE: Final = (
    *("id", "version", "locked"),
    *("created", "created_by", "modified", "modified_by"),
    *("approved", "approved_by", "locked_at", "locked_by"),
    *("calculated", "job_id", "invoice_number", "outdated_by"),
)


@dataclass(frozen=True, slots=True)
class BillKey:
    """What makes a bill the same bill when it is calculated again.

    Attributes:
        grouping_key: What tells bills of contracts apart; empty for all without a grouping key.
    """

    COLUMNS: ClassVar = ("account_id", "bill_date", "frequency", "interval", "grouping_key")

    account_id: str
    bill_date: date
    frequency: str
    interval: int
    grouping_key: str = ""

    @property
    def identity(self) -> str:
        """The key as one text, by which a bill is known that is deleted and made again."""
        return " ".join(str(getattr(self, name)) for name in self.COLUMNS)

    @property
    def rank(self) -> BillRank:
        """Where it stands among the bills of its account."""
        return BillRank.of(self.bill_date, self.frequency, self.interval, self.grouping_key)

    @classmethod
    def of_row(cls, row: Any) -> Self:
        """The key of a row, or of anything with the attributes of one."""
        return cls(*(getattr(row, name) for name in cls.COLUMNS))


@dataclass(frozen=True, slots=True)
class LineContent:
    """One line: its stable key, its content, and what it was made from.

    The last two are objects, or the canonical JSON of them.
    """

    key: str
    body: Any
    pins: Any


@dataclass(frozen=True, slots=True)
class BillContent:
    """A bill as it was calculated.

    Attributes:
        key: Its identity.
        period: The name of what it bills: `2026-10`.
        currency: The code of the billing currency.
        total: The sum of its lines.
        body: Everything else that is shown; together with the lines it decides what is a change.
        pins: What it was made from (snapshot, versions); of no weight for what is a change.
        lines: In the order of the bill.
        draws: What it draws from commitments and balances.
        inputs: The digest of all that it was calculated from; None if nobody knows.
        calculation_id: The calculation that it is of; None if nobody knows.
    """

    key: BillKey
    period: str
    currency: str
    total: Decimal
    body: Mapping[str, Any]
    pins: Mapping[str, Any]
    lines: Sequence[LineContent]
    draws: Sequence[Consumption] = ()
    inputs: str | None = field(default=None, compare=False)
    calculation_id: str | None = field(default=None, compare=False)

    def ends_until(self, day: date | None) -> bool:
        """Whether its service period ends on or before a day; both ends are exclusive."""
        end = self.body.get(BODY_END)
        return day is not None and end is not None and str(end) <= day.isoformat()


@dataclass(frozen=True, slots=True)
class StoredBill:
    """A bill with its envelope; instants are aware UTC.

    Attributes:
        locked: Whether a person locked this very bill; the lock date of the organization may
            close it as well.
        calculated: When it was calculated last, even if nothing differed.
        job_id: The job that did it.
        invoice_number: Its sequential number, given at its creation and never again.
        outdated_by: What left something else of its balances and commitments since; see
            `outdated_bills`.
    """

    id: str
    version: int
    status: BillStatus
    locked: bool
    content: BillContent
    created: datetime
    created_by: str
    modified: datetime
    modified_by: str
    approved: datetime | None = None
    approved_by: str | None = None
    locked_at: datetime | None = None
    locked_by: str | None = None
    invoice_number: str | None = None
    # A calculation that changes nothing leaves the same bill.
    calculated: datetime | None = field(default=None, compare=False)
    job_id: str | None = field(default=None, compare=False)
    outdated_by: str | None = field(default=None, compare=False)

    def to_wire(self) -> dict[str, Any]:
        """The bill as the wire shows it, without its lines and what it was made from."""
        content = self.content
        number = self.invoice_number
        return {
            **content.body,
            **({} if number is None else {"sequentialInvoiceNumber": number}),
            "id": self.id,
            "version": self.version,
            "accountId": content.key.account_id,
            "billDate": content.key.bill_date,
            "billingFrequency": content.key.frequency,
            "billFrequencyInterval": content.key.interval,
            "period": content.period,
            "currency": content.currency,
            "billTotal": content.total,
            "status": self.status.value,
            "locked": self.locked,
            "createdBy": self.created_by,
            "dtCreated": self.created,
            "lastModifiedBy": self.modified_by,
            "dtLastModified": self.modified,
        }

    def life_to_wire(self) -> dict[str, Any]:
        """When it was calculated, approved and locked, and by whom; None of what never happened."""
        return {
            "createdDate": self.created,
            "lastCalculatedDate": self.calculated or self.created,
            "billJobId": self.job_id,
            "dtApproved": self.approved,
            "approvedBy": self.approved_by,
            "dtLocked": self.locked_at,
            "lockedBy": self.locked_by,
        }


def line_of(row: Any) -> LineContent:
    """A line from its row."""
    return LineContent(row.key, wire.loads(row.body), wire.loads(row.pins))


def join_lines(row: Any, lines: Sequence[LineContent]) -> StoredBill:
    """A bill from its row, or from anything with the attributes of one, and its lines.

    Raises:
        DamagedRow: It is not what anybody wrote.
    """
    key = BillKey.of_row(row)
    try:
        body, pins = wire.loads(row.body), wire.loads(row.pins)
        total, status = Decimal(row.total), BillStatus(row.status)
    except (Invalid, ValueError, ArithmeticError) as error:
        raise DamagedRow("Bill", row.id, row.version, str(error)) from None
    content = BillContent(key, row.period, row.currency, total, body, pins, lines)
    envelope = {name: getattr(row, name) for name in ENVELOPE}
    return StoredBill(status=status, content=content, **envelope)
