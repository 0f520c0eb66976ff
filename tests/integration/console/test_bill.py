"""The pages of one bill: its lines down to measurements, credits and debits, its versions."""

import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from argon2 import PasswordHasher
from pydantic import SecretStr
from sqlalchemy import select

from meterlake.console.bills.approval_check import message_in_words
from meterlake.console.shell.page import unit_name
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.values.period import Month
from meterlake.pipeline.access import login
from meterlake.pipeline.billing.jobs.jobs import bill, run_bill_job
from meterlake.stores.state.events.event_tables import EVENT
from meterlake.stores.state.integrations.runs import RunContent
from tests.console_world import CONSOLE, MONTH, a_console
from tests.deliveries import add_runs, content_for, new_webhook
from tests.homes import HEADER, configure, csv_row
from tests.people import allow

AUGUST = {"first": "2026-08-14", "last": "2026-08-14"}
ATTACK = '"><script>alert(1)</script>'


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Acme and bolt have a bill of September each, and one of August."""
    with a_console(tmp_path_factory.mktemp("bill")) as found:
        bill(found.home.organization, Month.parse("2026-08"))
        found.join("finance@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        yield found


@pytest.fixture
def finance(world):
    return world.browser("finance@example.com")


def open_bill(browser, account, month=MONTH):
    """Open the bill of an account."""
    browser.go(f"{CONSOLE}/bills?month={month}")
    row = next(each for each in browser.page.text.split("<tr>") if f">{account}<" in each)
    browser.go(re.search(rf'href="({CONSOLE}/bills/[0-9a-f-]+)"', row)[1])
    return browser.path


def link(browser, text):
    """Where the first link with a text leads."""
    found = re.search(rf'<a [^>]*href="([^"]*)"[^>]*>\s*{re.escape(text)}', browser.page.text)
    assert found is not None, text
    return found[1]


def total(browser):
    """What the bill on the page comes to."""
    return Decimal(
        re.search(r'class="figure"><data class="number" value="([^"]*)"', browser.page.text)[1]
    )


def memo_fields(browser, **changes):
    """What somebody types into the form of a credit or debit."""
    line = re.search(r'<option value="([0-9a-f-]+)"', browser.page.text)[1]
    return {
        "action": "save",
        "line": line,
        "amount": "2.50",
        "description": "Outage on 14 September",
        "first": "2026-09-14",
        "last": "2026-09-14",
        **changes,
    }


def test_a_line_opens_to_its_days_its_sql_and_its_measurements(finance):
    open_bill(finance, "acme")
    finance.go(link(finance, "Where it comes from"))

    assert "By day" in finance.text
    assert finance.page.text.count("<rect") == 1
    assert "<pre><code>SELECT sum(m.&#34;measure.gb&#34;)" in finance.page.text
    assert re.search(r"\d+\.csv \d+ ", finance.text)
    assert "How the amount follows" in finance.text
    assert "Rounded to the nearest, to 2 places" in finance.text
    place = finance.path
    finance.go(link(finance, "All measurements of this line (JSON)"))
    uids = [each["uid"] for each in finance.page.json()["data"]]
    assert len(uids) > 1
    assert "There are more than these. Show up to 1,000" in finance.go(f"{place}?rows=1")
    assert set(uids) <= set(finance.go(f"{place}?rows=1000").split())


def test_the_bills_of_a_customer_follow_each_other(finance):
    september = open_bill(finance, "bolt")
    finance.go(link(finance, "Bill before"))

    assert finance.path != september
    assert "Aug 1, 2026 to Aug 31, 2026" in finance.text
    assert link(finance, "Next bill") == september
    assert "What changed since" not in finance.text


def test_a_bill_is_compared_with_the_one_before_it(finance):
    open_bill(finance, "acme")
    finance.go(link(finance, "What changed since"))

    assert "42.50 USD 31.00 USD → 73.50 USD" in finance.text
    assert "0 → 42.5" in finance.text
    assert re.search(r"0\.00 USD 42\.50 USD 42\.50 USD", finance.text)
    assert "Bill before" not in finance.text


def test_a_credit_is_put_on_a_bill_changed_and_taken_away(finance):
    path = open_bill(finance, "acme")
    before = total(finance)
    finance.press("approve")
    finance.go(link(finance, "Credit this customer"))
    finance.send(memo_fields(finance))

    assert finance.path == path
    assert "waits for approval again" in finance.text
    assert total(finance) == before - Decimal("2.50")
    assert "Outage on 14 September" in finance.text
    assert "Sep 14, 2026" in finance.text

    finance.go(link(finance, "Change or take away"))
    assert 'name="amount" inputmode="decimal" value="2.50"' in finance.page.text
    finance.send(memo_fields(finance, amount="3"))
    assert total(finance) == before - 3

    happened = finance.text.partition("What happened")[2]
    assert re.search(
        r"Credit or charge changed, Ada Lovelace: 3.00 USD \(Outage on 14 September, about line \d+, \w+\).*"
        r"Credit put on the bill, Ada Lovelace: 2.50 USD.*Approved, Ada Lovelace: .*Made, ",
        happened,
    )
    finance.go(f"{CONSOLE}/access/log?kinds=bills")
    assert "Credit put on the bill acme, 2026-09 2.50 USD" in finance.text
    finance.go(f"{CONSOLE}/access/log?kinds=bills&format=csv")
    assert ",Ada Lovelace,Approved," in finance.page.text
    # The name stands where a person reads it; the id is the last column.
    assert re.findall(r"USER_\S+", finance.page.text) == re.findall(
        r"(?<=,)USER_[0-9a-f-]{36}$", finance.page.text.replace("\r", ""), re.MULTILINE
    )
    finance.go(path)
    finance.go(link(finance, "All versions"))
    assert "Ada Lovelace" in finance.text
    # The approval between was version 2 and changed nothing.
    finance.go(f"{path}/versions?from=1&to=3")
    assert re.search(r"-2\.50\s*USD", finance.text)

    assert "Credit memo Outage on 14 September Memo" in finance.text
    assert re.search(r"added 2\.50|added -2\.50\s+USD", finance.text)

    finance.go(path)
    finance.go(link(finance, "Change or take away"))
    finance.press("delete")
    assert total(finance) == before
    newest = re.findall(
        r'name="to" value="(\d+)"', finance.go(f"{path}/versions") and finance.page.text
    )[0]
    finance.go(f"{path}/versions?from=3&to={newest}")
    assert re.search(r"removed was -\d\.\d\d\s+USD Ada Lovelace \w+ \d+, \d{4}, ", finance.text)
    # Also between versions of before, it is said who put it on the bill.
    finance.go(f"{path}/versions?from=1&to=3")
    assert re.search(r"added -2\.50\s+USD Ada Lovelace \w+ \d+, \d{4}", finance.text)
    assert "CREDIT_MEMO" not in finance.text


def test_an_amount_is_typed_as_the_language_writes_it(world, finance):
    path = open_bill(finance, "acme", "2026-08")
    before = total(finance)
    german = world.browser("finance@example.com")
    german.client.headers["Accept-Language"] = "de"
    german.go(f"{path}/memos/debit/new")
    german.send(memo_fields(german, **AUGUST, amount="1.234"))
    assert "it may mean 1,234 or 1234" in german.text
    german.send(memo_fields(german, **AUGUST, amount="1.234,50"))
    assert total(german) == before + Decimal("1234.5")
    german.go(link(german, "Change or take away"))
    assert 'value="1234,5' in german.page.text
    german.press("delete")
    assert total(german) == before


def test_a_credit_above_the_bill_is_asked_for_once_more(finance):
    path = open_bill(finance, "acme", "2026-08")
    before = total(finance)
    finance.go(f"{path}/memos/credit/new")
    finance.send(memo_fields(finance, **AUGUST, amount="1e3"))
    assert "it must be a number such as 12.50" in finance.text
    finance.go(f"{path}/memos/credit/new")
    finance.send(memo_fields(finance, **AUGUST, amount="1000"))
    assert "more than the whole bill" in finance.text
    assert total_of(finance, path) == before
    finance.go(f"{path}/memos/credit/new")
    finance.send(memo_fields(finance, **AUGUST, amount="1000", above="yes"))
    assert total(finance) == before - 1000
    finance.go(link(finance, "Change or take away"))
    # A credit is not about itself.
    assert "Outage on 14 September (" not in finance.text
    finance.press("delete")


def total_of(browser, path):
    """What the bill of a page comes to."""
    browser.go(path)
    return total(browser)


@pytest.mark.long
def test_a_locked_bill_leads_to_the_credit_form_of_the_next_one(tmp_path):
    with a_console(tmp_path) as found:
        bill(found.home.organization, Month.parse("2026-08"))
        found.join("finance@example.com", allow())
        finance = found.browser("finance@example.com")
        september = open_bill(finance, "bolt")
        before = total(finance)
        finance.go(link(finance, "Bill before"))
        finance.press("approve")
        finance.press("lock")
        finance.press("lock")
        finance.go(link(finance, "Credit it on the next bill"))
        assert "It is about the bill of Aug 1, 2026 to Aug 31, 2026" in finance.text
        finance.send(memo_fields(finance, **AUGUST, above="yes"))
        assert finance.path == september
        assert total(finance) == before - Decimal("2.50")


def test_what_the_api_refuses_of_a_debit_comes_back_filled_in(finance):
    path = open_bill(finance, "bolt")
    before = total(finance)
    finance.go(f"{path}/memos/debit/new")
    for changes, words in (
        ({"amount": "0"}, "amount"),
        ({"amount": "much"}, "it must be a number such as 12.50"),
        ({"first": "2026-09-20"}, "servicePeriodEndDate"),
        ({"last": "soon"}, "a day must be such as 2026-10-31"),
    ):
        finance.go(f"{path}/memos/debit/new")
        finance.send(memo_fields(finance, description=ATTACK, **changes))
        assert finance.page.status_code == 400
        assert words in finance.text
        assert "&#34;&gt;&lt;script&gt;" in finance.page.text
        assert "<script>" not in finance.page.text
    finance.go(path)
    assert total(finance) == before


def test_a_description_of_a_debit_runs_nothing(finance):
    path = open_bill(finance, "bolt", "2026-08")
    finance.go(f"{path}/memos/debit/new")
    finance.send(memo_fields(finance, description=ATTACK, first="2026-08-01", last="2026-08-31"))
    pages = [finance.page.text]
    for page in ("versions?from=1&to=2", "explain"):
        finance.go(f"{path}/{page}")
        pages.append(finance.page.text)

    assert all("alert(1)" in each for each in pages)
    assert not any("<script>" in each for each in pages)


def test_a_statement_is_made_and_downloaded(finance):
    path = open_bill(finance, "bolt")
    finance.press("statement")
    finance.go(link(finance, "Statement (CSV)"))
    assert finance.page.status_code == 200
    assert finance.page.text.startswith("rowType,billId")
    finance.go(f"{path}/statement?format=pdf")
    assert finance.page.status_code == 400


def test_what_went_to_other_systems_of_a_bill_leads_to_its_tries(world, finance):
    organization = world.home.organization
    path = open_bill(finance, "bolt")
    id_ = path.rpartition("/")[2]
    chat = new_webhook(organization, "http://127.0.0.1:9/", name="Chat <b>")
    finance.press("approve")
    with organization.reading() as reader:
        [event, *_] = read_events_of(reader, id_)
    sent = RunContent(entity_type="Bill", entity_id=id_, destination="STRIPE", run_key="one")
    _, told = add_runs(organization, [sent, content_for(chat, event_id=event)])

    text = finance.go(path)

    section = text[text.index("Sent to other systems") :]
    assert "Stripe Bill Waiting" in section
    assert "Chat <b> Notification Waiting" in section
    assert finance.go(f"{CONSOLE}/integrations/runs/{told}").startswith("Run to")
    open_bill(finance, "acme")
    assert "Nothing of this bill went to another system" in finance.text
    open_bill(finance, "bolt")
    finance.press("unapprove")


def test_a_calculation_says_before_what_it_touches_and_after_what_it_changed(world):
    finance = world.browser("finance@example.com")
    organization = world.home.organization
    balance = {"code": "paid", "name": "Paid", "accountId": "acme", "currency": "USD"}
    year = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
    open_bill(finance, "acme", "2026-08")
    assert "No other bill is touched" in finance.text
    configure(organization, balances=[balance | year])
    open_bill(finance, "acme", "2026-08")
    assert "Calculated with it: 1 later bill, if less or more is left" in finance.text
    said = finance.press("recalculate")
    assert "The worker calculates the bill again. This page shows what changes." in said
    assert "The worker has not finished" in said
    run_bill_job(world.home.stores, finance.path.rpartition("/")[2])
    finance.go(finance.path)
    assert "None of them changed" in finance.text
    assert "No other bill changed" in finance.text


def read_events_of(reader, resource_id):
    table = EVENT.c
    return list(
        reader.connection.execute(
            select(table.id).where(table.resource_id == resource_id)
        ).scalars()
    )


def test_the_page_has_the_lines_in_the_order_of_the_document(finance):
    path = open_bill(finance, "acme")
    finance.go(link(finance, "Credit this customer"))
    finance.send(memo_fields(finance))
    page = finance.page.text.partition('id="lines"')[2].partition("</section>")[0]
    finance.page = finance.client.get(f"{path}/document?format=json")
    document = finance.page.json()
    finance.go(path)
    finance.go(link(finance, "Change or take away"))
    finance.press("delete")

    titles = [each["title"] for each in document["sections"]]
    assert re.findall(r"<h3>(.*?) <span", page) == titles
    assert len(titles) > 1
    lines = [line["id"] for each in document["sections"] for line in each["lines"]]
    shown = [each for each in re.findall(r"/lines/([0-9a-f-]{36})", page) if each in lines]
    assert list(dict.fromkeys(shown)) == [each for each in lines if each in shown]
    assert len(lines) > 2


def test_who_only_reads_is_offered_no_change(world, finance):
    changed = open_bill(finance, "acme", "2026-08")
    finance.press("approve")
    finance.press("unapprove")
    reader = world.browser("reader@example.com")
    # Who may not read the log of who did what is told what events say.
    reader.go(changed)
    assert "Approved, Ada Lovelace" in reader.text.partition("What happened")[2]
    path = open_bill(reader, "bolt")
    for action in ("approve", "unapprove", "lock", "delete", "recalculate", "statement"):
        assert not reader.offers(action)
    assert "Credit this customer" not in reader.text
    reader.go(f"{path}/memos/credit/new")
    assert not reader.offers("save")
    reader.go(link_of_line(reader, path))
    assert "Newest measurements" in reader.text


def link_of_line(browser, path):
    browser.go(path)
    return link(browser, "Where it comes from")


def test_a_line_or_a_memo_that_is_not_there_is_no_page(finance):
    path = open_bill(finance, "bolt")
    nowhere = "00000000-0000-4000-8000-000000000000"
    for page in (f"lines/{nowhere}", f"memos/credit/{nowhere}", "memos/gift/new"):
        finance.go(f"{path}/{page}")
        assert finance.page.status_code == 404, page


def test_the_words_of_an_e_mail_are_tried_on_a_page(finance):
    path = open_bill(finance, "bolt")
    finance.go(f"{path}/letter")
    assert "Dear Bolt" in finance.text
    finance.send({"action": "try", "subject": "Hello {customer}", "text": ATTACK})
    assert "Hello Bolt" in finance.text
    assert "<script>alert(1)</script>" not in finance.page.text
    finance.send({"action": "try", "subject": "Hello", "text": "{price}"})
    assert "nothing fills {price}" in finance.text
    assert "Dear Bolt" in finance.text
    finance.go(f"{CONSOLE}/settings")
    assert "E-mails of bills" in finance.text


def test_without_a_mail_server_the_page_says_so_and_offers_nothing(finance):
    open_bill(finance, "bolt")
    assert "Nobody has set a mail server" in finance.text
    assert "METERLAKE_" not in finance.text
    assert not finance.offers("send")


def test_an_approved_bill_is_sent_from_its_page_and_with_others(tmp_path):
    mail = {"smtp_url": SecretStr("smtp://127.0.0.1:1"), "smtp_from": "billing@meter.example"}
    with a_console(tmp_path, **mail) as found:
        found.join("finance@example.com", allow())
        finance = found.browser("finance@example.com")
        path = open_bill(finance, "bolt")
        assert not finance.offers("send")
        finance.press("approve")
        asked = finance.press("send", to="books@bolt.example")
        assert "Send 1 bill by e-mail?" in asked
        assert "To: books@bolt.example" in asked
        assert "Waiting" not in finance.go(path)
        finance.press("send", to="books@bolt.example")
        said = finance.press("send")
        assert "The worker sends the bill to books@bolt.example" in said
        assert re.search(r"books@bolt.example Waiting Ada Lovelace", finance.go(path))
        assert not finance.offers("send")
        finance.go(f"{CONSOLE}/bills/selection?month={MONTH}&status=APPROVED")
        ids = re.findall(r'name="bill" value="([^"]*)"', finance.page.text)[:1]
        finance.send({"action": "send", "bill": ids})
        assert "1 are not sent; the first:" in finance.press("send")


def test_a_bill_is_deleted_after_a_second_look(tmp_path):
    with a_console(tmp_path) as found:
        found.join("finance@example.com", allow())
        finance = found.browser("finance@example.com")
        path = open_bill(finance, "bolt")
        asked = finance.press("delete")
        assert "Delete 1 bill?" in asked
        assert "Nobody can undo this" in asked
        finance.go(link(finance, "No, go back"))
        assert finance.path == path
        finance.press("delete")
        assert "You deleted the bill." in finance.press("delete")
        assert finance.go(path).startswith("Not found")


def test_two_persons_approve_a_bill_where_the_organization_wants_that(tmp_path):
    with a_console(tmp_path) as found:
        configure(found.home.organization, organizationConfig={"twoPersonApproval": True})
        found.join("finance@example.com", allow())
        found.join("colleague@example.com", allow())
        finance = found.browser("finance@example.com")
        path = open_bill(finance, "bolt")
        assert finance.offers("approve")
        finance.go(f"{path}/memos/debit/new")
        finance.send(memo_fields(finance))
        assert (
            "Another person approves this bill: you put a credit or a debit on it" in finance.text
        )
        assert not finance.offers("approve")
        finance.go(f"{CONSOLE}/bills/selection?month={MONTH}&status=PENDING")
        assert "1 bill needs another person's approval" in finance.text
        assert "Approve 1" in finance.text

        colleague = found.browser("colleague@example.com")
        colleague.go(path)
        assert "You approved the bill." in colleague.press("approve")


def test_what_the_api_says_for_programs_is_said_for_people():
    message = (
        "6 bills were approved; open: 1 LateUsage, 5 UnpricedUsage"
        " (meterlake bill review --month 2026-10)"
    )
    assert message_in_words(message) == (
        "6 bills were approved; open: 1 bill with usage that came late,"
        " 5 bills with usage that has no price"
    )
    assert message_in_words("1 bill was approved") == "1 bill was approved"
    assert [unit_name(each) for each in ("{call}", "1k{call}", "GB")] == ["call", "1kcall", "GB"]


def test_a_line_that_begins_with_its_plan_says_so(tmp_path):
    """The customer asks at once why nothing was charged before."""
    with a_console(tmp_path) as world:
        home = world.home
        with home.organization.transaction("test") as transaction:
            for record in transaction.all(AccountPlan):
                start = datetime(2026, 9, 10, tzinfo=UTC)
                changed = record.entity.model_copy(update={"start_date": start})
                transaction.update(record.id, record.version, changed)
        home.ingest("later.csv", HEADER + csv_row("later", 5, ts="2026-09-15T10:00:00Z"))
        bill(home.organization, Month.parse(MONTH))
        world.join("finance@example.com", allow())
        finance = world.browser("finance@example.com")
        open_bill(finance, "acme")
        finance.go(link(finance, "Where it comes from"))

        said = "as the plan “Basic” begins then. 42.5 GB before it in the same month have no price"
        assert said in finance.text
        assert "Edit" in finance.go(link(finance, "Begin the plan earlier"))


def test_a_credit_above_its_line_asks_for_consent_and_makes_its_reason(tmp_path):
    with a_console(tmp_path) as world:
        world.join("finance@example.com", allow())
        finance = world.browser("finance@example.com")
        path = open_bill(finance, "acme")
        before = total(finance)
        finance.go(link(finance, "Credit this customer"))
        assert "Reason You choose it from the list from now on." in finance.text
        named = memo_fields(finance, amount="50", newReason="Kulanz & support")
        told = finance.send(named)

        assert "amount 50 is more than the line that it is about, which comes to" in told
        assert 'name="newReason" type="text" value="Kulanz &amp; support"' in finance.page.text
        assert 'name="reason"' not in finance.page.text
        told = finance.send({**named, "above": "yes"})
        assert finance.path == path
        assert total(finance) == before - 50
        assert re.search(r"Credit memo about line \d+, [^·]+ · Reason: Kulanz & support ·", told)
        assert re.search(
            r"Credit put on the bill, [^:]+: 50\.00 USD \(Kulanz & support: Outage on 14 September, about line \d+, ",
            told,
        )
        finance.go(link(finance, "Change or take away"))
        assert "Or a new reason" in finance.text
        finance.press("delete")
        assert total(finance) == before
