"""Rejected rows in the console: found, mended, given in again and given up, one by one and many at once."""

import csv
import re

import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from tests.console_world import CONSOLE, a_console
from tests.homes import HEADER, csv_row
from tests.people import allow

REJECTED = f"{CONSOLE}/rejected"
ATTACK = '"><script>alert(1)</script>'
ROWS = (
    HEADER
    + csv_row("number", "NaN")
    + csv_row("first", meter="outgoing")
    + csv_row("second", meter="outgoing")
    + csv_row("attack", ATTACK)
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
        found.join("reader@example.com", allow("measurements:retrieve"))
        yield found


@pytest.fixture
def name(world, request):
    """A file of the test's own with four rejected rows."""
    name = f"{request.node.name}.csv"
    text = re.sub("number|first|second|attack", rf"\g<0>-{name}"[:40], ROWS)
    assert world.home.ingest(name, text).rejected == 4
    return name


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


def ids(browser):
    """The rows that one can tick."""
    return re.findall(r'name="row" value="([^"]*)"', browser.page.text)


def listed(browser, name, **query):
    browser.go(f"{REJECTED}?source={name}" + "".join(f"&{k}={v}" for k, v in query.items()))
    return ids(browser)


def act(browser, action, **fields):
    """Press a button of the form around the list."""
    data = {"csrf": browser.hidden()["csrf"], "action": action, **fields}
    browser.page = browser.client.post(str(browser.page.url), data=data)
    return browser.text


def test_a_row_is_mended_and_comes_in(ada, name):
    listed(ada, name, reason="InvalidNumber")
    assert "Invalid number of measure.gb" in ada.text
    ada.go(f"{REJECTED}/{ids(ada)[0]}")
    assert "NaN" in ada.text
    names = re.findall(r'<input name="field:([^"]*)"', ada.page.text)
    assert (names[0], names.count("measure.gb")) == ("measure.gb", 1)
    [wrong] = re.findall(r'<input name="field:([^"]*)"[^>]*aria-invalid="true"', ada.page.text)
    assert wrong == "measure.gb"
    assert "What is wrong: 'NaN' is no number such as 12.5" in ada.text
    assert "ets Until when, if the usage lasted" in ada.text
    again = ada.press("mend", **{"field:measure.gb": "much"})
    assert "0 rows came in, 0 repeats, 1 rejected again." in again

    assert "1 row came in" in ada.press("mend", **{"field:measure.gb": "12345678901234567890.25"})
    assert "Requeued, edited by Ada Lovelace accepted" in ada.text
    assert not ada.offers("mend")
    assert len(listed(ada, name)) == 3


def test_the_list_and_its_file_are_sorted(ada, name):
    kept = listed(ada, name)
    by_reason = listed(ada, name, sort="reason", order="DESC")
    assert sorted(by_reason) == sorted(kept)
    assert by_reason != kept
    head, *rows = csv.reader(ada.client.get(f"{ada.page.url}&format=csv").text.splitlines())
    reasons = [row[head.index("Reason")] for row in rows]
    assert reasons == sorted(reasons, reverse=True)
    assert "sort=receivedAt" in ada.page.text


@pytest.mark.long
def test_many_rows_are_changed_alike_and_come_in(ada, name):
    meant = listed(ada, name, reason="UndefinedMeter")
    assert len(meant) == 2
    done = act(ada, "set", scope="all", name="meter", value="egress")

    assert "2 rows came in" in done
    assert listed(ada, name, reason="UndefinedMeter") == []
    assert listed(ada, name, status="requeued", reason="UndefinedMeter") == []
    assert "Nothing matches" not in ada.text


@pytest.mark.long
def test_ticked_rows_are_dismissed_with_a_reason_and_taken_up_again(ada, name):
    rows = listed(ada, name)
    refused = act(ada, "dismiss", reason="")
    assert "No row was ticked" in refused
    listed(ada, name)
    assert "because" in act(ada, "dismiss", row=rows[:2], reason="")
    assert "checked" in ada.page.text
    said = act(ada, "dismiss", row=rows[:2], reason="a trial")
    assert "You dismissed 2 rows" in said
    assert listed(ada, name) == rows[2:]
    ada.go(f"{REJECTED}/{rows[0]}")
    assert "Dismissed because: a trial (Ada Lovelace" in ada.text

    assert "You took up 1 row again." in ada.press("reopen")
    assert listed(ada, name) == [rows[0], *rows[2:]]


def test_rows_are_requeued_as_they_are_and_wait_with_their_reason(ada, name):
    rows = listed(ada, name)
    said = act(ada, "requeue", row=rows[:1])

    assert "0 rows came in, 0 repeats, 1 rejected again." in said
    assert "tried 1 time" in ada.text


def test_all_rows_are_downloaded_with_their_text(ada, name):
    ada.go(f"{REJECTED}?source={name}&format=csv")
    lines = ada.page.text.splitlines()

    assert lines[0].startswith("Row,State,Reason,")
    assert len(lines) == 5


def test_text_of_others_is_only_text(ada, name):
    for page in ("", f"/{listed(ada, name)[3]}"):
        ada.go(f"{REJECTED}{page}")
        assert ATTACK not in ada.page.text
        assert "<script>alert" in ada.text


def test_who_may_only_read_sees_no_action(world, ada, name):
    [row, *_] = listed(ada, name)
    reader = world.browser("reader@example.com")
    assert listed(reader, name) == []
    assert name in reader.text
    reader.go(f"{REJECTED}/{row}")
    assert reader.page.status_code == 200
    assert not any(map(reader.offers, ("mend", "requeue", "dismiss", "reopen")))
    reader.go(f"{REJECTED}/0000")
    assert reader.page.status_code == 400
