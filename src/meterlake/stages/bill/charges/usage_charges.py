"""The step of usage charges: each priced aggregation of a plan, band by band.

If the bands span the plan, a period costs the price of the quantity since the plan's start until
its end, less the price of the quantity until its start. So all periods of a plan add up to the
price of the total.
"""

from collections.abc import Iterator
from decimal import Decimal

from meterlake.model.bills.bill import BandUsage, LineItemType, Quantity, units_of
from meterlake.model.catalog.plans import PricingType
from meterlake.model.values.money import ZERO, divide
from meterlake.model.values.period import Period
from meterlake.stages.bill.charges.line_draft import (
    BillDraft,
    BillInputs,
    LineAmount,
    LineDraft,
    LineSubject,
)
from meterlake.stages.bill.charges.pooled_usage import draft_part, lines_of_pool, shares_of
from meterlake.stages.bill.charges.quantities import find_measured
from meterlake.stages.bill.hierarchies import bills_child
from meterlake.stages.bill.pricing import rate
from meterlake.stages.bill.pricing.currencies import Amount
from meterlake.stages.bill.terms.terms import PlanPeriod, PricedUsage


def usage_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge for what was used of the plans' aggregations.

    Raises:
        CannotBill: A quantity is not known, or has more digits than can be billed.
    """
    for charge in draft.bill.charges:
        if charge.pricing_type is PricingType.DEBIT:
            drafted = draft_usage(charge, draft.inputs)
            if drafted is not None:
                yield from lines_of_pool(charge, drafted, draft.inputs, draft.currency)


def usage_on_other_bills(
    draft: BillDraft, plan_period: PlanPeriod
) -> Iterator[tuple[LineDraft, Decimal]]:
    """The usage lines of a plan that stand on the bills of children, as amounts of this bill."""
    pool, account_plan = plan_period.pool, plan_period.account_plan.entity
    if pool is None or not bills_child(account_plan):
        return
    for charge in draft.bill.charges:
        if charge.plan_period is not plan_period or not charge.is_split:
            continue
        whole = draft_usage(charge, draft.inputs)
        shares = {} if whole is None else shares_of(charge, whole, draft.inputs)
        for account_id, share in shares.items():
            if whole is not None and account_id != account_plan.account_id:
                part = draft_part(whole, share, list(shares.values()))
                yield part, draft.amount_to_pay(share.exact, plan_period.terms.currency)


def draft_usage(charge: PricedUsage, inputs: BillInputs) -> LineDraft | None:
    """The line of what was used; None if nothing was and there is no default.

    Raises:
        CannotBill: A quantity is not known, or has more digits than can be billed.
    """
    quantity = _find_quantity(charge, inputs, charge.period)
    bands = _bands_that_span(charge, inputs) if charge.spans else _price(charge, quantity)
    if quantity is None and not bands:
        return None
    # Counted from the plan's start, the price may change in a period without usage.
    quantity = quantity or _constant(charge, charge.period, ZERO)
    if charge.spans:
        quantity = quantity._replace(units=rate.units(bands))
    applicable_pricing = charge.applicable_pricing
    meter, amount = applicable_pricing.meter, rate.amount(bands)
    return LineDraft(
        type=LineItemType.USAGE,
        description=applicable_pricing.description,
        service_period=charge.period,
        charged=LineAmount(
            Amount(amount),
            quantity.unit,
            quantity.value,
            quantity.units,
            average_unit_price=divide(amount, quantity.units) if quantity.units else ZERO,
            bands=bands,
        ),
        accounting_product=applicable_pricing.accounting_product,
        subject=LineSubject(
            id=applicable_pricing.aggregation.id,
            aggregation_id=None if meter is None else applicable_pricing.aggregation.id,
            meter_id=None if meter is None else meter.id,
            pricing_id=applicable_pricing.pricing.id,
            segment=applicable_pricing.segment,
            usage=charge,
        ),
        plan_period=charge.plan_period,
        pins={
            "measurements": quantity.measurements,
            "aggregation_version": applicable_pricing.aggregation.version,
            "meter_version": None if meter is None else meter.version,
            "pricing_version": applicable_pricing.pricing.version,
        },
        members=applicable_pricing.members,
    )


def _bands_that_span(charge: PricedUsage, inputs: BillInputs) -> tuple[BandUsage, ...]:
    """What the bands charge beyond what they charged since the plan's start."""
    until_end, *until_start = (
        _price(charge, _find_quantity(charge, inputs, each)) for each in charge.spans
    )
    return rate.subtract_bands(until_end, [band for bands in until_start for band in bands])


def _price(charge: PricedUsage, quantity: Quantity | None) -> tuple[BandUsage, ...]:
    if quantity is None:
        return ()
    applicable_pricing = charge.applicable_pricing
    per_unit = applicable_pricing.aggregation.entity.quantity_per_unit
    return rate.price(applicable_pricing.pricing.entity, quantity, per_unit)


def _find_quantity(charge: PricedUsage, inputs: BillInputs, period: Period) -> Quantity | None:
    """What was used in a period, or the default where nothing was; None if there is no default."""
    quantity = find_measured(charge, inputs, charge.usage_id, period)
    default = charge.applicable_pricing.default_value
    if quantity is None and default is not None:
        return _constant(charge, period, default)
    return quantity


def _constant(charge: PricedUsage, period: Period, value: Decimal) -> Quantity:
    """A quantity that is not measured."""
    applicable_pricing = charge.applicable_pricing
    aggregation, meter = applicable_pricing.aggregation, applicable_pricing.meter
    return Quantity(
        account_id=charge.usage_id,
        meter_id="" if meter is None else meter.id,
        aggregation_id=aggregation.id,
        aggregation_version=aggregation.version,
        period=period,
        value=value,
        units=units_of(value, aggregation.entity),
        unit=aggregation.entity.unit,
        measurements=0,
    )
