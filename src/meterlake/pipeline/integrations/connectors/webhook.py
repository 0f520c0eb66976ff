"""The connector of webhooks: signed requests as Standard Webhooks 1.0 has them."""

import base64
import hmac
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from typing import Final

from meterlake.model.configuration.integration_systems import WEBHOOK
from meterlake.model.configuration.integrations import key_of_secret
from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.values.untrusted import storable
from meterlake.model.values.version import code_version
from meterlake.pipeline.integrations.connectors.connector import (
    Exchange,
    Failed,
    FailureKind,
    Outcome,
    Outgoing,
    Sent,
)
from meterlake.pipeline.integrations.connectors.safe_answers import MASK, Echoes, secrets_of
from meterlake.pipeline.integrations.http_client import Answer, Headers
from meterlake.stores.secrets import Secrets

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
# m3ter's credentials are a pair; the key says which secret a receiver is to verify with.
KEY_HEADER: Final = "meterlake-api-key"
_MASKED: Final = frozenset({KEY_HEADER, SIGNATURE, "authorization"})
# So much of an answer is kept.
_KEPT: Final = 1 << 10
_REST_MAX: Final = timedelta(days=1)


def signature_headers(
    run_id: str, time: datetime, body: bytes, secrets: Iterable[str]
) -> list[tuple[str, str]]:
    """The headers that a receiver verifies a delivery with.

    Args:
        run_id: The same in all tries, so that the receiver knows what it has already.
        time: Of this try: receivers refuse what is too old.
        body: The very bytes that are sent.
        secrets: Each signs once; the newest one is first.
    """
    seconds = str(int(time.timestamp()))
    content = b".".join((run_id.encode(), seconds.encode(), body))
    digests = (hmac.digest(key_of_secret(secret), content, "sha256") for secret in secrets)
    signatures = dict.fromkeys(f"v1,{base64.b64encode(each).decode()}" for each in digests)
    return [(ID, run_id), (TIMESTAMP, seconds), (SIGNATURE, " ".join(signatures))]


class WebhookConnector:
    """Posts the body of a run to a webhook."""

    declaration: Final = WEBHOOK
    concurrency: Final = 10

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Sign and post it once."""
        webhook, body = outgoing.webhook, outgoing.content.body
        if webhook is None or body is None:
            return Failed(kind=FailureKind.INVALID, error="the run names no webhook or no body")
        url, data = webhook.entity.url, body.encode()
        assert outgoing.webhook is not None
        secrets = [
            _decrypt(outgoing.organization.stores.secrets, each) for each in outgoing.secrets
        ]
        headers = [
            ("Content-Type", "application/json"),
            ("User-Agent", _user_agent()),
            ("Accept", "*/*"),
            (KEY_HEADER, outgoing.webhook.entity.credentials.api_key),
            *signature_headers(outgoing.run_id, outgoing.time, data, secrets),
        ]
        request = describe_request("POST", url, headers)
        try:
            answer = await outgoing.client.request("POST", url, headers, data)
        except Invalid as error:
            nothing = Exchange(request=request)
            return Failed(kind=FailureKind.INVALID, error=str(error), exchange=nothing)
        except Unavailable as error:
            nothing = Exchange(request=request)
            return Failed(kind=FailureKind.UNAVAILABLE, error=str(error), exchange=nothing)
        signing = (
            _decrypt(outgoing.organization.stores.secrets, each) for each in outgoing.secrets
        )
        echoes = Echoes([*secrets_of(None, webhook.entity), *signing])
        return read_answer(answer, request, echoes)


def read_answer(answer: Answer, request: str, echoes: Echoes) -> Outcome:
    """What an answer of HTTP means to a system that takes or refuses requests by their status.

    Args:
        answer: What came back.
        request: As people may read it.
        echoes: What the answer may repeat of the request, and nobody may read.
    """
    text = echoes.mask(answer.body.decode(errors="replace"))
    exchange = Exchange(request=request, status_code=answer.status, response=storable(text, _KEPT))
    if answer.status in range(200, 300):
        return Sent(exchange=exchange)
    rest = _retry_after(answer.headers.get("retry-after"))
    error = f"the receiver answered {answer.status}"
    return Failed(kind=_kind(answer.status), error=error, exchange=exchange, retry_after=rest)


def _kind(status: int) -> FailureKind:
    match status:
        case 410:
            return FailureKind.GONE
        case 429:
            return FailureKind.RATE_LIMITED
        case 401 | 403:
            return FailureKind.FORBIDDEN
        case 408:
            return FailureKind.UNAVAILABLE
        case _ if status in range(300, 500):
            return FailureKind.REFUSED
        case _:
            return FailureKind.UNAVAILABLE


def describe_request(method: str, url: str, headers: Headers) -> str:
    """The head of a request as people may read it."""
    shown = (f"{name}: {MASK if name.lower() in _MASKED else value}" for name, value in headers)
    return "\n".join((f"{method} {url}", *shown))


@lru_cache(maxsize=512)
def _decrypt(secrets: Secrets, encrypted: str) -> str:
    return secrets.decrypt(encrypted)


@cache
def _user_agent() -> str:
    # Reading the version takes longer than sending a request.
    return f"meterlake/{code_version()}"


def _retry_after(text: str | None) -> timedelta | None:
    """How long a receiver wants to be left alone: seconds or a date; never longer than a day."""
    if text is None:
        return None
    try:
        rest = timedelta(seconds=min(int(text), 2 * _REST_MAX.total_seconds()))
    except ValueError:
        rest = _until(text)
    return min(max(rest, timedelta()), _REST_MAX)


def _until(text: str) -> timedelta:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return timedelta()
    return moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)
