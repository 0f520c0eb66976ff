"""The step of commitment fees: what a commitment costs, whatever is drawn from it."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from meterlake.model.bills.bill import LineItemType
from meterlake.stages.bill.charges.line_draft import (
    BillDraft,
    LineAmount,
    LineDraft,
    LinePlace,
    LineSubject,
)
from meterlake.stages.bill.pricing.currencies import Amount
from meterlake.stages.bill.terms.fees_with_plans import DueFee

DESCRIPTION: Final = "Commitment Fee"
UNIT: Final = "commitment fee"


def commitment_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge the fees of commitments that stand on the bill, by their service periods."""
    found: Counter[tuple[object, ...]] = Counter()
    for due in sorted(draft.bill.fees, key=_order):
        # Several accounts of a hierarchy may be on the plan at once, each with its fee periods.
        same = due.commitment.id, due.number, due.fee.service_period.start
        apart = str(found[same]) if found[same] else None
        yield _line(draft, due)._replace(place=LinePlace(apart=apart))
        found[same] += 1


def _order(due: DueFee) -> tuple[object, ...]:
    number = -1 if due.number is None else due.number
    return due.fee.service_period, due.commitment.created, due.commitment.id, number


def _line(draft: BillDraft, due: DueFee) -> LineDraft:
    commitment, fee = due.commitment.entity, due.fee
    product_id = commitment.fees_accounting_product_id or commitment.accounting_product_id
    members = {"commitmentId": due.commitment.id}
    if commitment.contract_id is not None:
        members["contractId"] = commitment.contract_id
    subject = [due.commitment.id, *([] if due.number is None else [str(due.number)])]
    return LineDraft(
        type=LineItemType.COMMITMENT_FEE,
        description=commitment.commitment_fee_description or DESCRIPTION,
        service_period=fee.service_period,
        charged=LineAmount(Amount(fee.amount), UNIT, currency=commitment.currency),
        accounting_product=draft.inputs.catalog.product(product_id),
        subject=LineSubject("/".join(subject)),
        members=members,
        pins={"active_days": fee.days, "period_days": fee.whole_days} if fee.whole_days else {},
        basis=due,
    )
