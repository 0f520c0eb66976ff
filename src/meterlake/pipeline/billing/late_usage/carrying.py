"""Puts what is to be charged, or given back, of a bill onto a later one, as memos."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from meterlake.model.bills.late_usage import LateLine, LateUsageStatus
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.values.money import ZERO, exact
from meterlake.stages.bill.late_usage import LineDifference, describe_line, memo_to_carry
from meterlake.stages.bill.pricing.currencies import CannotBill, Currencies
from meterlake.stores.state.billing.accounts.usage_accounts import read_relatives
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.late_usage.late_bills import LateBill, next_pending_bill
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.memos import memos
from meterlake.stores.state.billing.memos.memos import line_id
from meterlake.stores.state.core.stored_configuration import StoredConfiguration
from meterlake.stores.state.core.transaction import Transaction

_NO_BILL: Final = "the account has no later bill yet that is PENDING"
_NO_PLAN: Final = "the account has no later bill that is PENDING, and is on no plan any more"


class CarriedAmount(NamedTuple):
    """What of a line goes onto a later bill, in the currencies in which that is known."""

    difference: LineDifference
    amounts: Mapping[str, Decimal]


class Carried(NamedTuple):
    """What became of differences: the lines have memos, or wait for a reason."""

    status: LateUsageStatus
    lines: Sequence[LateLine]
    reason: str | None = None


def carry_to_next_bill(
    transaction: Transaction, bill: LateBill, found: Iterable[CarriedAmount]
) -> Carried:
    """Put memos onto the next bill that may take them, or say why they have to wait."""
    found = list(found)
    waiting = [line_to_carry(bill, each.difference) for each in found]
    target = next_pending_bill(transaction, bill.key, closed_before(transaction))
    if target is None:
        # Whether an account, or one that is billed with it, is still on a plan.
        configuration = StoredConfiguration(transaction)
        is_on_a_plan = any(
            each.entity.end_date is None or each.entity.end_date > transaction.now
            for id_ in read_relatives(transaction, [bill.account_id])
            for each in configuration.where(AccountPlan, "account_id", id_)
        )
        reason = _NO_BILL if is_on_a_plan else _NO_PLAN
        return Carried(LateUsageStatus.WAITING, waiting, reason)
    carrier = _Carrier(transaction, bill, target)
    try:
        amounts = [carrier.convert(each.amounts) for each in found]
    except CannotBill as refused:
        reason = f"it cannot be carried to the bill of {target.key.bill_date}: {refused}"
        return Carried(LateUsageStatus.WAITING, waiting, reason)
    lines = [
        carrier.carry(each.difference, amount) for each, amount in zip(found, amounts, strict=True)
    ]
    if any(each.memo_id for each in lines):
        bills.renew_memos(transaction, bills.get(transaction, target.id))
    return Carried(LateUsageStatus.CARRIED, lines)


def line_to_carry(bill: LateBill, difference: LineDifference) -> LateLine:
    """A line of late usage that no memo carries."""
    key = difference.line.key
    return LateLine(
        key=key,
        line_id=line_id(bill.id, key) if difference.is_billed else None,
        description=describe_line(difference.line),
        amount=difference.amount,
    )


@dataclass(frozen=True, slots=True)
class _Carrier:
    transaction: Transaction
    bill: LateBill
    target: LateBill

    def convert(self, amounts: Mapping[str, Decimal]) -> Decimal:
        """Amounts together in the currency of the bill with the memos, at the rates of now.

        Raises:
            CannotBill: There is no rate, or a digit would be lost.
        """
        with exact():
            return sum((self._convert(each, code) for code, each in amounts.items()), ZERO)

    def _convert(self, amount: Decimal, source: str) -> Decimal:
        target = self.target.currency
        if source == target:
            return amount
        configuration = StoredConfiguration(self.transaction)
        organization = configuration.single(OrganizationConfig).entity
        currencies = Currencies.of(configuration, organization)
        conversion = currencies.conversion(source, target)
        return currencies.convert(amount, conversion.rate, target)

    def carry(self, difference: LineDifference, amount: Decimal) -> LateLine:
        """The line of a difference, with its memo."""
        bill, target = self.bill, self.target
        line = line_to_carry(bill, difference)
        if not amount:
            # So little that it is nothing in the other currency.
            return line
        service_period = bill.start, bill.end
        memo = memo_to_carry(
            difference, amount, target.currency, bill.id, line.line_id, service_period
        )
        made = memos.create_memo(self.transaction, target.id, memo.entity, memo.line)
        return line._replace(
            memo_bill_id=target.id,
            memo_id=made.record.id,
            memo_amount=amount,
            memo_currency=target.currency,
        )
