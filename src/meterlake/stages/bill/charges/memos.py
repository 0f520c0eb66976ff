"""The step of memos: corrections of lines that were billed in advance on bills that are locked."""

from collections.abc import Iterator
from typing import Final

from meterlake.stages.bill.charges.line_draft import BillDraft, LineAmount, LineDraft, LineSubject
from meterlake.stages.bill.pricing.currencies import Amount

UNIT: Final = "unit"
# What a memo shows of the line that it is about.
_SHOWN: Final = ("productId", "productName", "productCode", "planId", "planGroupId", "counterId")


def advance_memos(draft: BillDraft) -> Iterator[LineDraft]:
    """Correct lines that were billed in advance, in the order of the lines."""
    for memo in draft.bill.memos:
        line = memo.line
        shown = {name: line[name] for name in _SHOWN if name in line}
        yield LineDraft(
            type=memo.type,
            description=f"Correction: {line['description']}",
            service_period=memo.service_period,
            charged=LineAmount(Amount(memo.amount), UNIT, currency=memo.currency),
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
