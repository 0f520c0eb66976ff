"""Late usage and receipts by uid in the console."""

import re
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from argon2 import PasswordHasher

from meterlake.model.bills.jobs import NO_DAYS, BillOrder
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.access import login
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.billing.jobs.jobs import bill_order, run_bill_job
from tests.console_world import CONSOLE, a_console
from tests.homes import HEADER, csv_row
from tests.people import allow

LATE = f"{CONSOLE}/data-in/late"
RECEIPT = f"{CONSOLE}/data-in/receipt"


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Usage of September came after its bills."""
    with late_console(tmp_path_factory.mktemp("console")) as found:
        yield found


@contextmanager
def late_console(folder):
    """Usage came after the bills, and a run has noted it."""
    with a_console(folder) as found:
        found.home.clock.time = datetime.now(UTC)
        found.home.ingest("late.csv", HEADER + csv_row("late-1", "10") + csv_row("bad", "NaN"))
        bill_order(found.home.organization, BillOrder(days=NO_DAYS, late_usage=True))
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"), allow("measurements:retrieve"))
        yield found


def act(browser, action, **fields):
    data = {"csrf": browser.hidden()["csrf"], "action": action, **fields}
    browser.page = browser.client.post(str(browser.page.url), data=data)
    return browser.text


@pytest.mark.long
def test_late_usage_says_what_brought_it_and_is_billed_now(world):
    ada = world.browser("ada@example.com")
    ada.go(LATE)
    assert re.search(r"acme 2026-09 .* Reported on no bill late\.csv", ada.text)
    ada.go(f"{CONSOLE}/data-in")
    assert "1 bill lacks usage that came after it was made" in ada.text
    ada.go(LATE)
    assert "No bill was ticked." in act(ada, "recalculate")
    [bill] = set(re.findall(r'name="bill" value="([^"]*)"', ada.page.text))

    assert "The worker calculates the bill again" in act(ada, "recalculate", bill=bill)
    ada.go(f"{LATE}?status=CARRIED")
    assert "Nothing matches" in ada.text
    ada.go(f"{LATE}?format=csv")
    assert "acme" in ada.page.text


@pytest.mark.long
def test_usage_that_no_run_has_noted_stands_in_the_list_and_in_the_month(tmp_path):
    with late_console(tmp_path) as world:
        unnoted(world)


def unnoted(world):
    rows = csv_row("late-2", "5") + csv_row("late-3", "1000", "bolt")
    world.home.ingest("later.csv", HEADER + rows)
    ada = world.browser("ada@example.com")
    listed = re.compile(r"(acme|bolt) 2026-09 .*? ([\d.,]+) USD (Reported|Open|Unchanged) ")

    ada.go(f"{LATE}?period=2026-09")
    found = sorted(listed.findall(ada.text))

    # What came for a bill before, and nothing was done about, is one with what came now.
    assert found == [("acme", "15.00", "Reported"), ("bolt", "0.00", "Unchanged")]
    ada.go(f"{CONSOLE}/months/2026-09")
    part = ada.page.text.partition("Late usage")[2].partition("</details>\n</details>")[0]
    # More does not change what bolt pays.
    assert "15.00" in part
    assert "bolt" not in part.partition("</table>")[0]
    assert "/versions?to=now" in part
    assert f"{LATE}?period=2026-09" in ada.page.text
    assert len(set(re.findall(r'name="bill" value="([^"]*)"', part))) == 1
    ada.go(f"{LATE}?period=2026-09&status=OPEN")
    assert "Nothing matches" in ada.text
    ada.go(f"{LATE}?period=2026-09&status=UNCHANGED")
    assert [code for code, *_ in listed.findall(ada.text)] == ["bolt"]

    # What becomes of each row is told when its bill is made again, also if no run had noted it.
    bills = sorted(set(re.findall(r'name="bill" value="([^"]*)"', ada.go(LATE) and ada.page.text)))
    act(ada, "recalculate", bill=bills)
    [job] = re.findall(r"/recalculations/([0-9a-f-]{36})", str(ada.page.url))
    run_bill_job(world.home.stores, job)
    ada.go(f"{LATE}?period=2026-09")
    told = re.compile(r"(acme|bolt) 2026-09 .*? ([\d.,]+) USD (\w+) ([a-z ,]+)")
    assert sorted(told.findall(ada.text)) == [
        ("acme", "15.00", "Recalculated", "on the bill, which was made again late"),
        ("bolt", "0.00", "Recalculated", "on the bill, which was made again later"),
    ]


def test_what_a_backfill_took_away_and_gave_back_is_not_open(tmp_path):
    with a_console(tmp_path) as world:
        home = world.home
        world.join("ada@example.com", allow())
        ada = world.browser("ada@example.com")
        home.clock.time = datetime.now(UTC)
        [[source]] = home.query("SELECT DISTINCT identity FROM lake.source")
        wanted = BackfillSpec(Mode.RETRACT, "wrong", source=source)
        backfill.start(home.organization, Order(wanted, "ada", "b"))
        backfill.apply(home.organization, "b", "ada")
        ada.go(f"{CONSOLE}/data-in")
        assert "2 bills charge for usage that left after they were made" in ada.text
        assert "lack" not in ada.text
        backfill.revert(home.organization, "b", "ada")
        ada.go(f"{CONSOLE}/data-in")
        assert "charge" not in ada.text
        assert "lack" not in ada.text
        assert "after 2 bills were made, and changes no amount" in ada.text
        ada.go(f"{LATE}?status=OPEN")
        assert "Nothing matches" in ada.text
        ada.go(LATE)

        assert "0.00 USD Unchanged changes no amount" in ada.text


def test_the_policy_is_chosen_by_who_may_change_settings(world):
    ada = world.browser("ada@example.com")
    ada.go(LATE)
    assert "You chose what is done with late usage" in ada.press("policy", policy="CARRY_FORWARD")
    assert '<option value="CARRY_FORWARD" selected>' in ada.page.text
    assert "lateUsage" in ada.press("policy", policy="SOMETHING")
    reader = world.browser("reader@example.com")
    reader.go(LATE)
    assert "Put the difference on the customer's next bill" in reader.text
    assert not any(map(reader.offers, ("policy", "recalculate")))
    assert 'name="bill"' not in reader.page.text
    ada.go(LATE)
    ada.press("policy", policy="REPORT")


@pytest.mark.long
def test_a_uid_tells_what_became_of_its_measurement(world):
    reader = world.browser("reader@example.com")
    assert "First seen in" not in reader.go(RECEIPT)
    reader.go(f"{RECEIPT}?uid=late-1")
    assert re.search(
        r"late-1 Accepted First seen in late\.csv , row 2 .* egress .* acme", reader.text
    )
    reader.go(f"{RECEIPT}?uid=bad")
    assert "Rejected" in reader.text
    assert "late.csv, row 3 : Invalid number" in reader.text
    reader.go(f"{RECEIPT}?uid=%3Cb%3E")
    assert "No measurement with this uid ever came." in reader.text
    assert "<b>" not in reader.page.text
