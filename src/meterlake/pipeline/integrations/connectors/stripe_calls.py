"""Calls of Stripe: the client, what its errors mean, what there is to map to, and items of an invoice."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from meterlake.model.configuration.integration_systems import SplitBy
from meterlake.model.configuration.integrations import IntegrationCredentials
from meterlake.model.errors import Conflict, Invalid, Unavailable
from meterlake.pipeline.integrations.connectors.connector import Exchange, Failed, FailureKind
from meterlake.pipeline.integrations.connectors.safe_answers import Echoes, secrets_of
from meterlake.pipeline.integrations.http_client import TIMEOUT_S
from meterlake.settings import Settings

if TYPE_CHECKING:
    from stripe import StripeClient, StripeError


_TOO_MANY: Final = 429
_CONFLICT: Final = 409
_SERVER: Final = 500
_KEPT: Final = 1 << 10
# Beside an answer that only repeats what was answered to the key before.
_REPLAYED: Final = "idempotent-replayed"
_TABLES: Final = {"customer": "customers", "product": "products"}
_WAITS: Final = frozenset({FailureKind.UNAVAILABLE, FailureKind.RATE_LIMITED})
_PAGE: Final = 100
# Currencies without a smaller unit, and those with a thousandth, as Stripe has them.
_ZERO_DECIMAL: Final = frozenset(
    [
        "BIF",
        "CLP",
        "DJF",
        "GNF",
        "JPY",
        "KMF",
        "KRW",
        "MGA",
        "PYG",
        "RWF",
        "VND",
        "VUV",
        "XAF",
        "XOF",
        "XPF",
    ]
)
_THREE_DECIMAL: Final = frozenset(["BHD", "JOD", "KWD", "OMR", "TND"])
# Those that are written with two digits, and have no smaller unit all the same.
_WHOLE: Final = frozenset(["ISK", "UGX"])
_FIELDS: Final[Mapping[SplitBy, tuple[str, ...]]] = {
    SplitBy.BILL: (),
    SplitBy.PRODUCT: ("productId",),
    SplitBy.AGGREGATION: ("productId", "aggregationId", "compoundAggregationId", "lineItemType"),
}
_AMOUNT: Final = "convertedSubtotal"


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


def is_repeated(error: "StripeError") -> bool:
    """Whether Stripe only repeats an error of its own."""
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    return (error.http_status or 0) >= _SERVER and headers.get(_REPLAYED) == "true"


def read_error(
    error: "StripeError", request: str, credentials: IntegrationCredentials | None
) -> Failed:
    """What an error of Stripe means; its words may repeat the key."""
    mask = Echoes(secrets_of(credentials)).mask
    text = (error.http_body or "") if isinstance(error.http_body, str) else ""
    exchange = Exchange(
        request=request, status_code=error.http_status, response=mask(text)[:_KEPT] or None
    )
    said = error.user_message or str(error)
    return Failed(kind=_kind(error), error=mask(f"Stripe: {said}")[:_KEPT], exchange=exchange)


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


def list_stripe_values(
    settings: Settings, credentials: IntegrationCredentials, table: str
) -> Iterator[tuple[str, str]]:
    """The customers or the products, page by page: their ids and names.

    Raises:
        Invalid: It is another table.
        Conflict: Stripe refuses to say.
        Unavailable: It does not answer.
    """
    import stripe  # noqa: PLC0415 - it takes a second, and few processes need it

    name = _TABLES.get(table.lower())
    if name is None:
        raise Invalid("externalTable", table, "it must be Customer or Product")
    client = stripe_client(credentials.api_key or "", settings.stripe_url)
    try:
        found: Any = getattr(client.v1, name).list({"limit": _PAGE})
        pages = iter(found.auto_paging_iter())
        for each in pages:
            yield (
                str(each.id),
                str((getattr(each, "name", None) or getattr(each, "email", None)) or each.id),
            )
    except stripe.StripeError as error:
        failed = read_error(error, f"GET {name}", credentials)
        if failed.kind in _WAITS:
            raise Unavailable("Stripe", failed.error) from None
        raise Conflict(f"{failed.error}; check the credentials of the integration") from None


@dataclass(frozen=True, slots=True)
class InvoiceItem:
    """One item of an invoice.

    Attributes:
        amount: In the smallest unit of the currency.
        product_id: Of the product that all of it is for; None if there is none, or several.
        aggregation_id: The same of the aggregation.
    """

    amount: int
    description: str
    product_id: str | None = None
    aggregation_id: str | None = None


def invoice_items(bill: Mapping[str, Any], split: SplitBy) -> list[InvoiceItem]:
    """The items of a bill; together they are its total, to the smallest unit.

    A bill without lines has one item of nothing: there are no invoices without items.

    Raises:
        Invalid: An amount has digits beyond the smallest unit, or the lines are not the total.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for line in bill.get("lineItems", ()):
        groups.setdefault(tuple(line.get(name) for name in _FIELDS[split]), []).append(line)
    if not groups:
        groups[()] = []
    currency = bill["currency"]
    items: list[InvoiceItem] = []
    for lines in groups.values():
        amount = sum((Decimal(line[_AMOUNT]) for line in lines), Decimal())
        line = lines[0] if lines else {}
        period = f"{bill.get('startDate', '')} - {bill.get('endDate', '')}"
        names = {
            SplitBy.BILL: None,
            SplitBy.PRODUCT: line.get("productName"),
            SplitBy.AGGREGATION: line.get("description") or line.get("productName"),
        }
        description = f"{names[split] or 'Bill'} ({period})"
        items.append(
            InvoiceItem(
                minor_units(amount, bill["currency"]),
                description,
                _common(lines, "productId"),
                _common(lines, "aggregationId") or _common(lines, "compoundAggregationId"),
            )
        )
    total = minor_units(bill["billTotal"], currency)
    if sum(item.amount for item in items) != total:
        rule = f"it must be the sum of the lines of the bill: {sum(item.amount for item in items)}"
        raise Invalid("billTotal", total, rule)
    return items


def minor_units(amount: Decimal | int, currency: str) -> int:
    """An amount in the smallest unit of its currency: nothing is rounded.

    Raises:
        Invalid: It has more digits than the currency.
    """
    digits = 0 if currency in _ZERO_DECIMAL else 3 if currency in _THREE_DECIMAL else 2
    scaled = Decimal(amount).scaleb(digits)
    # The last digit of a thousandth is not taken.
    step = 10 if currency in _THREE_DECIMAL else 100 if currency in _WHOLE else 1
    if scaled % step != 0:
        raise Invalid("amount", amount, f"it must be an amount in the smallest unit of {currency}")
    return int(scaled)


def _common(lines: Sequence[Mapping[str, Any]], name: str) -> str | None:
    found = {line.get(name) for line in lines}
    return found.pop() if len(found) == 1 else None
