"""The step of ad hoc charges: single charges of an account, on the bill of their bill date."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from meterlake.model.bills.bill import LineItemType
from meterlake.model.customers.charges import Charge, ChargeLineItemType
from meterlake.model.values.entity import Record
from meterlake.model.values.money import ONE, ZERO, exact
from meterlake.model.values.period import Period
from meterlake.stages.bill.charges.line_draft import BillDraft, LineAmount, LineDraft, LineSubject
from meterlake.stages.bill.pricing.currencies import Amount

UNIT: Final = "charge"


def ad_hoc_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge what people have entered: fees first, then by their service periods."""
    for record in sorted(draft.bill.ad_hoc, key=_order):
        amount = charge_amount(record.entity)
        if amount:
            yield _line(draft, record, amount)


def _order(record: Record[Charge]) -> tuple[object, ...]:
    charge = record.entity
    return (
        charge.line_item_type == ChargeLineItemType.AD_HOC,
        *(charge.service_period_start_date, charge.service_period_end_date),
        *(record.created, record.id),
    )


def charge_amount(charge: Charge) -> Decimal:
    """What a charge comes to, in its own currency: an amount, or units at a price."""
    if charge.amount is not None:
        return charge.amount
    with exact():
        return (charge.units or ZERO) * (charge.unit_price or ZERO)


def _line(draft: BillDraft, record: Record[Charge], amount: Decimal) -> LineDraft:
    charge = record.entity
    members = {
        "chargeId": record.id,
        "balanceId": charge.entity_id,
        "contractId": charge.contract_id,
    }
    units = ONE if charge.units is None else charge.units
    return LineDraft(
        type=LineItemType(charge.line_item_type),
        description=charge.description or charge.name,
        service_period=Period(charge.service_period_start_date, charge.service_period_end_date),
        charged=LineAmount(Amount(amount), UNIT, units, units, charge.currency, charge.unit_price),
        accounting_product=draft.inputs.catalog.product(charge.accounting_product_id),
        subject=LineSubject(record.id),
        members={name: value for name, value in members.items() if value is not None},
        basis=charge,
    )
