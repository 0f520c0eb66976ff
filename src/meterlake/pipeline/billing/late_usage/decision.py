"""What becomes of the late usage of one bill, decided within one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from meterlake.model.bills.late_usage import (
    UNDECIDED,
    LateLine,
    LateUsage,
    LateUsageStatus,
    total_of,
)
from meterlake.model.configuration.organization import LateUsagePolicy
from meterlake.model.values.money import ZERO, exact
from meterlake.pipeline.billing.late_usage.carrying import (
    CarriedAmount,
    carry_to_next_bill,
    line_to_carry,
)
from meterlake.pipeline.billing.late_usage.comparison import LateComparison
from meterlake.pipeline.billing.late_usage.policy import LateRules
from meterlake.stages.bill.late_usage import (
    LineDifference,
    charged_lines,
    charged_total,
    find_differences,
)
from meterlake.stores.state.billing.bills.versions import get_version
from meterlake.stores.state.billing.late_usage.carried import carried_amounts
from meterlake.stores.state.billing.late_usage.findings import (
    LateDecision,
    decide_late_usage,
)
from meterlake.stores.state.billing.late_usage.late_bills import (
    late_bills_by_id,
)
from meterlake.stores.state.billing.late_usage.lists import find_late_usage
from meterlake.stores.state.core.transaction import Transaction

_LOCKED: Final = "the bill is locked"
_NO_BILL: Final = "the account has no later bill yet that is PENDING"
_NO_PLAN: Final = "the account has no later bill that is PENDING, and is on no plan any more"


def store_decision(
    transaction: Transaction, rules: LateRules, late: LateUsage, comparison: LateComparison | None
) -> bool:
    """Decide late usage, unless somebody else did so; False if its bill is not what was compared.

    Args:
        transaction: Of the organization.
        rules: What holds for its late usage.
        late: As it was read before.
        comparison: Of its bill; None if the bill was deleted.
    """
    return _Decision(rules, transaction, late, comparison).store()


@dataclass(frozen=True, slots=True)
class _Decision:
    """What becomes of the late usage of one bill, within one transaction."""

    rules: LateRules
    transaction: Transaction
    late: LateUsage
    comparison: LateComparison | None

    def store(self) -> bool:
        """Decide, unless somebody else did so; False if the bill is not what was compared."""
        transaction, late = self.transaction, self.late
        fresh = find_late_usage(transaction, late.id)
        if fresh is None or fresh.until != late.until or fresh.status not in UNDECIDED:
            return True
        bill = late_bills_by_id(transaction, [late.bill_id]).get(late.bill_id)
        if bill is None:
            self._close(LateUsageStatus.UNCHANGED, late.bill_version, reason="the bill was deleted")
            return True
        comparison = self.comparison
        if comparison is None or comparison.bill.content_version != bill.content_version:
            return False
        if comparison.failure is not None:
            version = comparison.bill.content_version
            self._close(LateUsageStatus.FAILED, version, reason=comparison.failure)
        else:
            carried = carried_amounts(self.transaction, bill)
            found = find_differences(comparison.billed, comparison.due, carried)
            if found:
                self._decide(comparison, found)
            else:
                self._settle(comparison)
        return True

    def _settle(self, comparison: LateComparison) -> None:
        """Nothing is to be charged any more: the bill was made again, or nothing changed."""
        bill, late = comparison.bill, self.late
        if bill.content_version == late.bill_version:
            self._close(LateUsageStatus.UNCHANGED, bill.content_version, difference=ZERO)
            return
        before = get_version(self.transaction, bill.id, late.bill_version).content.lines
        old = charged_total(charged_lines((each.key, each.body) for each in before).values())
        with exact():
            difference = charged_total(comparison.billed.values()) - old
        self._close(
            LateUsageStatus.RECALCULATED,
            bill.content_version,
            difference=difference,
            new_version=bill.content_version,
        )

    def _decide(self, comparison: LateComparison, found: Sequence[LineDifference]) -> None:
        bill = comparison.bill
        if self.rules.carries:
            amounts = [CarriedAmount(each, {bill.currency: each.amount}) for each in found]
            carried = carry_to_next_bill(self.transaction, bill, amounts)
            self._close(
                carried.status, bill.content_version, lines=carried.lines, reason=carried.reason
            )
            return
        reason = None
        if self.rules.policy is LateUsagePolicy.RECALCULATE:
            is_closed = self.rules.is_closed_bill(bill)
            reason = _LOCKED if is_closed else self.rules.find_refusal(bill.account_id)
        lines = [line_to_carry(bill, each) for each in found]
        self._close(LateUsageStatus.REPORTED, bill.content_version, lines=lines, reason=reason)

    def _close(
        self,
        status: LateUsageStatus,
        version: int,
        *,
        difference: Decimal | None = None,
        lines: Sequence[LateLine] = (),
        new_version: int | None = None,
        reason: str | None = None,
    ) -> None:
        decision = LateDecision(
            status=status,
            until=self.rules.result.snapshot,
            bill_version=version,
            ledger_at=None if self.comparison is None else self.comparison.bill.ledger_at,
            difference=total_of(lines) if lines else difference,
            lines=lines,
            new_version=new_version,
            reason=reason,
        )
        decide_late_usage(self.transaction, self.late, decision)
