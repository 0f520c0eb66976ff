"""A server with bills of September, and people in front of its console."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.home.setup import initialize
from meterlake.stores.processes import free_port
from tests.homes import Home, open_home
from tests.homes import settings as home_settings
from tests.people import PASSWORD, join, policy
from tests.sent_bills import home_with_bills
from tests.served import running

MONTH = "2026-09"
CONSOLE = "/console"


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
        """A browser in which a person has signed in."""
        found = self.strange_browser()
        if email in self.signed_in:
            found.client.cookies = self.signed_in[email]
            found.go(CONSOLE)
        else:
            found.sign_in(email)
            self.signed_in[email] = httpx.Cookies(found.client.cookies)
        return found

    def strange_browser(self) -> "Browser":
        """A browser that nobody has used."""
        client = httpx.Client(base_url=self.url, follow_redirects=True)
        return Browser(self.opened.enter_context(client))


class Browser:
    """Follows links and sends forms as a browser without scripts does."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.page = httpx.Response(200)

    def sign_in(self, email: str) -> None:
        """Go to the console, and through the sign-in."""
        self.go(CONSOLE)
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

    def hidden(self, action: str = "") -> dict[str, str]:
        """The hidden fields of the form with an action, or of the first form that has some."""
        forms = re.findall(r"<form\b.*?</form>", self.page.text, flags=re.DOTALL)
        for form in forms:
            fields = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form)
            found = {unescape(name): unescape(value) for name, value in fields}
            if found and (not action or found.get("action") == action):
                return found
        raise AssertionError(f"there is no form {action!r} on {self.path}")

    def send(self, fields: dict[str, Any], *, path: str = "", **headers: str) -> str:
        """Send a form of the page with some more fields; the text of the page that comes."""
        action = fields.get("action", "")
        data = {**self.hidden(action), **fields}
        self.page = self.client.post(path or str(self.page.url), data=data, headers=headers)
        return self.text

    def press(self, action: str, **fields: str) -> str:
        """Press the button of an action on this page."""
        return self.send({"action": action, **fields})

    def offers(self, action: str) -> bool:
        """Whether the page has a button for an action."""
        return f'name="action" value="{action}"' in self.page.text


@contextmanager
def empty_console(folder: Path) -> Iterator[ConsoleWorld]:
    """An organization as `init` makes it."""
    made = initialize(home_settings(folder / "home"), "Acme")
    with open_home(folder / "home", made.org_id) as home:
        home.clock.time = datetime.now(UTC)
        with running(home.stores.settings, free_port()) as url, ExitStack() as opened:
            yield ConsoleWorld(home, url, opened, {})


@contextmanager
def a_console(folder: Path, **changes: Any) -> Iterator[ConsoleWorld]:
    """Acme used 42.5 and bolt 200 in September; the bills are made."""
    with home_with_bills(folder) as home:
        bill(home.organization, Month.parse(MONTH))
        settings = home.stores.settings.model_copy(update=changes)
        with running(settings, free_port()) as url, ExitStack() as opened:
            yield ConsoleWorld(home, url, opened, {})
