"""How a page is answered: who asks, what they may do, the template, and errors as pages."""

import logging
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache, wraps
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.numbers import format_decimal, get_decimal_symbol
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from meterlake.api.server import body
from meterlake.api.server.observe import REQUEST_ID
from meterlake.console.shell import form_keys
from meterlake.console.shell.api import ApiClient, ApiRefusalError
from meterlake.console.shell.dates import day_text, in_words, instant_text
from meterlake.console.shell.navigation import ROOMS, Room
from meterlake.console.shell.numbers import exact_number, written_number
from meterlake.console.shell.people import OTHER_PERSON, author_name, names_of_authors
from meterlake.console.shell.session import ConsoleSession, api_of, begin_sign_in, origin
from meterlake.console.shell.static_files import static_address
from meterlake.model.errors import Invalid, MeterlakeError
from meterlake.model.values.money import RoundingMode, divide, exact, round_amount
from meterlake.model.values.period import Month
from meterlake.model.values.units import unit_name
from meterlake.model.values.version import code_version

_FORM_MAX: Final = 1 << 20
# Of a form with files, in memory; larger files go by an upload URL.
FILE_MAX: Final = 32 << 20
_FILES_MAX: Final = 100
_WITH_FILES: Final = "multipart/form-data"
_FIELDS_MAX: Final = 2_000
# Scripts are files of our own, and htmx acts on elements with the page's nonce only.
_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'nonce-{nonce}'; object-src 'none'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'; trusted-types htmx"
)
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_OK: Final = 200
_INVALID: Final = 400
_UNAUTHORIZED: Final = 401
_FAILED: Final = 500
_log: Final = logging.getLogger("meterlake.console")
_LOCALE: Final = Locale("en")


class SentFile(NamedTuple):
    """A file that a form sent."""

    name: str
    content: bytes


