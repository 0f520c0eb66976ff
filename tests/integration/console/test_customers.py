"""Customers in the console: found by what they say, read, changed, and shown to nobody else."""

import re
from html import unescape

import pytest
from argon2 import PasswordHasher

from meterlake.api.routes import BY_ID
from meterlake.console.customers.customer_pages import _BOOKING
from meterlake.console.customers.customer_things import ACCOUNT_FIELDS, THINGS
from meterlake.model.catalog.catalog import Product
from meterlake.model.customers.accounts import Account
from meterlake.model.values.period import Month
from meterlake.pipeline.access import login
from meterlake.pipeline.billing.jobs.jobs import bill, run_bill_job
from tests.console_world import CONSOLE, MONTH, a_console
from tests.homes import configure
from tests.people import allow

CUSTOMERS = f"{CONSOLE}/customers"
ATTACK = '"><script>alert(1)</script>'
# What every form of a customer's things has; more is chosen by name.
ACCOUNT = {"name": "Cobalt", "code": "cobalt", "emailAddress": "bills@cobalt.example"}


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with a_console(tmp_path_factory.mktemp("customers")) as found:
        configure(
            found.home.organization,
            organizationConfig={"timezone": "Europe/Berlin", "currency": "USD"},
            customFields={"account": {"industry": "unknown", "seats": 0}},
            accounts=[
                {
                    "code": "acme",
                    "name": "Acme",
                    "emailAddress": "bills@acme.example",
                    "purchaseOrderNumber": "PO-77",
                }
            ],
        )
        found.join("eve@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        found.join("bills@example.com", allow("config:retrieve", "config:bill"))
        found.join("only@example.com", allow("all", "config:bill/*"))
        yield found


@pytest.fixture(scope="module")
def ids(world):
    with world.home.organization.reading() as reader:
        return {each.entity.code: each.id for each in reader.all(Account)}


@pytest.fixture
def eve(world):
    return world.browser("eve@example.com")


def choose(page, field, words):
    """The value of a choice with some words."""
    found = re.search(rf'<select name="{field}"[^>]*>.*?</select>', page, re.DOTALL)
    assert found is not None, field
    option = re.search(rf'value="([^"]*)"[^>]*>{re.escape(words)}<', found[0])
    assert option is not None, (field, words)
    return option[1]


def typed(page, action):
    """What the fields of a form hold, as a browser sends them."""
    forms = re.findall(r"<form\b.*?</form>", page, re.DOTALL)
    [form] = [each for each in forms if f'name="action" value="{action}"' in each]
    found = {}
    for tag in re.findall(r"<input\b[^>]*>", form):
        name, value = (re.search(rf'\b{each}="([^"]*)"', tag) for each in ("name", "value"))
        if 'type="checkbox"' not in tag or " checked" in tag:
            found[unescape(name[1])] = unescape(value[1]) if value else ""
    for name, options in re.findall(r'<select name="([^"]*)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', options) or re.search(
            r'value="([^"]*)"', options
        )
        found[unescape(name)] = unescape(chosen[1]) if chosen else ""
    for name, text in re.findall(
        r'<textarea name="([^"]*)"[^>]*>(.*?)</textarea>', form, re.DOTALL
    ):
        found[unescape(name)] = unescape(text)
    return found


def fill(browser, path, action="save", **fields):
    browser.go(path)
    assert browser.page.status_code == 200, browser.text
    return browser.send({**typed(browser.page.text, action), "action": action, **fields})


# --- The table ----------------------------------------------------------------------------------


def test_every_kind_names_operations_and_lists_that_there_are():
    places = {each.path.removeprefix("/organizations/{orgId}") for each in BY_ID.values()}
    for thing in THINGS.values():
        assert set(thing.operations) <= set(BY_ID), thing.key
        for each in (*thing.fields, *ACCOUNT_FIELDS, *_BOOKING):
            if isinstance(each.choices, str) and each.choices:
                assert each.choices in places, each.name


# --- The search ---------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["acme", "Acme", "cm", "PO-77", "po-77", "77"])
def test_a_customer_is_found_by_name_code_and_purchase_order(eve, ids, asked):
    eve.go(f"{CONSOLE}/search?q={asked}")

    assert f"{CUSTOMERS}/{ids['acme']}" in (eve.path, *re.findall(r'href="([^"]*)"', eve.page.text))
    assert "Acme" in eve.text


def test_a_bill_is_found_by_its_amount_as_the_browser_writes_it(tmp_path):
    # A home of its own: what other tests book for acme pays its bills.
    with a_console(tmp_path) as own:
        own.join("eve@example.com", allow())
        english, german = (own.browser("eve@example.com") for _ in range(2))
        german.client.headers["Accept-Language"] = "de"
        for browser, asked, shown in (
            (english, "73.50", r"73\.50"),
            (german, "73,50", "73,50"),
            (german, "73.50 USD", "73,50"),
            (german, "$73.50", "73,50"),
            (german, "USD 73.5", "73,50"),
            (german, "73.50", "73,50"),
        ):
            browser.go(f"{CONSOLE}/search?q={asked}")
            [table] = re.findall(r"<table.*?</table>", browser.page.text, re.DOTALL)
            assert re.search(shown, table), (asked, table)
            assert re.search(r'href="/console/bills/[0-9a-f-]{36}"', table)
            assert "acme" in table
        assert "Nothing found" in english.go(f"{CONSOLE}/search?q=73.51")


def test_a_bill_is_found_by_its_invoice_number(world, eve):
    organization = world.home.organization
    configure(organization, organizationConfig={"billPrefix": "INV-", "sequenceStartNumber": 1})
    bill(organization, Month.parse("2026-02"))
    eve.go(f"{CONSOLE}/bills?month=2026-02")
    eve.go(re.search(r'href="(/console/bills/[0-9a-f-]{36})"', eve.page.text)[1])
    path, number = eve.path, re.search(r"Invoice (\S+)", eve.text)[1]

    eve.go(f"{CONSOLE}/search?q={number}")

    assert eve.path == path


# --- Reading ------------------------------------------------------------------------------------


def test_who_reads_bills_alone_sees_the_organizations_times_and_no_false_names(world, eve):
    only = world.browser("only@example.com")
    for browser in (eve, only):
        browser.go(f"{CONSOLE}/bills?month={MONTH}&customer=bolt")
        browser.go(re.search(r'href="(/console/bills/[0-9a-f-]{36})"', browser.page.text)[1])
    calculated = [
        re.search(r"Calculated (\w+ \d+, \d{4}, \S+)", each.text)[1] for each in (eve, only)
    ]

    assert calculated[0] == calculated[1]
    assert "Europe/Berlin" in only.text
    only.press("approve")
    assert "approved by Ada Lovelace" in only.text
    only.press("unapprove")
    eve.go(only.path)
    eve.press("approve")
    assert "approved by another person" in only.go(only.path)
    eve.press("unapprove")


def test_a_customer_shows_prices_usage_spend_bills_and_who_did_what(eve, ids):
    fill(eve, f"{CUSTOMERS}/{ids['acme']}/edit", daysBeforeBillDue="21")
    eve.go(f"{CUSTOMERS}/{ids['acme']}?month={MONTH}")

    assert "Usage in September 2026" in eve.text
    assert "42.5" in eve.text
    assert "<svg" in eve.page.text
    assert "Spent so far" in eve.text
    assert "31.00" in eve.text
    assert "above 100" in eve.text
    assert "Customer updated: Acme" in eve.text
    assert "Ada Lovelace" in eve.text
    assert "daysBeforeBillDue : nothing → 21" in eve.text
    assert "style=" not in eve.page.text
    assert "Customer updated" in eve.go(f"{CUSTOMERS}/{ids['acme']}/history")
    assert "it must be a year and a month" in eve.go(f"{CUSTOMERS}/{ids['acme']}?month=soon")


def test_a_price_of_the_plan_stands_instead_of_its_templates(world, eve, ids):
    configure(
        world.home.organization,
        pricings=[
            {
                "code": "for-everybody",
                "planTemplateId": "cloud",
                "aggregationId": "sent",
                "startDate": "2026-01-01T00:00:00Z",
                "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 9}],
            }
        ],
    )
    eve.go(f"{CUSTOMERS}/{ids['acme']}")

    assert "above 100" in eve.text
    assert "9.00" not in eve.text


def test_a_thing_of_another_customer_is_not_found_with_this_one(eve, ids):
    eve.go(f"{CUSTOMERS}/{ids['acme']}/plans")
    [own] = re.findall(rf'href="({CUSTOMERS}/{ids["acme"]}/plans/[0-9a-f-]{{36}})"', eve.page.text)

    eve.go(own)
    assert eve.page.status_code == 200
    eve.go(own.replace(ids["acme"], ids["bolt"]))
    assert eve.page.status_code == 404
    for missing in ("shoes", "shoes/new", f"shoes/{ids['acme']}"):
        eve.go(f"{CUSTOMERS}/{ids['acme']}/{missing}")
        assert eve.page.status_code == 404


def test_a_list_of_things_is_a_file_too(eve, ids):
    eve.go(f"{CUSTOMERS}/{ids['acme']}/plans?format=csv")

    assert eve.page.headers["content-type"].startswith("text/csv")
    assert eve.page.text.splitlines()[0] == "Plan,From,Until,Who pays for children,Code,Id"
    assert eve.page.text.splitlines()[1].startswith("Basic (basic),2026-01-01T01:00:00+01:00")


# --- Changing -----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_customer_is_made_edited_attached_and_deleted(eve, ids):
    fields = {**ACCOUNT, "address.locality": "Kiel", "customFields.seats": "12.5"}
    assert "You made Cobalt" in fill(eve, f"{CUSTOMERS}/new", parentAccountId="acme", **fields)
    place = eve.path
    assert all(each in eve.text for each in ("Address Kiel", "12.5", "Parent Acme"))

    fill(eve, f"{place}/edit", **{"address.locality": "", "purchaseOrderNumber": "PO-9"})
    assert "You saved the customer." in eve.text
    assert "PO-9" in eve.text
    assert "Address Kiel" not in eve.text
    assert "12.5" in eve.text
    fill(eve, f"{place}/edit", parentAccountId="")
    assert "Parent Acme" not in eve.text
    fill(eve, f"{CUSTOMERS}/{ids['bolt']}/children/attach", child="Cobalt")
    assert "Cobalt is a child now" in eve.text
    fill(eve, f"{CUSTOMERS}/{ids['bolt']}/children/attach", child="Nobody AG")
    assert "there is no customer with the code or the name 'Nobody AG'" in eve.text
    assert 'value="Nobody AG"' in eve.page.text
    eve.go(f"{place}/edit")
    assert "You deleted Cobalt" in eve.press("delete")


def test_a_refused_form_comes_back_filled_in_with_the_reason(eve):
    fields = {**ACCOUNT, "code": "acme", "name": ATTACK}
    fill(eve, f"{CUSTOMERS}/new", **fields)
    assert eve.page.status_code == 409
    assert "acme" in eve.text
    assert ATTACK not in eve.page.text
    assert "&lt;script&gt;" in eve.page.text
    assert 'value="bills@cobalt.example"' in eve.page.text

    fill(eve, f"{CUSTOMERS}/new", **{**ACCOUNT, "parentAccountId": "nobody", "code": "c2"})
    assert "there is no customer with the code or the name 'nobody'" in eve.text
    fill(eve, f"{CUSTOMERS}/new", **{**ACCOUNT, "daysBeforeBillDue": "many", "code": "c2"})
    assert "daysBeforeBillDue" in eve.text


def test_an_edit_based_on_an_older_version_is_refused(eve, ids):
    path = f"{CUSTOMERS}/{ids['bolt']}/edit"
    eve.go(path)
    old = typed(eve.page.text, "save")
    fill(eve, path, name="Bolt Ltd")
    eve.go(path)
    eve.send({**old, "name": "Bolt Inc"})

    assert eve.page.status_code == 409
    assert "Bolt Inc" in eve.page.text


def test_a_plan_is_replaced_on_a_day_of_the_organization_and_ended(world, eve, ids):
    configure(
        world.home.organization,
        plans=[{"code": "large", "name": "Large", "planTemplateId": "cloud"}],
    )
    eve.go(f"{CUSTOMERS}/{ids['bolt']}/plans")
    [own] = re.findall(rf'href="({CUSTOMERS}/{ids["bolt"]}/plans/[0-9a-f-]{{36}})"', eve.page.text)
    eve.go(own)
    large = choose(eve.page.text, "planId", "Large (large)")
    eve.send({"action": "replace", "planId": large, "startDate": "2027-03-01"})

    assert "The new plan begins where the other one ends" in eve.text
    assert 'title="2027-02-28 23:00:00 UTC"' in eve.page.text
    fill(eve, eve.path, "end", endDate="2027-12-31")
    assert "The plan ends then" in eve.text
    assert 'title="2027-12-31 23:00:00 UTC"' in eve.page.text
    assert 'name="endDate" type="date" value="2027-12-31"' in eve.page.text
    assert "You deleted the plan" in eve.press("delete")


def test_what_a_customer_has_ends_together(eve, ids):
    contract = {"name": "Ends", "startDate": "2026-01-01", "endDate": "2029-12-31"}
    fill(eve, f"{CUSTOMERS}/{ids['acme']}/contracts/new", **contract)
    place = eve.path
    fill(eve, f"{CUSTOMERS}/{ids['acme']}/edit", "leave", endDate="2028-06-30", CONTRACT="yes")
    assert "entities end at 2028-06-30T22:00:00Z" in eve.text
    eve.go(place)
    assert 'name="endDate" type="date" value="2028-06-30"' in eve.page.text
    eve.press("delete")
    fill(eve, f"{CUSTOMERS}/{ids['acme']}/edit", "leave", endDate="2028-06-30")
    assert "billingEntities" in eve.text
    assert eve.page.status_code == 400


@pytest.mark.long
def test_a_balance_and_a_commitment_pay_for_some_products_and_lines(world, eve, ids):
    with world.home.organization.reading() as reader:
        [product, *_] = [each.id for each in reader.all(Product)]
    times = {"currency": "USD", "startDate": "2026-01-01", "endDate": "2028-12-31"}
    only = {"productIds": product, "lineItemTypes": "USAGE"}
    kinds = {
        "balances": {"name": "Some", "code": "some", **times, **only},
        "commitments": {"amount": "10", **times, **only},
    }
    for kind, fields in kinds.items():
        fill(eve, f"{CUSTOMERS}/{ids['acme']}/{kind}/new", **fields)
        place = eve.path
        assert f'value="{product}" checked' in eve.page.text
        assert 'value="USAGE" checked' in eve.page.text
        fill(eve, place, productIds="", description="again")
        eve.go(place)
        assert 'name="productIds"' in eve.page.text
        assert f'value="{product}" checked' not in eve.page.text
        assert 'value="USAGE" checked' in eve.page.text
        eve.press("delete")


def test_a_balance_is_made_and_topped_up_and_the_opposite_takes_it_back(eve, ids):
    # The currency is that of the customer's bills, without a choice.
    eve.go(f"{CUSTOMERS}/{ids['acme']}/balances/new")
    assert eve.fields("save")["currency"] == ["USD"]
    fields = {
        "name": "Ahead",
        "code": "ahead",
        "startDate": "2026-01-01",
        "endDate": "2028-12-31",
    }
    fill(eve, f"{CUSTOMERS}/{ids['acme']}/balances/new", **fields)
    assert "You made the balance" in eve.text
    # Empty, it also pays for bills that exist already.
    assert eve.fields("book")["appliedDate"] == [""]
    assert "Day of the payment For your records; no bill depends on it." in eve.text
    assert "Currency of the payment That of the balance" in eve.text
    fill(eve, eve.path, "book", amount="0")
    assert "it must not be zero" in eve.text
    days = {"transactionDate": "2026-01-31", "appliedDate": "2026-02-01"}
    fill(eve, eve.path, "book", amount="100,10", description="Transfer 7", **days)
    assert "You booked it" in eve.text
    assert "Last day" not in eve.text.partition("Edit")[0]
    assert "Until Dec 31, 2028" in eve.text
    assert re.search(r"Left \$?100\.10", eve.text)
    assert "Feb 1, 2026 Transfer 7 paid on Jan 31, 2026 Ada Lovelace 100.10" in eve.text
    fill(eve, eve.path, "book", amount="much")
    assert "amount" in eve.text
    assert 'value="much"' in eve.page.text
    place = eve.path
    fill(eve, place, "book", amount="-100.10")
    assert re.search(r"Left 0\.00", eve.go(place))


def test_what_a_balance_loses_at_its_end_is_called_so_and_stays(eve, ids):
    """Prepaid money that comes late expires; a later last day gives it back, and all of it is shown."""
    own = f"{CUSTOMERS}/{ids['acme']}"
    times = {"startDate": "2026-01-01", "endDate": "2026-06-30"}
    fields = {"name": "Lapsed", "code": "lapsed", "currency": "USD", **times}
    fill(eve, f"{own}/balances/new", **fields)
    place = eve.path
    fill(eve, place, "book", amount="500", description="Transfer 8")

    assert "after the last day" not in eve.text
    fill(eve, place, "book", amount="7", appliedDate="2026-07-01")
    assert "It counts from Jul 1, 2026, after the last day of the balance, Jun 30, 2026" in eve.text
    fill(eve, place, "book", amount="-7", appliedDate="2026-07-01")

    expired = "Expired: the balance ended on 30 Jun 2026 balance ends -500.00"
    assert expired in eve.go(place)
    assert "Jan 1, 2026 Transfer 8 Ada Lovelace 500.00" in eve.text
    assert "Jul 1, 2026 Top-up Ada Lovelace 7.00" in eve.text
    assert "Jul 1, 2026 Taken out Ada Lovelace -7.00" in eve.text
    assert re.search(r"Left 0\.00", eve.text)
    assert re.search(r"Lapsed lapsed Jan 1, 2026 Jun 30, 2026 0\.00", eve.go(f"{own}/balances"))

    fill(eve, place, endDate="2028-12-31")
    assert re.search(r"Left 500\.00", eve.go(place))
    assert expired in eve.text
    assert f"Taken back: {expired.replace('-', '')}" in eve.text
    assert re.search(r"Balance holds: Lapsed 500\.00", eve.go(f"{own}/history"))
    assert re.search(r"Balance holds: Lapsed 0\.00", eve.text)
    log = eve.go("/console/access/log")
    assert "Expired" in log
    assert "Expiry reversed" in log


def test_a_bill_that_a_top_up_could_change_is_named_until_it_is_calculated(tmp_path):
    # A home of its own: the top-up pays the bill.
    with a_console(tmp_path) as own:
        own.join("eve@example.com", allow())
        eve = own.browser("eve@example.com")
        with own.home.organization.reading() as reader:
            [acme] = [each.id for each in reader.all(Account) if each.entity.code == "acme"]
        times = {"startDate": "2026-01-01", "endDate": "2028-12-31"}
        fields = {"name": "Ahead", "code": "ahead", "currency": "USD", **times}
        fill(eve, f"{CUSTOMERS}/{acme}/balances/new", **fields)
        place = eve.path
        assert "Bills to calculate again" not in eve.text
        fill(eve, place, "book", amount="5")

        assert "1 bill waits to be calculated again: see below." in eve.text
        assert "Calculate the bill of Oct 1, 2026 again : 73.50 USD Pending" in eve.text
        [bill] = re.findall(r'href="(/console/bills/[^"]*)#actions"', eve.page.text)
        changed = "What is left of the customer's balances and commitments changed"
        assert changed in eve.go(bill)
        eve.press("recalculate")
        run_bill_job(own.home.stores, eve.path.rpartition("/")[2])
        assert changed not in eve.go(bill)
        assert "68.50" in eve.text
        # As in the document, what was paid ahead stands at the end, by its name.
        titles = re.findall(r"<h3>([^<]*) <span", eve.page.text)
        assert titles == ["Cloud", "Prepayments and commitments applied"]
        assert "Bills to calculate again" not in eve.go(place)
        assert f'href="{bill}">Bill of <time' in eve.page.text
        assert "Bill of Sep 1, 2026 to Sep 30, 2026" in eve.text
        assert not eve.offers("delete")
        assert "Delete the balance" not in eve.text


@pytest.mark.parametrize(
    ("kind", "fields", "shown"),
    [
        (
            "commitments",
            {
                "amount": "1200",
                "currency": "USD",
                "startDate": "2026-01-01",
                "endDate": "2026-12-31",
            },
            "1,200.00",
        ),
        (
            "contracts",
            {"name": "Frame", "startDate": "2026-01-01", "endDate": "2026-12-31"},
            "Frame",
        ),
        (
            "charges",
            {
                "name": "Set-up",
                "code": "set-up",
                "currency": "USD",
                "amount": "-12.5",
                "servicePeriodStartDate": "2026-11-01",
                "servicePeriodEndDate": "2026-11-30",
            },
            "-12.50",
        ),
    ],
)
def test_each_thing_is_made_shown_saved_and_deleted(eve, ids, kind, fields, shown):
    fill(eve, f"{CUSTOMERS}/{ids['acme']}/{kind}/new", **fields)
    assert "You made the" in eve.text
    assert shown in eve.text
    place = eve.path
    assert shown in eve.go(f"{CUSTOMERS}/{ids['acme']}")
    eve.go(place)
    kept = typed(eve.page.text, "save")
    assert {name: kept[name] for name in fields} == fields
    assert "You saved the" in eve.send(kept)
    assert "You deleted the" in eve.press("delete")


# --- Who may do what ----------------------------------------------------------------------------


def test_who_may_only_read_is_offered_no_form(world, ids):
    reader = world.browser("reader@example.com")
    reader.go(f"{CUSTOMERS}/{ids['acme']}")
    assert reader.page.status_code == 200
    for words in ("Edit", "New balance", "Attach one", "New plan"):
        assert f">{words}<" not in reader.page.text, words
    reader.go(f"{CUSTOMERS}/{ids['acme']}/plans")
    [own] = re.findall(r'href="([^"]*/plans/[0-9a-f-]{36})"', reader.page.text)
    reader.go(own)
    assert not any(map(reader.offers, ("save", "delete", "end", "replace", "book")))
    body = {"csrf": reader.hidden()["csrf"], "action": "save", **ACCOUNT}
    reader.page = reader.client.post(f"{CUSTOMERS}/new", data=body)
    assert reader.page.status_code == 403
    assert reader.text.count("no permission") == 1


# --- Another price ------------------------------------------------------------------------------


def test_a_price_is_tried_on_two_months_before_it_is_saved_from_a_day_on(world, ids):
    eve = world.browser("eve@example.com")
    here = f"{CUSTOMERS}/{ids['bolt']}"
    eve.go(here)
    [place] = re.findall(rf'href="({here}/prices/[0-9a-f-]{{36}})"', eve.page.text)
    eve.go(place)
    assert "1 other customer has the plan now" in eve.text
    assert not eve.offers("save")
    bands = {
        "lowerLimit": ["0", "50", ""],
        "unitPrice": ["2", "0.125", ""],
        "fixedPrice": ["", "3", ""],
    }
    eve.send({"action": "try", "start": "2026-12-01", **bands})

    assert "What it would do to the bills of Bolt" in eve.text
    # This month has no usage: its standing charge stays as it is.
    assert "With the new price" in eve.text
    assert 'name="unitPrice" value="0.125"' in eve.page.text
    assert (
        "From Dec 1, 2026 : above 0 : 2.00 USD ; above 50 : 0.125 USD + 3.00 USD fixed" in eve.text
    )
    eve.go(place)
    eve.send({"action": "try", "start": "2026-12-01", **bands})
    held = typed(eve.page.text, "save")
    saved, _, _ = eve.page.text.partition('value="propose"')
    sent = {
        name: re.findall(rf'type="hidden" name="{name}" value="([^"]*)"', saved) for name in bands
    }
    eve.send({**held, **sent, "action": "save"})
    assert "You saved the price" in eve.text
    eve.go(place)
    assert 'title="2026-11-30 23:00:00 UTC"' in eve.page.text


def test_a_price_that_is_none_comes_back_with_the_reason(world, ids):
    eve = world.browser("eve@example.com")
    here = f"{CUSTOMERS}/{ids['acme']}"
    eve.go(here)
    [place] = re.findall(rf'href="({here}/prices/[0-9a-f-]{{36}})"', eve.page.text)[:1]
    eve.go(place)
    eve.send(
        {
            "action": "try",
            "start": "2026-12-01",
            "lowerLimit": "0",
            "unitPrice": ATTACK,
            "fixedPrice": "0",
        }
    )
    assert eve.page.status_code == 400
    assert "unitPrice" in eve.text
    assert ATTACK not in eve.page.text
    reader = world.browser("reader@example.com")
    reader.go(place)
    assert not reader.offers("save")


def test_the_list_is_sorted_by_a_column_and_all_of_it_is_a_file(eve):
    names = re.compile(r'<th scope="row"><a href="/console/customers/[^"]*">([^<]*)</a>')
    eve.go(f"{CUSTOMERS}?sort=name&order=ASC")
    rising = names.findall(eve.page.text)
    eve.go(f"{CUSTOMERS}?sort=name&order=DESC")

    assert len(rising) > 1
    assert names.findall(eve.page.text) == rising[::-1]
    eve.go(f"{CUSTOMERS}?sort=name&order=ASC&format=csv")
    assert [line.partition(",")[0] for line in eve.page.text.splitlines()[1:]] == rising
