"""The connector of the destination `HTTP`: a JSON body of one's own to an address of one's own."""

import asyncio
from typing import Any, Final

from meterlake.model import wire
from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.integration_systems import HTTP
from meterlake.model.integrations import CredentialsType, IntegrationCredentials
from meterlake.model.version import code_version
from meterlake.pipeline.integrations.connectors.billed import SentBill, read_bill, write_mapping
from meterlake.pipeline.integrations.connectors.connector import (
    Exchange,
    Failed,
    FailureKind,
    Outcome,
    Outgoing,
    Sent,
)
from meterlake.pipeline.integrations.connectors.json_bodies import render_json
from meterlake.pipeline.integrations.connectors.oauth_tokens import TokenCache, basic_header
from meterlake.pipeline.integrations.connectors.webhook import describe_request, read_answer
from meterlake.pipeline.integrations.http_client import Headers

_MASK: Final = "********"
_TABLE: Final = "Bill"
_UNAUTHORIZED: Final = 401


class HttpConnector:
    """Sends bills to an address, and reads from the answer what became of them."""

    declaration: Final = HTTP
    concurrency: Final = 4

    def __init__(self) -> None:
        self._tokens = TokenCache()

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Render the body, sign in, send it, and read the answer."""
        bill = await asyncio.to_thread(read_bill, outgoing)
        if isinstance(bill, Failed):
            return bill
        try:
            values = {"bill": bill.document, "account": bill.account}
            body = await asyncio.to_thread(render_json, bill.options.template, values)
            credentials = bill.credentials
            if (
                credentials is None
                or credentials.type is not CredentialsType.OAUTH_CLIENT_CREDENTIALS
            ):
                return await _exchange(outgoing, bill, body, _sign_in(bill))
            return await self._send_with_token(outgoing, bill, body, credentials)
        except Invalid as error:
            return Failed(kind=FailureKind.INVALID, error=str(error))
        except Unavailable as error:
            return Failed(kind=FailureKind.UNAVAILABLE, error=str(error))

    async def _send_with_token(
        self, outgoing: Outgoing, bill: SentBill, body: bytes, credentials: IntegrationCredentials
    ) -> Outcome:
        """Send with a token; once more with another one if it is refused."""
        key = (bill.config.id, bill.config.version)
        token = await self._tokens.get(outgoing, key, credentials)
        if isinstance(token, Failed):
            return token
        outcome = await _exchange(outgoing, bill, body, _bearer(token))
        if outcome.exchange.status_code != _UNAUTHORIZED:
            return outcome
        other = await self._tokens.get(outgoing, key, credentials, refused=token)
        if isinstance(other, Failed):
            return other
        return outcome if other == token else await _exchange(outgoing, bill, body, _bearer(other))


def _sign_in(bill: SentBill) -> Headers:
    found = bill.credentials
    if found is None:
        return ()
    if found.type is CredentialsType.HTTP_BASIC:
        return [("Authorization", basic_header(found.username, found.password))]
    header = bill.options.key_header
    if header.lower() == "authorization":
        return [(header, f"Bearer {found.api_key}")]
    return [(header, str(found.api_key))]


def _bearer(token: str) -> Headers:
    return [("Authorization", f"Bearer {token}")]


async def _exchange(outgoing: Outgoing, bill: SentBill, body: bytes, signed: Headers) -> Outcome:
    options = bill.options
    headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        ("User-Agent", f"meterlake/{code_version()}"),
        ("Idempotency-Key", outgoing.idempotency_key),
    ]
    masked = [*headers, *((name, _MASK) for name, _ in signed)]
    method, url = options.method.value, options.url
    request = f"{describe_request(method, url, masked)}\n\n{body.decode()}"
    nothing = Exchange(request=request)
    try:
        answer = await outgoing.client.request(method, url, [*headers, *signed], body)
    except Invalid as error:
        return Failed(kind=FailureKind.INVALID, error=str(error), exchange=nothing)
    except Unavailable as error:
        return Failed(kind=FailureKind.UNAVAILABLE, error=str(error), exchange=nothing)
    secrets = [value.removeprefix("Basic ").removeprefix("Bearer ") for _, value in signed]
    outcome = read_answer(answer, request, secrets)
    if isinstance(outcome, Failed):
        return outcome
    return await _read_result(outgoing, bill, outcome, answer.body)


async def _read_result(outgoing: Outgoing, bill: SentBill, sent: Sent, body: bytes) -> Outcome:
    """What became of the bill there, where the configuration says where the answer has it."""
    options = bill.options
    if options.id_path is None:
        return sent
    external_id = _member_at(body, options.id_path)
    if external_id is None:
        error = f"the answer has nothing at {options.id_path}"
        return Failed(kind=FailureKind.REJECTED, error=error, exchange=sent.exchange)
    url = None if options.url_path is None else _member_at(body, options.url_path)
    mapping = ("Bill", bill.stored.id, _TABLE, external_id)
    await asyncio.to_thread(write_mapping, outgoing, *mapping)
    return Sent(exchange=sent.exchange, external_id=external_id, url=url)


def _member_at(body: bytes, path: str) -> str | None:
    try:
        found: Any = wire.loads(body)
        for step in path.split("."):
            found = found[int(step)] if isinstance(found, list) else found[step]
    except (Invalid, ValueError, TypeError, KeyError, IndexError):
        return None
    return str(found) if isinstance(found, str | int) and found != "" else None