@dataclass(slots=True)
class Visit:
    """One request of a signed-in person.

    Attributes:
        allowed: The operations of the API that the person may call.
        author: What `createdBy` and the like say of what the person does.
        form: The fields of what was sent; empty for a GET.
        files: The files that were chosen in a form, by field.
        refusal: Why the API refused what was sent, if the page comes back with it.
        has_acted: Whether the form has done something: it does not do that again.
        led: Where that led to, and what was said of it; None if its answer is a page.
        has_ended: Whether a part that asks by itself is told that nothing runs any more.
        refused: Why parameters of the address were refused, by their names: the page goes without
            them, and says it beside their fields.
    """

    request: Request
    session: ConsoleSession
    api: ApiClient
    allowed: frozenset[str] = frozenset()
    author: str = ""
    form: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, list[SentFile]] = field(default_factory=dict)
    refusal: ApiRefusalError | None = None
    has_acted: bool = False
    led: tuple[str, str] | None = None
    has_ended: bool = False
    refused: dict[str, str] = field(default_factory=dict)
    _people: dict[str, str] | None = None

    def query(self, name: str) -> str | None:
        """A parameter of the address; None if it is absent, empty or refused."""
        return None if name in self.refused else self.filtered_by(name) or None

    def filtered_by(self, name: str) -> str:
        """What a field of a filter shows: also what was refused."""
        return str(self.request.query_params.get(name, ""))

    def field(self, name: str) -> str:
        """A field of the form; empty if it is absent."""
        return self.form.get(name, [""])[0].strip()

    def typed(self, name: str, value: Any = "") -> str:
        """What a field shows: what was typed, if the form comes back, or the value of now."""
        if self.refusal is not None and name in self.form:
            return self.form[name][0]
        return "" if value is None or value == "" else f"{value}"

    def is_ticked(self, name: str, ticked: bool) -> bool:
        """As `typed`, for a field that one ticks: browsers send it only if it is ticked."""
        return name in self.form if self.refusal is not None else ticked

    def is_filtered(self, listing: Any) -> bool:
        """Whether the address narrows a list."""
        return any(self.filtered_by(each.name) for each in listing.filters)

    def shown_all(self, listing: Any) -> str:
        """The address of a list without its filters, in the same order."""
        return self.link(page=None, **{each.name: None for each in listing.filters})

    def rooms(self) -> list[Room]:
        """The rooms that have something to show to the person."""
        return [each for each in ROOMS if self.allowed & {each.operation, each.other}]

    async def people(self) -> dict[str, str]:
        """The names of authors, for `author` in templates; asked for once on a page."""
        if self._people is None:
            found = await names_of_authors(self.api)
            hidden = {} if self.may("ListOrgUsers") else {OTHER_PERSON: "another person"}
            self._people = {**found, **hidden, self.author: self.session.person}
        return self._people

    def open_places(self, places: Iterable[tuple[str, str, str]]) -> tuple[tuple[str, str], ...]:
        """Labels and addresses of those pages whose operation the person may call."""
        return tuple(
            (label, address) for operation, label, address in places if self.may(operation)
        )

    def unknown_action(self, noun: str) -> ApiRefusalError:
        """The refusal of a form that asks for what nobody does to a thing."""
        return ApiRefusalError(400, f"{self.field('action')!r} is nothing that one does to {noun}")

    def may(self, *operations: str) -> bool:
        """Whether the person may call all of some operations."""
        return self.allowed.issuperset(operations)

    def require(self, operation: str) -> None:
        """Refuse the page of who may not call an operation.

        Raises:
            ApiRefusalError: The person may not.
        """
        if not self.may(operation):
            raise ApiRefusalError(403, f"Your policies do not allow {operation}.")

    @property
    def version(self) -> int | str:
        """The version that a form was made of; the API refuses a text that is none."""
        sent = self.field("version")
        return int(sent) if re.fullmatch("[0-9]{1,9}", sent) else sent

    @property
    def decimal(self) -> str:
        """What the person's language has before decimals: a point or a comma."""
        return "," if get_decimal_symbol(locale_of(self.request)) == "," else "."

    def written(self, value: Any) -> Any:
        """A number as fields show it; anything else as it is."""
        return written_number(value, self.decimal) if isinstance(value, Decimal) else value

    @property
    def request_id(self) -> str:
        """The id under which the server's log has the request."""
        return str(self.request.scope.get(REQUEST_ID, ""))

    @property
    def now(self) -> datetime:
        """The instant of the server's clock."""
        found: datetime = self.request.app.state.services.stores.now()
        return found

    @property
    def today(self) -> date:
        """Today in the organization's time zone."""
        return self.now.astimezone(ZoneInfo(self.session.zone)).date()

    def page(self, template: str, status: int | None = None, **values: Any) -> Response:
        """A page of the console."""
        answer = _rendered(
            template,
            status or (_INVALID if self.refused else _OK),
            visit=self,
            session=self.session,
            path=self.request.url.path,
            locale=locale_of(self.request),
            said=self.session.said,
            **{"people": self._people or {}, **values},
        )
        # A part that asks by itself is nobody who looks: the session goes on to its end.
        if "HX-Request" not in self.request.headers:
            self.session.keep(self.request, answer)
        if self.has_ended:
            answer.headers["HX-Refresh"] = "true"
        return answer

    def end_part(self, id: str) -> str:
        """Have the whole page loaded anew if its part of this id asks, and nothing runs any more.

        What ended stands all over the page: other numbers, files, buttons.
        """
        self.has_ended |= self.request.headers.get("HX-Target") == f"div#{id}"
        return ""

    def go(self, target: str, said: str = "") -> Response:
        """Lead on to a page after something was done, which that page says."""
        answer = RedirectResponse(target, 303, {"Cache-Control": "no-store"})
        self.has_acted, self.led = True, (target, said)
        self.session.keep(self.request, answer, said)
        return answer

    def link(self, **changes: Any) -> str:
        """The address of this page with other parameters; None takes one away."""
        sent = dict(self.request.query_params).items()
        query = {name: value for name, value in sent if name not in self.refused} | changes
        kept = {name: value for name, value in query.items() if value not in {None, ""}}
        return f"{self.request.url.path}?{urlencode(kept)}" if kept else self.request.url.path


PageFunction = Callable[[Visit], Awaitable[Response]]


