"""A server with bills of September, and people in front of its console."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from starlette.routing import BaseRoute

from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.home.sample import MONTH as SAMPLE_MONTH
from meterlake.pipeline.home.sample import create_sample
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.stores import open_stores
from meterlake.stores.processes import free_port
from tests.homes import Home, initialized_home, open_home
from tests.homes import settings as home_settings
from tests.organizations import Clock
from tests.people import PASSWORD, join, policy
from tests.sent_bills import home_with_bills
from tests.served import running

MONTH = "2026-09"
CONSOLE = "/console"
# A page that asks the API nothing; the first one reviews the bills of a month.
_CHEAP = f"{CONSOLE}/components"
# Files, which cost more than all pages together.
_DOWNLOAD = re.compile(r"[?&;](format|as)=|/document\b|/files\b|/statement\b|/download\b")


class ConsoleWorld(NamedTuple):
    """A home whose server answers at a URL, and the browsers in front of it."""

    home: Home
    url: str
    opened: ExitStack
    signed_in: dict[str, httpx.Cookies]

    def join(self, email: str, *statements: dict) -> None:
        """Have a person join, who may do what some statements say."""
        state, org = self.home.stores.state, self.home.org_id
        ids = [policy(state, org, *statements)] if statements else []
        join(state, org, email, permissionPolicyIds=ids)

    def browser(self, email: str) -> "Browser":
        """A browser in which a person has signed in, on a page that costs nothing."""
        found = self.strange_browser()
        if email in self.signed_in:
            found.client.cookies = self.signed_in[email]
            found.go(_CHEAP)
        else:
            found.sign_in(email, _CHEAP)
            self.signed_in[email] = httpx.Cookies(found.client.cookies)
        return found

    def strange_browser(self) -> "Browser":
        """A browser that nobody has used."""
        # The server closes what is idle for five seconds: a client that waits as long meets a closed door.
        limits = httpx.Limits(keepalive_expiry=1)
        hooks = {"request": [_name_origin]}
        client = httpx.Client(
            base_url=self.url, follow_redirects=True, limits=limits, event_hooks=hooks
        )
        return Browser(self.opened.enter_context(client))


def _name_origin(request: httpx.Request) -> None:
    """Say where a form was sent from, as all browsers do, unless a test says something else."""
    if request.method == "POST" and not {"sec-fetch-site", "referer"} & request.headers.keys():
        origin = str(request.url.copy_with(raw_path=b"/")).rstrip("/")
        request.headers.setdefault("Origin", origin)


def shape_of(address: str) -> str:
    """An address without what tells two pages of one kind apart."""
    path = address.partition("?")[0]
    return re.sub(r"/[0-9a-f-]{36,}|/[0-9a-f]{12}:\d+|/\d{4}-\d{2}(-\d{2})?(?=/|$)", "/{}", path)


class FormReader(HTMLParser):
    """The fields of the forms of a page that post, with what stands in them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, list[str]]] = []
        # What the buttons of each form say that they do.
        self.actions: list[set[str]] = []
        self._select = self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a field with its value."""
        said = dict(attrs)
        name, value = said.get("name") or "", said.get("value")
        if tag == "form" and said.get("method") == "post":
            self.found.append({})
            self.actions.append(set())
        elif tag == "button" and name == "action" and self.actions:
            self.actions[-1].add(value or "")
        elif tag == "select":
            self._select = name
        elif tag == "textarea":
            self._area = name
        elif tag == "option" and self._select and "selected" in said:
            self._add(self._select, value or "")
        elif tag == "input" and name and said.get("type") not in {"checkbox", "radio", "file"}:
            self._add(name, value or "")
        elif tag == "input" and name and "checked" in said:
            self._add(name, value or "on")

    def handle_endtag(self, tag: str) -> None:
        """Leave a field."""
        if tag in {"select", "textarea"}:
            self._select = self._area = ""

    def handle_data(self, data: str) -> None:
        """Take the text of an area."""
        if self._area:
            self._add(self._area, data)

    def _add(self, name: str, value: str) -> None:
        if self.found:
            self.found[-1].setdefault(name, []).append(value)


class Browser:
    """Follows links and sends forms as a browser without scripts does."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.page = httpx.Response(200)

    def sign_in(self, email: str, target: str = CONSOLE) -> None:
        """Go to a page of the console, through the sign-in."""
        self.go(target)
        self.send({"email": email, "password": PASSWORD}, path="/oauth/authorize")

    def go(self, path: str) -> str:
        """Open a page; its text."""
        self.page = self.client.get(path)
        return self.text

    @property
    def text(self) -> str:
        """The page without its marks, as a person reads it."""
        body = re.sub(r"<(style|script).*?</\1>", "", self.page.text, flags=re.DOTALL)
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())

    @property
    def path(self) -> str:
        """Where the browser is."""
        return self.page.url.path

    def hidden(self, action: str = "") -> Mapping[str, str | list[str]]:
        """The hidden fields of the form with an action, or what all forms of the page have.

        A form whose buttons do several things is sent as it stands, with its ticks.
        """
        forms = re.findall(r"<form\b.*?</form>", self.page.text, flags=re.DOTALL)
        keys = re.findall(r'name="once" value="([^"]*)"', self.page.text)
        for form in forms:
            fields = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form)
            found = {unescape(name): unescape(value) for name, value in fields}
            if found and not action:
                return {**found, **({"once": keys[0]} if keys else {})}
            if found and found.get("action") == action:
                return found
        if action and self.offers(action):
            return self.fields(action)
        raise AssertionError(f"there is no form {action!r} on {self.path}")

    def fields(self, action: str = "") -> dict[str, list[str]]:
        """What a form would send as it stands: that of an action, or the first with fields."""
        forms = FormReader()
        forms.feed(self.page.text)
        for found, actions in zip(forms.found, forms.actions, strict=True):
            does = found.get("action") == [action] or action in actions
            if does if action else found.keys() > {"csrf"}:
                return found
        raise AssertionError(f"there is no form {action!r} on {self.path}")

    def send(self, fields: dict[str, Any], *, path: str = "", **headers: str) -> str:
        """Send a form of the page with some more fields; the text of the page that comes."""
        action = fields.get("action", "")
        data = {**self.hidden(action), **fields}
        self.page = self.client.post(path or str(self.page.url), data=data, headers=headers)
        return self.text

    def links(self) -> list[str]:
        """The addresses of pages that the page leads to; without its downloads."""
        found = re.findall(r'<a\b[^>]*\bhref="(/console[^"#]*)', self.page.text)
        return [unescape(each) for each in found if not _DOWNLOAD.search(each)]

    def crawl(self, *starts: str) -> Iterator[str]:
        """Follow all links from some pages on, one address of each shape; every address, opened."""
        waiting, seen, shapes = list(starts or (CONSOLE,)), set(starts), set[str]()
        while waiting:
            address = waiting.pop(0)
            if shape_of(address) in shapes:
                continue
            shapes.add(shape_of(address))
            self.go(address)
            yield address
            if self.page.headers.get("content-type", "").startswith("text/html"):
                new = [link for link in self.links() if link not in seen]
                seen.update(new)
                waiting += new

    def press(self, action: str, **fields: str) -> str:
        """Press the button of an action on this page."""
        return self.send({"action": action, **fields})

    def offers(self, action: str) -> bool:
        """Whether the page has a button for an action."""
        return f'name="action" value="{action}"' in self.page.text


