"""An accountant closes a month in a browser, by keyboard, without scripts; then by commands.

Both end with the same bills.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from shutil import which

import pytest
from argon2 import PasswordHasher
from playwright.sync_api import sync_playwright

from meterlake.cli import run
from meterlake.model.values.period import Month
from meterlake.pipeline.access import login
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.closing.closing_requests import CLOSING_STEPS
from meterlake.pipeline.ingest.uploads import ingest_uploads
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.worker.flow_runs import Executor
from tests.console_world import CONSOLE, MONTH, a_console
from tests.homes import HEADER, csv_row
from tests.people import PASSWORD, allow
from tests.sent_bills import home_with_bills

pytestmark = pytest.mark.long

LATE = "late.csv"
# Ten more for acme, and a row for bolt whose amount is wrong: it means five.
ROWS = HEADER + csv_row("late-1", 10, "acme", ts="2026-09-20T10:00:00Z")
ROWS += csv_row("late-2", "five", "bolt", ts="2026-09-21T10:00:00Z")


@pytest.fixture
def world(tmp_path, monkeypatch):
    if which("chromium") is None:
        pytest.skip("needs chromium in PATH")
    monkeypatch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
    with a_console(tmp_path / "console") as found:
        found.join("ada@example.com", allow())
        yield found


@pytest.fixture
def tab(world):
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=which("chromium"), args=["--no-sandbox", "--no-proxy-server"]
        )
        context = browser.new_context(
            base_url=world.url,
            java_script_enabled=False,
            viewport={"width": 1280, "height": 900},
            locale="en",
        )
        context.set_default_timeout(180_000)
        yield context.new_page()
        browser.close()


def press(tab, role, name, nth=0):
    """Reach a link or a button by keyboard, and press it."""
    found = tab.get_by_role(role, name=name).nth(nth)
    found.focus()
    with tab.expect_navigation():
        tab.keyboard.press("Enter")


def sign_in(tab):
    tab.goto(CONSOLE)
    tab.get_by_label("E-mail address").fill("ada@example.com")
    tab.get_by_label("Password").fill(PASSWORD)
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/console/months/**")


def said(tab, text):
    tab.get_by_role("status").filter(has_text=text).wait_for()


def close(world):
    """What the worker does about a closing that people go on with."""
    executor = Executor(world.home.stores.settings)
    # Playwright has an event loop in this thread, and steps begin loops of their own.
    with ThreadPoolExecutor(1) as beside:
        beside.submit(
            lambda: list(run_round(CLOSING_STEPS, executor, world.home.organization, lambda: False))
        ).result()


def bills_of(home, capsys):
    """The code, status, lock and total of each bill of the month, by the commands."""
    options = ["--home", str(home.stores.home), "--org", home.organization.code, "--json"]
    capsys.readouterr()
    assert run(["bill", "list", "--month", MONTH, *options]) == 0
    rows = [json.loads(line, parse_float=Decimal) for line in capsys.readouterr().out.splitlines()]
    return [
        (each["accountCode"], each["status"], each["locked"], each["billTotal"])
        for each in rows
        if "accountCode" in each
    ]


def open_bill_of_acme(tab):
    tab.goto(f"{CONSOLE}/bills?month={MONTH}")
    row = tab.get_by_role("row").filter(has_text="acme")
    row.get_by_role("link").nth(1).focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/console/bills/*-*")


def go_on(tab, world, button):
    """Press a button of the month's closing; the worker does what it asks for."""
    tab.goto(f"{CONSOLE}/months/{MONTH}")
    press(tab, "button", button)
    close(world)


def test_an_accountant_closes_a_month_without_the_command_line(world, tab, tmp_path, capsys):
    sign_in(tab)
    press(tab, "link", "Data in")
    tab.set_input_files(
        "input[type=file]", {"name": LATE, "mimeType": "text/csv", "buffer": ROWS.encode()}
    )
    press(tab, "button", "Send")
    list(ingest_uploads(world.home.organization))

    tab.goto(f"{CONSOLE}/rejected")
    press(tab, "link", "row 3")
    tab.locator("input[name='field:measure.gb']").fill("5")
    press(tab, "button", "Requeue as written here")

    go_on(tab, world, "Make the month ready for review")
    open_bill_of_acme(tab)
    press(tab, "link", "credit")
    tab.get_by_label("About which line").select_option(index=1)
    tab.get_by_label("Amount in").fill("1.50")
    tab.get_by_label("Description").fill("Slow days")
    press(tab, "button", "Put it on the bill")

    tab.goto(f"{CONSOLE}/months/{MONTH}")
    # The credit came after the review: nothing is approved before somebody has seen it.
    press(tab, "button", "Approve all bills of the month")
    close(world)
    tab.goto(f"{CONSOLE}/months/{MONTH}")
    tab.get_by_text("have changed since they were reviewed").wait_for()
    go_on(tab, world, "Make the month ready for review")
    go_on(tab, world, "Approve all bills of the month")
    open_bill_of_acme(tab)
    press(tab, "button", "Lock for ever")
    press(tab, "button", "Lock 1 bill for ever")
    said(tab, "You locked the bill")

    with home_with_bills(tmp_path / "commands") as home:
        by_commands(home, tmp_path)
        expected = bills_of(home, capsys)
    assert [status for _, status, *_ in expected] == ["APPROVED", "APPROVED"]
    assert bills_of(world.home, capsys) == expected


def by_commands(home, folder):
    """The same month by the commands."""
    options = ["--home", str(home.stores.home), "--org", home.organization.code]
    bill(home.organization, Month.parse(MONTH))
    (folder / LATE).write_text(ROWS)
    run(["ingest", str(folder / LATE), *options])
    export = folder / "mend.csv"
    assert run(["rejected", "export", str(export), *options]) == 0
    export.write_text(export.read_text().replace("five", "5"))
    assert run(["rejected", "requeue", "--from", str(export), *options]) == 0
    assert run(["bill", "--month", MONTH, *options]) == 0
    credit = ["--amount", "1.50", "--description", "Slow days"]
    assert run(["bill", "credit", f"acme/{MONTH}", *credit, *options]) == 0
    assert run(["bill", "approve", f"acme/{MONTH}", f"bolt/{MONTH}", *options]) == 0
    assert run(["bill", "lock", f"acme/{MONTH}", "--yes", *options]) == 0
