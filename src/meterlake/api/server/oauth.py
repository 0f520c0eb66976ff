"""Signing in: access keys and codes become tokens; people sign in on a page of our own."""

import base64
import binascii
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from meterlake.api.server import body, pages
from meterlake.api.server.answers import WireResponse, failure
from meterlake.api.server.dispatch import Services
from meterlake.api.server.limits import Limit, network
from meterlake.model.errors import (
    Conflict,
    Invalid,
    MeterlakeError,
    Required,
    TooMany,
    Unauthorized,
)
from meterlake.pipeline.access import login, users
from meterlake.pipeline.access.access import organizations_of, reaches, sign_in_key
from meterlake.pipeline.access.invitation_email import PATH as PASSWORD_PATH
from meterlake.pipeline.access.tokens import LIFETIME_S
from meterlake.stores.state.access.people import canonical
from meterlake.stores.state.access.sessions import Purpose

CLIENT: Final = "console"
CONSOLE: Final = "/console"
CALLBACK: Final = "/console/callback"
SIGNED_OUT: Final = "/console/signed-out"
SIGN_OUT_PATH: Final = "/oauth/logout"
AUTHORIZE_PATH: Final = "/oauth/authorize"

_BODY_MAX: Final = 16 * 1024
_FIELDS_MAX: Final = 30
_FORM: Final = "application/x-www-form-urlencoded"
_NO_STORE: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}

# Wrong passwords for one address: ten at once, then two a minute; from one place: more.
_PER_EMAIL: Final = Limit("sign-in with the e-mail address", 1 / 30, 10)
_PER_ADDRESS: Final = Limit("sign-in from the address", 1 / 5, 50)
_BAD_KEYS: Final = Limit("wrong credentials from the address", 1.0, 60)

# What the sign-in page hands on to itself.
_CARRIED: Final = (
    "response_type",
    "client_id",
    "redirect_uri",
    "code_challenge",
    "code_challenge_method",
    "state",
    "organization",
)


def _services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


def _address(request: Request) -> str:
    return network(request.client.host if request.client else "unknown")


