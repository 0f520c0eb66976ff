"""Whether the server can answer, and what is seen of every request.

That is an id, one line of log, counts and times. Never bodies or secrets.
"""

import asyncio
import logging
import os
import time
from functools import cache
from typing import Any, Final

import anyio.to_thread
from anyio import CapacityLimiter
from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meterlake.model.errors import MeterlakeError
from meterlake.model.values import wire
from meterlake.stores import Stores, downloads
from meterlake.stores.files import incoming

REGISTRY: Final = CollectorRegistry()
_REQUESTS: Final = Counter(
    "meterlake_requests",
    "Requests by operation, method and status.",
    ["operation", "method", "status"],
    registry=REGISTRY,
)
_SECONDS: Final = Histogram(
    "meterlake_request_seconds",
    "How long requests took, by operation.",
    ["operation"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=REGISTRY,
)
_OPEN: Final = Gauge(
    "meterlake_requests_open",
    "Requests being answered now.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
_METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
_PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_FAILED: Final = 400
_HEADER: Final = b"x-request-id"
_ID_MAX: Final = 100
# Where the scope of a request has its id.
REQUEST_ID: Final = "meterlake.request"
# What follows in such a path is all that its sender needs.
_SIGNED: Final = (f"{downloads.PATH}/", f"{incoming.PATH}/")
_log: Final = logging.getLogger("meterlake.access")
_ANSWER_S: Final = 5


class Observed:
    """Wraps an application: request ids in and out, the access log, the metrics."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and note how it went."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id, start = _request_id(scope), time.perf_counter()
        scope[REQUEST_ID] = request_id
        status = 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message.setdefault("headers", [])
                message["headers"] = [*message["headers"], (_HEADER, request_id.encode())]
            await send(message)

        _OPEN.inc()
        try:
            await self.app(scope, receive, noted)
        finally:
            _OPEN.dec()
            _note(scope, request_id, status, time.perf_counter() - start)


def _request_id(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == _HEADER), b"")
    text: str = given.decode("latin-1")
    if 0 < len(text) <= _ID_MAX and text.isascii() and text.replace("-", "").isalnum():
        return text
    return os.urandom(16).hex()


@cache
def _counters(operation: str, method: str, status: int) -> tuple[Counter, Histogram]:
    return _REQUESTS.labels(operation, method, str(status)), _SECONDS.labels(operation)


def _note(scope: Scope, request_id: str, status: int, seconds: float) -> None:
    # What needs no token is no operation of the table, and has the name of its route.
    route = getattr(scope.get("route"), "name", "other")
    operation = scope.get("meterlake.operation", route)
    # Whoever calls may make methods up; counters are not for them to fill the memory with.
    method = scope["method"] if scope["method"] in _METHODS else "OTHER"
    count, took = _counters(operation, method, status)
    count.inc()
    took.observe(seconds)
    asked_all_the_time = scope["path"] in _PROBES and status < _FAILED
    if asked_all_the_time or not _log.isEnabledFor(logging.INFO):
        return
    path = scope["path"]
    # What is signed works like a password.
    signed = next((each for each in _SIGNED if path.startswith(each)), None)
    line: dict[str, Any] = {
        "request": request_id,
        "operation": operation,
        "method": scope["method"],
        # Queries may hold names of customers: the path alone.
        "path": f"{signed}…" if signed else path[:500],
        "status": status,
        "ms": round(seconds * 1000, 2),
        "organization": scope.get("meterlake.organization"),
        "client": scope["client"][0] if scope.get("client") else None,
    }
    _log.info(
        wire.dumps({name: value for name, value in line.items() if value is not None}).decode()
    )


async def metrics(_: Request) -> Response:
    """The metrics of all processes of this server in the format of Prometheus."""
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return Response(generate_latest(registry), media_type=CONTENT_TYPE)


async def readiness(request: Request) -> tuple[int, str]:
    """200 and `ready`, or 503 and why not."""
    state = request.app.state
    asked: asyncio.Task[None] | None = getattr(state, "probe", None)
    if asked is None or asked.done():
        # All who ask meanwhile share the answer: a State that hangs is not asked again and again.
        state.probe = asked = asyncio.create_task(_ask(state.services.stores))
    try:
        await asyncio.wait_for(asyncio.shield(asked), timeout=_ANSWER_S)
    except (MeterlakeError, TimeoutError) as error:
        return 503, f"not ready: {error or 'the State database does not answer'}"
    return 200, "ready"


async def _ask(stores: Stores) -> None:
    # On a thread of its own: those that all requests share may be taken.
    await anyio.to_thread.run_sync(stores.state.organizations, limiter=CapacityLimiter(1))
