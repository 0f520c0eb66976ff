"""A small Stripe that is strict where stand-ins are not: keys, drafts, totals, unknown parameters."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

KEY = "sk_test_the_secret_key"
_INVOICE = {
    *("customer", "currency", "auto_advance", "pending_invoice_items_behavior"),
    *("metadata[meterlake_digest]", "metadata[meterlake_bill]"),
    *("collection_method", "days_until_due"),
}
_ITEM = {"customer", "invoice", "amount", "currency", "description"}
_LIST = {"customer", "limit"}
_LINES = {"limit", "starting_after"}
_ITEMS_MAX = 250
_KEY_MAX = 255
_PAGE_MAX = 100
_VERSION = r"\d{4}-\d{2}-\d{2}\.[a-z]+"
_METADATA_MAX = 500
_OWN_ERROR = 500
_FORM = "application/x-www-form-urlencoded"


class StripeRefusal(Exception):
    def __init__(
        self, status: int, message: str, *, is_repeated: bool = False, **more: Any
    ) -> None:
        self.status, self.is_repeated = status, is_repeated
        self.error = {"type": "invalid_request_error", "message": message, **more}


@dataclass
class FakeStripe:
    """Invoices, their items, and the answers to keys that came already.

    As the real one, it repeats what it answered to a key, an error of its own too, and says so.

    Attributes:
        faults: Statuses that the next writes get instead of an answer.
        broken: How many of the next writes are done, and answered by an error of its own.
        lost: How many of the next writes are done, and not answered.
        versions: Of the API, as requests name them.
    """

    port: int = 0
    invoices: dict[str, dict[str, Any]] = field(default_factory=dict)
    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    answered: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    faults: list[int] = field(default_factory=list)
    broken: int = 0
    lost: int = 0
    versions: set[str] = field(default_factory=set)
    customers: set[str] = field(default_factory=lambda: {"cus_1", "cus_2"})
    products: dict[str, str] = field(default_factory=dict)
    pages: int = 0
    turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def live(self) -> list[dict[str, Any]]:
        """All invoices that are not taken back."""
        return [each for each in self.invoices.values() if each["status"] != "void"]

    def answer(self, method: str, path: str, form: dict[str, str], key: str | None) -> Any:
        if method == "POST" and not 0 < len(key or "") <= _KEY_MAX:
            raise StripeRefusal(400, "a write without an Idempotency-Key, or one that is too long")
        if key in self.answered:
            return self._repeat(key, (method, path, form))
        found = self._fail(method) or self._do(method, path, form)
        if self.broken and method == "POST":
            self.broken -= 1
            found = StripeRefusal(_OWN_ERROR, "it failed")
        if key is not None and getattr(found, "status", _OWN_ERROR) >= _OWN_ERROR:
            kept = found if isinstance(found, Exception) else json.loads(json.dumps(found))
            self.answered[key] = ((method, path, form), kept)
        if isinstance(found, StripeRefusal):
            raise found
        return found

    def _repeat(self, key: str | None, asking: tuple[str, str, dict[str, str]]) -> Any:
        asked, found = self.answered[key or ""]
        if asked != asking:
            message = "the key came with other parameters"
            raise StripeRefusal(400, message, type="idempotency_error")
        if isinstance(found, StripeRefusal):
            raise StripeRefusal(found.status, "it failed", is_repeated=True, type="api_error")
        return found

    def _fail(self, method: str) -> StripeRefusal | None:
        if method != "POST" or not self.faults:
            return None
        return StripeRefusal(self.faults.pop(0), "try again later", type="api_error")

    def _do(self, method: str, path: str, form: dict[str, str]) -> Any:
        makers = {"/v1/invoices": self._create, "/v1/invoiceitems": self._add_item}
        if method == "POST" and path in makers:
            return makers[path](form)
        if method == "GET" and path in {"/v1/customers", "/v1/products"}:
            return self._page(path, form)
        if (method, path) == ("GET", "/v1/invoices"):
            return self._list(form)
        found = re.fullmatch(r"/v1/invoices/(\w+)(?:/(\w+))?", path)
        if not found or found[1] not in self.invoices:
            raise StripeRefusal(404, f"no such thing: {path}", code="resource_missing")
        invoice = self.invoices[found[1]]
        if method == "GET":
            _check_names(form, _LINES if found[2] == "lines" else set())
            lines = {"object": "list", "data": self.items[found[1]], "has_more": False}
            return {**lines, "url": path} if found[2] == "lines" else invoice
        _check_names(form, set())
        return self._change(invoice, method, found[2])

    def _page(self, path: str, form: dict[str, str]) -> dict[str, Any]:
        _check_names(form, _LINES)
        size, after = int(form.get("limit", "10")), form.get("starting_after")
        if not 1 <= size <= _PAGE_MAX:
            raise StripeRefusal(400, "limit is at most 100")
        kind, ids = path.rpartition("/")[2], sorted(self.customers)
        if kind == "products":
            ids = sorted(self.products)
        if after is not None and after not in ids:
            raise StripeRefusal(400, f"No such thing: {after}", code="resource_missing")
        rest = ids[ids.index(after) + 1 if after else 0 :]
        data = [
            {"id": each, "object": kind[:-1], "name": self.products.get(each)}
            for each in rest[:size]
        ]
        self.pages += 1
        return {"object": "list", "data": data, "has_more": len(rest) > size, "url": path}

    def _list(self, form: dict[str, str]) -> dict[str, Any]:
        _check_names(form, _LIST)
        self._check_customer(form)
        found = [each for each in self.invoices.values() if each["customer"] == form["customer"]]
        return {"object": "list", "data": found, "has_more": False, "url": "/v1/invoices"}

    def _change(self, invoice: dict[str, Any], method: str, verb: str | None) -> Any:
        id_ = invoice["id"]
        match method, verb:
            case "DELETE", None if invoice["status"] == "draft":
                del self.invoices[id_]
                return {"id": id_, "object": "invoice", "deleted": True}
            case "POST", "finalize" if invoice["status"] == "draft" and self.items[id_]:
                invoice["status"] = "paid" if invoice["total"] <= 0 else "open"
                invoice["hosted_invoice_url"] = f"https://pay.test/{id_}"
                return invoice
            case "POST", "void" if invoice["status"] == "open":
                invoice["status"] = "void"
                return invoice
        raise StripeRefusal(400, f"{method} {verb} of an invoice that is {invoice['status']}")

    def _create(self, form: dict[str, str]) -> dict[str, Any]:
        _check_names(form, _INVOICE)
        self._check_customer(form)
        _check_terms(form)
        id_ = f"in_{len(self.items) + 1}"
        metadata = {
            name[9:-1]: value for name, value in form.items() if name.startswith("metadata[")
        }
        made = {"id": id_, "object": "invoice", "status": "draft", "total": 0}
        names = ("customer", "currency")
        facts = {name: form[name] for name in names}
        self.invoices[id_] = {**made, **facts, "metadata": metadata}
        self.items[id_] = []
        return self.invoices[id_]

    def _add_item(self, form: dict[str, str]) -> dict[str, Any]:
        _check_names(form, _ITEM)
        self._check_customer(form)
        invoice = self.invoices.get(form["invoice"])
        if invoice is None or invoice["status"] != "draft":
            raise StripeRefusal(400, "items belong to drafts")
        if form["currency"] != invoice["currency"] or not re.fullmatch(r"-?\d+", form["amount"]):
            raise StripeRefusal(400, "another currency, or no whole number")
        if len(self.items[form["invoice"]]) >= _ITEMS_MAX:
            raise StripeRefusal(400, "an invoice has at most 250 items")
        id_ = f"ii_{sum(map(len, self.items.values())) + 1}"
        item = {**form, "id": id_, "object": "invoiceitem", "amount": int(form["amount"])}
        self.items[form["invoice"]].append(item)
        invoice["total"] += item["amount"]
        return item

    def _check_customer(self, form: dict[str, str]) -> None:
        if form.get("customer") not in self.customers:
            raise StripeRefusal(
                400, f"No such customer: {form.get('customer')!r}", param="customer"
            )


def _check_names(form: dict[str, str], known: set[str]) -> None:
    if unknown := form.keys() - known:
        raise StripeRefusal(400, f"Received unknown parameters: {sorted(unknown)}")


def _check_terms(form: dict[str, str]) -> None:
    is_sent = form.get("collection_method") == "send_invoice"
    if is_sent != ("days_until_due" in form):
        raise StripeRefusal(400, "days_until_due is for invoices that are sent, and they need it")
    if not re.fullmatch(r"[a-z]{3}", form["currency"]) or form["auto_advance"] != "false":
        raise StripeRefusal(400, "no currency, or it advances by itself")
    if any(len(value) > _METADATA_MAX for value in form.values()):
        raise StripeRefusal(400, "metadata is too long")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stripe: FakeStripe

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        form = dict(parse_qsl(self.rfile.read(length).decode(), keep_blank_values=True))
        key = self.headers.get("Idempotency-Key")
        try:
            self._refuse()
            asked = urlsplit(self.path)
            form |= parse_qsl(asked.query)
            with self.stripe.turn:
                found = self.stripe.answer(self.command, asked.path, form, key)
        except StripeRefusal as refusal:
            more = {"Idempotent-Replayed": "true"} if refusal.is_repeated else {}
            self._respond(refusal.status, {"error": refusal.error}, **more)
            return
        if self.stripe.lost and self.command == "POST":
            self.stripe.lost -= 1
            self.close_connection = True
            return
        self._respond(200, found)

    def _refuse(self) -> None:
        version = self.headers.get("Stripe-Version", "")
        self.stripe.versions.add(version)
        if not re.fullmatch(_VERSION, version):
            raise StripeRefusal(400, "a request without the version of the API")
        if self.headers.get("Content-Type", _FORM) != _FORM:
            raise StripeRefusal(400, "a body that is no form")
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            raise StripeRefusal(401, "Invalid API Key provided")

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815

    def _respond(self, status: int, document: Any, **headers: str) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def running_stripe() -> Iterator[FakeStripe]:
    """A Stripe on this machine, until the body ends."""
    stripe = FakeStripe()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Handler,), {"stripe": stripe}))
    stripe.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield stripe
    finally:
        server.shutdown()
        server.server_close()
