"""What becomes of the late usage of one bill, decided within one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from meterlake.model.accounts import AccountPlan
from meterlake.model.late_usage import UNDECIDED, LateLine, LateUsage, LateUsageStatus, total_of
from meterlake.model.money import ZERO, exact
from meterlake.model.organization import LateUsagePolicy, OrganizationConfig
from meterlake.pipeline.billing.late_usage.comparison import LateComparison
from meterlake.pipeline.billing.late_usage.policy import LateRules, is_of_bill
from meterlake.stages.bill.late_usage import (
    LineDifference,
    charged_lines,
    charged_total,
    describe_line,
    find_differences,
    memo_to_carry,
)
from meterlake.stages.bill.pricing.currencies import Amount, CannotBill, Currencies
from meterlake.stores.state.billing import bills, memos
from meterlake.stores.state.billing.account_families import read_relatives
from meterlake.stores.state.billing.bill_versions import get_version
from meterlake.stores.state.billing.late_usage.decisions import (
    LateDecision,
    carried_amounts,
    decide_late_usage,
)
from meterlake.stores.state.billing.late_usage.late_bills import (
    LateBill,
    late_bills_by_id,
    next_pending_bill,
)
from meterlake.stores.state.billing.late_usage.lists import find_late_usage
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.memo_lines import line_id
from meterlake.stores.state.core.stored_configuration import StoredConfiguration
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
        self._decide_compared(bill, comparison)
        return True

    def _decide_compared(self, bill: LateBill, comparison: LateComparison) -> None:
        if comparison.failure is not None:
            self._fail(comparison)
            return
        carried = carried_amounts(self.transaction, bill.key)
        found = find_differences(comparison.billed, comparison.due, carried)
        if found:
            self._decide(comparison, found)
        else:
            self._settle(comparison)

    def _fail(self, comparison: LateComparison) -> None:
        version = comparison.bill.content_version
        self._close(LateUsageStatus.FAILED, version, reason=comparison.failure)

    def _settle(self, comparison: LateComparison) -> None:
        """Nothing is to be charged any more: the bill was made again, or nothing changed."""
        bill, late = comparison.bill, self.late
        if bill.content_version == late.bill_version or is_of_bill(late):
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
        if self.rules.carries(self.late):
            self._carry(comparison, found)
            return
        reason = None
        if self.rules.policy is LateUsagePolicy.RECALCULATE:
            is_closed = self.rules.is_closed_bill(bill)
            reason = _LOCKED if is_closed else self.rules.find_refusal(bill.account_id)
        lines = [_line_of(bill, each) for each in found]
        self._close(LateUsageStatus.REPORTED, bill.content_version, lines=lines, reason=reason)

    def _carry(self, comparison: LateComparison, found: Sequence[LineDifference]) -> None:
        bill = comparison.bill
        target = next_pending_bill(self.transaction, bill.key, closed_before(self.transaction))
        if target is None:
            lines = [_line_of(bill, each) for each in found]
            reason = _NO_BILL if self._is_on_a_plan(bill.account_id) else _NO_PLAN
            self._close(LateUsageStatus.WAITING, bill.content_version, lines=lines, reason=reason)
            return
        try:
            lines = [self._carry_line(bill, target, each) for each in found]
        except CannotBill as refused:
            lines = [_line_of(bill, each) for each in found]
            reason = f"it cannot be carried to the bill of {target.key.bill_date}: {refused}"
            self._close(LateUsageStatus.WAITING, bill.content_version, lines=lines, reason=reason)
            return
        if any(each.memo_id for each in lines):
            bills.renew_memos(self.transaction, bills.get(self.transaction, target.id))
        self._close(LateUsageStatus.CARRIED, bill.content_version, lines=lines)

    def _carry_line(self, bill: LateBill, target: LateBill, each: LineDifference) -> LateLine:
        line = _line_of(bill, each)
        amount = self._convert(each.amount, bill.currency, target.currency)
        if not amount:
            # So little that it is nothing in the other currency.
            return line
        memo = memo_to_carry(
            each, amount, target.currency, bill.id, line.line_id, (bill.start, bill.end)
        )
        made = memos.create_memo(self.transaction, target.id, memo.entity, memo.line)
        return line._replace(
            memo_bill_id=target.id,
            memo_id=made.record.id,
            memo_amount=amount,
            memo_currency=target.currency,
        )

    def _convert(self, amount: Decimal, source: str, target: str) -> Decimal:
        """An amount in the currency of another bill, at the rate of now."""
        if source == target:
            return amount
        configuration = StoredConfiguration(self.transaction)
        organization = configuration.single(OrganizationConfig).entity
        currencies = Currencies.of(configuration, organization)
        conversion = currencies.conversion(source, target)
        return currencies.round(Amount(amount).times(conversion.rate), target)

    def _is_on_a_plan(self, account_id: str) -> bool:
        """Whether an account, or one that is billed with it, is still on a plan."""
        configuration, now = StoredConfiguration(self.transaction), self.transaction.now
        return any(
            each.entity.end_date is None or each.entity.end_date > now
            for id_ in read_relatives(self.transaction, [account_id])
            for each in configuration.where(AccountPlan, "account_id", id_)
        )

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
            difference=total_of(lines) if lines else difference,
            lines=lines,
            new_version=new_version,
            reason=reason,
        )
        decide_late_usage(self.transaction, self.late, decision)


def _line_of(bill: LateBill, difference: LineDifference) -> LateLine:
    key = difference.line.key
    return LateLine(
        key=key,
        line_id=line_id(bill.id, key) if difference.is_billed else None,
        description=describe_line(difference.line),
        amount=difference.amount,
    )
