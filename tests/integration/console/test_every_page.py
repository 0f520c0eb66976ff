"""Every page that a link leads to: for everybody who may sign in, with the data of the sample."""

import re
from html import unescape

import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from tests.console_world import sample_console, shape_of
from tests.people import allow, deny

pytestmark = pytest.mark.long

PEOPLE = {
    "administrator": [allow()],
    "reader": [
        allow("config:retrieve"),
        allow("measurements:retrieve"),
        allow("analytics:query"),
        allow("audit:retrieve"),
    ],
    "analyst": [allow("analytics:query"), allow("measurements:retrieve")],
    "catalog": [allow("config:retrieve", "config:product", "config:meter", "config:aggregation")],
    "finance": [
        allow("config:retrieve"),
        allow("config:update", "config:bill"),
        deny("all", "config:permissionpolicy", "config:user", "config:accesskey"),
    ],
    "nobody": [],
}
REFUSED = 403


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        with sample_console(tmp_path_factory.mktemp("every")) as found:
            for name, statements in PEOPLE.items():
                found.join(f"{name}@example.com", *statements)
            yield found


@pytest.mark.parametrize("name", [name for name in PEOPLE if name != "nobody"])
def test_no_link_leads_to_what_is_refused_missing_or_broken(world, name):
    browser = world.browser(f"{name}@example.com")
    wrong, seen = {}, set()
    for address in browser.crawl():
        seen.add(shape_of(address))
        if browser.page.status_code != 200:
            wrong[address] = (browser.page.status_code, browser.text[:300])

    assert wrong == {}
    assert len(seen) >= 2


def test_who_may_do_nothing_sees_no_room(world):
    browser = world.browser("nobody@example.com")

    assert browser.page.status_code == REFUSED
    assert re.findall(r'<li><a href="/console', browser.page.text) == []


def test_every_form_has_the_secret_of_the_session(world):
    browser = world.browser("administrator@example.com")
    bare = []
    for address in browser.crawl():
        forms = re.findall(r"<form\b[^>]*method=.post.*?</form>", browser.page.text, re.DOTALL)
        bare += [(address, form[:200]) for form in forms if 'name="csrf"' not in form]

    assert bare == []


def test_no_page_shows_a_bare_id_as_the_name_of_something(world):
    browser = world.browser("administrator@example.com")
    shown = {}
    for address in browser.crawl():
        if address.startswith("/console/rejected"):
            continue  # A rejected row has the uid that its sender gave it.
        text = re.sub(
            r"<(details|code|pre|option|textarea)\b.*?</\1>", "", browser.page.text, flags=re.DOTALL
        )
        text = unescape(re.sub(r"<[^>]*>", " ", text))
        if found := re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text):
            shown[address] = found[:3]

    assert shown == {}
