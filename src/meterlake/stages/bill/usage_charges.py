"""The step of usage charges: each priced aggregation of a plan, band by band.

If the bands span the plan, a period costs the price of the quantity since the plan's start until
its end, less the price of the quantity until its start. So all periods of a plan add up to the
price of the total.
"""

from collections.abc import Iterator

from meterlake.model.billing import BandUsage, LineItemType, Quantity
from meterlake.model.money import LAKE_INTEGER_DIGITS, ZERO, divide
from meterlake.model.period import Period
from meterlake.model.pricing import PricingType
from meterlake.stages.bill import rate
from meterlake.stages.bill.currencies import Amount, CannotBill
from meterlake.stages.bill.line_draft import BillDraft, BilledQuantityKey, LineDraft, Quantities
from meterlake.stages.bill.terms import PricedUsage


def usage_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge for what was used of the plans' aggregations.

    Raises:
        CannotBill: A quantity has more digits than can be billed.
    """
    for charge in draft.bill.charges:
        if charge.pricing_type is PricingType.DEBIT:
            drafted = draft_usage(charge, draft.inputs.quantities)
            if drafted is not None:
                yield drafted


def draft_usage(charge: PricedUsage, quantities: Quantities) -> LineDraft | None:
    """The line of what was used; None if nothing was and there is no default.

    Raises:
        CannotBill: A quantity has more digits than can be billed.
    """
    quantity = _find_quantity(charge, quantities, charge.period)
    bands = _bands(charge, quantities)
    if quantity is None and not bands:
        return None
    return _line(charge, quantity or _nothing(charge), bands)


def _bands(charge: PricedUsage, quantities: Quantities) -> tuple[BandUsage, ...]:
    """What the bands charge for the period."""
    if not charge.spans:
        return _price(charge, quantities, charge.period)
    until_end, *until_start = charge.spans
    bands = _price(charge, quantities, until_end)
    before = [band for each in until_start for band in _price(charge, quantities, each)]
    return rate.subtract_bands(bands, before)


def _price(charge: PricedUsage, quantities: Quantities, period: Period) -> tuple[BandUsage, ...]:
    quantity = _find_quantity(charge, quantities, period)
    if quantity is None:
        return ()
    applicable_pricing = charge.applicable_pricing
    per_unit = applicable_pricing.aggregation.entity.quantity_per_unit
    return rate.price(applicable_pricing.pricing.entity, quantity, per_unit)


def _find_quantity(charge: PricedUsage, quantities: Quantities, period: Period) -> Quantity | None:
    """What was used in a period, or the default where nothing was; None if there is no default."""
    account_id, aggregation = charge.account_id, charge.applicable_pricing.aggregation
    key = BilledQuantityKey(account_id, aggregation.id, period, charge.applicable_pricing.segment)
    quantity = quantities.get(key)
    if quantity is None and aggregation.entity.default_value is not None:
        if key.segment is not None:
            return None
        value = aggregation.entity.default_value
        return Quantity.of(account_id, aggregation, period, value)
    if quantity is not None and quantity.overflows:
        name = aggregation.entity.code or aggregation.entity.name
        raise CannotBill(f"{name!r} adds up to more than {LAKE_INTEGER_DIGITS} integer digits")
    return quantity


def _nothing(charge: PricedUsage) -> Quantity:
    """No usage in a period whose price changes all the same, since it counts from the plan's start."""
    return Quantity.of(
        charge.account_id, charge.applicable_pricing.aggregation, charge.period, ZERO
    )


def _line(charge: PricedUsage, quantity: Quantity, bands: tuple[BandUsage, ...]) -> LineDraft:
    applicable_pricing = charge.applicable_pricing
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
