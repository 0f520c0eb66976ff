"""The connectors of Stripe: a bill becomes an invoice of the customer that its account is mapped to.

Every request has a key of its own that follows from the run's, so that a try that is made again
makes nothing twice. An invoice counts only when its total is that of the bill.
"""

import asyncio
import hashlib
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from meterlake.model import wire
from meterlake.model.errors import Invalid
from meterlake.model.integration_systems import STRIPE, STRIPE_TEST, IntegrationSystem
from meterlake.pipeline.integrations.connectors.billed import SentBill, read_bill, write_mapping
from meterlake.pipeline.integrations.connectors.connector import (
    Exchange,
    Failed,
    FailureKind,
    Outcome,
    Outgoing,
    Sent,
)
from meterlake.pipeline.integrations.connectors.invoice_items import (
    InvoiceItem,
    invoice_items,
    minor_units,
)
from meterlake.pipeline.integrations.http_client import TIMEOUT_S

if TYPE_CHECKING:
    from stripe import Invoice, StripeClient, StripeError

T = TypeVar("T")
_TABLE: Final = "Invoice"
_DIGEST: Final = "meterlake_digest"
_TOO_MANY: Final = 429
_CONFLICT: Final = 409
_SERVER: Final = 500
_KEPT: Final = 1 << 10
# An invoice of Stripe has no more items.
_ITEMS_MAX: Final = 250
# Stripe repeats what it answered to a key, also an error of its own; then another key is used.
_REPLAYED: Final = "idempotent-replayed"
_KEYS: Final = 10


