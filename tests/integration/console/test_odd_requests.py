"""Odd addresses and odd forms: a page refuses them, and none of them breaks it."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from argon2 import PasswordHasher
from starlette.routing import Route

import meterlake.console
from meterlake.api.server.oauth import CALLBACK
from meterlake.console.app import ROUTES
from meterlake.pipeline.access import login
from tests.console_world import CONSOLE, a_console, shape_of
from tests.people import allow

pytestmark = pytest.mark.long

SERVER_ERROR = 500
ODD_PARTS = ("a\nb", "?x=1#y", "²", "0001-01")
ODD_VALUES = ('"><script>alert(1)</script>', "9999-12-31", "a\nb\0")
# Others of the same kinds: forms are sent with all of them.
MORE_VALUES = ("0001-01-01", "²", "1e999999")
SENT = Path(meterlake.console.__file__).parent.rglob("*.py")
NAMES = sorted(
    {
        name
        for path in SENT
        for name in re.findall(r'(?:visit\.query|ListFilter)\(\s*"(\w+)"', path.read_text())
    }
    - {"format"}
)
CONSOLE_ROUTES = [
    each for each in ROUTES if isinstance(each, Route) and each.path.startswith(CONSOLE)
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        with a_console(tmp_path_factory.mktemp("odd")) as world:
            world.join("eve@example.com", allow())
            browser = world.browser("eve@example.com")
            browser.client.follow_redirects = False
            yield browser


def broken(browser, method, address, **sent):
    """The request, if its answer is a failure of the server."""
    answer = browser.client.request(method, address, **sent)
    is_out = "/oauth/" in answer.headers.get("location", "")
    assert not is_out or address == CALLBACK, f"{address} ended the session"
    return [(method, address, sent)] if answer.status_code >= SERVER_ERROR else []


def test_there_are_many_addresses_and_parameters():
    assert len(CONSOLE_ROUTES) > 100
    assert {"page", "month", "sort", "q"} <= set(NAMES)


@pytest.mark.parametrize("part", ODD_PARTS)
def test_no_odd_part_of_an_address_breaks_a_page(browser, part):
    browser.client.follow_redirects = True
    browser.go(CONSOLE)
    browser.client.follow_redirects = False
    form = {**browser.hidden(), "action": "nothing"}
    wrong = []
    for route in CONSOLE_ROUTES:
        address = re.sub(r"\{[^}]*\}", quote(part, safe=""), route.path)
        if address != route.path and "GET" in route.methods:
            wrong += broken(browser, "GET", address)
        elif address != route.path:
            wrong += broken(browser, "POST", address, data=form)

    assert wrong == []


@pytest.mark.parametrize(
    "value", [*ODD_VALUES, *(pytest.param(each, marks=pytest.mark.slow) for each in MORE_VALUES)]
)
def test_no_odd_parameter_breaks_a_page(browser, value):
    wrong = []
    for route in CONSOLE_ROUTES:
        if "{" in route.path or "GET" not in route.methods:
            continue
        for query in (dict.fromkeys(NAMES, value), {"page": value, "format": "csv"}):
            wrong += broken(browser, "GET", route.path, params=query)

    assert wrong == []


def forms_of(browser):
    """One form of each kind that the pages have: its address and its fields."""
    browser.client.follow_redirects = True
    found = {}
    for page in browser.crawl():
        for form in re.findall(r"<form\b[^>]*method=.post.*?</form>", browser.page.text, re.DOTALL):
            sent_to = re.match(r'<form\b[^>]*\baction="([^"]*)"', form)
            address = unescape(sent_to[1]) if sent_to else page
            fields = {}
            for tag in re.findall(r"<(?:input|select|textarea|button)\b[^>]*>", form):
                name, value = (re.search(rf'\b{each}="([^"]*)"', tag) for each in ("name", "value"))
                if name:
                    fields.setdefault(unescape(name[1]), unescape(value[1]) if value else "")
            names = tuple(re.sub(r"[0-9a-f-]{36}", "", each) for each in fields)
            kind = (shape_of(address), fields.get("action"), names)
            # These may end the session that the others need.
            if not re.search("/sign-out|/access/", address):
                found.setdefault(kind, (address, fields))
    browser.client.follow_redirects = False
    return list(found.values())


def test_no_odd_form_breaks_a_page(browser):
    forms, wrong = forms_of(browser), []
    for address, fields in forms:
        kept = {name: fields[name] for name in ("csrf", "action") if name in fields}
        wrong += broken(browser, "POST", address, data=kept)
        wrong += broken(browser, "POST", address, data={**kept, "action": "nothing"})
        rows = {re.sub(r"\.[0-9]+\.", ".².", name): "1" for name in fields}
        wrong += broken(browser, "POST", address, data={**rows, **kept})
        for value in (*ODD_VALUES, *MORE_VALUES):
            wrong += broken(browser, "POST", address, data={**dict.fromkeys(fields, value), **kept})

    assert len(forms) > 20
    assert wrong == []


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ({"content-type": "multipart/form-data"}, b"x"),
        ({"content-type": "multipart/form-data; boundary=x"}, b"--x\r\nno part"),
        ({"content-type": "multipart/form-data; boundary=x"}, b"--x\r\n\r\n\r\n--x--"),
        ({"content-type": "multipart/form-data; boundary=\xc3\xa9"}, b"--x--"),
        ({"content-type": "multipart/form-data; boundary=x; charset=nonsense"}, None),
        ({"content-type": "application/x-www-form-urlencoded"}, b"a&" * 3000),
        ({"content-type": "application/x-www-form-urlencoded"}, b"\xff\xfe%ff%u"),
        ({"content-type": "application/json"}, b"{"),
        ({"origin": "https://evil.example"}, b"csrf=x"),
    ],
)
def test_no_odd_body_breaks_a_page(browser, headers, content):
    part = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--x--\r\n'
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    for address in (f"{CONSOLE}/data-in/files", f"{CONSOLE}/customers/new", f"{CONSOLE}/access/me"):
        answer = browser.client.post(address, headers=raw, content=content or part)

        assert answer.status_code < SERVER_ERROR, (address, answer.text[:200])
        assert answer.status_code >= 400, address
