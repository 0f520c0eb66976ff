"""Every page of the console for people who see, hear or point in other ways: by axe, in Chromium."""

from shutil import which

import pytest
from argon2 import PasswordHasher
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from meterlake.pipeline.access import login
from tests.console_world import CONSOLE, sample_console
from tests.people import PASSWORD, allow

pytestmark = pytest.mark.long

ADA = "ada@example.com"
OPTIONS = {"resultTypes": ["violations"], "iframes": False}
GRAVE = {"serious", "critical"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    if which("chromium") is None:
        pytest.skip("needs chromium in PATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        with sample_console(tmp_path_factory.mktemp("axe")) as found:
            found.join(ADA, allow())
            yield found


@pytest.fixture(scope="module")
def addresses(world):
    """One page of each shape; a page, not a file."""
    browser = world.browser(ADA)
    return [address for address in browser.crawl() if browser.page.text.startswith("<!doctype")]


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=which("chromium"), args=["--no-sandbox", "--no-proxy-server"]
        )
        yield started
        started.close()


@pytest.fixture(params=[("light", 1280), ("dark", 320)], ids=["light", "dark and narrow"])
def tab(chromium, world, request):
    scheme, width = request.param
    context = chromium.new_context(
        base_url=world.url, color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    context.set_default_timeout(180_000)
    tab = context.new_page()
    tab.goto(CONSOLE)
    tab.get_by_label("E-mail address").fill(ADA)
    tab.get_by_label("Password").fill(PASSWORD)
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**{CONSOLE}/months/**")
    yield tab
    context.close()


def test_no_page_shuts_people_out_or_is_wider_than_the_window(tab, addresses):
    axe, wrong = Axe(), {}
    for address in addresses:
        tab.goto(address)
        found = axe.run(tab, options=OPTIONS).response["violations"]
        said = [grave for each in found if each["impact"] in GRAVE for grave in told(each)]
        width = tab.evaluate("document.documentElement.scrollWidth")
        if width > tab.viewport_size["width"]:
            said.append(f"the page is {width} pixels wide")
        if said:
            wrong[address] = said

    assert wrong == {}
    assert len(addresses) > 40


def told(violation):
    """What axe finds wrong at each place, with the piece of the page."""
    return [
        f"{violation['id']}: {node['html'][:150]} {node['failureSummary'][:300]}"
        for node in violation["nodes"]
    ]
