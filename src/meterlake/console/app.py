"""The application with the console beside both APIs; what a server process runs."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from meterlake.api.app import Application, create_app
from meterlake.api.server.oauth import CALLBACK, SIGNED_OUT
from meterlake.console import bills, customers, month
from meterlake.console.shell.page import Visit, page, plain_page
from meterlake.console.shell.session import end_session, end_sign_in
from meterlake.model.values.log_lines import redact_logs
from meterlake.settings import Settings
from meterlake.stores.processes import end_with_supervisor


async def _signed_out(_: Request) -> Response:
    return plain_page("signed_out.html")


async def _sign_out(visit: Visit) -> Response:
    return end_session(visit.request)


async def _components(visit: Visit) -> Response:
    return visit.page("components.html")


async def _nothing(visit: Visit) -> Response:
    return visit.page("nothing.html", 404)


ROUTES: Final = (
    Route(CALLBACK, end_sign_in, methods=["GET"], name="ConsoleCallback"),
    Route(SIGNED_OUT, _signed_out, methods=["GET"], name="ConsoleSignedOut"),
    Route("/console/sign-out", page(_sign_out), methods=["POST"], name="ConsoleSignOut"),
    Route("/console/components", page(_components), methods=["GET"], name="ConsoleComponents"),
    Mount("/console/static", StaticFiles(packages=[("meterlake.console", "static")])),
    *month.ROUTES,
    *bills.ROUTES,
    *customers.ROUTES,
    Route("/console/{rest:path}", page(_nothing), methods=["GET"], name="ConsoleNothing"),
)


def app() -> Application:
    """The application of the home that METERLAKE_HOME names; what `uvicorn --factory` calls."""
    end_with_supervisor()
    redact_logs()
    return create_app(Settings(), ROUTES)
