"""The page of settings: what it shows, what it saves, and for whom."""

import re

import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from tests.console_world import CONSOLE, a_console
from tests.people import allow

SETTINGS = f"{CONSOLE}/settings"


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with a_console(tmp_path_factory.mktemp("console")) as found:
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        yield found


@pytest.fixture(scope="module")
def ada(world):
    return world.browser("ada@example.com")


def form(browser):
    """What the form of settings sends if nobody changes anything."""
    browser.go(SETTINGS)
    return browser.fields("settings")


def save(browser, fields, **changes):
    """Send the form of settings with some fields changed."""
    browser.page = browser.client.post(SETTINGS, data={**fields, **changes})


def test_what_is_saved_unchanged_changes_nothing(ada):
    save(ada, form(ada))

    assert "You saved the settings. None has changed." in ada.text


def test_a_setting_is_changed_and_named(ada):
    save(ada, form(ada), daysBeforeBillDue="45")

    assert "You changed Days until a bill is due." in ada.text
    assert "It holds for bills from their next calculation on." in ada.text
    assert form(ada)["daysBeforeBillDue"] == ["45"]
    save(ada, form(ada), billLetterSubject="Your bill, {customer}")
    assert "It holds at once, for every e-mail that is written from now on" in ada.text


def test_who_changes_the_time_zone_sees_its_days_at_once(ada):
    save(ada, form(ada), timezone="Asia/Tokyo")
    assert "Times are in Asia/Tokyo." in ada.text

    save(ada, form(ada), timezone="UTC")
    assert "Times are in UTC." in ada.text


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(ada):
    stale = form(ada)
    save(ada, stale, daysBeforeBillDue="20")
    save(ada, stale, daysBeforeBillDue="10")

    assert ada.page.status_code == 409
    assert form(ada)["daysBeforeBillDue"] == ["20"]


def test_a_zone_that_does_not_exist_is_refused_beside_what_was_typed(ada):
    save(ada, form(ada), timezone="Europe/Atlantis")

    assert ada.page.status_code == 400
    assert 'value="Europe/Atlantis"' in ada.page.text
    assert 'aria-invalid="true"' in ada.page.text
    assert form(ada)["timezone"] == ["UTC"]


def test_a_row_is_added_without_saving(ada):
    save(ada, form(ada), **{"form.more": "currencyConversions"})

    assert 'name="currencyConversions.1.from"' in ada.page.text
    assert "You saved" not in ada.text


def test_a_room_in_preview_opens_with_its_feature(ada):
    ada.go(f"{CONSOLE}/data-out")
    assert ada.path == f"{CONSOLE}/data-out/webhooks"
    assert "Exports are in preview: switch them on" in ada.text
    save(ada, form(ada), preview="yes")
    assert ada.go(f"{CONSOLE}/data-out").startswith("Destinations")

    fields = form(ada)
    del fields["preview"]
    save(ada, fields)
    ada.go(f"{CONSOLE}/data-out")
    assert ada.path == f"{CONSOLE}/data-out/webhooks"


def test_bills_are_locked_until_a_day(ada):
    save(ada, form(ada), billLockDate="2020-01-31")

    assert 'value="2020-01-31"' in ada.page.text
    save(ada, form(ada), billLockDate="")
    assert "No day locks bills." in ada.text


def test_who_may_only_read_sees_settings_and_no_button(world):
    reader = world.browser("reader@example.com")
    text = reader.go(SETTINGS)

    assert "Time and money" in text
    assert re.search(r'<fieldset id="[a-z-]+" disabled>', reader.page.text)
    assert not any(map(reader.offers, ("settings", "lock", "features")))
    assert "Beta (" in text


def test_one_save_keeps_all_that_was_typed_on_the_page(ada):
    fields = form(ada) | {"expectedFiles.0.name": "Gateway", "expectedFiles.0.since": "2026-10-01"}
    save(ada, fields, **{"form.more": "expectedFiles", "billLockDate": "2020-02-29"})
    assert 'value="2020-02-29"' in ada.page.text

    pattern = {"expectedFiles.0.pattern": "gate-{date}.csv", "expectedFiles.0.every": "DAY"}
    save(ada, fields, **pattern, billLockDate="2020-02-29", twoPersonApproval="yes", beta="yes")
    assert "You changed" in ada.text
    assert "Two persons for each approval" in ada.text
    assert "Expected files" in ada.text
    assert "It holds at once." in ada.text
    assert "do not change any more" in ada.text
    assert "You chose the features" in ada.text
    assert form(ada)["expectedFiles.0.pattern"] == ["gate-{date}.csv"]
    save(ada, form(ada), daysBeforeBillDue="41")
    assert "It holds for bills from their next calculation on." in ada.text


def test_an_unknown_action_changes_nothing(ada):
    save(ada, form(ada), action="explode")

    assert ada.page.status_code == 400


def test_the_page_has_its_contents_and_says_what_placeholders_look_like(ada):
    ada.go(SETTINGS)

    anchors = re.findall(r'<a href="#([^"]+)">', ada.page.text)
    assert len(anchors) > 8
    assert [each for each in anchors if f'id="{each}"' not in ada.page.text] == []
    assert "{total} its total 215.41 {date} its date 2026-11-01" in ada.text
