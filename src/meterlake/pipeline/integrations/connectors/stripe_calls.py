"""Calls of Stripe: the client, and what its errors mean."""

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from meterlake.model.configuration.integrations import IntegrationCredentials
from meterlake.pipeline.integrations.connectors.connector import Exchange, Failed, FailureKind
from meterlake.pipeline.integrations.connectors.echoes import Echoes, secrets_of
from meterlake.pipeline.integrations.http_client import TIMEOUT_S

if TYPE_CHECKING:
    from stripe import StripeClient, StripeError

_TOO_MANY: Final = 429
_CONFLICT: Final = 409
_SERVER: Final = 500
_KEPT: Final = 1 << 10
# Beside an answer that only repeats what was answered to the key before.
_REPLAYED: Final = "idempotent-replayed"


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