@contextmanager
def empty_console(folder: Path) -> Iterator[ConsoleWorld]:
    """An organization as `init` makes it."""
    made = initialized_home(folder / "home", "Acme")
    with open_home(folder / "home", made.org_id) as home:
        home.clock.time = datetime.now(UTC)
        with running(home.stores.settings, free_port()) as url, ExitStack() as opened:
            yield ConsoleWorld(home, url, opened, {})


@contextmanager
def sample_console(folder: Path) -> Iterator[ConsoleWorld]:
    """The sample organization with its usage and the bills of its month."""
    options = home_settings(folder / "home")
    code = create_sample(options)
    with open_stores(options) as stores:
        organization = stores.find_organization(code)
        for _ in ingest_inbox(organization, drop_folder(stores, code), 0):
            pass
        bill(organization, Month.parse(SAMPLE_MONTH))
        home = Home(stores, organization.id, Clock())
        with running(options, free_port()) as url, ExitStack() as opened:
            yield ConsoleWorld(home, url, opened, {})


def _make_bills(home: Home) -> None:
    home.clock.time = datetime.now(UTC)
    bill(home.organization, Month.parse(MONTH))


@contextmanager
def a_console(
    folder: Path, more: Sequence[BaseRoute] = (), **changes: Any
) -> Iterator[ConsoleWorld]:
    """Acme used 42.5 and bolt 200 in September; the bills are made."""
    with home_with_bills(folder, _make_bills) as home:
        settings = home.stores.settings.model_copy(update=changes)
        with running(settings, free_port(), more) as url, ExitStack() as opened:
            yield ConsoleWorld(home, url, opened, {})
