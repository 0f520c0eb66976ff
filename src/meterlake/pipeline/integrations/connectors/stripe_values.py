"""What a Stripe account has that entities can be mapped to."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from meterlake.model.configuration.integrations import IntegrationCredentials
from meterlake.model.errors import Conflict, Invalid, Unavailable
from meterlake.pipeline.integrations.connectors.connector import FailureKind
from meterlake.pipeline.integrations.connectors.stripe_calls import read_error, stripe_client
from meterlake.settings import Settings

if TYPE_CHECKING:
    from stripe import StripeClient

_TABLES: Final = {"customer": "customers", "product": "products"}
_WAITS: Final = frozenset({FailureKind.UNAVAILABLE, FailureKind.RATE_LIMITED})
_PAGE: Final = 100


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
        for each in _pages(client, name):
            yield str(each.id), str(_name_of(each) or each.id)
    except stripe.StripeError as error:
        failed = read_error(error, f"GET {name}", credentials)
        if failed.kind in _WAITS:
            raise Unavailable("Stripe", failed.error) from None
        raise Conflict(f"{failed.error}; check the credentials of the integration") from None


def _pages(client: "StripeClient", name: str) -> Iterator[Any]:
    found: Any = getattr(client.v1, name).list({"limit": _PAGE})
    return iter(found.auto_paging_iter())


def _name_of(value: Any) -> str | None:
    return getattr(value, "name", None) or getattr(value, "email", None)
