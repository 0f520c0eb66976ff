"""The steps of what has a date of its own: single charges, fees of commitments, and memos."""

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from meterlake.model.bills.bill import LineItemType
from meterlake.model.customers.charges import Charge, ChargeLineItemType
from meterlake.model.values.entity import Record
from meterlake.model.values.money import ONE, ZERO, exact
from meterlake.model.values.period import Period
from meterlake.stages.bill.charges.line_draft import (
    BillDraft,
    LineAmount,
    LineDraft,
    LinePlace,
    LineSubject,
)
from meterlake.stages.bill.pricing.currencies import Amount
from meterlake.stages.bill.terms.bill_items import DueFee

CHARGE_UNIT: Final = "charge"
MEMO_UNIT: Final = "unit"
# What a memo shows of the line that it is about.
_SHOWN: Final = ("productId", "productName", "productCode", "planId", "planGroupId", "counterId")
FEE_DESCRIPTION: Final = "Commitment Fee"
FEE_UNIT: Final = "commitment fee"


def ad_hoc_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge what people have entered: fees first, then by their service periods."""
    for record in sorted(draft.bill.ad_hoc, key=_order):
        amount = charge_amount(record.entity)
        if amount:
            charge = record.entity
            members = {
                "chargeId": record.id,
                "balanceId": charge.entity_id,
                "contractId": charge.contract_id,
            }
            units = ONE if charge.units is None else charge.units
            yield LineDraft(
                type=LineItemType(charge.line_item_type),
                description=charge.description or charge.name,
                service_period=Period(
                    charge.service_period_start_date, charge.service_period_end_date
                ),
                charged=LineAmount(
                    Amount(amount), CHARGE_UNIT, units, units, charge.currency, charge.unit_price
                ),
                accounting_product=draft.inputs.catalog.product(charge.accounting_product_id),
                subject=LineSubject(record.id),
                members={name: value for name, value in members.items() if value is not None},
                basis=charge,
            )


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


def advance_memos(draft: BillDraft) -> Iterator[LineDraft]:
    """Correct lines that were billed in advance, in the order of the lines."""
    for memo in draft.bill.memos:
        line = memo.line
        shown = {name: line[name] for name in _SHOWN if name in line}
        yield LineDraft(
            type=memo.type,
            description=f"Correction: {line['description']}",
            service_period=memo.service_period,
            charged=LineAmount(Amount(memo.amount), MEMO_UNIT, currency=memo.currency),
            accounting_product=draft.inputs.catalog.product(line.get("accountingProductId")),
            account_plan=memo.account_plan,
            subject=LineSubject(memo.referenced_line_id),
            members={
                **shown,
                "referencedBillId": memo.referenced_bill_id,
                "referencedLineItemId": memo.referenced_line_id,
            },
            basis=memo,
        )


def commitment_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge the fees of commitments that stand on the bill, by their service periods."""
    found: Counter[tuple[object, ...]] = Counter()
    for due in sorted(draft.bill.fees, key=_order_fees):
        # Several accounts of a hierarchy may be on the plan at once, each with its fee periods.
        same = due.commitment.id, due.number, due.fee.service_period.start
        apart = str(found[same]) if found[same] else None
        yield _draft_fee(draft, due)._replace(place=LinePlace(apart=apart))
        found[same] += 1


def _order_fees(due: DueFee) -> tuple[object, ...]:
    number = -1 if due.number is None else due.number
    return due.fee.service_period, due.commitment.created, due.commitment.id, number


def _draft_fee(draft: BillDraft, due: DueFee) -> LineDraft:
    commitment, fee = due.commitment.entity, due.fee
    product_id = commitment.fees_accounting_product_id or commitment.accounting_product_id
    members = {"commitmentId": due.commitment.id}
    if commitment.contract_id is not None:
        members["contractId"] = commitment.contract_id
    subject = [due.commitment.id, *([] if due.number is None else [str(due.number)])]
    return LineDraft(
        type=LineItemType.COMMITMENT_FEE,
        description=commitment.commitment_fee_description or FEE_DESCRIPTION,
        service_period=fee.service_period,
        charged=LineAmount(Amount(fee.amount), FEE_UNIT, currency=commitment.currency),
        accounting_product=draft.inputs.catalog.product(product_id),
        subject=LineSubject("/".join(subject)),
        members=members,
        pins={"active_days": fee.days, "period_days": fee.whole_days} if fee.whole_days else {},
        basis=due,
    )
