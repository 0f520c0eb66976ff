"""What a pool of accounts used together, on the lines of its accounts.

A summary is one line. A breakdown has a line for each account with its own quantity; the pooled
amount is split by these quantities, so that the lines add up to it to the cent. Where children are
billed, each has its exact share on its own bill, which is converted and rounded there.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from meterlake.model.bills.bill import Quantity
from meterlake.model.customers.accounts import Account
from meterlake.model.values.entity import Record
from meterlake.model.values.money import ZERO, divide, exact
from meterlake.stages.bill.charges.line_draft import (
    BillInputs,
    LineAmount,
    LineDraft,
    RoundedAmount,
)
from meterlake.stages.bill.charges.quantities import find_measured, has_usage
from meterlake.stages.bill.hierarchies import PoolMember, bills_child
from meterlake.stages.bill.pricing.currencies import Amount, Currencies
from meterlake.stages.bill.pricing.remainders import split_by_signed_weights
from meterlake.stages.bill.terms.terms import PricedUsage


class UsageShare(NamedTuple):
    """What one account of a pool is charged for usage that is rated as one.

    Attributes:
        exact: In the pricing currency.
    """

    account: Record[Account]
    usage_id: str
    quantity: Quantity | None
    weight: Decimal
    exact: Amount


class PoolPart(NamedTuple):
    """The part of a pool's usage that a line is about.

    Attributes:
        whole: The line of all that the pool used.
        shares: Those of all accounts.
        is_rounded_together: Whether the rounded amount of the pool is split, or the exact one.
    """

    whole: LineDraft
    share: UsageShare
    shares: Sequence[UsageShare]
    is_rounded_together: bool = False


def lines_of_pool(
    charge: PricedUsage, whole: LineDraft, inputs: BillInputs, currency: str
) -> Iterator[LineDraft]:
    """The lines of a usage charge on one bill.

    Args:
        charge: Of the bill: of whom the plan is billed to, or of a child that is billed its share.
        whole: The line of all that the pool used.
        inputs: What was used.
        currency: The billing currency.

    Raises:
        CannotBill: A quantity is not known, or there is no rate.
    """
    plan_period = charge.plan_period
    shares = shares_of(charge, whole, inputs)
    if not shares:
        # It is not divided, or nobody used anything: there is at most a default value.
        if plan_period.sharer_id is None:
            yield whole
    elif bills_child(plan_period.account_plan.entity):
        share = shares.get(plan_period.sharer_id or plan_period.account_plan.entity.account_id)
        if share is not None:
            yield whole if len(shares) == 1 else draft_part(whole, share, list(shares.values()))
    elif len(shares) == 1:
        # Only one account used anything: the line of the pool is its own.
        yield _of_account(whole, *shares.values())
    else:
        currencies = (plan_currency(charge), currency)
        yield from _break_down(whole, list(shares.values()), inputs.currencies, currencies)


def shares_of(
    charge: PricedUsage, whole: LineDraft, inputs: BillInputs
) -> Mapping[str, UsageShare]:
    """What each account that used something is charged, by id; empty if the line is not divided."""
    pool = charge.plan_period.pool
    if pool is None or not charge.is_split:
        return {}
    key = (*charge.identity, whole.charged.amount)
    if key not in inputs.shares:
        found = _divide(
            charge, list(pool.used_members(charge.period)), whole.charged.amount, inputs
        )
        inputs.shares[key] = {each.account.id: each for each in found}
    known: dict[str, UsageShare] = inputs.shares[key]
    return known


def _divide(
    charge: PricedUsage, members: Sequence[PoolMember], amount: Amount, inputs: BillInputs
) -> Iterator[UsageShare]:
    # What each account used; None if it used nothing, whatever the defaults are.
    own = [
        find_measured(charge, inputs, each.usage_id, charge.period)
        if has_usage(charge, inputs, each.usage_id, charge.period)
        else None
        for each in members
    ]
    if not any(own):
        return
    quantities = [each.value if each else ZERO for each in own]
    with exact():
        is_used = bool(sum(quantities, ZERO))
    # If they sum to 0, all is on the account with the plan, which is the first.
    weights = quantities if is_used else [Decimal(not number) for number in range(len(own))]
    total = sum(map(Fraction, weights), Fraction(0))
    for member, quantity, weight in zip(members, own, weights, strict=True):
        part = Fraction(weight) / total
        with exact():
            dividend, divisor = amount.dividend * part.numerator, amount.divisor * part.denominator
        exact_amount = Amount(dividend, divisor)
        if quantity is not None or exact_amount.dividend:
            yield UsageShare(member.account, member.usage_id, quantity, weight, exact_amount)


def plan_currency(charge: PricedUsage) -> str:
    """The currency of the plan."""
    return charge.plan_period.terms.currency


def _break_down(
    whole: LineDraft, shares: Sequence[UsageShare], known: Currencies, currencies: tuple[str, str]
) -> Iterator[LineDraft]:
    """A line for each account; converted and rounded amounts add up to those of the pool."""
    source, target = currencies
    rate = known.conversion(source, target).rate
    weights = [each.weight for each in shares]
    subtotals, amounts = (
        split_by_signed_weights(known.round(amount, currency), weights, known.rounding(currency)[0])
        for amount, currency in (
            (whole.charged.amount, source),
            (whole.charged.amount.times(rate), target),
        )
    )
    for number, share in enumerate(shares):
        rounded = RoundedAmount(subtotals[number], amounts[number])
        drafted = draft_part(whole, share, shares)
        basis = drafted.basis._replace(is_rounded_together=True)
        charged = drafted.charged._replace(rounded=rounded)
        yield _of_account(drafted._replace(charged=charged, basis=basis), share)


def _of_account(line: LineDraft, share: UsageShare) -> LineDraft:
    """A line on the parent's bill, with the child whose it is if it is that of one."""
    assert line.plan_period is not None
    if share.account.id == line.plan_period.account_plan.entity.account_id:
        return line
    child = {"childAccountId": share.account.id, "childAccountCode": share.account.entity.code}
    return line._replace(members={**line.members, **child})


def draft_part(whole: LineDraft, share: UsageShare, shares: Sequence[UsageShare]) -> LineDraft:
    """A line with what an account used itself; the bands are those of the pool, not its own."""
    quantity, amount = share.quantity, share.exact
    units = ZERO if quantity is None else quantity.units
    pins = dict(whole.pins)
    pins["measurements"] = 0 if quantity is None else quantity.measurements
    with exact():
        divisor = units * amount.divisor
    charged = LineAmount(
        amount,
        whole.charged.unit,
        ZERO if quantity is None else quantity.value,
        units,
        average_unit_price=divide(amount.dividend, divisor) if units else ZERO,
    )
    return whole._replace(
        charged=charged,
        subject=whole.subject._replace(usage_id=share.usage_id),
        pins=pins,
        basis=PoolPart(whole, share, shares),
    )
