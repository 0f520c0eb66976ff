"""The application that a server process runs: both APIs, sign-in, documentation, health, metrics."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from meterlake.api import documentation, oauth
from meterlake.api.answers import WireResponse, failure, message
from meterlake.api.dispatch import Dispatcher, Services
from meterlake.api.limits import Limits
from meterlake.api.observe import Observed, metrics
from meterlake.api.router import Router
from meterlake.api.routes import OPERATIONS
from meterlake.model.errors import MeterlakeError
from meterlake.pipeline.access import KnownPermissions
from meterlake.pipeline.tokens import Tokens
from meterlake.pipeline.version import code_version
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores


def app() -> FastAPI:
    """The application of the home that METERLAKE_HOME names; what `uvicorn --factory` calls."""
    return create_app(Settings())


def create_app(settings: Settings) -> FastAPI:
    """The application of a home; its stores are opened when it starts and closed when it stops."""

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        with open_stores(settings) as stores:
            found = services(stores)
            _equip(application, found)
            try:
                yield
            finally:
                found.limits.close()

    application = FastAPI(
        title="meterlake",
        version=code_version(),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    application.add_middleware(Observed)
    application.add_exception_handler(Exception, _failed)
    application.add_exception_handler(HTTPException, _refused)
    for path, endpoint in (("/healthz", _alive), ("/readyz", _ready), ("/metrics", metrics)):
        application.add_route(path, endpoint, methods=["GET"])
    for route in (*oauth.ROUTES, *documentation.ROUTES):
        application.router.routes.append(route)
    return application


def services(stores: Stores) -> Services:
    """What answers requests, on top of open stores."""
    return Services(
        stores,
        Tokens(stores.state, stores.secrets),
        KnownPermissions(stores.state),
        Limits(stores.settings, stores.home),
    )


def _equip(application: FastAPI, found: Services) -> None:
    application.state.services = found
    # Not a mount: its pattern knows no path with a line break in it.
    application.router.default = Dispatcher(found, Router(OPERATIONS))


async def _failed(_: Request, error: Exception) -> Response:
    return failure(error)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return message(error.status_code, error.detail, dict(error.headers or {}))


async def _alive(_: Request) -> Response:
    return WireResponse({"status": "alive"})


async def _ready(request: Request) -> Response:
    stores: Stores = request.app.state.services.stores
    try:
        await asyncio.wait_for(run_in_threadpool(_look(stores)), timeout=5)
    except (MeterlakeError, TimeoutError) as error:
        return message(503, f"not ready: {error or 'the State database does not answer'}")
    return WireResponse({"status": "ready"})


def _look(stores: Stores) -> Callable[[], object]:
    return stores.state.organizations
