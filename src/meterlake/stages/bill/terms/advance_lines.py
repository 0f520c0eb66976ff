"""Lines billed in advance on bills that are locked, and the memos that correct them, as values."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.billing_dates import is_closed
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.values.entity import Record
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Period
from meterlake.stages.bill.credits.source_returns import SourcePart, SourceReturn
from meterlake.stages.bill.periods.due_periods import BillIdentity
from meterlake.stages.bill.periods.selection import BillOverrides


class AdvanceMemo(NamedTuple):
    """What a locked line is corrected by, on a later bill.

    Attributes:
        bill: On which bill it stands.
        amount: What it adds to that; below 0 for a credit.
        service_period: The time that is charged no longer, or in addition.
        line: The line that it is about, as it is stored.
        returns: What of the correction goes back to sources: it is not in the amount.
        due: What the line would be if the end had always been known.
        days: Of how many of its days that is, if it is scaled by them.
        settled: What memos on locked bills have added to the line.
        returned: What of it went back to sources on locked bills.
    """

    bill: BillIdentity
    amount: Decimal
    currency: str
    service_period: Period
    account_plan: Record[AccountPlan]
    referenced_bill_id: str
    referenced_line_id: str
    line: Mapping[str, Any]
    returns: tuple[SourceReturn, ...] = ()
    due: Decimal = ZERO
    days: tuple[int, int] | None = None
    settled: Decimal = ZERO
    returned: Decimal = ZERO

    @property
    def type(self) -> LineItemType:
        """Whether it lowers the bill or raises it."""
        return LineItemType.CREDIT_MEMO if self.amount < 0 else LineItemType.DEBIT_MEMO


class AdvanceLine(NamedTuple):
    """A line of a locked bill that charges for time after its bill date.

    Attributes:
        body: The line as it is stored, under wire names.
        currency: That of its bill.
        active_days: Of how many days it charges for; None if nobody wrote it down.
        period_days: How many days it would have been in full.
        before: The account plan and its contract as it was made with them.
        settled: What memos on locked bills have added to it.
        standing: The bill that may be changed and has a memo about it; None if there is none.
        paid: What sources paid of it, in the order in which they drew.
        deleted: The account plan as it was last, if it is deleted.
    """

    bill_id: str
    line_id: str
    bill: BillIdentity
    overrides: BillOverrides
    key: str
    body: Mapping[str, Any]
    currency: str
    account_plan_id: str
    active_days: int | None
    period_days: int | None
    before: tuple[Record[Any], ...] = ()
    settled: Decimal = ZERO
    standing: BillIdentity | None = None
    paid: tuple[SourcePart, ...] = ()
    deleted: Record[AccountPlan] | None = None

    @property
    def returned(self) -> Decimal:
        """What of it went back to sources on bills that are closed."""
        with exact():
            return sum((each.returned for each in self.paid), ZERO)

    @property
    def amount(self) -> Decimal:
        """What it is, in the billing currency of its bill."""
        return Decimal(self.body["convertedSubtotal"])

    @property
    def service_period(self) -> Period:
        """What it charges for."""
        names = ("servicePeriodStartDate", "servicePeriodEndDate")
        start, end = (datetime.fromisoformat(self.body[name]) for name in names)
        return Period(start, end)

    @property
    def is_full(self) -> bool:
        """Whether it charges for all days that there are."""
        return self.active_days is not None and self.active_days == self.period_days


def may_have_changed(line: AdvanceLine, time: tuple[datetime, datetime | None]) -> bool:
    """Whether a line may not be right as it is, now that its plan is charged at some time."""
    start, end = time
    service = line.service_period
    inside = start <= service.start and (end is None or service.end <= end)
    return bool(line.settled) or not (inside and line.is_full)


@dataclass(frozen=True, slots=True)
class ClosedBills:
    """The bills that never change.

    Attributes:
        keys: Those that are locked.
        until: The exclusive end of closed time: every bill of that date and before is closed.
    """

    keys: Collection[BillIdentity]
    until: date | None = None

    def has(self, key: BillIdentity) -> bool:
        """Whether a bill never changes, also one that there is not yet."""
        return is_closed(key.bill_date, self.until, locked=key in self.keys)


NO_MEMOS: Final[Mapping[str, Sequence[AdvanceMemo]]] = MappingProxyType({})
