"""The step of usage credits: usage that is priced as a credit takes away from a bill.

A product credit takes at most what the other lines of its product come to, a global one at most
what all other lines do. Product credits come first.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from meterlake.model.bills.bill import LineItemType
from meterlake.model.catalog.plans import PricingType
from meterlake.model.values.money import ZERO, divide
from meterlake.stages.bill.charges.line_draft import (
    BillDraft,
    FinishedLine,
    LineAmount,
    LineDraft,
    LinePlace,
)
from meterlake.stages.bill.charges.usage_charges import draft_usage
from meterlake.stages.bill.pricing import rate
from meterlake.stages.bill.pricing.currencies import Amount
from meterlake.stages.bill.terms.terms import PricedUsage


class CreditBasis(NamedTuple):
    """What a usage credit was worked out from.

    Attributes:
        priced: The usage that is credited, before it is limited.
        credit: What it comes to on the bill.
        lines: The lines that it may take from.
        taken: What credits before it took from the same lines.
    """

    priced: LineDraft
    credit: Decimal
    lines: Sequence[FinishedLine]
    taken: Sequence[LineDraft]

    @property
    def left(self) -> Decimal:
        """What the lines come to after the credits before; never below 0."""
        amounts = [each.amount for each in self.lines]
        amounts += [each.charged.amount.dividend for each in self.taken]
        return max(sum(amounts, ZERO), ZERO)


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
    credit = draft.amount_to_pay(drafted.charged.amount, charge.plan_period.terms.currency)
    # The lines that a credit may take from, and the credits before it.
    counts = _counts(charge)
    lines = [each for each in draft.lines if counts(each.draft)]
    basis = CreditBasis(drafted, credit, lines, [each for each in taken if counts(each)])
    amount = min(credit, basis.left)
    if amount <= ZERO:
        return None
    is_global = charge.pricing_type is PricingType.GLOBAL_CREDIT
    charged = _in_billing_currency(draft, charge, drafted.charged)
    return drafted._replace(
        type=LineItemType.USAGE_CREDIT,
        charged=charged._replace(amount=Amount(-amount), currency=draft.currency),
        subject=drafted.subject._replace(usage=None),
        place=LinePlace(
            # One aggregation may have a price as either kind.
            apart=charge.pricing_type.value if is_global else None,
            covers=_counts(charge),
        ),
        basis=basis,
    )


def _in_billing_currency(draft: BillDraft, charge: PricedUsage, charged: LineAmount) -> LineAmount:
    """What a line charges, with its prices in the currency in which it stands on the bill."""
    currency = charge.plan_period.terms.currency
    conversion = draft.inputs.currencies.conversion(currency, draft.currency)
    if conversion.source == conversion.target:
        return charged
    bands = rate.convert_bands(charged.bands, conversion.rate)
    average = divide(rate.amount(bands), charged.units) if charged.units else ZERO
    return charged._replace(bands=bands, average_unit_price=average)


def _counts(charge: PricedUsage) -> Callable[[LineDraft], bool]:
    if charge.pricing_type is PricingType.GLOBAL_CREDIT:
        return lambda _: True
    product_id = charge.plan_period.terms.product.id
    return lambda drafted: (
        drafted.plan_period is not None and drafted.plan_period.terms.product.id == product_id
    )
