"""A form of the console counts once, by whatever its POST comes again."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.console_world import CONSOLE, MONTH, a_console
from tests.people import allow

CHARGES = f"{CONSOLE}/catalogue/creditReasons"
TWICE = "The form came twice and counted once."


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Acme and bolt have bills of September."""
    with a_console(tmp_path_factory.mktemp("once")) as found:
        found.join("ada@example.com", allow())
        yield found


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


def names(browser):
    """The names of the credit reasons that there are."""
    browser.go(CHARGES)
    return re.findall(r'<th scope="row"><a [^>]*>([^<]*)</a>', browser.page.text)


def open_form(browser):
    """What the form of a new credit reason sends."""
    browser.go(f"{CHARGES}/new")
    return browser.hidden()


def test_a_reloaded_post_leads_to_where_the_first_one_led(ada):
    form = open_form(ada) | {"name": "Outage", "code": "outage"}
    ada.send(form)
    first, said = ada.page.url, ada.text
    ada.send(form, path=f"{CHARGES}/new")

    assert ada.page.status_code == 200
    assert ada.page.url == first
    assert "You created the credit reason Outage" in said
    assert TWICE not in said
    assert f"{TWICE} You created the credit reason Outage" in ada.text
    assert names(ada).count("Outage") == 1


def test_of_two_posts_at_the_same_time_one_counts(world, ada):
    bill = f"{CONSOLE}/bills?month={MONTH}"
    ada.go(bill)
    path = re.search(rf'href="({CONSOLE}/bills/[0-9a-f-]{{36}})"', ada.page.text)[1]
    ada.go(f"{path}/memos/credit/new")
    line = re.search(r'<option value="([0-9a-f-]+)"', ada.page.text)[1]
    days = {"first": "2026-09-14", "last": "2026-09-14"}
    form = {**ada.hidden("save"), **days, "line": line, "amount": "1", "description": "at once"}
    together = threading.Barrier(3)

    def post(_):
        browser = world.strange_browser()
        browser.client.cookies = ada.client.cookies
        together.wait()
        return browser.client.post(f"{path}/memos/credit/new", data=form)

    with ThreadPoolExecutor(3) as pool:
        pages = list(pool.map(post, range(3)))

    assert [(each.status_code, each.url.path) for each in pages] == [(200, path)] * 3
    assert sorted(TWICE in each.text for each in pages) == [False, True, True]
    ada.go(path)
    assert len(re.findall(r">\s*at once", ada.page.text)) == 1


def test_a_secret_that_is_shown_once_is_shown_to_who_pressed_twice(ada):
    ada.go(f"{CONSOLE}/access/programs/new")
    ada.send({**ada.hidden(), "name": "twice"})
    place = ada.path
    form = ada.hidden("new-key")
    ada.send(form)
    first = re.findall(r"<code>([^<]{40,})</code>", ada.page.text)
    ada.send(form, path=place)

    assert first
    assert re.findall(r"<code>([^<]{40,})</code>", ada.page.text) == first
    ada.go(place)
    assert ada.page.text.count('value="key-delete"') == 1


def test_a_form_with_other_content_is_shown_again_with_a_new_key(ada):
    form = open_form(ada) | {"name": "First", "code": "first"}
    ada.send(form)
    ada.send({**form, "name": "Second", "code": "second"}, path=f"{CHARGES}/new")

    assert ada.page.status_code == 409
    assert "This form was sent before with other content, and that counted." in ada.text
    assert 'value="Second"' in ada.page.text
    assert "Second" not in names(ada)
    ada.send({**form, "name": "Second", "code": "second"}, path=f"{CHARGES}/new")
    key = ada.hidden()["once"]
    ada.send({**form, "name": "Second", "code": "second", "once": key}, path=f"{CHARGES}/new")
    assert "You created the credit reason Second" in ada.text


def test_what_was_refused_may_be_mended_and_sent_again(ada):
    form = open_form(ada) | {"name": "", "code": "mended"}
    ada.send(form)
    assert ada.page.status_code == 400
    ada.send({**form, "name": "Mended"}, path=f"{CHARGES}/new")

    assert "You created the credit reason Mended" in ada.text
    assert TWICE not in ada.text


def test_each_page_gives_its_forms_keys_of_their_own(ada):
    first = open_form(ada)["once"]
    second = open_form(ada)["once"]
    keys = re.findall(r'name="once" value="([^"]*)"', ada.page.text)

    assert first != second
    assert len(set(keys)) == len(keys)


def test_a_form_counts_once_also_where_the_api_would_refuse_the_second_one(ada):
    form = open_form(ada) | {"name": "Gone", "code": "gone"}
    ada.send(form)
    place = f"{ada.path}/delete"
    ada.go(place)
    form = ada.hidden()
    ada.send(form)
    ada.send(form, path=place)

    assert ada.page.status_code == 200
    assert ada.path == CHARGES
    assert f"{TWICE} You deleted the credit reason Gone" in ada.text


def test_another_session_has_other_keys(world, ada):
    form = open_form(ada) | {"name": "Own", "code": "own"}
    ada.send(form)
    other = world.strange_browser()
    other.sign_in("ada@example.com", f"{CHARGES}/new")
    other.send({**form, "csrf": other.hidden()["csrf"], "name": "Other", "code": "other"})

    assert "You created the credit reason Other" in other.text
