"""What bills do not charge for, each with the reason, and what to look at before a month is approved."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from meterlake.model.values.period import Period


@dataclass(frozen=True, slots=True)
class NoBill:
    """An account on a plan that has no bill of a month for nothing of its own, and why."""

    account_id: str
    account_code: str
    reason: str

    def to_wire(self) -> dict[str, Any]:
        """The report's row under camelCase names."""
        return {"account": self.account_code, "reason": self.reason}


class Uncovered(StrEnum):
    """Why no bill charges for usage."""

    NO_ACCOUNT_PLAN = "NoAccountPlan"
    NO_PRICING = "NoPricing"
    FILTERED = "UsageFilters"
    METER_NOT_PRICED = "MeterNotPriced"
    NO_BILLING_PERIODS = "NoBillingPeriods"
    NO_ACCOUNT = "NoAccount"
    # There would be a price: the bill was deleted.
    MISSING_BILL = "MissingBill"


@dataclass(frozen=True, slots=True)
class Unpriced:
    """Usage that no bill charges for, so that somebody can look into it.

    Attributes:
        aggregation_id: None if nothing that the meter is aggregated to has a price anywhere.
        quantity: The quantity; None together with `aggregation_id`.
        quantity_unit: What the quantity is a number of; None if nothing says so.
        units: What a price would be for; `unit` says of what.
        detail: More about the reason, such as which plan has no billing periods.
    """

    account_id: str
    account_code: str | None
    meter_id: str
    meter_code: str
    period: Period
    measurements: int
    reason: Uncovered
    aggregation_id: str | None = None
    aggregation_code: str | None = None
    quantity: Decimal | None = None
    quantity_unit: str | None = None
    units: Decimal | None = None
    unit: str | None = None
    detail: str | None = None

    @property
    def why(self) -> str:
        """The reason for people."""
        return f"{self.reason.value}: {self.detail}" if self.detail else self.reason.value

    def to_wire(self) -> dict[str, Any]:
        """The report's row under camelCase names."""
        return _present(
            accountId=self.account_id,
            accountCode=self.account_code,
            meterId=self.meter_id,
            meterCode=self.meter_code,
            aggregationId=self.aggregation_id,
            aggregationCode=self.aggregation_code,
            startDateTimeUTC=self.period.start,
            endDateTimeUTC=self.period.end,
            quantity=self.quantity,
            quantityUnit=self.quantity_unit,
            units=self.units,
            unit=self.unit,
            measurements=self.measurements,
            reason=self.reason.value,
            detail=self.detail,
        )


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


class ReviewKind(StrEnum):
    """What is open."""

    MISSING_FILE = "MissingFile"
    REJECTED_ROWS = "RejectedRows"
    LATE_USAGE = "LateUsage"
    UNPRICED_USAGE = "UnpricedUsage"
    FAILED_ACCOUNT = "FailedAccount"
    MISSING_BILL = "MissingBill"
    TOTAL_JUMPED = "TotalJumped"
    OUTDATED_BILL = "OutdatedBill"
    # Whoever approved the month left the bill out.
    LEFT_OPEN = "LeftOpen"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFinding:
    """One thing that is open.

    Attributes:
        subject: What it is about: the code of an account, a reason, the pattern of a file.
        detail: What is wrong with it, in words.
        command: The command that shows more.
        bill_id: The bill that it is about, if there is one.
        amount: How much money it is about, where that is known; of usage without a price an
            estimate: what it would add to the customer's bill, without standing charges and minimums.
        currency: Of the amount.
        count: How many it is about, where it is about several, such as rejected rows.
    """

    kind: ReviewKind
    subject: str
    detail: str
    command: str
    bill_id: str | None = None
    amount: Decimal | None = None
    currency: str | None = None
    count: int | None = None

    def to_wire(self) -> dict[str, Any]:
        """The finding as plain data."""
        found = {
            "kind": self.kind.value,
            "subject": self.subject,
            "detail": self.detail,
            "command": self.command,
            "billId": self.bill_id,
            "amount": self.amount,
            "currency": self.currency,
            "count": self.count,
        }
        return {name: value for name, value in found.items() if value is not None}
