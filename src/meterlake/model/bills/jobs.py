"""What a bill job is asked for: the bodies of its requests, and the parameters of the job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import Field

from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.configuration.organization import CurrencyConversion
from meterlake.model.errors import Required
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Day, Id, Integer, Text
from meterlake.model.values.period import Month
from meterlake.model.work.jobs import JobKind

# What the jobs of bills are called in State.
KIND: Final = JobKind.BILL
# The member of a job's result with the bills that it made.
BILL_IDS: Final = "billIds"
# Of those that it made again, the ones that changed, with the first and last version that it made.
CHANGED: Final = "changed"
# As many jobs of an organization may wait or run at a time.
UNFINISHED_MAX: Final = 10
_ONE_DAY: Final = timedelta(days=1)
# The days of a job that makes no bills of periods.
NO_DAYS: Final = DayRange(date(1970, 1, 1), date(1970, 1, 1))
_TYPE: Final = "type"
_CHOSEN_MAX: Final = 100
_CHOSEN: Final = Field(min_length=1, max_length=_CHOSEN_MAX)


class BillJobBillingFrequency(StrEnum):
    """How often the plans of a job are billed."""

    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"
    ANNUALLY = "ANNUALLY"
    AD_HOC = "AD_HOC"


class BillJobType(StrEnum):
    """Whether a job makes the bills that are due, or chosen bills again."""

    CREATE = "CREATE"
    RECALCULATE = "RECALCULATE"


class BillRelation(StrEnum):
    """Why a bill has to do with another one that is calculated.

    DRAWS_AFTER draws from the same balances and commitments, later; SAME_FAMILY is of the same day,
    of a parent account or a child.
    """

    DRAWS_AFTER = "DRAWS_AFTER"
    SAME_FAMILY = "SAME_FAMILY"


class BillJobRequest(Value):
    """Which bills a job makes, and what it takes instead of the organization's settings."""

    last_date_in_billing_period: Day | None = None
    billing_frequency: BillJobBillingFrequency | None = None
    bill_frequency_interval: Annotated[Integer, Field(gt=0, le=36_525)] | None = None
    bill_date: Day | None = None
    external_invoice_date: Day | None = None
    due_date: Day | None = None
    account_ids: Annotated[tuple[Id, ...], _CHOSEN] | None = None
    target_currency: Annotated[Text, Field(min_length=3, max_length=3)] | None = None
    currency_conversions: (
        Annotated[tuple[CurrencyConversion, ...], Field(max_length=250)] | None
    ) = None
    timezone: Annotated[Text, Field(min_length=1, max_length=80)] | None = None
    year_epoch: Day | None = None
    month_epoch: Day | None = None
    week_epoch: Day | None = None
    day_epoch: Day | None = None

    @property
    def days(self) -> DayRange | None:
        """The last day of the billing periods; None if the request leaves it open."""
        if self.bill_date is not None:
            return DayRange.of_day(self.bill_date - _ONE_DAY)
        if self.last_date_in_billing_period is not None:
            return DayRange.of_day(self.last_date_in_billing_period)
        return None

    def to_wire(self) -> dict[str, Any]:
        """What was given of it, under its wire names; both dates if there is one."""
        found = self.model_dump(by_alias=True, exclude_none=True)
        if self.days is not None:
            found |= {"lastDateInBillingPeriod": self.days.first, "billDate": self.days.after}
        return found


class BillJobRecalculateRequest(Value):
    """The bills that a job makes again."""

    bill_ids: Annotated[tuple[Id, ...], _CHOSEN]


@dataclass(frozen=True, slots=True, kw_only=True)
class BillOrder:
    """The parameters of a job: what is to be billed, whoever runs it and whenever.

    Attributes:
        request: What was asked for.
        bill_ids: The bills that are made again; if there are none, those that are due are made.
        days: The last days of the billing periods, where the request leaves it open.
        open_day: Beside these, the bills of the periods that are open on this day.
        account_ids: Only these accounts, beside those of the request.
        approve: Whether the bills are APPROVED right away.
        keep_approved: Whether approved bills stay as they are that come out as other ones; those of a
            job that approves always do.
        late_usage: Whether the job applies the organization's policy for late usage, too.
    """

    request: BillJobRequest = field(default_factory=BillJobRequest)
    bill_ids: tuple[str, ...] = ()
    days: Month | DayRange | None = None
    open_day: date | None = None
    account_ids: tuple[str, ...] | None = None
    approve: bool = False
    keep_approved: bool = False
    late_usage: bool = False

    @property
    def makes_bills(self) -> bool:
        """Whether any bills are due by it: one of no days is about late usage only."""
        return self.days != NO_DAYS

    @property
    def leaves_approved(self) -> bool:
        """Whether approved bills stay as they are that come out as other ones."""
        return self.approve or self.keep_approved

    @property
    def type(self) -> BillJobType:
        """Whether it makes chosen bills again."""
        return BillJobType.RECALCULATE if self.bill_ids else BillJobType.CREATE

    @property
    def chosen_accounts(self) -> tuple[str, ...] | None:
        """The ids of the accounts that are billed; all of them if None."""
        return self.request.account_ids if self.account_ids is None else self.account_ids

    def to_wire(self) -> dict[str, Any]:
        """The order as the parameters of a job."""
        found = {
            _TYPE: self.type.value,
            "request": self.request.model_dump(by_alias=True, exclude_none=True),
            "billIds": list(self.bill_ids) or None,
            "days": None if self.days is None else str(self.days),
            "openDay": self.open_day,
            "accountIds": None if self.account_ids is None else list(self.account_ids),
            "approve": self.approve or None,
            "keepApproved": self.keep_approved or None,
            "lateUsage": self.late_usage or None,
        }
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_wire(cls, parameters: Mapping[str, Any]) -> Self:
        """The order of a job.

        Raises:
            Required: The job is of an older version, whose runs nobody goes on with.
        """
        if _TYPE not in parameters:
            raise Required(_TYPE)
        account_ids = parameters.get("accountIds")
        open_day = parameters.get("openDay")
        days: Month | DayRange | None = None
        if (text := parameters.get("days")) is not None:
            first, _, after = text.partition("/")
            days = (
                DayRange(date.fromisoformat(first), date.fromisoformat(after))
                if after
                else Month.parse(first)
            )
        return cls(
            request=BillJobRequest.model_validate(parameters["request"], by_alias=True),
            bill_ids=tuple(parameters.get("billIds", ())),
            days=days,
            open_day=date.fromisoformat(open_day) if isinstance(open_day, str) else open_day,
            account_ids=None if account_ids is None else tuple(account_ids),
            approve=parameters.get("approve", False),
            keep_approved=parameters.get("keepApproved", False),
            late_usage=parameters.get("lateUsage", False),
        )
