"""The few pages that people see: rendered without scripts, and without anything from elsewhere."""

import hmac
import secrets
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

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
    request: Request, response: Response, name: str, value: str, *, seconds: int | None = None
) -> None:
    """Give the browser a cookie that no script reads and no other site sends along a form."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=COOKIE_PATH,
        secure=_is_secure(request),
        httponly=True,
        samesite="lax",
    )


def delete_cookie(request: Request, response: Response, name: str) -> None:
    """Have the browser forget a cookie; one that is for TLS is forgotten as such only."""
    response.delete_cookie(
        name, path=COOKIE_PATH, secure=_is_secure(request), httponly=True, samesite="lax"
    )


def _is_secure(request: Request) -> bool:
    """Whether people reach the server by TLS, also where a proxy ends it and does not say so."""
    public = request.app.state.services.stores.settings.public_url or ""
    return request.url.scheme == "https" or public.startswith("https://")
