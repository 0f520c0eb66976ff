"""Mappings in the console: tried on a file while one edits them, then saved, changed and deleted."""

import re
from html import unescape

import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from tests.console_world import CONSOLE, a_console
from tests.people import allow

BUILDER = f"{CONSOLE}/data-in/mapping"
FILE = (
    "id,client,time,gb,zone\n"
    "m-1,acme,03.10.2025,1.50,eu\n"
    "m-2,bolt,04.10.2025,much,eu\n"
    'm-3,"<script>alert(1)</script>",05.10.2025,2,eu\n'
)


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with a_console(tmp_path_factory.mktemp("console")) as found:
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("measurements:retrieve"), allow("config:retrieve"))
        yield found


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


def fields(browser):
    """What the form of the mapping would send, as it stands."""
    forms = re.findall(
        r'<form method="post" class="fields" enctype.*?</form>', browser.page.text, re.DOTALL
    )
    text = forms[-1]
    found = dict(re.findall(r'<input name="([^"]*)" value="([^"]*)"', text))
    found |= dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', text))
    found |= dict(re.findall(r'<textarea name="([^"]*)"[^>]*>([^<]*)</textarea>', text))
    found |= dict.fromkeys(re.findall(r'name="([^"]*)" value="yes" checked', text), "yes")
    for name, options in re.findall(r'<select name="([^"]*)">(.*?)</select>', text, re.DOTALL):
        found[name] = "".join(re.findall(r'value="([^"]*)" selected', options))
    return {name: unescape(value) for name, value in found.items()}


def send(browser, form):
    """Press a button of the form of the mapping."""
    browser.page = browser.client.post(str(browser.page.url), data=form)


def read_file(browser, name="sizes-2025-10.csv", text=FILE):
    browser.go(BUILDER)
    form = {**browser.hidden("read"), "action": "read"}
    browser.page = browser.client.post(BUILDER, data=form, files={"chosen": (name, text)})
    assert browser.page.status_code == 200, browser.text
    return fields(browser)


def test_a_file_is_read_guessed_tried_saved_changed_and_deleted(ada):
    guessed = read_file(ada)

    assert (guessed["account"], guessed["ts"], guessed["uid"]) == ("client", "time", "id")
    assert (guessed["rule0.meter"], guessed["rule0.field.measure.gb"]) == ("egress", "gb")
    assert (guessed["name"], guessed["files"]) == ("sizes", "sizes-*.csv")
    assert "no column for 'where.region'" in ada.text

    more = {"rule0.field.where.region": "zone", "ts.format": "%d.%m.%Y"}
    send(ada, {**guessed, **more, "action": "try"})
    assert "Of 3 measurements, 2 would come in" in ada.text
    assert "Invalid number of measure.gb : 'much' is no number" in ada.text
    assert "<script>alert" not in ada.page.text

    told = fields(ada)
    send(ada, {**told, "action": "download"})
    assert ada.page.headers["content-type"].startswith("application/yaml")
    assert "format: '%d.%m.%Y'" in ada.page.text or 'format: "%d.%m.%Y"' in ada.page.text

    ada.go(BUILDER)
    send(ada, {**told, "csrf": ada.hidden("read")["csrf"], "action": "save"})
    assert "You saved the mapping sizes." in ada.text
    assert "sizes-*.csv" in ada.text

    ada.go(f"{BUILDER}?name=sizes")
    again = fields(ada)
    passing = {"content", "file", "once"}
    kept = {name: value for name, value in told.items() if value and name not in passing}
    assert {name: again.get(name) for name in kept} == kept
    ada.press("delete")
    assert "You deleted the mapping sizes." in ada.text


def test_a_row_becomes_a_measurement_of_each_rule(ada):
    told = read_file(ada) | {"rule0.field.where.region": "zone", "ts.format": "%d.%m.%Y"}
    send(ada, {**told, "rule0.when.equals": "client=acme", "action": "rule"})
    second = {
        "rule1.meter": "egress",
        "rule1.field.measure.gb": "gb",
        "rule1.field.where.region": "",
    }
    send(ada, {**fields(ada), **second, "rule1.field.where.region:constant": "eu", "action": "try"})

    assert "Of 4 measurements, 3 would come in" in ada.text
    send(ada, {**fields(ada), "rule0.gone": "yes", "action": "try"})
    assert "Of 3 measurements, 2 would come in" in ada.text


def test_what_cannot_be_read_is_said_beside_the_rows_as_they_are(ada):
    told = read_file(ada)
    send(ada, {**told, "ts": "when", "rule0.field.where.region": "zone", "action": "try"})
    assert "no column when among" in ada.text
    assert "03.10.2025" in ada.text
    send(ada, {**fields(ada), "ts": "time", "ts.format": "%Q", "action": "try"})
    assert "%Q of a format is none of" in ada.text
    send(ada, {**fields(ada), "name": "no/name", "ts.format": "", "action": "save"})
    assert ada.page.status_code >= 400
    assert fields(ada)["account"] == "client"


def test_who_may_only_read_tries_and_saves_nothing(world):
    reader = world.browser("reader@example.com")
    read_file(reader)

    assert 'value="try"' in reader.page.text
    assert 'value="save"' not in reader.page.text


def test_a_large_file_is_tried_by_its_beginning(ada):
    text = FILE + "4,acme,06.10.2025,1,eu\n" * 20_000

    read_file(ada, text=text)

    assert "measurements" in ada.text
    ada.go(BUILDER)
    form = {**ada.hidden("read"), "action": "read"}
    large = {"chosen": ("large.json", "[" + "1," * 200_000 + "1]")}
    ada.page = ada.client.post(BUILDER, data=form, files=large)
    assert "only files with lines can be cut" in ada.text
