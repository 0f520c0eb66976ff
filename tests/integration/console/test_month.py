"""The page of a month: its checklist, what changes after it is closed, and months to come."""

import re
from datetime import UTC, datetime
from html import unescape

import pytest
from argon2 import PasswordHasher

from meterlake.model.values.period import Month
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.access import login
from meterlake.pipeline.billing.jobs.jobs import BILL_JOBS, bill
from meterlake.pipeline.closing.closing_requests import CLOSING_STEPS
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.worker.flow_runs import Executor
from tests.bills import subscribe
from tests.console_world import CONSOLE, MONTH, a_console
from tests.homes import HEADER, configure, csv_row
from tests.people import allow
from tests.sent_bills import top_up

PAGE = f"{CONSOLE}/months/{MONTH}"


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with a_console(tmp_path_factory.mktemp("console")) as found:
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"), allow("measurements:retrieve"))
        yield found


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


def go_on(ada, world, action, **fields):
    """Press a button of the closing; the worker does what it asks for."""
    ada.go(PAGE)
    ada.press(action, **fields)
    list(
        run_round(
            CLOSING_STEPS,
            Executor(world.home.stores.settings),
            world.home.organization,
            lambda: False,
        )
    )
    return ada.go(PAGE)


def bill_links(ada):
    ada.go(f"{CONSOLE}/bills?month={MONTH}")
    return re.findall(r"/console/bills/([0-9a-f-]{36})", ada.page.text)


def test_a_month_that_has_not_begun_has_nothing_to_look_at_and_no_buttons(ada):
    ada.go(f"{CONSOLE}/months/2031-06")

    assert "The month has not begun" in ada.text
    assert "There is nothing to look at before the month begins." in ada.text
    assert not any(map(ada.offers, ("calculate", "review")))


def test_the_first_page_says_what_waits_for_the_person(ada, world):
    today = datetime.now(UTC)
    month = Month(today.year, today.month).moved(-1)
    bill(world.home.organization, month)
    [[source]] = world.home.query("SELECT identity FROM lake.source ORDER BY ALL LIMIT 1")
    wanted = BackfillSpec(Mode.RETRACT, "wrong", source=source)
    backfill.start(world.home.organization, backfill.Order(wanted, "ann", "b"))
    ada.go(CONSOLE)
    ada.press("review")
    # What the worker does waits for nobody.
    assert "The worker carries out: Review" in ada.text
    assert "to approve" not in ada.text.partition("What waits for you")[2].partition("Bills")[0]
    list(
        run_round(
            CLOSING_STEPS,
            Executor(world.home.stores.settings),
            world.home.organization,
            lambda: False,
        )
    )

    ada.go(CONSOLE)

    assert re.search(
        r"What waits for you \w+ \d{4} to review 2 bills of \w+ \d{4} to approve", ada.text
    )
    assert "1 staged backfill to apply or to drop" in ada.text
    ada.go(PAGE)
    assert "What waits for you" not in ada.text
    reader = world.browser("reader@example.com")
    reader.go(CONSOLE)
    assert "What waits for you" not in reader.text
    backfill.drop(world.home.organization, "b", "ann")


def test_usage_without_a_price_is_one_line_for_each_customer_with_its_way_out(ada, world):
    rows = [csv_row("free-1", "1", "zoë's"), csv_row("free-2", "many", "acme")]
    world.home.ingest("free.csv", HEADER + "".join(rows) + csv_row("free-3", "many", "acme"))
    july = csv_row("free-4", "many", "acme", ts="2026-07-03T00:00:00Z")
    world.home.ingest("july.csv", HEADER + july)

    ada.go(PAGE)

    assert "Unpriced usage 1 customer" in ada.text
    assert re.search(r"zoë's 1 measurement.*?The customer has no bill of this month\.", ada.text)
    why = "without a price: the customer is on no plan then"
    assert re.search(rf"1 measurement of egress\S* {why}", ada.text)
    assert re.search(
        r'href="/console/customers/[0-9a-f-]{36}/plans/new">Attach a plan<', ada.page.text
    )
    assert "NoAccountPlan" not in ada.text
    # Rows are counted, not their reasons.
    [count] = re.findall(r"Rejected rows (\d+) rows", ada.text)
    assert int(count) >= 2
    assert "1 more waits, of other months: all rejected rows" in ada.text
    points = f"2 open points: {count} rejected rows for 1 reason, 1 usage without a price, of 1 customer."
    assert points in ada.text
    sent = {"csrf": ada.hidden()["csrf"], "action": "approve", "review": "as it is"}
    told = ada.client.post(PAGE, data=sent).text
    assert "Approve all bills of September 2026 with 2 open points?" in told


