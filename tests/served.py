"""A server of a home of its own, in this process, and the official SDK in front of it."""

import atexit
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from m3ter import AsyncM3ter, M3ter
from starlette.routing import BaseRoute

from meterlake.api.app import create_app
from meterlake.api.server.protocol import TimedProtocol
from meterlake.console.app import ROUTES
from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import Initialized, initialize
from meterlake.settings import Settings
from meterlake.stores import Organization, Stores, open_stores
from meterlake.stores.processes import free_port
from tests.databases import copy_home, current_database
from tests.homes import Home, settings
from tests.organizations import Clock, prepare_home

START_S = 600


@dataclass(frozen=True)
class Served:
    """A running server, and who may call it."""

    url: str
    org_id: str
    key: str
    secret: str
    settings: Settings
    stores: Stores

    @property
    def organization(self) -> Organization:
        """The organization, with its stores."""
        return self.stores.organization(self.org_id)

    def sdk(self, **changes: Any) -> M3ter:
        """The SDK as a user makes it; strict about what it gets."""
        return M3ter(**self._options(changes))

    def async_sdk(self, **changes: Any) -> AsyncM3ter:
        """Its asynchronous half."""
        return AsyncM3ter(**self._options(changes))

    def _options(self, changes: dict[str, Any]) -> dict[str, Any]:
        return {
            "base_url": self.url,
            "api_key": self.key,
            "api_secret": self.secret,
            "org_id": self.org_id,
            "max_retries": 0,
            "timeout": START_S,
            "_strict_response_validation": True,
            **changes,
        }

    def token(self) -> str:
        """A bearer token of the administrator."""
        found = httpx.post(
            f"{self.url}/oauth/token",
            json={"grant_type": "client_credentials"},
            auth=(self.key, self.secret),
        )
        assert found.status_code == httpx.codes.OK, found.text
        return str(found.json()["access_token"])

    def http(self, token: str | None = None) -> httpx.Client:
        """A plain client with the administrator's token, or another one."""
        bearer = self.token() if token is None else token
        return httpx.Client(
            base_url=f"{self.url}/organizations/{self.org_id}",
            headers={"Authorization": f"Bearer {bearer}"},
            timeout=START_S,  # A busy machine is no failure of the server.
        )


# The operations that servers of this process have answered with success.
ANSWERED: set[str] = set()
_BESIDE = {
    ("POST", "/oauth/token"): "GenerateToken",
    ("PUT", "/uploads/"): "PutUploadFile",
    ("GET", "/downloads/"): "GetDownload",
    ("GET", "/.well-known/jwks.json"): "GetKeySet",
    ("GET", "/healthz"): "GetLiveness",
    ("GET", "/readyz"): "GetReadiness",
    ("GET", "/metrics"): "GetMetrics",
}


class Answered:
    """Wraps an application and notes which operations it answers with success."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            if (
                message["type"] == "http.response.start"
                and message["status"] < httpx.codes.MULTIPLE_CHOICES
            ):
                ANSWERED.add(_operation(scope))
            await send(message)

        await self.app(scope, receive, noted)


def _operation(scope: Any) -> str:
    beside = (
        name
        for (method, path), name in _BESIDE.items()
        if scope["method"] == method and scope["path"].startswith(path)
    )
    return str(scope.get("meterlake.operation") or next(beside, ""))


@contextmanager
def served(
    home: Path, prepare: Callable[[Home], object] | None = None, **changes: Any
) -> Iterator[Served]:
    """Serve a new organization with all features enabled until the body ends.

    Args:
        home: The folder of its home.
        prepare: What is done with the home before: once, for all tests that name the same function.
        changes: Settings.
    """
    if "state" in changes:
        options = settings(home, **changes)
        made = _make_organization(options, prepare)
    else:
        template, made = _template(current_database(), prepare)
        options = settings(copy_home(template, home), **changes)
    with open_stores(options) as stores:
        port = free_port()
        with running(options, port) as url:
            yield Served(url, made.org_id, made.access_key_id, made.api_secret, options, stores)


@cache
def _template(
    database: str,  # noqa: ARG001
    prepare: Callable[[Home], object] | None,
) -> tuple[Path, Initialized]:
    folder = Path(tempfile.mkdtemp(prefix="meterlake-served-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    options = settings(folder / "home")
    return options.home, _make_organization(options, prepare)


def _make_organization(options: Settings, prepare: Callable[[Home], object] | None) -> Initialized:
    if options.state is None:
        prepare_home(options.home)
    made = initialize(options, "Sample")
    with open_stores(options) as stores:
        content = {"features": {"beta": True, "preview": True}}
        apply(stores.state, made.org_id, [Document("features.yaml", content)], "test")
        if prepare is not None:
            prepare(Home(stores, made.org_id, Clock()))
    return made


@contextmanager
def running(options: Settings, port: int, more: Sequence[BaseRoute] = ()) -> Iterator[str]:
    """Run the server of a home in a thread, with the console, and with more routes."""
    server = uvicorn.Server(
        uvicorn.Config(
            Answered(create_app(options, (*more, *ROUTES))),
            port=port,
            log_config=None,
            access_log=False,
            http=TimedProtocol,
            ws="none",
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    give_up = time.monotonic() + START_S
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < give_up, "the server does not answer"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(START_S)
