"""Credits and debits of the API: lines that people put on bills that may still be changed.

Each change is one of its bill, too: its total follows, and it waits for approval again. People
order them by the line of a bill, and give a reason by its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from meterlake.model.bills.memos import CreditLineItem, DebitLineItem, MemoLineItem
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.errors import Invalid, NotFound, Required
from meterlake.model.rules.memos import REASONS, check_memo, memo_line
from meterlake.model.values.entity import Record
from meterlake.model.values.problems import read
from meterlake.pipeline.billing.bills import find_line, get_bill
from meterlake.pipeline.config.entities import Document, envelope, version_of
from meterlake.pipeline.config.named_entities import find_named
from meterlake.stores import Organization
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.credits.ledger import mark_credited
from meterlake.stores.state.billing.memos import memos
from meterlake.stores.state.billing.memos.memos import StoredMemo
from meterlake.stores.state.billing.stored_bills import StoredBill
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

_KINDS: Final = (CreditLineItem, DebitLineItem)
_PERIOD: Final = ("servicePeriodStartDate", "servicePeriodEndDate")


@dataclass(frozen=True, slots=True)
class MemoRef:
    """Which line of a person; `id` is empty for a new one, and for all of a bill."""

    kind: type[MemoLineItem]
    bill_id: str
    id: str = ""


def create_memo(
    organization: Organization, author: str, ref: MemoRef, document: Document
) -> Document:
    """Put a line on a bill.

    Raises:
        NotFound: There is no such bill.
        Locked: It is locked, or the lock date closes it.
        Invalid: A field or a rule is broken.
    """
    entity = read(ref.kind, document)
    with organization.transaction(author) as transaction:
        bill = bills.open_bill(transaction, ref.bill_id)
        line = _line_to_store(transaction, bill, entity, None)
        made = memos.create_memo(transaction, bill.id, entity, line)
        _renew(transaction, bill)
        return _document(made)


def update_memo(
    organization: Organization, author: str, ref: MemoRef, document: Document
) -> Document:
    """Replace a line of a bill; `version` must be the current one.

    Raises:
        NotFound: There is no such bill, or it has no such line.
        Locked: The bill is locked, or the lock date closes it.
        Required: There is no version.
        Invalid: A field or a rule is broken.
        StaleVersion: Someone updated it since the caller read it.
    """
    version, entity = version_of(document), read(ref.kind, document)
    with organization.transaction(author) as transaction:
        bill = bills.open_bill(transaction, ref.bill_id)
        before = _memo(transaction, ref)
        line = _line_to_store(transaction, bill, entity, before)
        changed = memos.update_memo(transaction, before, version, entity, line)
        _renew(transaction, bill)
        return _document(changed)


def delete_memo(organization: Organization, author: str, ref: MemoRef) -> Document:
    """Take a line from a bill; answers with what it was.

    Raises:
        NotFound: There is no such bill, or it has no such line.
        Locked: The bill is locked, or the lock date closes it.
    """
    with organization.transaction(author) as transaction:
        bill = bills.open_bill(transaction, ref.bill_id)
        gone = _memo(transaction, ref)
        memos.delete_memo(transaction, gone)
        _renew(transaction, bill)
        return _document(gone)


def get_memo(organization: Organization, ref: MemoRef) -> Document:
    """One line that a person put on a bill.

    Raises:
        NotFound: There is no such bill, or it has no such line.
    """
    with organization.reading() as reader:
        bills.get(reader, ref.bill_id)
        return _document(_memo(reader, ref))


def list_memos(organization: Organization, ref: MemoRef, page: Page) -> Document:
    """One page of the lines that people put on a bill, the newest first.

    Raises:
        NotFound: There is no such bill.
    """
    with organization.reading() as reader:
        bills.get(reader, ref.bill_id)
        found, token = memos.list_memos(reader, ref.bill_id, ref.kind.kind, page)
        return envelope([_document(each) for each in found], token)


def _renew(transaction: Transaction, bill: StoredBill) -> None:
    """Show the lines of people as they are now; sources that pay for others are to pay anew."""
    bills.renew_memos(transaction, bill)
    configuration = StoredConfiguration(transaction)
    account_id = bill.content.key.account_id
    if any(configuration.where(kind, "account_id", account_id) for kind in (Commitment, Balance)):
        mark_credited(transaction, bill.id)


def _memo(reader: Reader, ref: MemoRef) -> StoredMemo:
    return memos.get_memo(reader, ref.bill_id, ref.kind.kind, ref.id)


def _line_to_store(
    transaction: Transaction, bill: StoredBill, entity: MemoLineItem, before: StoredMemo | None
) -> dict[str, object]:
    configuration, currency = StoredConfiguration(transaction), bill.content.currency
    stored = None if before is None else before.record.entity
    check_memo(entity, stored, currency, configuration)
    _check_reference(transaction, entity, before)
    return memo_line(entity, memos.reason_of(entity), currency, configuration)


def _check_reference(
    transaction: Transaction, entity: MemoLineItem, before: StoredMemo | None
) -> None:
    """What a line refers to exists when it is saved; later it may go."""
    bill_id, id_ = entity.referenced_bill_id, entity.referenced_line_item_id
    if before is not None:
        stored = before.record.entity
        if (bill_id, id_) == (stored.referenced_bill_id, stored.referenced_line_item_id):
            return
        if id_ == before.record.id:
            raise Invalid("referencedLineItemId", id_, "it must be another line than this one")
    try:
        bills.get(transaction, bill_id)
    except NotFound:
        raise Invalid(
            "referencedBillId", bill_id, "it must be the id of an existing bill"
        ) from None
    try:
        find_line(transaction, bill_id, id_)
    except NotFound:
        rule = f"it must be the id of a line of bill {bill_id}"
        raise Invalid("referencedLineItemId", id_, rule) from None


def _document(memo: StoredMemo) -> Document:
    shown = memo.record.to_wire()
    return {**shown, "billId": memo.bill_id, "lineItemType": memo.record.entity.type.value}


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
    line = named_line(about, order.line) if order.line is not None else _largest(about)
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
    found = named_line(get_bill(organization, bill_id), line)
    for kind in _KINDS:
        ref = MemoRef(kind, bill_id, found["id"])
        try:
            get_memo(organization, ref)
        except NotFound:
            continue
        return delete_memo(organization, author, ref)
    raise Invalid("LINE", line, "it must be a credit or a debit that somebody put on the bill")


def named_line(bill: Document, name: str) -> Mapping[str, Any]:
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
