"""The step of usage credits: usage that is priced as a credit takes away from a bill.

A product credit takes at most what the other lines of its product come to, a global one at most
what all other lines do. Product credits come first.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal

from meterlake.model.billing import LineItemType
from meterlake.model.money import ZERO
from meterlake.model.pricing import PricingType
from meterlake.stages.bill.charges.line_draft import BillDraft, LineDraft
from meterlake.stages.bill.charges.usage_charges import draft_usage
from meterlake.stages.bill.pricing.currencies import Amount
from meterlake.stages.bill.terms.terms import PricedUsage


def usage_credits(draft: BillDraft) -> Iterator[LineDraft]:
    """Take credits from the lines of the steps before."""
    taken: list[LineDraft] = []
    for kind in (PricingType.PRODUCT_CREDIT, PricingType.GLOBAL_CREDIT):
        # What a pool is given stands whole on the bill of whom the plan is billed to.
        own = (each for each in draft.bill.charges if each.plan_period.sharer_id is None)
        charges = [each for each in own if each.pricing_type is kind]
        for charge in sorted(charges, key=_order):
            drafted = _credit(draft, charge, taken)
            if drafted is not None:
                taken.append(drafted)
    yield from taken


def _order(charge: PricedUsage) -> tuple[object, ...]:
    pricing = charge.applicable_pricing.pricing
    return pricing.entity.code or "", pricing.created, pricing.id


def _credit(draft: BillDraft, charge: PricedUsage, taken: list[LineDraft]) -> LineDraft | None:
    drafted = draft_usage(charge, draft.inputs)
    if drafted is None:
        return None
    credit = draft.amount_to_pay(drafted.amount, charge.plan_period.terms.currency)
    amount = min(credit, _left(draft, charge, taken))
    if amount <= ZERO:
        return None
    is_global = charge.pricing_type is PricingType.GLOBAL_CREDIT
    return drafted._replace(
        type=LineItemType.USAGE_CREDIT,
        amount=Amount(-amount),
        currency=draft.currency,
        charge=None,
        covers=_counts(charge),
        # One aggregation may have a price as either kind.
        apart=charge.pricing_type.value if is_global else None,
    )


def _left(draft: BillDraft, charge: PricedUsage, taken: list[LineDraft]) -> Decimal:
    """What lines that the credit may take from come to, after the credits before it."""
    counts = _counts(charge)
    amounts = [each.amount for each in draft.lines if counts(each.draft)]
    amounts += [each.amount.dividend for each in taken if counts(each)]
    return max(sum(amounts, ZERO), ZERO)


def _counts(charge: PricedUsage) -> Callable[[LineDraft], bool]:
    if charge.pricing_type is PricingType.GLOBAL_CREDIT:
        return lambda _: True
    product_id = charge.plan_period.terms.product.id
    return lambda drafted: (
        drafted.plan_period is not None and drafted.plan_period.terms.product.id == product_id
    )