def test_usage_before_a_plan_leads_to_the_day_on_which_the_plan_begins(tmp_path):
    with a_console(tmp_path) as found:
        row = csv_row("early", "7", "early", ts="2026-09-05T00:00:00Z")
        found.home.ingest("early.csv", HEADER + row)
        subscribe(found.home, "early", start="2026-09-19T00:00:00Z")
        found.join("ada@example.com", allow())
        ada = found.browser("ada@example.com")
        ada.go(PAGE)

        assert "without a price: used before the plan began on 19 Sep 2026" in ada.text
        assert "Attach a plan" not in ada.text
        [link] = re.findall(r'href="([^"]*)">Begin the plan earlier<', ada.page.text)
        ada.go(unescape(link))
        assert "The form has Sep 1, 2026 as its first day" in ada.text
        assert 'name="startDate" type="date" value="2026-09-01"' in ada.page.text


def test_bills_that_are_out_of_date_are_open_points_until_they_are_calculated_again(tmp_path):
    with a_console(tmp_path) as found:
        organization = found.home.organization
        bill(organization, Month.parse(MONTH), approve=True, accounts=["bolt"])
        for account in ("acme", "bolt"):
            top_up(found.home, account)
        found.join("ada@example.com", allow())
        ada = found.browser("ada@example.com")
        before = ada.go(PAGE)
        listed = ada.go(f"{CONSOLE}/bills?month={MONTH}&due=yes")
        others = ada.go(f"{CONSOLE}/bills?month={MONTH}&due=no")
        ada.go(PAGE)
        ids = re.findall(r'name="bill" value="([^"]*)"', ada.page.text)
        said = ada.press("recalculate", bill=ids)
        list(
            run_round(BILL_JOBS, Executor(found.home.stores.settings), organization, lambda: False)
        )
        after = ada.go(PAGE)

    changed = "balances or commitments of the customer changed after this"
    assert f"{changed} pending bill was calculated: it comes to 71.50 USD, not 73.50 USD" in before
    assert f"{changed} approved bill was calculated: it comes to 129.00 USD, not 131.00" in before
    assert "2 bills are not calculated yet from what balances and commitments hold now" in before
    assert listed.count("Out of date") >= 2
    assert "acme" in listed
    assert "Nothing matches" in others
    assert "The worker calculates these bills again." in said
    assert changed not in after


@pytest.mark.long
def test_a_closing_is_a_checklist_that_keeps_its_rounds(ada, world):
    # Something is open, whatever other tests have left.
    world.home.ingest("open.csv", HEADER + csv_row("open-1", "many", "acme"))
    ada.go(PAGE)
    assert "0 of 12 steps are done" in ada.text
    assert "Wait for files Next" in ada.text
    assert "Tidy up the storage Later" in ada.text

    go_on(ada, world, "review")
    assert "6 of 12 steps are done" in ada.text
    assert "Bring in usage Done Ada Lovelace," in ada.text
    # Each number says what it counts.
    assert re.search(r"Wait for files Done [^/]*? no files are expected", ada.text)
    assert "One quantity for each customer and each thing that is counted" in ada.text
    assert "Review and approve Next" in ada.text
    assert "Next is a person who may approve bills." in ada.text
    [points] = re.findall(r"(\d+ points?) (?:is|are) open: look at", ada.text)
    points = points.replace(" ", " open ")
    told = ada.press("approve")
    assert f"Approve all bills of September 2026 with {points}?" in told
    assert "All pending bills are approved, and the month is closed with these open points." in told
    go_on(ada, world, "approve", sure="yes")
    assert f"Closed with {points} , as they were at the approval." in ada.text

    assert "12 of 12 steps are done" in ada.text
    assert "2 bills approved" in ada.text
    # Neither paths of the server nor what only programs read.
    closing = ada.page.text.partition('id="closing"')[2].partition("</section>")[0]
    assert not re.search(r"warehouse|\.duckdb|compacted|digest|decision", closing, re.IGNORECASE)
    assert "Bills changed since" not in ada.text

    [id_, *_] = bill_links(ada)
    ada.go(f"{CONSOLE}/bills/{id_}")
    ada.press("unapprove")
    ada.go(PAGE)
    assert "Bills changed since they were approved: 1 is pending." in ada.text

    assert "1 approved bill becomes pending again, but for those that other" in ada.text
    assert "No bill is locked." in ada.text
    ada.press("reopen", reason="a file was forgotten")
    assert "You opened the month again. 2 bills are pending now." in ada.text
    ada.go(PAGE)
    assert re.search(r"Opened again by Ada Lovelace on .*, because: a file was forgotten", ada.text)
    assert re.search(r"<details open><summary>[^/]*/time>: a file was forgotten", ada.page.text)
    earlier = ada.text.partition("What had been done until then:")[2]
    assert "Review and approve Ada Lovelace," in earlier


