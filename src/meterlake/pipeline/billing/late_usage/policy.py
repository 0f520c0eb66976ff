"""What an organization has chosen to do about late usage, and which bills never change."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Self

from meterlake.model.bills.billing_dates import is_closed
from meterlake.model.configuration.organization import LateUsagePolicy, OrganizationConfig
from meterlake.model.values.period import local_date, zone
from meterlake.pipeline.billing.run import BillResult, BillRun
from meterlake.stores.state.billing.late_usage.late_bills import LateBill
from meterlake.stores.state.billing.lock_date import closed_before

# So long after its end a period is open for scheduled billing.
OPEN_AFTER_END: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class LateRules:
    """What holds for the late usage of an organization while a job looks at it.

    Attributes:
        result: What the job came to.
        policy: What the organization has chosen.
        closed_on: Bills until this bill date are closed, beside those that are locked.
        closed_until: Bills until this bill date never change; None if there is no such date.
    """

    result: BillResult
    policy: LateUsagePolicy
    closed_on: date
    closed_until: date | None

    @classmethod
    def read(cls, run: BillRun, result: BillResult) -> Self:
        """What holds now."""
        with run.organization.reading() as reader:
            [record] = reader.all(OrganizationConfig)
            closed_until = closed_before(reader)
        now = run.organization.now() - OPEN_AFTER_END
        closed_on = local_date(now, zone(record.entity.timezone))
        return cls(result, record.entity.late_usage, closed_on, closed_until)

    def is_closed_bill(self, bill: LateBill) -> bool:
        """Whether a bill never changes."""
        return is_closed(bill.key.bill_date, self.closed_until, locked=bill.locked)

    @property
    def carries(self) -> bool:
        """Whether late usage goes onto a later bill."""
        return self.policy is LateUsagePolicy.CARRY_FORWARD

    def find_refusal(self, account_id: str) -> str | None:
        """Why a bill of an account could not be made again."""
        return next(
            (each.reason for each in self.result.failures if each.account_id == account_id), None
        )