async def _fields(request: Request) -> dict[str, str]:
    """The body's fields, from JSON or a form: texts; `null` counts as absent."""
    data = await body.content(request, _BODY_MAX)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        found = body.parse(data)
        if not isinstance(found, dict):
            raise Invalid("body", "…", "it must be a JSON object or a form")
        texts = {name: value for name, value in found.items() if value is not None}
        _refuse_other_than_text(texts)
        return texts
    try:
        pairs = parse_qsl(data.decode("ascii"), True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise Invalid("body", "…", "it must be a form of few fields") from None
    if len(dict(pairs)) < len(pairs):
        raise Invalid("body", "…", "it must be a form that names each field once")
    return dict(pairs)


def _refuse_other_than_text(fields: dict[str, Any]) -> None:
    # JSON can spell half a surrogate pair: no page, cookie or hash takes it.
    for name, value in fields.items():
        if not isinstance(value, str):
            raise Invalid(name, value, "it must be text")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Invalid(name, value, "it must be text without lone surrogates") from None


# --- Tokens ------------------------------------------------------------------------------------


async def token(request: Request) -> Response:
    """Exchange an access key, a code or a refresh token for an access token."""
    try:
        fields = await _fields(request)
        grant = fields.get("grant_type")
        if not grant:
            raise Required("grant_type")
        exchange = _GRANTS.get(grant)
        if exchange is None:
            raise Invalid("grant_type", grant, f"it must be one of {', '.join(_GRANTS)}")
        if exchange is _by_key and _services(request).stores.state.waits_for_nobody:
            return WireResponse(_by_key(request, fields), headers=_NO_STORE)
        return WireResponse(await run_in_threadpool(exchange, request, fields), headers=_NO_STORE)
    except Unauthorized as error:
        try:
            await run_in_threadpool(_services(request).limits.take, _BAD_KEYS, _address(request))
        except TooMany as many:
            return failure(many)
        answer = failure(error)
        answer.headers["WWW-Authenticate"] = 'Basic realm="meterlake"'
        return answer
    except MeterlakeError as error:
        return failure(error)


def _by_key(request: Request, _: dict[str, str]) -> dict[str, Any]:
    services = _services(request)
    key_id, secret = _basic(request.headers.get("authorization", ""))
    principal = sign_in_key(services.stores.state, key_id, secret)
    return _answer(services.tokens.issue(principal))


def _by_code(request: Request, fields: dict[str, str]) -> dict[str, Any]:
    services = _services(request)
    for name in ("code", "code_verifier", "redirect_uri"):
        if not fields.get(name):
            raise Required(name)
    _check_client(fields)
    issued = login.exchange_code(
        services.stores.state,
        services.tokens,
        fields["code"],
        fields["code_verifier"],
        fields["redirect_uri"],
    )
    return _answer(issued.access_token) | {"refresh_token": issued.refresh_token}


def _by_refresh_token(request: Request, fields: dict[str, str]) -> dict[str, Any]:
    services = _services(request)
    if not fields.get("refresh_token"):
        raise Required("refresh_token")
    _check_client(fields)
    issued = login.exchange_refresh_token(
        services.stores.state, services.tokens, fields["refresh_token"]
    )
    return _answer(issued.access_token) | {"refresh_token": issued.refresh_token}


_GRANTS: Final = {
    "client_credentials": _by_key,
    "authorization_code": _by_code,
    "refresh_token": _by_refresh_token,
}


def _answer(access_token: str) -> dict[str, Any]:
    return {
        "access_token": access_token,
        "token_type": "Bearer",
        "expires_in": LIFETIME_S,
        "scope": None,
    }


def _basic(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        raise Unauthorized(
            "HTTP Basic authentication with access key and secret is required; send both"
        )
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise Unauthorized(
            "the Authorization header is malformed; it must be Basic and the Base64 of key:secret"
        ) from None
    key_id, _, secret = text.partition(":")
    return key_id, secret


def _check_client(fields: dict[str, str]) -> None:
    client = fields.get("client_id", "")
    if client != CLIENT:
        raise Invalid("client_id", client, f"it must be {CLIENT}")


async def jwks(request: Request) -> Response:
    """The public keys that tokens can be verified with."""
    try:
        found = await run_in_threadpool(_services(request).tokens.jwks)
    except MeterlakeError as error:
        return failure(error)
    return WireResponse(found, headers={"Cache-Control": "public, max-age=60"})


# --- People ------------------------------------------------------------------------------------


async def authorize(request: Request) -> Response:
    """Give a code to who is signed in; show the sign-in page to everybody else."""
    try:
        parameters = _check_request(request, dict(request.query_params))
        secret = request.cookies.get(pages.SESSION_COOKIE)
        if secret:
            answer = await run_in_threadpool(_authorize, request, parameters, secret)
            if answer is not None:
                return answer
        return _sign_in_page(request, parameters)
    except MeterlakeError as error:
        return failure(error)


async def sign_in(request: Request) -> Response:
    """Check e-mail address and password; who is right goes on to `authorize`."""
    try:
        form = await _fields(request)
        parameters = _check_request(request, form)
        if not pages.is_own_form(request, form):
            return _sign_in_page(
                request, parameters, 400, "The page was open for too long. Try again."
            )
        threads = _services(request).passwords
        return await threads.run(_address(request), _sign_in, request, parameters, form)
    except MeterlakeError as error:
        return failure(error)


async def sign_out(request: Request) -> Response:
    """End the session of the browser, and every token that came from it."""
    secret = request.cookies.get(pages.SESSION_COOKIE)
    try:
        if secret:
            await run_in_threadpool(login.sign_out, _services(request).stores.state, secret)
    except MeterlakeError as error:
        return failure(error)
    is_form = request.headers.get("content-type", "").startswith(_FORM)
    # A person's form goes on to a page; a program gets JSON.
    answer: Response = (
        RedirectResponse(SIGNED_OUT, 303, _NO_STORE)
        if is_form
        else WireResponse({}, headers=_NO_STORE)
    )
    pages.delete_cookie(request, answer, pages.SESSION_COOKIE)
    return answer


def _check_request(request: Request, given: dict[str, str]) -> dict[str, str]:
    """What a client asks `authorize` for, checked before anything leads anywhere."""
    parameters = {name: given[name] for name in _CARRIED if given.get(name)}
    settings = _services(request).stores.settings
    own = {f"{request.url.scheme}://{request.url.netloc}{CALLBACK}"}
    if settings.public_url:
        own.add(f"{settings.public_url}{CALLBACK}")
    allowed = own | set(settings.redirect_urls)
    rules = {
        "client_id": (parameters.get("client_id") == CLIENT, CLIENT),
        "redirect_uri": (parameters.get("redirect_uri") in allowed, "one that the settings allow"),
        "response_type": (parameters.get("response_type") == "code", "code"),
        "code_challenge_method": (parameters.get("code_challenge_method") == "S256", "S256"),
        "code_challenge": (
            login.CHALLENGE.fullmatch(parameters.get("code_challenge", "")) is not None,
            "43 characters of URL-safe Base64",
        ),
    }
    for name, (kept, rule) in rules.items():
        if not kept:
            raise Invalid(name, parameters.get(name, ""), f"it must be {rule}")
    return parameters


def _authorize(request: Request, parameters: dict[str, str], secret: str) -> Response | None:
    state = _services(request).stores.state
    session = login.session_of(state, secret)
    if session is None:
        return None
    known = organizations_of(state, session.person_id)
    chosen = parameters.get("organization") or (known[0][0] if len(known) == 1 else None)
    if chosen is None:
        links = [(name, _own_link(parameters | {"organization": org})) for org, name in known]
        title = "Choose an organization" if links else "No organization"
        return pages.page("organizations.html", title=title, links=links)
    if not reaches(state, session, chosen):
        return None
    code = login.new_code(
        state, session, chosen, parameters["redirect_uri"], parameters["code_challenge"]
    )
    answer = {"code": code} | ({"state": parameters["state"]} if "state" in parameters else {})
    target = parameters["redirect_uri"]
    joint = "&" if urlsplit(target).query else "?"
    return RedirectResponse(f"{target}{joint}{urlencode(answer)}", 303, _NO_STORE)


def _own_link(parameters: dict[str, str]) -> str:
    return f"{AUTHORIZE_PATH}?{urlencode(parameters)}"


def _sign_in(request: Request, parameters: dict[str, str], form: dict[str, str]) -> Response:
    services = _services(request)
    email = form.get("email", "")
    try:
        services.limits.take(_PER_ADDRESS, _address(request))
        services.limits.take(_PER_EMAIL, canonical(email))
        secret = login.sign_in(services.stores.state, email, form.get("password", ""))
    except TooMany as error:
        answer = _sign_in_page(
            request,
            parameters,
            error.status,
            f"Too many attempts. Try again in {error.retry_after} s.",
        )
        answer.headers["Retry-After"] = str(error.retry_after)
        return answer
    except Unauthorized:
        problem = "The e-mail address or the password is wrong."
        return _sign_in_page(request, parameters, 401, problem)
    answer = RedirectResponse(_own_link(parameters), 303, _NO_STORE)
    seconds = int(login.SESSION.total_seconds())
    pages.set_cookie(request, answer, pages.SESSION_COOKIE, secret, seconds=seconds)
    return answer


def _sign_in_page(
    request: Request, parameters: dict[str, str], status: int = 200, problem: str = ""
) -> Response:
    token_ = pages.csrf_token(request)
    target = urlsplit(parameters["redirect_uri"])
    answer = pages.page(
        "sign_in.html",
        status,
        leads_to=f"{target.scheme}://{target.netloc}",
        problem=problem,
        title="Sign in",
        fields=parameters | {pages.CSRF_FIELD: token_},
    )
    pages.set_cookie(request, answer, pages.CSRF_COOKIE, token_)
    return answer


# --- Links of letters --------------------------------------------------------------------------


async def show_link(request: Request) -> Response:
    """The page behind the link of a letter."""
    secret = request.query_params.get("token", "")
    return await run_in_threadpool(_link_page, request, secret, "")


async def follow_link(request: Request) -> Response:
    """Accept an invitation, or choose a new password."""
    try:
        form = await _fields(request)
    except MeterlakeError as error:
        return failure(error)
    if not pages.is_own_form(request, form):
        return await run_in_threadpool(
            _link_page, request, form.get("token", ""), "The page was open for too long."
        )
    return await run_in_threadpool(_follow, request, form)


def _follow(request: Request, form: dict[str, str]) -> Response:
    secret, state = form.get("token", ""), _services(request).stores.state
    try:
        _services(request).limits.take(_PER_ADDRESS, _address(request))
        purpose = users.purpose_of(state, secret)
        person_id = users.follow(state, secret, form.get("password"), form)
    except Invalid as error:
        problem = (
            f"The password is too short or too long: {error.args[2]}."
            if error.args[0] == "password"
            else f"{error}."
        )
        return _link_page(request, secret, problem, 400, form)
    except Conflict as error:
        return _link_page(request, secret, f"{error}.", error.status, form)
    except Unauthorized:
        return _link_page(request, secret, "")
    except MeterlakeError as error:
        return failure(error)
    if purpose in {Purpose.FIRST_PERSON, Purpose.SIGN_IN}:
        answer = RedirectResponse(CONSOLE, 303, _NO_STORE)
        session = login.begin_session(state, person_id)
        seconds = int(login.SESSION.total_seconds())
        pages.set_cookie(request, answer, pages.SESSION_COOKIE, session, seconds=seconds)
        return answer
    return pages.page("password.html", title="Welcome", done=True, dead=False)


_TITLES: Final = {
    Purpose.FIRST_PERSON: "You are the first",
    Purpose.SIGN_IN: "Sign in to meterlake",
}


def _link_page(
    request: Request,
    secret: str,
    problem: str,
    status: int = 200,
    typed: Mapping[str, str] = MappingProxyType({}),
) -> Response:
    state = _services(request).stores.state
    try:
        purpose, needed = users.purpose_of(state, secret), users.needs_password(state, secret)
    except Unauthorized as error:
        return pages.page(
            "password.html", 401, problem=str(error), title="Link", done=False, dead=True
        )
    except MeterlakeError as error:
        return failure(error)
    token_ = pages.csrf_token(request)
    usual = "Choose a password" if needed else "Accept the invitation"
    answer = pages.page(
        "password.html",
        status,
        problem=problem,
        title=_TITLES.get(purpose, usual),
        done=False,
        dead=False,
        needed=needed,
        purpose=purpose.value,
        typed=typed,
        least=login.LENGTH_MIN,
        most=login.LENGTH_MAX,
        fields={"token": secret, pages.CSRF_FIELD: token_},
    )
    pages.set_cookie(request, answer, pages.CSRF_COOKIE, token_)
    return answer


ROUTES: Final = (
    Route("/oauth/token", token, methods=["POST"], name="GenerateToken"),
    Route("/.well-known/jwks.json", jwks, methods=["GET"], name="GetKeySet"),
    Route(AUTHORIZE_PATH, authorize, methods=["GET"], name="GetSignInPage"),
    Route(AUTHORIZE_PATH, sign_in, methods=["POST"], name="SignIn"),
    Route(SIGN_OUT_PATH, sign_out, methods=["POST"], name="SignOut"),
    Route(PASSWORD_PATH, show_link, methods=["GET"], name="GetPasswordPage"),
    Route(PASSWORD_PATH, follow_link, methods=["POST"], name="ChoosePassword"),
)
