"""HTTP to others: to addresses that were checked at the very moment, and not a step further.

Whoever chooses the address of a webhook must not reach what only this machine reaches. So a name is
resolved here, all its addresses are checked, and the connection goes to one of those; the name
stays in `Host` and in what TLS checks. Redirects and proxies do not exist on this level.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import Final

import httpcore

from meterlake.model.addresses import Address, AddressPolicy, Endpoint
from meterlake.model.errors import Unavailable

Headers = Sequence[tuple[str, str]]
Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]

TIMEOUT_S: Final = 15.0
# So much of an answer is read.
BODY_MAX: Final = 64 << 10
_CONNECTIONS_MAX: Final = 512
_IDLE_MAX: Final = 64
# An address is checked when a connection begins; what is kept open must not outlive the check long.
_IDLE_S: Final = 15.0


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
        raise Unavailable(f"the host {host}", error.strerror or str(error)) from None
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
        self._resolve = resolve
        self._timeout = timeout

    async def request(self, method: str, url: str, headers: Headers, body: bytes = b"") -> Answer:
        """Send one request and read the beginning of the answer.

        Raises:
            Invalid: The address leads where it must not.
            Unavailable: There is no answer in time, or none that is HTTP.
        """
        host = self._policy.check_url(url).host
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
        await self._pool.aclose()

    async def _exchange(self, method: str, url: str, headers: Headers, body: bytes) -> Answer:
        given = [(name.encode(), value.encode()) for name, value in headers]
        host = httpcore.URL(url).origin
        default = {b"http": 80, b"https": 443}[host.scheme]
        shown = host.host if host.port == default else b"%s:%d" % (host.host, host.port)
        content = [(b"Host", shown), (b"Content-Length", b"%d" % len(body))]
        async with self._pool.stream(method, url, headers=[*content, *given], content=body) as got:
            found = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in got.headers
            }
            read = bytearray()
            async for block in got.aiter_stream():
                read += block
                if len(read) > BODY_MAX:
                    break
            return Answer(got.status, found, bytes(read[:BODY_MAX]), len(read) <= BODY_MAX)

    @cached_property
    def _pool(self) -> httpcore.AsyncConnectionPool:
        return httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=_CONNECTIONS_MAX,
            max_keepalive_connections=_IDLE_MAX,
            keepalive_expiry=_IDLE_S,
            network_backend=_CheckedNetwork(self._policy, self._resolve),
        )


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
        failure: Exception = Unavailable(f"the host {host}", "it has no address")
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
