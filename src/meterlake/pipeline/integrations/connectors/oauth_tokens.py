"""Tokens of OAuth 2 by client credentials, each used until shortly before its end."""

import asyncio
from base64 import b64encode
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote_plus, urlencode
from weakref import WeakKeyDictionary

from meterlake.model.configuration.integrations import IntegrationCredentials
from meterlake.model.errors import Invalid
from meterlake.model.values import wire
from meterlake.pipeline.integrations.connectors.connector import (
    Exchange,
    Failed,
    FailureKind,
    Outgoing,
)
from meterlake.pipeline.integrations.connectors.webhook import describe_request

# A token is used no longer than so long before its end.
_SPARE: Final = timedelta(seconds=30)
_TOKENS_MAX: Final = 1_000
_OK: Final = 200

# Of a version of a configuration.
Key = tuple[str, int]
_Locks = WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, asyncio.Lock]]


class TokenCache:
    """Fetches tokens, one at a time for each configuration, and keeps them."""

    def __init__(self) -> None:
        self._tokens: dict[Key, tuple[str, datetime]] = {}
        self._locks: _Locks = WeakKeyDictionary()

    async def get(
        self,
        outgoing: Outgoing,
        key: Key,
        credentials: IntegrationCredentials,
        refused: str | None = None,
    ) -> str | Failed:
        """The token of a configuration, or why there is none.

        Args:
            outgoing: The try that needs it.
            key: Of the configuration.
            credentials: What it is fetched with, readable.
            refused: The token that was refused although its end had not come: it is replaced.

        Raises:
            Invalid: The address of the tokens leads where requests may not lead.
            Unavailable: It does not answer.
        """
        # A lock belongs to the loop that it was waited for in.
        locks = self._locks.setdefault(asyncio.get_running_loop(), {})
        if len(locks) >= _TOKENS_MAX:
            locks.clear()
        lock = locks.setdefault(key, asyncio.Lock())
        async with lock:
            value, end = self._tokens.get(key, ("", outgoing.time))
            if end > outgoing.time and value != refused:
                return value
            self._tokens.pop(key, None)
            fetched = await _fetch_token(outgoing, credentials)
            if isinstance(fetched, Failed):
                return fetched
            if len(self._tokens) >= _TOKENS_MAX:
                self._tokens.clear()
            self._tokens[key] = fetched
            return fetched[0]


def basic_header(user: str | None, password: str | None) -> str:
    """The header `Authorization` of a name and a password."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


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
        ("Authorization", basic_header(*user)),
    ]
    url = credentials.token_url or ""
    answer = await outgoing.client.request("POST", url, headers, urlencode(form).encode())
    # The answer holds the token: it is not kept.
    exchange = Exchange(request=describe_request("POST", url, headers), status_code=answer.status)
    if answer.status in {400, 401, 403}:
        error = f"the credentials were refused: {answer.status}"
        return Failed(kind=FailureKind.UNAUTHENTICATED, error=error, exchange=exchange)
    token = _read_token(answer.body) if answer.status == _OK else None
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
