"""The connector of the destination `HTTP`: a JSON body of one's own to an address of one's own."""

import asyncio
import base64
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

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
from meterlake.pipeline.integrations.connectors.webhook import describe_request, read_answer
from meterlake.pipeline.integrations.http_client import Headers

_MASK: Final = "********"
_TABLE: Final = "Bill"
# A token is used no longer than so long before its end.
_SPARE: Final = timedelta(seconds=30)


class HttpConnector:
    """Sends bills to an address, and reads from the answer what became of them."""

    declaration: Final = HTTP
    concurrency: Final = 4

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, int], tuple[str, datetime]] = {}

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Render the body, sign in, send it, and read the answer."""
        bill = await asyncio.to_thread(read_bill, outgoing)
        if isinstance(bill, Failed):
            return bill
        try:
            values = {"bill": bill.document, "account": bill.account}
            body = await asyncio.to_thread(render_json, bill.options.template, values)
            signed = await self._sign_in(outgoing, bill)
        except Invalid as error:
            return Failed(kind=FailureKind.INVALID, error=str(error))
        except Unavailable as error:
            return Failed(kind=FailureKind.UNAVAILABLE, error=str(error))
        if isinstance(signed, Failed):
            return signed
        outcome = await _exchange(outgoing, bill, body, signed)
        if isinstance(outcome, Failed) and outcome.kind is FailureKind.FORBIDDEN:
            # The token may have been taken back: the next try asks for another one.
            self._tokens.pop((bill.config.id, bill.config.version), None)
        return outcome

    async def _sign_in(self, outgoing: Outgoing, bill: SentBill) -> Headers | Failed:
        found = bill.credentials
        if found is None:
            return ()
        match found.type:
            case CredentialsType.HTTP_BASIC:
                return [("Authorization", _basic(found.username, found.password))]
            case CredentialsType.STATIC_API_KEY:
                header = bill.options.key_header
                prefix = "Bearer " if header.lower() == "authorization" else ""
                return [(header, f"{prefix}{found.api_key}")]
            case _:
                return await self._token(outgoing, bill, found)

    async def _token(
        self, outgoing: Outgoing, bill: SentBill, credentials: IntegrationCredentials
    ) -> Headers | Failed:
        key = (bill.config.id, bill.config.version)
        known = self._tokens.get(key)
        if known is None or known[1] <= outgoing.time:
            fetched = await _fetch_token(outgoing, credentials)
            if isinstance(fetched, Failed):
                return fetched
            known = self._tokens[key] = fetched
        return [("Authorization", f"Bearer {known[0]}")]


async def _fetch_token(
    outgoing: Outgoing, credentials: IntegrationCredentials
) -> tuple[str, datetime] | Failed:
    form = {"grant_type": "client_credentials"}
    if credentials.scope:
        form["scope"] = credentials.scope
    user = quote_plus(credentials.client_id or ""), quote_plus(credentials.client_secret or "")
    headers = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Accept", "application/json"),
        ("Authorization", _basic(*user)),
    ]
    url = credentials.token_url or ""
    answer = await outgoing.client.request("POST", url, headers, urlencode(form).encode())
    # The answer holds the token: it is not kept.
    exchange = Exchange(request=describe_request("POST", url, headers), status_code=answer.status)
    if answer.status in {400, 401, 403}:
        error = f"the credentials were refused: {answer.status}"
        return Failed(kind=FailureKind.UNAUTHENTICATED, error=error, exchange=exchange)
    token = _read_token(answer.body) if answer.status == 200 else None  # noqa: PLR2004
    if token is None:
        error = f"there is no token in the answer {answer.status}"
        return Failed(kind=FailureKind.UNAVAILABLE, error=error, exchange=exchange)
    return token[0], outgoing.time + timedelta(seconds=token[1]) - _SPARE


def _read_token(body: bytes) -> tuple[str, int] | None:
    try:
        found = wire.loads(body)
        token, seconds = found["access_token"], int(found.get("expires_in", 60))
    except (Invalid, ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        return None
    return (token, min(max(seconds, 0), 86_400)) if isinstance(token, str) and token else None


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


def _basic(user: str | None, password: str | None) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