def page(
    function: PageFunction, back: PageFunction | None = None, needs: str = ""
) -> Callable[[Request], Awaitable[Response]]:
    """A page, or an action, of people who are signed in; others are led to the sign-in.

    Args:
        function: Answers.
        back: For an action, the page with its form: it is shown again with what was typed and with
            the API's words if the API refuses. Without it, a page shows the words alone.
        needs: The operation of the API that a form is for: who may not call it sees no form.
    """

    @wraps(function)
    async def answer(request: Request) -> Response:
        session = ConsoleSession.read(request)
        if session is None:
            return begin_sign_in(request, _target(request))
        async with api_of(request, session.token, session.org_id) as api:
            visit = Visit(request, session, api)
            try:
                return await _answered(function, visit, needs)
            except (MeterlakeError, ApiRefusalError, OverflowError) as error:
                return await _refused(visit, refusal_of(error), back)
            except Exception as error:  # noqa: BLE001 - whatever it is, the person gets a page
                _log.error("the page of request %s failed", visit.request_id, exc_info=error)
                return await _refused(visit, ApiRefusalError(_FAILED, "The server failed."), None)

    return answer


def page_routes(
    path: str, show: PageFunction, change: PageFunction | None, name: str, needs: str = ""
) -> list[Route]:
    """The routes of a page and of the action that its form sends, after which it may come back.

    Args:
        path: Their address.
        show: Answers the page.
        change: Carries out what was sent; None if the page has no form.
        name: What the access log calls the page; the action's name ends with `Change`.
        needs: As `page` has it, of the page.
    """
    found = [Route(path, page(show, needs=needs), methods=["GET"], name=name)]
    if change is not None:
        found.append(Route(path, page(change, show), methods=["POST"], name=f"{name}Change"))
    return found


async def _refused(visit: Visit, refusal: ApiRefusalError, back: PageFunction | None) -> Response:
    """The page with the form once more, or one that says why."""
    if refusal.status == _UNAUTHORIZED:
        return begin_sign_in(visit.request, _target(visit.request))
    if back is not None and visit.form and visit.allowed:
        visit.refusal = refusal
        try:
            shown = await back(visit)
        except (MeterlakeError, ApiRefusalError, OverflowError):
            visit.refusal = None
        else:
            shown.status_code = refusal.status
            return shown
    return visit.page("refused.html", refusal.status, refusal=refusal)


def refusal_of(error: MeterlakeError | ApiRefusalError | OverflowError) -> ApiRefusalError:
    """An error as people read it."""
    if isinstance(error, ApiRefusalError):
        return error
    if isinstance(error, OverflowError):  # What sums of days and instants end with.
        return ApiRefusalError(400, "A day is outside of the calendar; years go from 2 to 9998.")
    return ApiRefusalError(error.status, str(error))


async def _answered(function: PageFunction, visit: Visit, needs: str) -> Response:
    request = visit.request
    if request.method == "POST":
        await _read_form(visit)
        if not _is_own(request) or not visit.session.has_sent(visit.field("csrf")):
            reason = "The page was open for too long, or the form is not from here. Try again."
            raise ApiRefusalError(400, reason)
    answer = await visit.api.get("/users/me/operations")
    visit.allowed, visit.author = frozenset(answer["data"]), answer["author"]
    if needs:
        visit.require(needs)
    return await (form_keys.carry_out(visit, function) if visit.form else function(visit))


async def _read_form(visit: Visit) -> None:
    """Read the fields of a form, and its files if it sends some."""
    request = visit.request
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == _WITH_FILES:
            parts = await _parts(request, await body.content(request, FILE_MAX))
            try:
                for name, part in parts.multi_items():
                    if not isinstance(part, UploadFile):
                        visit.form.setdefault(name, []).append(part)
                    # Browsers send a field without a chosen file as a file without a name.
                    elif part.filename:
                        file = SentFile(part.filename, await part.read())
                        visit.files.setdefault(name, []).append(file)
            finally:
                await parts.close()
        else:
            text = (await body.content(request, _FORM_MAX)).decode("ascii", "replace")
            for name, value in parse_qsl(text, True, max_num_fields=_FIELDS_MAX):
                visit.form.setdefault(name, []).append(value)
    except (ValueError, MultiPartException):
        raise Invalid("body", "…", f"it must be a form of {_FIELDS_MAX} fields or less") from None


