"""Files that people send from a page, and what they see of them."""

import re

import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from meterlake.pipeline.ingest.uploads import ingest_uploads
from tests.console_world import CONSOLE, a_console
from tests.homes import HEADER, csv_row
from tests.people import allow

FILES = f"{CONSOLE}/data-in/files"
NAME = "Ünits <b>.csv"
TEXT = HEADER + csv_row("sent") + csv_row("sent") + csv_row("bad", "NaN")


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with a_console(tmp_path_factory.mktemp("console")) as found:
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("measurements:retrieve"))
        yield found


def send(browser, *files, **fields):
    """Send files with the form of the page Data in."""
    browser.go(f"{CONSOLE}/data-in")
    data = {"csrf": browser.hidden()["csrf"], **fields}
    sent = [("file", (name, content, "text/csv")) for name, content in files]
    # A browser whose person chose no file sends one without a name.
    browser.page = browser.client.post(FILES, data=data, files=sent or [("file", ("", b""))])
    return browser.text


def test_a_file_is_sent_and_its_page_says_what_became_of_its_rows(world):
    ada = world.browser("ada@example.com")
    said = send(ada, (NAME, TEXT))
    assert "You sent 1 file." in said
    assert "The worker brings the file in." in said
    assert 'hx-trigger="every' in ada.page.text
    assert NAME not in ada.page.text
    place = ada.path
    assert NAME in {each.delivery.name for each in ingest_uploads(world.home.organization)}
    ada.go(place)

    figures = re.findall(r'class="figure"><data class="number" value="([^"]*)"', ada.page.text)
    assert figures == ["3", "1", "1", "1"]
    assert "Invalid number 1" in ada.text
    assert "by Ada Lovelace" in ada.text
    assert 'hx-trigger="every' not in ada.page.text
    ada.go(f"{CONSOLE}/rejected?delivery={place.rpartition('/')[2]}")
    assert f"{NAME}, row 4" in ada.text
    assert ada.go(f"{place}/original") is not None
    assert ada.page.content == TEXT.encode()


def test_several_files_are_sent_at_once(world):
    ada = world.browser("ada@example.com")
    said = send(ada, ("a.csv", HEADER + csv_row("a")), ("b.csv", HEADER + csv_row("b")))

    assert "You sent 2 files." in said
    assert ada.path == FILES
    assert "a.csv" in said
    assert "b.csv" in said
    assert "Ada Lovelace" in said


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(("hollow.csv", ""), "hollow.csv: the file is empty"), (("x" * 300, "1"), "fileName")],
)
def test_of_several_files_all_are_sent_or_none(world, wrong, said):
    ada = world.browser("ada@example.com")
    told = send(ada, ("whole.csv", HEADER + csv_row("whole")), wrong)
    assert ada.page.status_code == 400
    assert said in told

    assert not any(
        each.delivery.name == "whole.csv" for each in ingest_uploads(world.home.organization)
    )


def test_a_script_gets_the_url_and_sends_the_file_itself(world):
    ada = world.browser("ada@example.com")
    ada.go(f"{CONSOLE}/data-in")
    text = HEADER + csv_row("script")
    data = {"csrf": ada.hidden()["csrf"], "name": "script.csv", "size": str(len(text))}
    found = ada.client.post(f"{FILES}/announce", data=data).json()
    answer = ada.client.put(found["url"], content=text, headers=found["headers"])

    assert answer.status_code == 200
    assert "script.csv" in ada.go(found["page"])
    refused = ada.client.post(f"{FILES}/announce", data={**data, "size": "much"})
    assert refused.status_code == 400


def test_what_is_wrong_is_refused_and_nothing_is_kept(world):
    ada = world.browser("ada@example.com")
    assert "No file was chosen." in send(ada)
    assert "fileName" in send(ada, ("x" * 300, b"x"))
    assert "the form is not from here" in send(ada, ("evil.csv", TEXT), csrf="x" * 43)
    ada.go(FILES)
    assert "evil.csv" not in ada.text


def test_who_may_not_send_files_is_not_offered_to(world):
    reader = world.browser("reader@example.com")
    reader.go(f"{CONSOLE}/data-in")
    assert 'type="file"' not in reader.page.text
    send(reader, ("a.csv", TEXT))
    assert reader.page.status_code == 403
    assert "no permission for measurements:fileupload" in reader.text
