"""The connectors of Stripe: a bill becomes an invoice of the customer that its account is mapped to.

Every request has a key of its own that follows from the run's, so that a try that is made again
makes nothing twice. An invoice counts only when its total is that of the bill.
"""

import asyncio
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from meterlake.model.configuration.integration_systems import STRIPE, STRIPE_TEST, IntegrationSystem
from meterlake.model.errors import Invalid
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.pipeline.integrations.connectors.billed import (
    SentBill,
    forget_mapping,
    owner_of,
    read_bill,
    write_mapping,
)
from meterlake.pipeline.integrations.connectors.connector import (
    Exchange,
    Failed,
    FailureKind,
    Outcome,
    Outgoing,
    Sent,
)
from meterlake.pipeline.integrations.connectors.stripe_calls import (
    InvoiceItem,
    invoice_items,
    is_repeated,
    minor_units,
    read_error,
    stripe_client,
)

if TYPE_CHECKING:
    from stripe import Invoice

T = TypeVar("T")
_TABLE: Final = "Invoice"
# What an invoice carries: a digest of what it was made of, and the id of its bill.
_DIGEST: Final = "meterlake_digest"
_BILL: Final = "meterlake_bill"
# So much of a digest tells requests of one run apart.
_KEY_DIGITS: Final = 16
# An invoice of Stripe has no more items.
_ITEMS_MAX: Final = 250
# Stripe repeats what it answered to a key, also an error of its own; then another key is used.
_KEYS: Final = 10


