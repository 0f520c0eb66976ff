"""From nothing to a first bill, in the console."""

import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from tests.console_world import CONSOLE, empty_console
from tests.people import allow


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture
def world(tmp_path):
    with empty_console(tmp_path) as found:
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        yield found


def test_who_has_nothing_yet_is_led_to_a_first_bill(world):
    ada = world.browser("ada@example.com")

    assert ada.path == f"{CONSOLE}/start"
    assert "From nothing to a first bill" in ada.text
    assert ada.offers("sample")


def test_the_sample_leads_to_its_month(world):
    ada = world.browser("ada@example.com")
    ada.press("sample")

    assert ada.path == f"{CONSOLE}/months/2026-10"
    assert "The sample is loaded" in ada.text
    ada.go(CONSOLE)
    assert ada.path.startswith(f"{CONSOLE}/months/")
    ada.go(f"{CONSOLE}/start")
    assert not ada.offers("sample")
    assert ada.text.count("Done") == 3


def test_who_may_only_read_is_offered_nothing_that_the_api_refuses(world):
    reader = world.browser("reader@example.com")
    reader.go(f"{CONSOLE}/start")

    assert not reader.offers("sample")
    assert "Say what you measure" in reader.text
