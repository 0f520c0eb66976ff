"""Who is signed in to the console: a cookie that only the server reads, and the way to it.

People sign in by the Authorization Code flow with PKCE (RFC 7636, S256) on the server's own pages.
The browser holds an encrypted cookie with the access token; no script sees it. A session of the
console ends after two hours without a page, and in any case with the access token.
"""

import base64
import hmac
import json
import secrets
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self
from urllib.parse import urlencode

from httpx import ASGITransport, AsyncClient
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from meterlake.api.server import pages
from meterlake.api.server.oauth import AUTHORIZE_PATH, CALLBACK, CLIENT, SIGN_OUT_PATH
from meterlake.api.server.observe import REQUEST_ID
from meterlake.console.shell.api import ApiClient
from meterlake.console.shell.people import full_name
from meterlake.model.errors import MeterlakeError
from meterlake.pipeline.access.login import challenge_of
from meterlake.stores import Stores

IDLE_S: Final = 2 * 3600
# How old a cookie gets before a page renews it.
_RENEWED_S: Final = 300
_FLOW_S: Final = 600
_VERIFIER_BYTES: Final = 48
_NO_STORE: Final = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A person in front of the console.

    Attributes:
        token: The access token.
        org_id: The organization that was chosen at sign-in.
        organization: Its name.
        zone: Its time zone.
        person: The person's name.
        csrf: What the session's forms carry.
        seen: When a page was shown, in seconds since 1970.
        ends: When it ends, whatever is done.
        said: What the next page says once: what an action has done.
    """

    token: str = field(repr=False)
    org_id: str
    organization: str
    zone: str
    person: str
    csrf: str = field(repr=False)
    seen: int
    ends: int
    said: str = ""

    def is_alive(self, now: float) -> bool:
        """Whether it may still be used."""
        return now < min(self.ends, self.seen + IDLE_S)

    @classmethod
    def read(cls, request: Request) -> Self | None:
        """The session of a browser; None if it has none that lives."""
        found = _read_cookie(request, "session")
        try:
            session = None if found is None else cls(**found)
        except TypeError:  # Of a version whose sessions had other fields.
            return None
        return session if session is not None and session.is_alive(_now(request)) else None

    def keep(self, request: Request, response: Response, said: str = "") -> None:
        """Have the browser keep it, if that is due.

        Args:
            request: The request.
            response: Gets the cookie.
            said: What the next page says.
        """
        now = int(_now(request))
        if said != self.said or now - self.seen > _RENEWED_S:
            _set_cookie(request, response, "session", asdict(replace(self, seen=now, said=said)))

    def has_sent(self, token: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(self.csrf.encode(), token.encode())


def begin_sign_in(request: Request, target: str) -> Response:
    """Send a browser to the sign-in page; it comes back to the callback, and then to a page."""
    verifier, state = secrets.token_urlsafe(_VERIFIER_BYTES), secrets.token_urlsafe(16)
    asked = {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": f"{origin(request)}{CALLBACK}",
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
        "state": state,
    }
    if organization := request.query_params.get("organization"):
        asked["organization"] = organization
    answer = RedirectResponse(f"{AUTHORIZE_PATH}?{urlencode(asked)}", 303, _NO_STORE)
    flow = {"verifier": verifier, "state": state, "target": target, "begun": int(_now(request))}
    _set_cookie(request, answer, "flow", flow, _FLOW_S)
    return answer


async def end_sign_in(request: Request) -> Response:
    """The callback: exchange the code for a token, and go on to the page that was asked for."""
    flow = _read_cookie(request, "flow")
    code, state = (request.query_params.get(name, "") for name in ("code", "state"))
    is_ours = flow is not None and hmac.compare_digest(flow["state"].encode(), state.encode())
    if flow is None or not is_ours or _now(request) - flow["begun"] > _FLOW_S:
        # A bookmark of the callback, or a page that was open for too long: once more.
        return begin_sign_in(request, "/console")
    asked = {
        "grant_type": "authorization_code",
        "client_id": CLIENT,
        "code": code,
        "code_verifier": flow["verifier"],
        "redirect_uri": f"{origin(request)}{CALLBACK}",
    }
    async with AsyncClient(transport=ASGITransport(request.app), base_url=origin(request)) as http:
        answer = await http.post("/oauth/token", data=asked)
    if not answer.is_success:
        return begin_sign_in(request, flow["target"])
    session = await _session_of(request, answer.json()["access_token"])
    response = RedirectResponse(flow["target"], 303, _NO_STORE)
    _set_cookie(request, response, "session", asdict(session))
    _delete_cookie(request, response, "flow")
    return response


async def _session_of(request: Request, token: str) -> ConsoleSession:
    padded = token.split(".")[1] + "=="
    claims = json.loads(base64.urlsafe_b64decode(padded))
    async with api_of(request, token, claims["org"]) as api:
        # Who may do nothing sees no more than that.
        me = await api.find("/users/me") or {"user": {}, "organization": {}}
        allowed = await api.find("/users/me/operations") or {"timezone": "UTC"}
    user = me["user"]
    return ConsoleSession(
        token,
        claims["org"],
        me["organization"].get("organizationName", ""),
        allowed["timezone"],
        full_name(user) or "Signed in",
        secrets.token_urlsafe(32),
        int(_now(request)),
        claims["exp"],
    )


def end_session(request: Request) -> Response:
    """Sign out of the console, and by a second step of the server with all tokens of the session."""
    answer = RedirectResponse(SIGN_OUT_PATH, 307, _NO_STORE)
    _delete_cookie(request, answer, "session")
    return answer


def api_of(request: Request, token: str, org_id: str) -> ApiClient:
    """The API as the holder of a token calls it."""
    return _client(request, f"/organizations/{org_id}", token)


def api_of_link(request: Request, path: str) -> ApiClient:
    """The API below a path, where a link in it is all that it takes."""
    return _client(request, path, None)


def _client(request: Request, path: str, token: str | None) -> ApiClient:
    address = request.client.host if request.client else "unknown"
    place = f"{origin(request)}{path}"
    # The log has what the API does for a page under the id of the page's request.
    id_ = str(request.scope.get(REQUEST_ID, ""))
    return ApiClient(request.app.state.front, place, token, address, id_)


def origin(request: Request) -> str:
    """Where people reach the server: as the settings say, or as the request came."""
    public = _stores(request).settings.public_url
    return public or f"{request.url.scheme}://{request.url.netloc}"


def _stores(request: Request) -> Stores:
    found: Stores = request.app.state.services.stores
    return found


def _now(request: Request) -> float:
    return _stores(request).now().timestamp()


def _cookie_name(request: Request, name: str) -> str:
    # Browsers take the prefix only over TLS.
    return f"{'__Host-' if pages.is_secure(request) else ''}meterlake_console_{name}"


def _read_cookie(request: Request, name: str) -> Any:
    sent = request.cookies.get(_cookie_name(request, name))
    if not sent:
        return None
    try:
        found = json.loads(_stores(request).secrets.decrypt(sent))
    except (MeterlakeError, ValueError):
        return None
    return found["content"] if found["name"] == name else None


def _set_cookie(
    request: Request, response: Response, name: str, content: Any, seconds: int | None = None
) -> None:
    text = _stores(request).secrets.encrypt(json.dumps({"name": name, "content": content}))
    cookie = _cookie_name(request, name)
    pages.set_cookie(request, response, cookie, text, seconds=seconds, path="/")


def _delete_cookie(request: Request, response: Response, name: str) -> None:
    pages.delete_cookie(request, response, _cookie_name(request, name), path="/")