class StripeConnector:
    """Makes invoices with items."""

    concurrency: Final = 4

    def __init__(self, declaration: IntegrationSystem) -> None:
        self.declaration = declaration

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Make the invoice of a bill, or make it anew."""
        return await asyncio.to_thread(self._send, outgoing)

    async def take_back(self, outgoing: Outgoing) -> Outcome:
        """Void the invoice of a bill that is deleted."""
        return await asyncio.to_thread(self._take_back, outgoing)

    def _send(self, outgoing: Outgoing) -> Outcome:
        bill = read_bill(outgoing)
        if isinstance(bill, Failed):
            return bill
        if (ended := bill.reason_not_to_send) is not None:
            return ended
        refused = self._check(bill) or _check_customer(bill)
        if refused is not None:
            return refused
        try:
            items = invoice_items(bill.document, bill.options.split_by)
        except Invalid as error:
            return Failed(kind=FailureKind.INVALID, error=str(error))
        if len(items) > _ITEMS_MAX:
            said = f"{len(items)} items are more than the {_ITEMS_MAX} of an invoice: see splitBy"
            return Failed(kind=FailureKind.INVALID, error=said)
        return _attempt(bill, _Invoicing(outgoing, bill, items).send, _describe(bill, items))

    def _take_back(self, outgoing: Outgoing) -> Outcome:
        bill = read_bill(outgoing)
        if isinstance(bill, Failed):
            return bill
        if (ended := bill.reason_not_to_take_back) is not None:
            return ended
        refused = self._check(bill)
        if refused is not None:
            return refused
        return _attempt(
            bill, _Invoicing(outgoing, bill, []).take_back, f"void the invoice of {bill.stored.id}"
        )

    def _check(self, bill: SentBill) -> Failed | None:
        """Why nothing can be sent: no key, or the key of the other mode."""
        key = "" if bill.credentials is None else bill.credentials.api_key or ""
        if not key:
            return Failed(kind=FailureKind.UNAUTHENTICATED, error="the integration has no API key")
        is_test = "_test_" in key[:8]
        if is_test != (self.declaration is STRIPE_TEST):
            mode = "live" if self.declaration is STRIPE else "test"
            return Failed(
                kind=FailureKind.UNAUTHENTICATED, error=f"it is no key of the {mode} mode"
            )
        return None


def _check_customer(bill: SentBill) -> Failed | None:
    account_id = bill.stored.content.key.account_id
    if bill.mapped("Account", account_id) is not None:
        return None
    error = f"account {bill.account.get('code', account_id)} is mapped to no customer"
    details = {"accountId": account_id, "externalTable": "Customer"}
    return Failed(kind=FailureKind.MAPPING_MISSING, error=error, details=details)


def _attempt(bill: SentBill, work: Callable[[], Outcome], request: str) -> Outcome:
    """Do something at Stripe; an error of it is a failure of a kind."""
    import stripe  # noqa: PLC0415 - it takes a second, and few processes need it

    try:
        return work()
    except stripe.StripeError as error:
        return read_error(error, request, bill.credentials)


class _Invoicing:
    """One try to make the invoice of a bill."""

    def __init__(self, outgoing: Outgoing, bill: SentBill, items: list[InvoiceItem]) -> None:
        assert bill.credentials is not None
        self._outgoing, self._bill, self._items = outgoing, bill, items
        url = outgoing.organization.settings.stripe_url
        self._client = stripe_client(bill.credentials.api_key or "", url)
        self._customer = bill.mapped("Account", bill.stored.content.key.account_id) or ""
        facts = [
            self._customer,
            bill.document["currency"],
            [[each.amount, each.description] for each in items],
        ]
        self._digest = hashlib.sha256(wire.dumps(facts)).hexdigest()

    def send(self) -> Outcome:
        found = self._find_standing()
        same = next((each for each in found if self._is_same(each)), None)
        others = [each for each in found if each is not same]
        paid = next((each for each in others if _is_paid(each)), None)
        if paid is not None and same is None:
            return self._refuse_paid(paid, "the bill has changed")
        for each in others:
            if each.status != "paid" and not self._take_back_one(each):
                return self._refuse_paid(each, "the bill has changed")
        bill_id, others_of = self._bill.stored.id, self._bill.other_ids
        invoice = same or self._create(others[-1].id if others else None)
        if same is None or self._bill.mapped("Bill", bill_id) != invoice.id:
            write_mapping(self._outgoing, "Bill", bill_id, _TABLE, str(invoice.id))
        if any(self._bill.mapped("Bill", each) for each in others_of):
            forget_mapping(self._outgoing, "Bill", others_of, _TABLE)
        return self._finish(invoice)

    def take_back(self) -> Outcome:
        """Void what stands of a deleted bill; what is paid is refused by its name."""
        bill_id = self._bill.stored.id
        done = []
        for each in self._find_standing():
            if _is_nothing(each):
                continue
            owner = owner_of(self._outgoing, "Bill", _TABLE, str(each.id))
            if _is_paid(each) and owner not in {None, bill_id}:
                continue  # The bill was made again, as it was: the invoice is the new one's.
            if _is_paid(each) or not self._take_back_one(each):
                return self._refuse_paid(each, "the bill is deleted")
            done.append(str(each.id))
        forget_mapping(self._outgoing, "Bill", [bill_id], _TABLE)
        said = "; ".join(f"took back invoice {each}" for each in done) or "no invoice stands"
        exchange = Exchange(request=f"{said}: bill {bill_id} is deleted", status_code=200)
        return Sent(exchange=exchange, external_id=done[-1] if done else None)

    def _find_standing(self) -> "list[Invoice]":
        """The invoices of the bill that are not taken back, by whatever id it had, each once.

        What an earlier try made and nobody heard of is found by the ids that invoices carry.
        """
        bill = self._bill
        known = self._retrieve(bill.mapped("Bill", bill.stored.id))
        if known is not None and not bill.is_deleted and not _is_nothing(known):
            # It was made when no other one stood, and nothing was made beside it since.
            return [known]
        found = [known, *(self._retrieve(bill.mapped("Bill", each)) for each in bill.other_ids)]
        if self._customer and (bill.may_be_there or bill.other_ids):
            ids = {bill.stored.id, *bill.other_ids}
            listed = self._client.v1.invoices.list({"customer": self._customer, "limit": 100})
            found += [each for each in listed.auto_paging_iter() if _bill_in(each) in ids]
        standing = {each.id: each for each in found if each is not None and _stands(each)}
        return list(standing.values())

    def _retrieve(self, id: str | None) -> "Invoice | None":
        """An invoice that stands."""
        import stripe  # noqa: PLC0415 - see above

        if id is None:
            return None
        try:
            found = self._client.v1.invoices.retrieve(id)
        except stripe.InvalidRequestError as error:
            if error.code == "resource_missing":
                return None
            raise
        return found if _stands(found) else None

    def _is_same(self, invoice: "Invoice") -> bool:
        """Whether an invoice is as the bill is now: its own one, or what was paid of a former one."""
        is_own = _bill_in(invoice) == self._bill.stored.id or invoice.status == "paid"
        return is_own and _digest_in(invoice) == self._digest

    def _take_back_one(self, invoice: "Invoice") -> bool:
        """Delete a draft, or void what was issued; false if it was paid meanwhile."""
        import stripe  # noqa: PLC0415 - see above

        id_ = str(invoice.id)
        try:
            if invoice.status == "draft":
                self._client.v1.invoices.delete(id_)
                mark_step("stripe.written")
            else:
                void = self._client.v1.invoices.void_invoice
                self._write(f"void {id_}", lambda key: void(id_, {}, key))
        except stripe.InvalidRequestError:
            now = self._retrieve(id_)
            if now is not None and now.status == invoice.status:
                raise
            return now is None or (now.status != "paid" and self._take_back_one(now))
        return True

    def _refuse_paid(self, invoice: "Invoice", why: str) -> Failed:
        error = f"invoice {invoice.id} is paid, and {why}: correct or refund it at Stripe"
        return Failed(kind=FailureKind.ALREADY_PAID, error=error, exchange=self._exchange())

    def _create(self, replaced: str | None) -> "Invoice":
        """Make the invoice; where one was before, by another key than that one.

        Stripe repeats the answer to a key, also of an invoice that was taken back since.
        """
        bill, options = self._bill.document, self._bill.options
        facts: dict[str, Any] = {
            "customer": self._customer,
            "currency": bill["currency"].lower(),
            "auto_advance": False,
            "pending_invoice_items_behavior": "exclude",
            "metadata": {_DIGEST: self._digest, _BILL: self._bill.stored.id},
        }
        if options.days_until_due is not None:
            due = {"collection_method": "send_invoice", "days_until_due": options.days_until_due}
            facts |= due
        create = self._client.v1.invoices.create
        before = replaced or self._bill.mapped("Bill", self._bill.stored.id) or ""
        digest = hashlib.sha256(wire.dumps_sorted(facts).encode()).hexdigest()[:_KEY_DIGITS]
        for number in range(_KEYS):
            part = f"invoice {digest} after {before} {number}"
            made = self._write(part, lambda key: create(facts, key), self._find_unheard)  # type: ignore[arg-type]
            if not self._bill.may_be_there or self._retrieve(str(made.id)) is not None:
                return made
        raise AssertionError(before)

    def _finish(self, invoice: "Invoice") -> Outcome:
        """Add the items that are missing, and issue it if the configuration says so."""
        if invoice.status == "draft":
            invoice_id = str(invoice.id)
            lines = self._client.v1.invoices.line_items.list(invoice_id, {"limit": 100})
            present = len(list(lines.auto_paging_iter()))
            # They are added one after the other, so that the first ones are there.
            for number, item in enumerate(self._items[present:], start=present):
                self._add_item(invoice_id, number, item)
            invoice = self._client.v1.invoices.retrieve(str(invoice.id))
        total = minor_units(self._bill.document["billTotal"], self._bill.document["currency"])
        if invoice.total != total:
            error = f"invoice {invoice.id} comes to {invoice.total} instead of {total}"
            return Failed(kind=FailureKind.REJECTED, error=error, exchange=self._exchange())
        if invoice.status == "draft" and self._bill.options.finalize:
            id_, finalize = str(invoice.id), self._client.v1.invoices.finalize_invoice
            made = self._write(f"finalize {id_}", lambda key: finalize(id_, {}, key))
            if made.status not in {"open", "paid"}:
                error = f"invoice {made.id} is {made.status} after it was finalized"
                return Failed(kind=FailureKind.REJECTED, error=error, exchange=self._exchange())
            invoice = made
        url = getattr(invoice, "hosted_invoice_url", None)
        return Sent(exchange=self._exchange(200), external_id=invoice.id, url=url)

    def _add_item(self, invoice_id: str, number: int, item: InvoiceItem) -> None:
        create = self._client.v1.invoice_items.create
        facts: dict[str, Any] = {
            "customer": self._customer,
            "invoice": invoice_id,
            "amount": item.amount,
            "currency": self._bill.document["currency"].lower(),
            "description": item.description,
        }
        self._write(f"item {number} of {invoice_id}", lambda key: create(facts, key))  # type: ignore[arg-type]

    def _write(
        self, part: str, write: Callable[[Any], T], find: Callable[[], T | None] = lambda: None
    ) -> T:
        """Write with the key of a part; with another key if Stripe only repeats an error of its own.

        Args:
            part: What is written, the same in all tries.
            write: Writes it with a key.
            find: Looks for what was written although the answer was an error.
        """
        import stripe  # noqa: PLC0415 - see above

        for number in range(_KEYS):
            if number > 0 and (found := find()) is not None:
                return found
            name = f"{self._outgoing.idempotency_key} {part}" + f" {number}" * (number > 0)
            try:
                written = write({"idempotency_key": name[-255:]})
            except stripe.StripeError as error:
                if not is_repeated(error) or number == _KEYS - 1:
                    raise
            else:
                mark_step("stripe.written")
                return written
        raise AssertionError(part)

    def _find_unheard(self) -> "Invoice | None":
        """The draft of this content that was made, and of which nobody heard."""
        listed = self._client.v1.invoices.list({"customer": self._customer, "limit": 100})
        drafts = (each for each in listed.data if each.status == "draft")
        return next((each for each in drafts if _digest_in(each) == self._digest), None)

    def _exchange(self, status: int | None = None) -> Exchange:
        return Exchange(request=_describe(self._bill, self._items), status_code=status)


def _stands(invoice: "Invoice") -> bool:
    """Whether an invoice was not taken back."""
    return invoice.status not in {"void", None} and not getattr(invoice, "deleted", False)


def _is_paid(invoice: "Invoice") -> bool:
    return invoice.status == "paid" and invoice.total != 0


def _is_nothing(invoice: "Invoice") -> bool:
    """Whether an invoice is of nothing: it was paid from the beginning, and stays beside the next one."""
    return invoice.status == "paid" and invoice.total == 0


def _digest_in(invoice: "Invoice") -> str | None:
    return _note_in(invoice, _DIGEST)


def _bill_in(invoice: "Invoice") -> str | None:
    return _note_in(invoice, _BILL)


def _note_in(invoice: "Invoice", name: str) -> str | None:
    metadata = invoice.metadata
    return metadata[name] if metadata is not None and name in metadata else None


def _describe(bill: SentBill, items: list[InvoiceItem]) -> str:
    """What is sent, as people may read it: the key stays out."""
    listed = [f"{each.amount} {each.description}" for each in items]
    return "\n".join((f"invoice in {bill.document['currency']}", *listed))


STRIPE_CONNECTORS: Final = (StripeConnector(STRIPE), StripeConnector(STRIPE_TEST))
