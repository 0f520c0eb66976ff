"""The few pages that people see: rendered without scripts, and without anything from elsewhere.

The page at `/` leads to what a server has.
"""

import asyncio
import hmac
import secrets
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from meterlake.api.documentation import DOCUMENT, PAGE
from meterlake.api.server.observe import readiness
from meterlake.model.values.version import code_version
from meterlake.settings import Settings
from meterlake.stores.prefect_access import is_own_connection, password_for, sign_in_link

SESSION_COOKIE: Final = "meterlake_session"
CSRF_COOKIE: Final = "meterlake_csrf"
CSRF_FIELD: Final = "csrf"
COOKIE_PATH: Final = "/oauth"

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
# Proxies say for whom they ask; who asks through one is not on this machine.
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
_CONNECT_S: Final = 0.5
_OK: Final = 200


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("meterlake.api", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )


def page(
    name: str, status: int = 200, *, leads_to: str = "", problem: str = "", **values: Any
) -> HTMLResponse:
    """A page.

    Args:
        name: Its template.
        status: Its HTTP status.
        leads_to: The origin that a form may redirect to besides our own.
        problem: What went wrong, in words.
        values: What the template shows.
    """
    nonce = secrets.token_urlsafe(16)
    text = _templates().get_template(name).render(nonce=nonce, problem=problem, **values)
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self' {leads_to}".strip()
        + "; base-uri 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(text, status, {**_HEADERS, "Content-Security-Policy": policy})


def csrf_token(request: Request) -> str:
    """What the forms of a browser carry: the value of its cookie, or a new one."""
    return request.cookies.get(CSRF_COOKIE) or secrets.token_urlsafe(32)


def is_own_form(request: Request, form: dict[str, str]) -> bool:
    """Whether a form was sent from one of our pages."""
    cookie = request.cookies.get(CSRF_COOKIE, "")
    sent = form.get(CSRF_FIELD, "")
    return bool(cookie) and hmac.compare_digest(cookie.encode(), sent.encode())


def set_cookie(
    request: Request,
    response: Response,
    name: str,
    value: str,
    *,
    seconds: int | None = None,
    path: str = COOKIE_PATH,
) -> None:
    """Give the browser a cookie that no script reads and no other site sends along a form."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=path,
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
    )


def delete_cookie(
    request: Request, response: Response, name: str, *, path: str = COOKIE_PATH
) -> None:
    """Have the browser forget a cookie; one that is for TLS is forgotten as such only."""
    response.delete_cookie(
        name, path=path, secure=is_secure(request), httponly=True, samesite="lax"
    )


def is_secure(request: Request) -> bool:
    """Whether people reach the server by TLS, also where a proxy ends it and does not say so."""
    public = request.app.state.services.stores.settings.public_url or ""
    return request.url.scheme == "https" or public.startswith("https://")


class LandingLink(NamedTuple):
    """Something that runs, or that is kept, somewhere.

    Attributes:
        name: What it is called.
        about: What it is for.
        where: Its address or path; empty if that is nobody's business.
        link: Where a click leads; empty if nowhere.
        state: How it is: `good`, `bad` or `off`; empty if nobody looked.
        says: That in words.
    """

    name: str
    about: str
    where: str = ""
    link: str = ""
    state: str = ""
    says: str = ""


async def _landing(request: Request) -> Response:
    settings: Settings = request.app.state.services.stores.settings
    inside = is_on_this_machine(request)
    status, sentence = await readiness(request)
    places = [
        LandingLink(
            "Console",
            "The month, bills and customers, for people who sign in.",
            "/console",
            "/console",
        ),
        LandingLink(
            "API documentation",
            "Every operation with its fields, rules and an example, to be read and tried.",
            PAGE,
            PAGE,
        ),
        LandingLink(
            "OpenAPI document", "The same for programs and code generators.", DOCUMENT, DOCUMENT
        ),
        await _prefect(request, settings, inside=inside),
        LandingLink(
            "Health",
            "Whether the server lives (/healthz) and can answer (/readyz).",
            "/readyz",
            "/readyz",
            "good" if status == _OK else "bad",
            sentence,
        ),
        LandingLink("Metrics", "Requests and times, for Prometheus.", "/metrics", "/metrics"),
        _home(settings, inside=inside),
    ]
    url = str(request.base_url)
    return page("landing.html", title="meterlake", version=code_version(), places=places, url=url)


async def _prefect(request: Request, settings: Settings, *, inside: bool) -> LandingLink:
    about = "Runs of flows and jobs, their logs, schedules and results."
    api = settings.prefect_url
    if not api:
        says = "not started: `meterlake serve` starts it unless --no-flows is given"
        return LandingLink("Prefect", about, state="off", says=says)
    if not inside:
        return LandingLink(
            "Prefect", about, says="its address is shown on the server's own machine"
        )
    url = api.rstrip("/").removesuffix("/api")
    if await _answers(url):
        password = password_for(settings.home, api)
        # To whom could read the password in the home anyway, and to nobody else.
        if password is not None and _is_own_browser(request):
            return LandingLink(
                "Prefect", about, url, sign_in_link(url, password), "good", "answers"
            )
        return LandingLink("Prefect", about, url, url, "good", "answers")
    says = "does not answer; after a start that takes a while"
    return LandingLink("Prefect", about, url, url, "off", says)


async def _answers(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        connecting = asyncio.open_connection(parts.hostname, port)
        _, writer = await asyncio.wait_for(connecting, _CONNECT_S)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _home(settings: Settings, *, inside: bool) -> LandingLink:
    about = "The folder that holds configuration, measurements, bills and files."
    if not inside:
        return LandingLink("Home", about, says="its path is shown on the server's own machine")
    state = "PostgreSQL" if settings.state else "SQLite in this folder"
    return LandingLink("Home", about, str(settings.home.absolute()), says=f"State: {state}")


def _is_own_browser(request: Request) -> bool:
    """Whether a browser of the user whom this process belongs to opens the page in a tab."""
    opens = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    if request.client is None or any(request.headers.get(each) != opens[each] for each in opens):
        return False
    host, port = request.scope.get("server") or ("", None)
    return port is not None and is_own_connection(request.client, (host, port))


def is_on_this_machine(request: Request) -> bool:
    """Whether who asks sits at this machine, and is not sent by a proxy."""
    client = request.client.host if request.client else ""
    host = request.url.hostname or ""
    forwarded = any(name in request.headers for name in _FORWARDED)
    return client in _LOOPBACK and host in _LOOPBACK and not forwarded


ROUTES: Final = (Route("/", _landing, methods=["GET"], name="GetLandingPage"),)
