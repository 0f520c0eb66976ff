"""The step of usage charges: each priced aggregation of a plan, band by band."""

from collections.abc import Iterator

from meterlake.model.billing import LineItemType, Quantity
from meterlake.model.money import LAKE_INTEGER_DIGITS, ZERO, divide
from meterlake.model.pricing import PricingType
from meterlake.stages.bill import rate
from meterlake.stages.bill.currencies import Amount, CannotBill
from meterlake.stages.bill.line_draft import BillDraft, LineDraft, Quantities, QuantityKey
from meterlake.stages.bill.terms import PricedUsage


def usage_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge for what was used of the plans' aggregations.

    Raises:
        CannotBill: A quantity has more digits than can be billed.
    """
    for charge in draft.bill.charges:
        if charge.pricing_type is PricingType.DEBIT:
            quantity = find_quantity(charge, draft.inputs.quantities)
            if quantity is not None:
                yield draft_usage(charge, quantity)


def find_quantity(charge: PricedUsage, quantities: Quantities) -> Quantity | None:
    """What was used, or the default where nothing was; None if there is no default."""
    account_id, aggregation = charge.account_id, charge.applicable_pricing.aggregation
    key = QuantityKey(account_id, aggregation.id, charge.period, charge.applicable_pricing.segment)
    quantity = quantities.get(key)
    if quantity is None and aggregation.entity.default_value is not None:
        if key.segment is not None:
            return None
        value = aggregation.entity.default_value
        return Quantity.of(account_id, aggregation, charge.period, value)
    if quantity is not None and quantity.overflows:
        name = aggregation.entity.code or aggregation.entity.name
        raise CannotBill(f"{name!r} adds up to more than {LAKE_INTEGER_DIGITS} integer digits")
    return quantity


def draft_usage(charge: PricedUsage, quantity: Quantity) -> LineDraft:
    """The line of a quantity."""
    applicable_pricing = charge.applicable_pricing
    aggregation, pricing = applicable_pricing.aggregation.entity, applicable_pricing.pricing.entity
    bands = rate.price(pricing, quantity, aggregation.quantity_per_unit)
    amount = rate.amount(bands)
    return LineDraft(
        type=LineItemType.USAGE,
        description=applicable_pricing.description,
        service_period=charge.period,
        quantity=quantity.value,
        units=quantity.units,
        unit=quantity.unit,
        amount=Amount(amount),
        average_unit_price=divide(amount, quantity.units) if quantity.units else ZERO,
        accounting_product=applicable_pricing.accounting_product,
        plan_period=charge.plan_period,
        subject=applicable_pricing.aggregation.id,
        aggregation_id=applicable_pricing.aggregation.id,
        meter_id=applicable_pricing.meter.id,
        pricing_id=applicable_pricing.pricing.id,
        segment=applicable_pricing.segment,
        bands=bands,
        pins={
            "measurements": quantity.measurements,
            "aggregation_version": applicable_pricing.aggregation.version,
            "meter_version": applicable_pricing.meter.version,
            "pricing_version": applicable_pricing.pricing.version,
        },
    )
