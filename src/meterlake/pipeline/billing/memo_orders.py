"""Credits and debits as people order them: by the line of a bill, and a reason by its name."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from meterlake.model.bills.memos import CreditLineItem, DebitLineItem, MemoLineItem
from meterlake.model.errors import Invalid, NotFound, Required
from meterlake.model.rules.memos import REASONS
from meterlake.model.values.entity import Record
from meterlake.pipeline.billing.bills import get_bill
from meterlake.pipeline.billing.memos import MemoRef, create_memo, delete_memo, get_memo
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.config.named_entities import find_named
from meterlake.stores import Organization

_KINDS: Final = (CreditLineItem, DebitLineItem)
_PERIOD: Final = ("servicePeriodStartDate", "servicePeriodEndDate")


@dataclass(frozen=True, slots=True)
class MemoOrder:
    """A credit or a debit.

    Attributes:
        kind: Which of both.
        bill_id: The bill that it stands on.
        amount: How much, more than 0.
        reason: The code, name or id of a reason of the organization.
        description: What the bill says; the name of the reason if there is none.
        about: The bill that it corrects, perhaps a locked one; the bill that it stands on if None.
        line: The number or the id of the line that it corrects; the largest one if None.
    """

    kind: type[MemoLineItem]
    bill_id: str
    amount: Decimal
    reason: str | None = None
    description: str | None = None
    about: str | None = None
    line: str | None = None


def order_memo(organization: Organization, author: str, order: MemoOrder) -> Document:
    """Put a credit or a debit on a bill; answers as the API does.

    Raises:
        NotFound: There is no such bill, line or reason.
        Locked: The bill is locked, or the lock date closes it.
        Required: Neither a reason nor a description is given.
        Invalid: A field or a rule is broken.
    """
    reason: Record[Any] | None = None
    if order.reason is not None:
        with organization.reading() as reader:
            reason = find_named(reader, REASONS[order.kind][1], order.reason)
    description = order.description or (reason and reason.entity.name)
    if description is None:
        raise Required("--reason or --description")
    about = get_bill(organization, order.about or order.bill_id)
    line = find_line(about, order.line) if order.line is not None else _largest(about)
    document = {
        "productId": line["productId"],
        "accountingProductId": line.get("accountingProductId", line["productId"]),
        "description": description,
        "amount": order.amount,
        "referencedBillId": about["id"],
        "referencedLineItemId": line["id"],
        **{name: line[name] for name in _PERIOD},
        REASONS[order.kind][0]: reason and reason.id,
    }
    ref = MemoRef(order.kind, order.bill_id)
    return create_memo(organization, author, ref, document)


def take_back_memo(organization: Organization, author: str, bill_id: str, line: str) -> Document:
    """Take a credit or a debit from a bill; answers with what it was.

    Args:
        organization: The organization.
        author: Who does it.
        bill_id: The bill.
        line: The number of the line on the bill, or its id.

    Raises:
        NotFound: There is no such bill, or it has no such line.
        Locked: The bill is locked, or the lock date closes it.
        Invalid: The line was calculated.
    """
    found = find_line(get_bill(organization, bill_id), line)
    for kind in _KINDS:
        ref = MemoRef(kind, bill_id, found["id"])
        try:
            get_memo(organization, ref)
        except NotFound:
            continue
        return delete_memo(organization, author, ref)
    raise Invalid("LINE", line, "it must be a credit or a debit that somebody put on the bill")


def find_line(bill: Document, name: str) -> Mapping[str, Any]:
    """The line of a bill that has a number or an id.

    Raises:
        NotFound: There is none.
    """
    for line in bill["lineItems"]:
        if name.lower() in {str(line["sequenceNumber"]), line["id"]}:
            found: Mapping[str, Any] = line
            return found
    numbers = len(bill["lineItems"])
    hint = f"; name one of the lines 1 to {numbers}" if numbers else "; name a bill that has lines"
    raise NotFound("line", name, hint)


def _largest(bill: Document) -> Mapping[str, Any]:
    """The line of a product with the largest amount, as a correction is about one."""
    found = [each for each in bill["lineItems"] if each.get("productId") is not None]
    if not found:
        rule = "the bill has no line of a product that this could be about; name another bill"
        raise Invalid("--about", bill["id"][:8], rule)
    return max(found, key=lambda each: (each["convertedSubtotal"], -each["sequenceNumber"]))
