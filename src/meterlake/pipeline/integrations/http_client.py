"""HTTP to others: to addresses that were checked at the very moment, and not a step further.

Whoever chooses the address of a webhook must not reach what only this machine reaches. So a name is
resolved here, all its addresses are checked, and the connection goes to one of those; the name
stays in `Host` and in what TLS checks. Redirects and proxies do not exist on this level.
"""

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import Final

import httpcore

from meterlake.model.configuration.network_addresses import Address, AddressPolicy, Endpoint
from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.values.untrusted import fits_header

Headers = Sequence[tuple[str, str]]
Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]

TIMEOUT_S: Final = 15.0
# So much of an answer is read.
BODY_MAX: Final = 64 << 10
_IDLE_MAX: Final = 10
# An address is checked when a connection begins; what is kept open must not outlive the check long.
_IDLE_S: Final = 15.0
# Answers with these statuses have no body, whatever their headers say.
_BODILESS: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        headers: Their names in lower case.
        body: The beginning of the body.
        is_whole: Whether that is all of it.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool = True


async def resolve_host(host: str, port: int) -> Sequence[Address]:
    """All addresses of a host.

    Raises:
        Unavailable: It has none, or nobody can be asked.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(
            f"the host {host}",
            error.strerror or str(error),
            "check its name, or try again in a minute",
        ) from None
    return list(dict.fromkeys(ip_address(each[4][0]) for each in found))


class HttpClient:
    """Sends requests, within one event loop; connections stay open for a moment.

    Args:
        policy: Where they may lead.
        resolve: Finds the addresses of a host.
        timeout: Seconds for everything from the resolution to the end of the answer.
    """

    def __init__(
        self, policy: AddressPolicy, resolve: Resolve = resolve_host, timeout: float = TIMEOUT_S
    ) -> None:
        self._policy = policy
        self._timeout = timeout
        self._network = _CheckedNetwork(policy, resolve)
        # Not httpcore's pool: it looks at all its connections for every request.
        self._idle: dict[tuple[bytes, bytes, int], deque[httpcore.AsyncHTTPConnection]] = {}
        self._looked = time.monotonic()

    async def request(self, method: str, url: str, headers: Headers, body: bytes = b"") -> Answer:
        """Send one request and read the beginning of the answer.

        Raises:
            Invalid: The address leads where it must not, or a header is none.
            Unavailable: There is no answer in time, or none that is HTTP.
        """
        host = self._policy.check_url(url).host
        # Refuse what HTTP cannot carry; a value may be a secret, so that nothing repeats it.
        for name, value in headers:
            if not fits_header(value):
                rule = "it must be text without line ends, and without spaces at either end"
                raise Invalid(name, "***", rule)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(method, url, headers, body)
        except TimeoutError:
            raise Unavailable(f"{host}", f"no answer within {self._timeout:g} seconds") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise Unavailable(f"{host}", _describe(error)) from None
        except (OSError, ssl.SSLError) as error:
            raise Unavailable(f"{host}", _describe(error)) from None

    async def close(self) -> None:
        """Close all connections."""
        kept, self._idle = self._idle, {}
        for idle in kept.values():
            for each in idle:
                await each.aclose()

    async def _exchange(self, method: str, url: str, headers: Headers, body: bytes) -> Answer:
        target = httpcore.URL(url)
        origin = target.origin
        default = 443 if origin.scheme == b"https" else 80
        host = origin.host if origin.port == default else b"%s:%d" % (origin.host, origin.port)
        given = [(name.encode(), value.encode()) for name, value in headers]
        content = [(b"Host", host), (b"Content-Length", b"%d" % len(body))]
        request = httpcore.Request(method, target, headers=[*content, *given], content=body)
        kept = await self._take(request.url.origin)
        if kept is not None:
            # The other side may close a connection at the moment in which it is used again.
            try:
                return await self._use(kept, request)
            except (httpcore.NetworkError, httpcore.RemoteProtocolError) as error:
                unanswered = str(error).startswith("Server disconnected")
                if isinstance(error, httpcore.RemoteProtocolError) and not unanswered:
                    raise
        fresh = httpcore.AsyncHTTPConnection(
            request.url.origin,
            ssl_context=self._tls if request.url.scheme == b"https" else None,
            keepalive_expiry=_IDLE_S,
            network_backend=self._network,
        )
        return await self._use(fresh, request)

    async def _use(
        self, connection: httpcore.AsyncHTTPConnection, request: httpcore.Request
    ) -> Answer:
        answer = None
        try:
            got = await connection.handle_async_request(request)
            try:
                answer = await _read_answer(got)
            finally:
                await got.aclose()
            return answer
        finally:
            idle = self._idle.setdefault(_key(request.url.origin), deque())
            is_kept = connection.is_idle() and not connection.is_closed()
            if is_kept and len(idle) < _IDLE_MAX and not _has_stray_body(answer):
                idle.append(connection)
            else:
                await connection.aclose()

    async def _take(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection | None:
        """A connection to a server that is still open; those that are not used for long end."""
        now = time.monotonic()
        if now - self._looked >= _IDLE_S:
            self._looked = now
            for each in self._take_expired():
                await each.aclose()
        idle = self._idle.get(_key(origin), deque())
        while idle:
            connection = idle.pop()
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return None

    def _take_expired(self) -> list[httpcore.AsyncHTTPConnection]:
        # At once: while one is being closed, others are taken and brought back.
        taken = []
        for key, idle in list(self._idle.items()):
            expired = [each for each in idle if each.has_expired()]
            for each in expired:
                idle.remove(each)
            if not idle:
                del self._idle[key]
            taken += expired
        return taken

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """The authorities that this machine trusts; reading them takes 50 ms."""
        return ssl.create_default_context()


def _has_stray_body(answer: Answer | None) -> bool:
    """Whether a body follows where none may: what is read next would not be the next answer."""
    if answer is None or answer.status not in _BODILESS:
        return False
    given = answer.headers
    return given.get("content-length", "0") != "0" or "transfer-encoding" in given


def _key(origin: httpcore.Origin) -> tuple[bytes, bytes, int]:
    return origin.scheme, origin.host, origin.port


async def _read_answer(got: httpcore.Response) -> Answer:
    """Read the beginning of an answer; the connection ends if that is not all."""
    found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in got.headers}
    read = bytearray()
    async for block in got.aiter_stream():
        read += block
        if len(read) > BODY_MAX:
            break
    return Answer(got.status, found, bytes(read[:BODY_MAX]), len(read) <= BODY_MAX)


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Resolves names itself and connects only to addresses that the policy allows."""

    def __init__(self, policy: AddressPolicy, resolve: Resolve) -> None:
        self._policy = policy
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface's
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to one of the addresses of a host."""
        endpoint = Endpoint("", "", _parsed(host), port)
        addresses = await self._addresses(endpoint)
        failure: Exception = Unavailable(f"the host {host}", "it has no address", "check its name")
        for each in addresses:
            try:
                return await self._network.connect_tcp(
                    str(each), port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def _addresses(self, endpoint: Endpoint) -> Sequence[Address]:
        host = endpoint.host
        found = await self._resolve(host, endpoint.port) if isinstance(host, str) else [host]
        named = Endpoint(f"{host}", endpoint.scheme, host, endpoint.port)
        self._policy.check_addresses(named, found)
        return found


def _parsed(host: str) -> str | Address:
    name = host.lower().removesuffix(".")
    try:
        return ip_address(name.strip("[]"))
    except ValueError:
        return name


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