@pytest.mark.long
def test_a_month_is_closed_but_for_bills_that_the_person_names(tmp_path):
    with a_console(tmp_path) as found:
        found.home.ingest("open.csv", HEADER + csv_row("open-1", "many", "acme"))
        found.join("ada@example.com", allow())
        ada = found.browser("ada@example.com")
        go_on(ada, found, "review")
        nobody = ada.press("approve", but="yes", bills=" ", reason="in doubt", review="as it is")
        assert "name one at least" in nobody
        ada.go(PAGE)
        told = ada.press("approve", but="yes", bills="bolt\n", reason="in <doubt>")
        assert "Approve all other bills of September 2026 with 1 open point?" in told
        assert "approved but for bolt, which stay open: in <doubt>." in told
        ada.press("approve")
        list(
            run_round(
                CLOSING_STEPS,
                Executor(found.home.stores.settings),
                found.home.organization,
                lambda: False,
            )
        )
        closed = ada.go(PAGE)

    assert "1 bill approved 1 left open" in closed
    assert re.search(r"Left open 1 [\d.]+ USD at stake The month was approved without", closed)
    assert "bolt the month was approved without it: in <doubt>" in closed
    assert "Bills changed since" not in closed


def test_a_part_that_finds_the_work_ended_has_the_whole_page_loaded_again(ada):
    asked = {"HX-Request": "true", "HX-Target": "div#progress"}
    answer = ada.client.get(f"{CONSOLE}/months/2031-06", headers=asked)
    assert answer.headers["HX-Refresh"] == "true"
    assert "HX-Refresh" not in ada.client.get(f"{CONSOLE}/months/2031-06").headers


def test_a_month_of_many_customers_is_billed_for_its_page_when_somebody_asks(tmp_path):
    """Above 500 accounts, the page shows what is known, and says of when that is."""
    more = [
        {"code": f"more{number}", "name": "More", "emailAddress": "m@example.com"}
        for number in range(510)
    ]
    with a_console(tmp_path) as found:
        configure(found.home.organization, accounts=more)
        rows = csv_row("late", "3", "more7", ts="2026-09-05T00:00:00Z")
        assert found.home.ingest("late.csv", HEADER + rows).rejected == 0
        found.join("ada@example.com", allow())
        ada = found.browser("ada@example.com")
        ada.go(PAGE)
        assert "something changed since" in ada.text
        assert "more7" not in ada.text
        ada.go(re.search(rf'href="({PAGE}[^"]*open=now)"', ada.page.text)[1])
        assert "more7" in ada.text
        assert "Calculate now" not in ada.text
        # It is known now, until something is written again.
        ada.go(PAGE)
        assert "more7" in ada.text
        assert "Calculate now" not in ada.text
        configure(found.home.organization, products=[{"code": "other", "name": "Other"}])
        ada.go(PAGE)
        assert "more7" in ada.text
        assert "something changed since" in ada.text
