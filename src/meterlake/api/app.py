"""The application that a server process runs: both APIs, sign-in, documentation, health, metrics."""

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meterlake.api import customer_links, documentation, uploads
from meterlake.api.routes import OPERATIONS
from meterlake.api.server import downloads, oauth, pages
from meterlake.api.server.answers import WireResponse, failure, message
from meterlake.api.server.dispatch import Dispatcher, Router, Services
from meterlake.api.server.fair_threads import FairThreads
from meterlake.api.server.limits import RateLimits
from meterlake.api.server.observe import Observed, metrics, readiness
from meterlake.api.server.protocol import SECONDS
from meterlake.model.errors import MeterlakeError
from meterlake.pipeline.access.access import KnownPermissions
from meterlake.pipeline.access.tokens import Tokens
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores

_OPERATIONS: Final = "/organizations/"
_OK: Final = 200
# Argon2 takes 0.1 s of a processor and 64 MiB each.
_PASSWORDS_AT_ONCE: Final = 2
_PASSWORDS_WAITING: Final = 20


class Application:
    """Our operations straight away; everything else, and starting and stopping, by Starlette."""

    def __init__(self, rest: Starlette) -> None:
        self.rest = rest
        self.operations: ASGIApp = rest
        # Why the home could not be opened.
        self.refusal: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or take part in starting and stopping."""
        if scope["type"] == "lifespan":
            send = self._explain(send)
        ours = scope["type"] == "http" and scope["path"].startswith(_OPERATIONS)
        await (self.operations if ours else self.rest)(scope, receive, send)

    def _explain(self, send: Send) -> Send:
        """Say why the server does not start, where Starlette would send a traceback."""

        async def explained(event: Message) -> None:
            if event["type"] == "lifespan.startup.failed" and self.refusal is not None:
                event = {**event, "message": f"meterlake: {self.refusal}"}
            await send(event)

        return explained


def create_app(settings: Settings, more: Sequence[BaseRoute] = ()) -> Application:
    """The application of a home; its stores are opened when it starts and closed when it stops.

    Args:
        settings: The settings of the home.
        more: Routes beside those of the API; they find the whole application as `state.front`.
    """

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[dict[str, float]]:
        with ExitStack() as opened:
            try:
                stores = opened.enter_context(open_stores(settings, lasting=True))
            except MeterlakeError as error:
                front.refusal = " ".join(str(error).split())
                raise
            found = services(stores)
            dispatcher = Dispatcher(found, Router(OPERATIONS))
            application.state.services = found
            # Not a mount: its pattern knows no path with a line break in it.
            application.router.default = dispatcher
            front.operations = Observed(dispatcher)
            try:
                yield {SECONDS: settings.request_seconds}
            finally:
                found.limits.close()

    application = Starlette(
        routes=[
            Route("/healthz", _alive, methods=["GET"], name="GetLiveness"),
            Route("/readyz", _ready, methods=["GET"], name="GetReadiness"),
            Route("/metrics", metrics, methods=["GET"], name="GetMetrics"),
            *oauth.ROUTES,
            *documentation.ROUTES,
            *pages.ROUTES,
            *downloads.ROUTES,
            *uploads.ROUTES,
            *customer_links.ROUTES,
            *more,
        ],
        middleware=[Middleware(Observed)],
        exception_handlers={Exception: _answer_failure, HTTPException: _answer_refusal},
        lifespan=lifespan,
    )
    application.router.redirect_slashes = False
    front = Application(application)
    application.state.front = front
    return front


def services(stores: Stores) -> Services:
    """What answers requests, on top of open stores."""
    return Services(
        stores,
        Tokens(stores.state, stores.secrets),
        KnownPermissions(stores.state),
        RateLimits(stores.settings, stores.home),
        costly=FairThreads(
            stores.settings.costly_at_once,
            stores.settings.costly_waiting,
            "documents, explanations and queries of the organization",
        ),
        passwords=FairThreads(_PASSWORDS_AT_ONCE, _PASSWORDS_WAITING, "sign-ins"),
    )


async def _answer_failure(_: Request, error: Exception) -> Response:
    return failure(error)


async def _answer_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return message(error.status_code, error.detail, dict(error.headers or {}))


async def _alive(_: Request) -> Response:
    return WireResponse({"status": "alive"})


async def _ready(request: Request) -> Response:
    status, sentence = await readiness(request)
    return WireResponse({"status": sentence}) if status == _OK else message(status, sentence)
