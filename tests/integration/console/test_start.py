"""From nothing to a first bill, in the console."""

import re
import time
from decimal import Decimal

import pytest
from argon2 import PasswordHasher

from meterlake.model.catalog.plans import Plan, Pricing
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.values.period import Month
from meterlake.pipeline.access import login
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.ingest.segments import ingest_segments
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
    ada.go(CONSOLE)

    assert ada.path == f"{CONSOLE}/start"
    assert "From nothing to a first bill" in ada.text
    assert ada.offers("sample")


@pytest.mark.long
def test_the_sample_leads_to_its_month(world):
    ada = world.browser("ada@example.com")
    ada.go(CONSOLE)
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


FILE = """Customer;Date;Requests
Acme;2026-10-01;120
Bolt & Söhne;2026-10-03T09:30:00+02:00;75.5
Acme;2026-10-31T23:59:59;0.25
"""


def choose(browser, text, name="usage.csv"):
    browser.go(f"{CONSOLE}/start/file")
    hidden = browser.hidden("read")
    browser.page = browser.client.post(
        f"{CONSOLE}/start/file", data=hidden, files={"file": (name, text.encode())}
    )
    return browser.text


def make(browser, **fields):
    chosen = {"customer": "Customer", "time": "Date", "quantity": "Requests"}
    price = {"what": "API requests", "unit": "request", "price": "0.02", "currency": "USD"}
    return browser.press("make", **{**chosen, **price, **fields})


def arrive(organization):
    """Ingest what was submitted, as the worker does."""
    folder = organization.segment_folder
    while any(folder.open.iterdir()) or folder.waiting():
        ingest_segments(organization)
        time.sleep(0.02)


def test_a_file_becomes_a_bill(world):
    ada, organization = world.browser("ada@example.com"), world.home.organization
    choose(ada, FILE)
    assert re.findall('value="([^"]*)" selected', ada.page.text)[:3] == [
        "Customer",
        "Date",
        "Requests",
    ]
    make(ada)
    assert ada.path == f"{CONSOLE}/months/2026-10"
    assert "Accepted 3 rows of 2 customers" in ada.text
    arrive(organization)
    bill(organization, Month.parse("2026-10"))
    ada.go(f"{CONSOLE}/bills?month=2026-10")

    rows = re.findall(r"<tr>.*?</tr>", ada.page.text, flags=re.DOTALL)
    totals = {
        code: re.search(r'class="number" value="([^"]*)"', row)[1]
        for row in rows
        for code in re.findall(r">(acme|bolt-sohne)<", row)
    }
    # Of a cent each hundred: 120.25 and 75.5 at 0.02.
    assert {code: Decimal(total) for code, total in totals.items()} == {
        "acme": Decimal("2.41"),
        "bolt-sohne": Decimal("1.51"),
    }


def test_a_price_is_typed_as_the_language_writes_it(world):
    ada = world.browser("ada@example.com")
    ada.client.headers["Accept-Language"] = "de"
    choose(ada, FILE)
    assert "Such as 0,02" in ada.text
    for price, told in (("1.234", "it may mean 1,234 or 1234"), ("-0,02", "it must be 0 or more")):
        make(ada, price=price)
        assert told in ada.text
    # The customers have this price already, or get it now.
    make(ada, price="0,02")
    assert "Accepted 3 rows of 2 customers" in ada.text


@pytest.mark.long
def test_the_same_file_again_counts_once(world):
    ada, organization = world.browser("ada@example.com"), world.home.organization
    for _ in range(2):
        choose(ada, FILE)
        make(ada)
        arrive(organization)

    with organization.reading() as reader:
        assert len(list(reader.all(Account))) == 2
        assert len(list(reader.all(AccountPlan))) == 2
        assert len(list(reader.all(Pricing))) == 1
    with organization.lake.reader() as connection:
        assert connection.execute("SELECT count(*) FROM lake.uid_index").fetchone() == (3,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a file that you choose"),
        ("only,a,head", "a head line and rows below it"),
        ("a,a\n1,2", "a name of its own"),
        ("a,b\n1", "line 2"),
    ],
)
def test_a_file_that_cannot_be_read_is_said_on_its_page(world, text, said):
    ada = world.browser("ada@example.com")
    choose(ada, text)

    assert ada.page.status_code == 400
    assert said in ada.text
    assert "Choose a file of usage" in ada.text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"time": "Customer"}, "line 2: 'Acme'"),
        ({"quantity": "Date"}, "line 2: '2026-10-01'"),
        ({"price": "-1"}, "price: '-1'"),
        ({"what": "…"}, "what: '…'"),
        ({"currency": "XXX"}, "currency"),
    ],
)
def test_what_is_wrong_comes_back_filled_in_and_makes_no_usage(world, fields, said):
    ada = world.browser("ada@example.com")
    choose(ada, FILE)
    make(ada, **fields)

    assert ada.page.status_code == 400
    assert said in ada.text
    assert "The first rows of 3" in ada.text
    with world.home.organization.reading() as reader:
        assert not any(reader.all(Account))


@pytest.mark.long
def test_a_second_file_has_a_price_of_its_own(world):
    ada, organization = world.browser("ada@example.com"), world.home.organization
    choose(ada, FILE)
    make(ada)
    choose(ada, FILE)
    make(ada, what="Storage", unit="GB", price="3")
    assert ada.path == f"{CONSOLE}/months/2026-10"
    arrive(organization)

    with organization.reading() as reader:
        assert {each.entity.code for each in reader.all(Plan)} == {"api-requests", "storage"}
        prices = {each.entity.pricing_bands[0].unit_price for each in reader.all(Pricing)}
        assert prices == {Decimal("0.02"), Decimal(3)}
        assert len(list(reader.all(Account))) == 2
        assert len(list(reader.all(AccountPlan))) == 4


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"price": "0.03"}, "price: 0.03 is not allowed: it must be 0.02"),
        ({"unit": "GB"}, "unit: 'GB' is not allowed: it must be request"),
        ({"currency": "EUR"}, "currency: 'EUR' is not allowed: it must be USD"),
    ],
)
def test_a_price_that_would_not_count_is_refused(world, fields, said):
    ada = world.browser("ada@example.com")
    choose(ada, FILE)
    make(ada)
    choose(ada, FILE + "Cato;2026-10-01;1\n")
    make(ada, **fields)

    assert ada.page.status_code == 400
    assert said in ada.text
    with world.home.organization.reading() as reader:
        assert "cato" not in {each.entity.code for each in reader.all(Account)}


@pytest.mark.long
def test_two_customers_never_become_one(world):
    ada = world.browser("ada@example.com")
    choose(ada, FILE + "\u00c4;2026-10-01;1\nA;2026-10-01;2\n")
    make(ada)
    assert ada.page.status_code == 400
    assert "line 6: 'A'" in ada.text
    assert "from '\u00c4'" in ada.text

    choose(ada, FILE + "\u00c4;2026-10-01;1\n")
    make(ada)
    choose(ada, FILE + "A;2026-10-01;1\n")
    make(ada)
    assert ada.page.status_code == 400
    assert "customer: 'A'" in ada.text
    assert "the code a, which '\u00c4' has" in ada.text
    choose(ada, FILE + "a;2026-10-01;1\n")
    make(ada)
    assert ada.path == f"{CONSOLE}/months/2026-10"
