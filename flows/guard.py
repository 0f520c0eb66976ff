"""What stands in front of a home's Prefect server: its own host and its own pages only.

A page of another origin in the operator's browser, and a name that was made to mean this machine
(DNS rebinding), come as far as here. Prefect itself asks everybody else for the password.
"""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import urlsplit

from meterlake.stores.prefect_access import SIGN_IN

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

# Prefect's pages keep the password where only pages of this origin find it, by this name.
_SIGN_IN_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Prefect of meterlake</title>
<p id="told">Signing in &hellip;</p><noscript>This page needs scripts, as Prefect's own do.</noscript>
<script nonce="{nonce}">
const given = decodeURIComponent(location.hash.slice(1));
history.replaceState(null, "", location.pathname);
const password = btoa(given);
fetch("/api/admin/version", {{headers: {{Authorization: "Basic " + password}}}}).then(answer => {{
  if (answer.ok) {{ localStorage.setItem("prefect-password", password); location.replace("/"); }}
  else document.getElementById("told").textContent =
    "This link is not of this server. Open the one that meterlake serve printed when it started.";
}});
</script></html>
"""
_SAFE: Final[tuple[Header, ...]] = (
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
)


class Guard:
    """An ASGI application that lets through what is meant for one server."""

    def __init__(self, app: App, origin: str) -> None:
        """Guard an application.

        Args:
            app: The application.
            origin: The only one that it has, such as `http://127.0.0.1:4200`.
        """
        self._app = app
        self._origin = origin
        self._host = urlsplit(origin).netloc

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or have it answered."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        headers: list[Header] = list(scope["headers"])
        hosts = _values(headers, b"host")
        if hosts == [self._host.replace("127.0.0.1", "localhost")] and scope["type"] == "http":
            # People write it so; Prefect's pages ask the other origin and would be strangers there.
            query = b"?" + scope["query_string"] if scope["query_string"] else b""
            await _redirect(send, self._origin.encode() + scope["raw_path"] + query)
        elif hosts != [self._host]:
            await _refuse(scope, send, 421, f"this server answers at {self._origin} only")
        elif any(each != self._origin for each in _values(headers, b"origin")):
            await _refuse(scope, send, 403, "pages of other origins may not use this server")
        elif scope["type"] == "http" and scope["path"] == SIGN_IN:
            await _show_sign_in(send)
        else:
            await self._app(scope, receive, _with_headers(send))


def create_app() -> App:
    """Prefect's server, guarded; its settings say where it is."""
    from prefect.server.api.server import create_app as create_server  # noqa: PLC0415
    from prefect.settings import PREFECT_API_URL  # noqa: PLC0415  (after the environment is set)

    return Guard(create_server(), PREFECT_API_URL.value().removesuffix("/api"))


def _values(headers: list[Header], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def _with_headers(send: Send) -> Send:
    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            policy = (b"content-security-policy", b"frame-ancestors 'none'")
            message["headers"] = [*message.get("headers", ()), *_SAFE, policy]
        await send(message)

    return add


async def _redirect(send: Send, url: bytes) -> None:
    await _answer(send, 307, b"", [(b"location", url)])


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why})
        return
    await _answer(send, status, why.encode(), [(b"content-type", b"text/plain; charset=utf-8")])


async def _show_sign_in(send: Send) -> None:
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; connect-src 'self'; script-src 'nonce-{nonce}';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"content-security-policy", policy.encode()),
    ]
    await _answer(send, 200, _SIGN_IN_PAGE.format(nonce=nonce).encode(), headers)


async def _answer(send: Send, status: int, body: bytes, headers: list[Header]) -> None:
    length = (b"content-length", str(len(body)).encode())
    start = {"type": "http.response.start", "status": status}
    await send({**start, "headers": [*headers, *_SAFE, length]})
    await send({"type": "http.response.body", "body": body})