async def _parts(request: Request, data: bytes) -> FormData:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield data

    parser = MultiPartParser(
        request.headers,
        stream(),
        max_files=_FILES_MAX,
        max_fields=_FIELDS_MAX,
        max_part_size=_FORM_MAX,
    )
    return await parser.parse()


def _is_own(request: Request) -> bool:
    """Whether a browser says that a form was sent from a page of this server.

    Browsers name the origin of every POST. Where something on the way takes that out, they say the
    same by what they call the site, or by the page.
    """
    own = {origin(request), str(request.base_url).rstrip("/")}
    sent = request.headers.get("origin")
    if sent is not None:
        return sent in own
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    referer = urlsplit(request.headers.get("referer", ""))
    return f"{referer.scheme}://{referer.netloc}" in own


def _target(request: Request) -> str:
    """Where to go after the sign-in: this page, or for an action, the page it was on."""
    url = request.url
    if request.method == "GET":
        return f"{url.path}?{url.query}" if url.query else url.path
    referer = urlsplit(request.headers.get("referer", ""))
    return referer.path if referer.path.startswith("/console/") else "/console"


def plain_page(template: str, status: int = 200) -> Response:
    """A page for anybody."""
    return _rendered(template, status, visit=None, session=None, path="", locale=_LOCALE, said="")


def page_text(template: str, **values: Any) -> str:
    """A template with its values, as HTML."""
    return _templates().get_template(template).render(version=code_version(), **values)