class StripeConnector:
    """Makes invoices with items."""

    concurrency: Final = 4

    def __init__(self, declaration: IntegrationSystem) -> None:
        self.declaration = declaration

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Make the invoice of a bill, or make it anew."""
        return await asyncio.to_thread(self._send, outgoing)

    def _send(self, outgoing: Outgoing) -> Outcome:
        bill = read_bill(outgoing)
        if isinstance(bill, Failed):
            return bill
        refused = self._check(bill)
        if refused is not None:
            return refused
        try:
            items = invoice_items(bill.document, bill.options.split_by)
        except Invalid as error:
            return Failed(kind=FailureKind.INVALID, error=str(error))
        if len(items) > _ITEMS_MAX:
            said = f"{len(items)} items are more than the {_ITEMS_MAX} of an invoice: see splitBy"
            return Failed(kind=FailureKind.INVALID, error=said)
        import stripe  # noqa: PLC0415 - it takes a second, and few processes need it

        try:
            return _Invoicing(outgoing, bill, items).send()
        except stripe.StripeError as error:
            return read_error(error, _describe(bill, items))

    def _check(self, bill: SentBill) -> Failed | None:
        """Why nothing can be sent: no key, the key of the other mode, no customer."""
        key = "" if bill.credentials is None else bill.credentials.api_key or ""
        if not key:
            return Failed(kind=FailureKind.UNAUTHENTICATED, error="the integration has no API key")
        is_test = "_test_" in key[:8]
        if is_test != (self.declaration is STRIPE_TEST):
            mode = "live" if self.declaration is STRIPE else "test"
            return Failed(
                kind=FailureKind.UNAUTHENTICATED, error=f"it is no key of the {mode} mode"
            )
        account_id = bill.stored.content.key.account_id
        if bill.mapped("Account", account_id) is None:
            error = f"account {bill.account.get('code', account_id)} is mapped to no customer"
            details = {"accountId": account_id, "externalTable": "Customer"}
            return Failed(kind=FailureKind.MAPPING_MISSING, error=error, details=details)
        return None


class _Invoicing:
    """One try to make the invoice of a bill."""

    def __init__(self, outgoing: Outgoing, bill: SentBill, items: list[InvoiceItem]) -> None:
        assert bill.credentials is not None
        self._outgoing, self._bill, self._items = outgoing, bill, items
        url = outgoing.stores.settings.stripe_url
        self._client = stripe_client(bill.credentials.api_key or "", url)
        self._customer = bill.mapped("Account", bill.stored.content.key.account_id) or ""
        self._digest = _digest_of(self._customer, bill, items)

    def send(self) -> Outcome:
        before = self._find()
        if before is not None and _digest_in(before) == self._digest:
            return self._finish(before)
        if before is not None and before.status == "paid":
            error = f"invoice {before.id} is paid; the bill has changed"
            return Failed(kind=FailureKind.ALREADY_PAID, error=error, exchange=self._exchange())
        if before is not None:
            self._take_back(before)
        return self._finish(self._create())

    def _find(self) -> "Invoice | None":
        """The invoice that an earlier run, or an earlier try, made of the bill."""
        import stripe  # noqa: PLC0415 - see above

        known = self._bill.mapped("Bill", self._bill.stored.id)
        if known is None:
            return None
        try:
            found = self._client.v1.invoices.retrieve(known)
        except stripe.InvalidRequestError as error:
            if error.code == "resource_missing":
                return None
            raise
        gone = found.status in {"void", None} or getattr(found, "deleted", False)
        return None if gone else found

    def _take_back(self, invoice: "Invoice") -> None:
        assert invoice.id is not None
        if invoice.status == "draft":
            self._client.v1.invoices.delete(invoice.id)
        else:
            id_, void = invoice.id, self._client.v1.invoices.void_invoice
            self._write(f"void {id_}", lambda key: void(id_, {}, key))

    def _create(self) -> "Invoice":
        bill, options = self._bill.document, self._bill.options
        facts: dict[str, Any] = {
            "customer": self._customer,
            "currency": bill["currency"].lower(),
            "auto_advance": False,
            "pending_invoice_items_behavior": "exclude",
            "metadata": {_DIGEST: self._digest, "meterlake_bill": self._bill.stored.id},
        }
        if options.days_until_due is not None:
            due = {"collection_method": "send_invoice", "days_until_due": options.days_until_due}
            facts |= due
        create = self._client.v1.invoices.create
        made = self._write("invoice", lambda key: create(facts, key), self._find_unheard)  # type: ignore[arg-type]
        mapping = ("Bill", self._bill.stored.id, _TABLE, str(made.id))
        write_mapping(self._outgoing, *mapping)
        return made

    def _finish(self, invoice: "Invoice") -> Outcome:
        """Add the items that are missing, and issue it if the configuration says so."""
        if invoice.status == "draft":
            self._add_items(str(invoice.id))
            invoice = self._client.v1.invoices.retrieve(str(invoice.id))
        total = minor_units(self._bill.document["billTotal"], self._bill.document["currency"])
        if invoice.total != total:
            error = f"invoice {invoice.id} comes to {invoice.total} instead of {total}"
            return Failed(kind=FailureKind.REJECTED, error=error, exchange=self._exchange())
        if invoice.status == "draft" and self._bill.options.finalize:
            id_, finalize = str(invoice.id), self._client.v1.invoices.finalize_invoice
            made = self._write("finalize", lambda key: finalize(id_, {}, key))
            if made.status not in {"open", "paid"}:
                error = f"invoice {made.id} is {made.status} after it was finalized"
                return Failed(kind=FailureKind.REJECTED, error=error, exchange=self._exchange())
            invoice = made
        url = getattr(invoice, "hosted_invoice_url", None)
        return Sent(exchange=self._exchange(200), external_id=invoice.id, url=url)

    def _add_items(self, invoice_id: str) -> None:
        lines = self._client.v1.invoices.line_items.list(invoice_id, {"limit": 100})
        present = len(list(lines.auto_paging_iter()))
        # They are added one after the other, so that the first ones are there.
        for number, item in enumerate(self._items[present:], start=present):
            self._add_item(invoice_id, number, item)

    def _add_item(self, invoice_id: str, number: int, item: InvoiceItem) -> None:
        create = self._client.v1.invoice_items.create
        facts: dict[str, Any] = {
            "customer": self._customer,
            "invoice": invoice_id,
            "amount": item.amount,
            "currency": self._bill.document["currency"].lower(),
            "description": item.description,
        }
        self._write(f"item {number}", lambda key: create(facts, key))  # type: ignore[arg-type]

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
                return write({"idempotency_key": name[-255:]})
            except stripe.StripeError as error:
                if not _is_repeated(error) or number == _KEYS - 1:
                    raise
        raise AssertionError(part)

    def _find_unheard(self) -> "Invoice | None":
        """The draft of this content that was made, and of which nobody heard."""
        listed = self._client.v1.invoices.list({"customer": self._customer, "limit": 100})
        drafts = (each for each in listed.data if each.status == "draft")
        return next((each for each in drafts if _digest_in(each) == self._digest), None)

    def _exchange(self, status: int | None = None) -> Exchange:
        return Exchange(request=_describe(self._bill, self._items), status_code=status)


@cache
def _http_client() -> Any:
    """Requests without the proxies of the environment."""
    import requests  # noqa: PLC0415 - see above
    import stripe  # noqa: PLC0415

    session = requests.Session()
    session.trust_env = False
    return stripe.RequestsClient(timeout=TIMEOUT_S, session=session)


def stripe_client(key: str, url: str | None) -> "StripeClient":
    """A client of Stripe, or of what the settings name in its stead."""
    import stripe  # noqa: PLC0415 - see above

    more: dict[str, Any] = {} if url is None else {"base_addresses": {"api": url}}
    return stripe.StripeClient(key, http_client=_http_client(), max_network_retries=0, **more)


def _is_repeated(error: "StripeError") -> bool:
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    return (error.http_status or 0) >= _SERVER and headers.get(_REPLAYED) == "true"


def _digest_in(invoice: "Invoice") -> str | None:
    metadata = invoice.metadata
    return metadata[_DIGEST] if metadata is not None and _DIGEST in metadata else None


def _digest_of(customer: str, bill: SentBill, items: list[InvoiceItem]) -> str:
    facts = [
        customer,
        bill.document["currency"],
        [[each.amount, each.description] for each in items],
    ]
    return hashlib.sha256(wire.dumps(facts)).hexdigest()


def _describe(bill: SentBill, items: list[InvoiceItem]) -> str:
    """What is sent, as people may read it: the key stays out."""
    listed = [f"{each.amount} {each.description}" for each in items]
    return "\n".join((f"invoice in {bill.document['currency']}", *listed))


def read_error(error: "StripeError", request: str) -> Failed:
    """What an error of Stripe means."""
    text = (error.http_body or "") if isinstance(error.http_body, str) else ""
    exchange = Exchange(
        request=request, status_code=error.http_status, response=text[:_KEPT] or None
    )
    said = error.user_message or str(error)
    return Failed(kind=_kind(error), error=f"Stripe: {said}"[:_KEPT], exchange=exchange)


def _kind(error: "StripeError") -> FailureKind:
    import stripe  # noqa: PLC0415 - see above

    match error:
        case stripe.AuthenticationError() | stripe.PermissionError():
            return FailureKind.UNAUTHENTICATED
        case stripe.RateLimitError():
            return FailureKind.RATE_LIMITED
        case stripe.APIConnectionError():
            return FailureKind.UNAVAILABLE
    status = error.http_status or _SERVER
    if status == _TOO_MANY:
        return FailureKind.RATE_LIMITED
    return (
        FailureKind.UNAVAILABLE if status in {_CONFLICT, *range(500, 600)} else FailureKind.REJECTED
    )


STRIPE_CONNECTORS: Final = (StripeConnector(STRIPE), StripeConnector(STRIPE_TEST))
