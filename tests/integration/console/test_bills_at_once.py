"""Many bills at once: the list with its totals, chosen bills, the files of a month."""

import io
import re
import zipfile
from decimal import Decimal
from html import unescape

import pytest
from argon2 import PasswordHasher

from meterlake.model.values.period import Month
from meterlake.pipeline.access import login
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.documents.bundle_jobs import BILL_DOCUMENTS
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.worker.flow_runs import Executor
from tests.console_world import CONSOLE, MONTH, a_console
from tests.homes import ACCOUNTS, configure
from tests.people import allow
from tests.sent_bills import top_up

SELECTION = f"{CONSOLE}/bills/selection"


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Acme and bolt have a bill of September each."""
    with a_console(tmp_path_factory.mktemp("bills")) as found:
        found.join("finance@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        yield found


@pytest.fixture
def finance(world):
    return world.browser("finance@example.com")


def codes(browser):
    """The customers of the bills on the page, in order."""
    return re.findall(r'href="/console/customers/[0-9a-f-]+">(\w+)</a>', browser.page.text)


def test_the_list_is_sorted_narrowed_added_up_and_downloaded(finance):
    finance.go(f"{CONSOLE}/bills?month={MONTH}&sort=accountCode&order=DESC")
    assert codes(finance) == ["bolt", "acme"]
    assert "bolt Bolt Oct 1, 2026" in finance.text
    assert re.search(r"2 bills: [\d.]+ USD", finance.text)
    finance.go(f"{CONSOLE}/bills?customer=bo")
    assert codes(finance) == ["bolt"]
    assert re.search(r"1 bill: [\d.]+ USD", finance.text)
    finance.go(f"{CONSOLE}/bills?month=2026-10")
    assert "Nothing matches" in finance.text
    finance.go(f"{CONSOLE}/bills?month={MONTH}&sort=accountCode&format=csv")
    lines = finance.page.text.splitlines()
    assert lines[0].startswith("Customer,Name,Bill date,First day,Last day,")
    assert [each.split(",")[:5] for each in lines[1:]] == [
        [code, code.title(), "2026-10-01", "2026-09-01", "2026-09-30"] for code in ("acme", "bolt")
    ]


def test_a_value_that_is_refused_stands_beside_its_field_above_the_list(finance):
    finance.go(f"{CONSOLE}/bills?month={MONTH}&above=1,500&below=x&customer=acme")

    assert finance.page.status_code == 400
    assert codes(finance) == ["acme"]
    for name, typed in (("above", "1,500"), ("below", "x"), ("customer", "acme")):
        assert re.search(rf'<input name="{name}" type="\w+" value="{typed}"', finance.page.text)
    assert "Total from: '1,500' is not allowed: it may mean" in finance.text
    assert finance.text.count("The list below goes without this filter.") == 2
    # What leads on goes without what was refused.
    for address in re.findall(r'href="(/console/bills[^"]*format=csv[^"]*)"', finance.page.text):
        finance.go(unescape(address))
        assert finance.page.status_code == 200
        assert "acme" in finance.page.text
        assert "bolt" not in finance.page.text


def test_the_list_has_an_order_that_one_sees(finance):
    finance.go(f"{CONSOLE}/bills?month={MONTH}")

    assert codes(finance) == sorted(codes(finance))
    head = r'aria-sort="{}"><a href="[^"]*order={}[^"]*">{}<'
    assert re.search(head.format("ascending", "DESC", "Customer"), finance.page.text)
    # Of all months the newest come first.
    finance.go(f"{CONSOLE}/bills")
    assert re.search(head.format("descending", "ASC", "Bill date"), finance.page.text)


def test_bills_are_narrowed_by_amount_and_currency(finance):
    lists = f"{CONSOLE}/bills?month={MONTH}"
    amounts = sorted(re.findall(r">([\d.]+)</data>", finance.go(lists) and finance.page.text))
    small, large = sorted({Decimal(each) for each in amounts})[:2]
    finance.go(f"{lists}&above={small + 1}")
    assert codes(finance) == ["bolt"]
    finance.go(f"{lists}&below={small}")
    assert codes(finance) == ["acme"]
    finance.go(f"{lists}&above={small}&below={large}&currency=usd&sort=billTotal")
    assert codes(finance) == ["acme", "bolt"]
    assert "Nothing matches" in finance.go(f"{lists}&currency=EUR")
    assert "it must be a number such as" in finance.go(f"{lists}&above=much")
    # What is chosen of the list goes on with it.
    finance.go(f"{CONSOLE}/bills/selection?month={MONTH}&above={small + 1}")
    assert re.search(r"1 bill\b", finance.text)


def test_each_file_says_in_its_name_what_it_is_and_of_which_month(finance):
    month = f"{CONSOLE}/months/{MONTH}/files?as="
    lists = f"{CONSOLE}/bills?format=csv"
    names = {
        f"{lists}&month={MONTH}": f"bills_{MONTH}.csv",
        f"{month}xero": f"xero_{MONTH}.csv",
        f"{month}standard": f"bill-lines_{MONTH}.csv",
        f"{lists}&month={MONTH}&customer=ac": f"bills_{MONTH}_ac.csv",
        f"{month}zip": f"bills_{MONTH}.zip",
        f"{CONSOLE}/revenue?month={MONTH}&format=csv&table=product": f"revenue-product_{MONTH}.csv",
    }
    for address, name in names.items():
        finance.go(address)
        assert finance.page.headers["content-disposition"] == f'attachment; filename="{name}"'
    for address, name in {
        lists: "bills",
        f"{CONSOLE}/customers?format=csv&called=a": "customers_a",
    }.items():
        finance.go(address)
        told = finance.page.headers["content-disposition"]
        assert re.fullmatch(rf'attachment; filename="{name}_\d{{4}}-\d\d-\d\d\.csv"', told)


def test_all_bills_of_a_list_are_approved_and_taken_back(finance):
    finance.go(f"{SELECTION}?month={MONTH}&status=PENDING")
    assert "Approve 2" in finance.text
    assert "Nobody has set a mail server" not in finance.text
    assert not finance.offers("lock")
    unnumbered = "2 bills have no invoice number: a bill gets one when it is made"
    assert unnumbered in finance.text
    assert "A locked bill never gets one" not in finance.text
    ids = re.findall(r'name="bill" value="([^"]*)"', finance.page.text)[:2]
    finance.send({"action": "look", "bill": ids[:1]})
    assert "Approve 1" in finance.text
    finance.go(f"{SELECTION}?month={MONTH}&status=PENDING")
    told = finance.send({"action": "approve", "bill": ids[:1]})
    assert "Nothing happened yet: you took the tick from 1 bill." in told
    assert "1 pending, 0 approved" in told
    assert "Approve 1" in told
    finance.go(f"{SELECTION}?month={MONTH}&status=PENDING")
    assert "2 pending, 0 approved" in finance.text
    assert "2 bills were approved" in finance.send({"action": "approve", "bill": ids})

    finance.go(f"{SELECTION}?month={MONTH}")
    assert finance.offers("lock")
    assert "Nobody has set a mail server" in finance.text
    assert not finance.offers("approve")
    # What nobody mended before the approval still matters before the lock.
    for told in (finance.text, finance.send({"action": "lock", "bill": ids})):
        assert unnumbered in told
        assert "A locked bill never gets one" in told
    assert "Lock 2 bills for ever?" in told
    finance.go(f"{CONSOLE}/bills/{ids[0]}")
    assert "1 bill has no invoice number" in finance.text
    finance.go(f"{SELECTION}?month={MONTH}")
    assert "You took back 2 approvals" in finance.send({"action": "unapprove", "bill": ids})


def test_documents_of_chosen_bills_come_as_one_file(finance):
    finance.go(f"{SELECTION}?month={MONTH}")
    ids = re.findall(r'name="bill" value="([^"]*)"', finance.page.text)[:1]
    finance.send({"action": "look", "bill": ids})
    told = finance.press("zip")
    assert "Documents of 1 bill The ZIP is being made. Your browser saves it" in told
    # The browser goes on by itself, and no button is left that makes the file once more.
    target = unescape(
        re.search(r'http-equiv="refresh" content="0;url=([^"]*)"', finance.page.text)[1]
    )
    finance.go(target)
    name = finance.page.headers["content-disposition"]
    assert name == f"attachment; filename*=UTF-8''bills_{MONTH}.zip"
    with zipfile.ZipFile(io.BytesIO(finance.page.content)) as found:
        assert len(found.namelist()) == 1


def test_the_files_of_a_month_are_those_of_its_bills(finance):
    page = f"{CONSOLE}/months/{MONTH}"
    finance.go(page)
    assert "2 bills have no invoice number" in finance.text
    assert "Invoices for Xero (CSV): all 2, pending ones too" in finance.text
    assert "approved bill" not in finance.text
    finance.go(f"{page}/files?as=xero&bills=approved")
    assert finance.page.text.count("\n") == 1
    finance.go(f"{page}/files?as=xero")
    assert finance.page.text.startswith("*ContactName,EmailAddress")
    assert finance.page.text.count("\n") > 2
    finance.go(f"{page}/files?as=standard")
    assert finance.page.headers["content-disposition"].startswith("attachment")
    finance.go(f"{page}/files?as=ledger")
    assert re.search(
        r"ledger_until-\d{4}-\d\d-\d\d\.beancount", finance.page.headers["content-disposition"]
    )
    finance.go(f"{page}/files?as=word")
    assert finance.page.status_code == 400


def test_many_documents_are_made_by_the_worker_while_the_page_shows_how_far_they_are(world):
    finance = world.browser("finance@example.com")
    finance.go(f"{SELECTION}?month={MONTH}")
    ids = re.findall(r'name="bill" value="([^"]*)"', finance.page.text)[:2]
    # As many as no answer waits for; the file has each of them once.
    said = finance.send({"action": "zip", "bill": ids * 11, "shown": ""})
    assert "The worker makes the documents" in said
    assert "0 of 2" in said
    executor = Executor(world.home.stores.settings)
    list(run_round(BILL_DOCUMENTS, executor, world.home.organization, lambda: False))
    finance.go(finance.path)
    assert "The file is kept until" in finance.text
    finance.go(re.search(r'href="([^"]*file=yes)"', finance.page.text)[1])
    with zipfile.ZipFile(io.BytesIO(finance.page.content)) as found:
        assert sorted(found.namelist()) == ["acme_2026-09.pdf", "bolt_2026-09.pdf"]


def test_who_only_reads_may_choose_bills_and_change_none(world):
    reader = world.browser("reader@example.com")
    reader.go(f"{SELECTION}?month={MONTH}")
    for action in ("approve", "unapprove", "lock", "recalculate"):
        assert not reader.offers(action)
    assert reader.offers("pdf")


def test_the_way_back_leads_to_the_list_and_nowhere_else(finance):
    finance.go(f"{CONSOLE}/bills?month={MONTH}")
    ids = re.findall(r'name="bill" value="([^"]*)"', finance.page.text)[:1]
    finance.send({"action": "look", "bill": ids, "back": "javascript:alert(1)"}, path=SELECTION)
    assert "javascript:" not in finance.page.text


def test_many_bills_are_locked_after_a_second_look(tmp_path):
    with a_console(tmp_path) as found:
        found.join("finance@example.com", allow())
        finance = found.browser("finance@example.com")
        finance.go(f"{SELECTION}?month={MONTH}")
        ids = re.findall(r'name="bill" value="([^"]*)"', finance.page.text)[:2]
        finance.send({"action": "approve", "bill": ids})
        finance.go(f"{SELECTION}?month={MONTH}")
        asked = finance.send({"action": "lock", "bill": ids})
        assert "Lock 2 bills for ever?" in asked
        assert codes(finance) == ["bolt", "acme"]
        assert finance.fields("lock")["bill"] == ids
        finance.go(f"{SELECTION}?month={MONTH}")
        assert "2 approved" in finance.text
        assert ">Locked<" not in finance.page.text
        finance.send({"action": "lock", "bill": ids})
        assert "You locked 2 bills for ever." in finance.send({"action": "lock", "bill": ids})


def test_bills_that_are_out_of_date_are_approved_after_a_second_look(tmp_path):
    with a_console(tmp_path) as found:
        top_up(found.home, "bolt")
        found.join("finance@example.com", allow())
        finance = found.browser("finance@example.com")
        chosen = finance.go(f"{SELECTION}?month={MONTH}")
        ids = re.findall(r'name="bill" value="([^"]*)"', finance.page.text)
        asked = finance.send({"action": "approve", "bill": ids})
        waiting = finance.go(f"{CONSOLE}/bills?month={MONTH}&status=PENDING&due=yes")
        finance.go(f"{SELECTION}?month={MONTH}")
        finance.send({"action": "approve", "bill": ids})
        done = finance.send({"action": "approve", "bill": finance.fields("approve")["bill"]})
        finance.go(f"{SELECTION}?month={MONTH}")
        locking = finance.send({"action": "lock", "bill": ids})

    warning = "1 bill is out of date: balances or commitments of the customer changed"
    assert warning in chosen
    assert "What would change on the bill of bolt" in chosen
    assert "Approve 2 bills?" in asked
    assert warning in asked
    assert "Out of date" in waiting
    assert "2 bills were approved; open: 1 bill that is out of date" in done
    assert warning in locking


def test_a_list_by_total_says_that_it_mixes_currencies(tmp_path):
    with a_console(tmp_path) as found:
        rates = [{"from": "USD", "to": "EUR", "multiplier": Decimal("0.8")}]
        configure(
            found.home.organization,
            currencies=[{"code": each, "name": each} for each in ("USD", "EUR")],
            organizationConfig={"currency": "USD", "currencyConversions": rates},
            accounts=[{**ACCOUNTS[1], "currency": "EUR"}],
        )
        bill(found.home.organization, Month.parse(MONTH))
        found.join("finance@example.com", allow())
        finance = found.browser("finance@example.com")
        by_total = f"{CONSOLE}/bills?sort=billTotal"
        assert "Totals of EUR, USD stand in one order" in finance.go(by_total)
        assert "stand in one order" not in finance.go(f"{by_total}&currency=EUR")
        assert "stand in one order" not in finance.go(f"{CONSOLE}/bills")