def _rendered(template: str, status: int, **values: Any) -> HTMLResponse:
    nonce = secrets.token_urlsafe(18)
    text = page_text(template, nonce=nonce, **values)
    policy = {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
    return HTMLResponse(text, status, {**_HEADERS, **policy})


def locale_of(request: Request) -> Locale:
    """How the person's browser asks for numbers and dates."""
    for part in request.headers.get("accept-language", "").split(","):
        name = part.partition(";")[0].strip()
        if not re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", name):
            continue
        try:
            return Locale.parse(name, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return _LOCALE


# --- What templates write numbers and times with ------------------------------------------------


def number(value: Decimal | int | str, locale: Locale) -> Markup:
    """A number as people read it, with all its digits; the API's own text on hover."""
    known = Decimal(value)
    shown = exact_number(known, locale)
    return Markup('<data class="number" value="{0}" title="{0}">{1}</data>').format(
        f"{known:f}", shown
    )


def percent(part: Decimal, whole: Decimal) -> Decimal:
    """How many percent of a whole a part is, rounded to a tenth; the whole is not zero."""
    with exact():
        hundredfold = part * 100
    return round_amount(divide(hundredfold, whole), 1, RoundingMode.HALF_EVEN)


def two_places(value: Decimal | int | str) -> str:
    """An amount with two decimals or more: `2621.50`."""
    whole, _, places = f"{Decimal(value):f}".partition(".")
    return f"{whole}.{places.ljust(2, '0')}"


def money(value: Decimal | int | str, currency: str, locale: Locale) -> Markup:
    """An amount with its currency, with two decimals or more."""
    shown = number(two_places(value), locale)
    return Markup('{} <abbr class="currency">{}</abbr>').format(shown, currency)


def rounded(value: Decimal, currency: str, locale: Locale) -> Markup:
    """An amount with two decimals for the eye; the exact one on hover."""
    shown = format_decimal(
        round_amount(value, 2, RoundingMode.HALF_EVEN), "#,##0.00", locale=locale
    )
    return Markup(
        '<data class="number" value="{0}" title="{0}">{1}</data> <abbr class="currency">{2}</abbr>'
    ).format(f"{value:f}", shown, currency)


def day(value: str | date, locale: Locale) -> Markup:
    """A day as people read it."""
    found = date.fromisoformat(value) if isinstance(value, str) else value
    shown = day_text(found, locale)
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(found.isoformat(), shown)


def instant(value: str, zone: str, locale: Locale) -> Markup:
    """An instant in the organization's time zone; UTC on hover."""
    return _time(value, instant_text(_local(value, zone), locale))


def starts(value: str, zone: str, locale: Locale) -> Markup:
    """The day that an instant begins by the clocks of a zone; the instant if it is within one."""
    begun = _day_begun(value, zone)
    if begun is None:
        return instant(value, zone, locale)
    return _time(value, day_text(begun, locale))


def ends(value: str, zone: str, locale: Locale) -> Markup:
    """The last day before an instant that is a midnight; the instant if it is within a day."""
    begun = _day_begun(value, zone)
    if begun is None:
        return instant(value, zone, locale)
    return _time(value, day_text(begun - timedelta(days=1), locale))


def _day_begun(value: str, zone: str) -> date | None:
    """The day that begins with an instant, by the clocks of a zone or of UTC; None within a day.

    Programs write a day as its midnight in UTC. East of it, that is some hours into the same day,
    which the time on hover says; west of it, it is the evening before, and stays an instant.
    """
    local = _local(value, zone)
    utc = local.astimezone(UTC)
    is_day = local.time() == time.min or (utc.time() == time.min and local.date() == utc.date())
    return local.date() if is_day else None


def _local(value: str, zone: str) -> datetime:
    return datetime.fromisoformat(value).astimezone(ZoneInfo(zone))


def month_of(value: str, zone: str) -> str:
    """The month in which an instant lies by the clocks of a zone: `2026-10`."""
    return f"{_local(value, zone):%Y-%m}"


def _time(value: str, shown: str) -> Markup:
    utc = f"{datetime.fromisoformat(value).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(value, utc, shown)


def is_instant(value: object) -> bool:
    """Whether a value is an instant of the API; texts of people may end like one: TOPAZ."""
    if not isinstance(value, str) or not value.endswith("Z"):
        return False
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def period(start: str, end: str, zone: str, locale: Locale) -> Markup:
    """A period, its end not included, by its first and last day, or by its instants."""
    if "T" not in start:
        last = date.fromisoformat(end) - timedelta(days=1)
        return Markup("{} to {}").format(day(start, locale), day(last, locale))
    if all(_day_begun(each, zone) is not None for each in (start, end)):
        return Markup("{} to {}").format(starts(start, zone, locale), ends(end, zone, locale))
    return Markup("{} to {}").format(instant(start, zone, locale), instant(end, zone, locale))


def is_decimal(value: object) -> bool:
    """Whether a value is a number with decimals, as the API writes it: `1071.25`."""
    return isinstance(value, str) and bool(re.fullmatch(r"-?[0-9]+\.[0-9]+", value))


def is_currency(unit: str) -> bool:
    """Whether a unit is a currency: `EUR`."""
    return bool(re.fullmatch(r"[A-Z]{3}", unit))


def words(value: str) -> str:
    """A word of the API as people read it: `USAGE_CREDIT` and `UsageCredit` are `Usage credit`."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(value))
    return apart.replace("_", " ").replace("-", " ").capitalize()


def month_name(month: Month) -> str:
    """A month as people read it: `October 2026`."""
    return in_words(month.first, "LLLL y")


def percentage(value: Decimal, locale: Locale) -> Markup:
    """A number of percent: `13.7 %`."""
    return Markup("{}\u00a0%").format(number(value, locale))


@cache
def _templates() -> Environment:
    # The API leaves out members without a value: an undefined one is empty here, too.
    environment = Environment(
        loader=PackageLoader("meterlake.console", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Callable[..., Any]] = {
        "number": number,
        "money": money,
        "rounded": rounded,
        "day": day,
        "instant": instant,
        "starts": starts,
        "ends": ends,
        "month_of": month_of,
        "period": period,
        "words": words,
        "unit": unit_name,
        "month": month_name,
        "percent": percentage,
        "author": author_name,
    }
    environment.filters.update(filters)
    environment.globals["static"] = static_address
    environment.globals["form_key"] = lambda: secrets.token_urlsafe(18)
    environment.tests["instant"] = is_instant
    environment.tests["decimal"] = is_decimal
    environment.tests["currency"] = is_currency
    return environment
