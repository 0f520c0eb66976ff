"""The console in a real browser, with scripts off: what people see, by keyboard, in both schemes."""

import json
import re
from shutil import which

import pytest
from argon2 import PasswordHasher
from playwright.sync_api import sync_playwright

from meterlake.pipeline.access import login
from meterlake.pipeline.closing.closing_requests import CLOSING_STEPS
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.worker.flow_runs import Executor
from tests.console_world import CONSOLE, MONTH, a_console
from tests.homes import HEADER, csv_row
from tests.people import PASSWORD, allow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    if which("chromium") is None:
        pytest.skip("needs chromium in PATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        with a_console(tmp_path_factory.mktemp("browser")) as found:
            found.join("ada@example.com", allow())
            yield found


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=which("chromium"), args=["--no-sandbox", "--no-proxy-server"]
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def cookies(browser, world):
    """Those of a person who signed in once: who signs in for each test is told to wait."""
    context = browser.new_context(base_url=world.url)
    context.set_default_timeout(180_000)
    sign_in(context.new_page())
    yield context.storage_state()
    context.close()


@pytest.fixture(params=[("light", 1280), ("dark", 320)], ids=["light", "dark and narrow"])
def tab(browser, world, cookies, request):
    scheme, width = request.param
    context = browser.new_context(
        base_url=world.url,
        color_scheme=scheme,
        viewport={"width": width, "height": 800},
        java_script_enabled=False,
        storage_state=cookies,
    )
    context.set_default_timeout(180_000)
    tab = context.new_page()
    tab.problems = []
    tab.on("console", lambda said: tab.problems.append(said.text))
    tab.on("requestfailed", lambda failed: note_failure(tab.problems, failed))
    tab.goto(CONSOLE)
    yield tab
    context.close()


def sign_in(tab):
    tab.goto(CONSOLE)
    tab.get_by_label("E-mail address").fill("ada@example.com")
    tab.get_by_label("Password").fill(PASSWORD)
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/console/months/**")


def note_failure(problems, request):
    """Note what could not be loaded; what a page no longer needs when the next one opens is none."""
    if request.failure != "net::ERR_ABORTED":
        problems.append(f"{request.url}: {request.failure}")


@pytest.mark.long
def test_a_bill_is_reached_and_approved_by_keyboard(tab):
    tab.goto(f"{CONSOLE}/bills?month={MONTH}&status=PENDING")
    tab.get_by_role("row", name="bolt").get_by_role("link").nth(1).focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/console/bills/*-*")
    tab.get_by_role("button", name="Approve").focus()
    tab.keyboard.press("Enter")

    tab.get_by_role("status").filter(has_text="You approved the bill.").wait_for()
    tab.get_by_role("button", name="Take the approval back").focus()
    tab.keyboard.press("Enter")
    tab.get_by_role("status").filter(has_text="You took the approval back.").wait_for()
    assert tab.problems == []


@pytest.mark.long
@pytest.mark.parametrize("page", [f"months/{MONTH}", "bills", "customers", "components"])
def test_a_page_fits_the_window_and_loads_nothing_from_elsewhere(tab, world, page):
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"{CONSOLE}/{page}")

    assert tab.title().endswith("meterlake")
    assert tab.get_by_role("heading", level=1).count() == 1
    assert all(each.startswith(world.url) for each in asked)
    box = tab.locator("body").bounding_box()
    assert box["width"] <= tab.viewport_size["width"]
    assert tab.problems == []


@pytest.mark.long
def test_with_scripts_a_page_shows_by_itself_what_the_worker_did(browser, tmp_path):
    with a_console(tmp_path) as found:
        found.join("ada@example.com", allow())
        context = browser.new_context(base_url=found.url)
        context.set_default_timeout(180_000)
        tab = context.new_page()
        problems = []
        tab.on("console", lambda said: problems.append(said.text))
        sign_in(tab)
        tab.goto(f"{CONSOLE}/months/{MONTH}")
        tab.get_by_role("button", name="Make the month ready for review").click()
        tab.get_by_text("The worker carries out").wait_for()
        tab.evaluate("document.body.dataset.loaded = 'once'")
        executor = Executor(found.home.stores.settings)
        list(run_round(CLOSING_STEPS, executor, found.home.organization, lambda: False))

        tab.get_by_role("button", name="Approve all bills of the month").wait_for()
        # What the work changed stands all over the page: it is loaded anew, once, at the end.
        assert tab.evaluate("document.body.dataset.loaded") is None
        assert tab.locator("#progress[hx-get]").count() == 0
        assert problems == []
        context.close()


@pytest.mark.long
def test_a_person_zooms_in_time_by_keyboard_and_asks_for_what_is_left(browser, tmp_path):
    with a_console(tmp_path) as found:
        rows = [
            csv_row(f"day-{day}", f"{day}.25", ts=f"2026-09-{day:02}T12:00:00Z")
            for day in range(1, 31)
        ]
        found.home.ingest("month.csv", HEADER + "".join(rows))
        found.join("ada@example.com", allow())
        context = browser.new_context(base_url=found.url, viewport={"width": 900, "height": 900})
        context.set_default_timeout(180_000)
        tab = context.new_page()
        problems = []
        tab.on("console", lambda said: problems.append(said.text))
        sign_in(tab)
        asked = f"{CONSOLE}/usage?meter=egress&field=gb&by=DAY&from=2026-09-01&to=2026-09-30"
        tab.goto(f"{asked}&group=account")
        told = json.loads(tab.locator("[data-zoom]").get_attribute("data-zoom"))
        tab.get_by_role("button", name="Zoom in this chart").press("Enter")
        tab.locator(".u-wrap canvas").wait_for()
        tab.get_by_text("Ask for 2026-09-01 to 2026-09-30 alone").wait_for()
        tab.get_by_role("button", name="Closer").press("Enter")
        tab.get_by_role("button", name="Later").press("Enter")
        left = tab.get_by_role("link", name="Ask for")
        tab.wait_for_function(
            "!document.querySelector('.links a').textContent.includes('09-01 to')"
        )
        days = re.findall(r"2026-09-\d\d", left.inner_text())
        left.press("Enter")
        tab.wait_for_url(f"**from={days[0]}&to={days[1]}**")

        assert len(told["days"]) == 30
        assert [each["values"][29] for each in told["groups"] if each["name"] == "acme"] == [
            "30.25"
        ]
        assert "2026-09-01" < days[0] < days[1] <= "2026-09-30"
        assert "by=DAY" in tab.url
        assert problems == []
        context.close()


@pytest.mark.long
def test_what_somebody_puts_into_a_page_acts_on_nothing(browser, world, cookies):
    context = browser.new_context(base_url=world.url, storage_state=cookies)
    context.set_default_timeout(180_000)
    tab = context.new_page()
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(CONSOLE)
    tab.evaluate("""() => {
        const main = document.querySelector("main");
        main.insertAdjacentHTML("beforeend", "<p hx-get='/console/stolen' hx-trigger='load'>x</p>");
        htmx.process(main);
    }""")
    tab.goto(f"{CONSOLE}/customers")

    assert not any("stolen" in each for each in asked)
    context.close()
