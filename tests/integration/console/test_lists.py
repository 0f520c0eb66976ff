"""All lists of the console: each has an address, pages, filters, orders and a file."""

import csv
import importlib
import pkgutil
import re
from decimal import Decimal
from html import unescape
from typing import NamedTuple
from urllib.parse import urlencode

import pytest
from argon2 import PasswordHasher

from meterlake import console
from meterlake.console.app import ROUTES
from meterlake.console.shell import lists
from meterlake.model.customers.accounts import Account
from meterlake.pipeline.access import login
from tests.console_world import CONSOLE, a_console
from tests.homes import HEADER, configure, csv_row
from tests.people import allow


class Offered(NamedTuple):
    """What people narrow a list by, and what orders it; empty where the API has nothing."""

    filters: str
    orders: str


INVENTORY = {
    "access/groups/{type}": Offered("called", "name createdBy dtCreated"),
    "access/log": Offered("dateStart dateEnd createdBy kinds peopleOnly", "at"),
    "access/people": Offered("called", "lastName email"),
    "access/policies": Offered("called", "name dtLastModified"),
    "access/programs": Offered("called", "name createdBy dtCreated"),
    "backfills": Offered("status", "dtCreated"),
    "bills": Offered(
        "month customer currency above below status due",
        "accountCode billDate sequentialInvoiceNumber status approvedBy billTotal",
    ),
    "catalogue/aggregations": Offered(
        "called productId", "name code targetField aggregation unit dtLastModified lastModifiedBy"
    ),
    "catalogue/billGroupingKeys": Offered(
        "called archived", "name code exclusive archived dtLastModified lastModifiedBy"
    ),
    "catalogue/compoundAggregations": Offered(
        "called productId", "name code calculation unit dtLastModified lastModifiedBy"
    ),
    "catalogue/counterPricings": Offered(
        "called date planId planTemplateId",
        "startDate endDate cumulative dtLastModified lastModifiedBy",
    ),
    "catalogue/counters": Offered(
        "called productId", "name code unit dtLastModified lastModifiedBy"
    ),
    "catalogue/creditReasons": Offered(
        "called archived", "name code archived dtLastModified lastModifiedBy"
    ),
    "catalogue/currencies": Offered(
        "called archived",
        "name code maxDecimalPlaces roundingMode archived dtLastModified lastModifiedBy",
    ),
    "catalogue/debitReasons": Offered(
        "called archived", "name code archived dtLastModified lastModifiedBy"
    ),
    "catalogue/lookupTables": Offered("called", "name code dtLastModified lastModifiedBy"),
    "catalogue/meterGroups": Offered("called", "name dtLastModified lastModifiedBy"),
    "catalogue/meters": Offered("called productId", "name code dtLastModified lastModifiedBy"),
    "catalogue/planGroupLinks": Offered("planGroup plan", "dtLastModified lastModifiedBy"),
    "catalogue/planGroups": Offered(
        "called", "name code standingCharge minimumSpend dtLastModified lastModifiedBy"
    ),
    "catalogue/planTemplates": Offered(
        "called productId",
        "name code billFrequency standingCharge minimumSpend dtLastModified lastModifiedBy",
    ),
    "catalogue/plans": Offered("called productId", "name code dtLastModified lastModifiedBy"),
    "catalogue/pricings": Offered(
        "called date planId planTemplateId aggregationId",
        "startDate endDate cumulative dtLastModified lastModifiedBy",
    ),
    "catalogue/products": Offered("called", "name code dtLastModified lastModifiedBy"),
    "catalogue/proposals": Offered("status", "dtCreated"),
    "catalogue/statementDefinitions": Offered(
        "called", "name aggregationFrequency dtLastModified lastModifiedBy"
    ),
    "catalogue/transactionTypes": Offered(
        "called archived", "name code archived dtLastModified lastModifiedBy"
    ),
    "customers": Offered("called", "name code emailAddress currency purchaseOrderNumber dtCreated"),
    "customers/{id}/balances": Offered("called", "name code startDate endDate"),
    "customers/{id}/charges": Offered("called", "name code billDate amount units unitPrice"),
    "customers/{id}/children": Offered("called", "name code emailAddress"),
    "customers/{id}/commitments": Offered("date endDateStart endDateEnd", "startDate amount"),
    "customers/{id}/contracts": Offered(
        "called", "name code startDate endDate purchaseOrderNumber"
    ),
    "customers/{id}/plans": Offered("date called", "startDate endDate childBillingMode code"),
    "data-in/files": Offered("dateCreatedStart dateCreatedEnd", "dtCreated"),
    "data-in/late": Offered("period status", "dtFound"),
    "data-in/mappings": Offered("name", "name saved"),
    "data-in/sources": Offered(
        "nameContains since until status", "name received accepted rejected receivedAt finishedAt"
    ),
    "data-out/destinations": Offered(
        "called", "name code destinationType bucketName lastModifiedBy dtLastModified"
    ),
    "data-out/jobs": Offered("dateCreatedStart dateCreatedEnd status", "dateCreated"),
    "data-out/notifications": Offered(
        "called", "name code eventName active lastModifiedBy dtLastModified"
    ),
    "data-out/schedules": Offered(
        "called", "name code sourceType enabled lastModifiedBy dtLastModified"
    ),
    "data-out/webhooks": Offered("called", "name code url active lastModifiedBy dtLastModified"),
    "integrations": Offered("called", "name entityType createdBy dtCreated"),
    "rejected": Offered(
        "source meter uid since until delivery reason status", "reason meter name receivedAt"
    ),
    "runs": Offered("dateCreatedStart dateCreatedEnd kinds status", "dtCreated"),
}


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Tests of it read only."""
    with a_console(tmp_path_factory.mktemp("lists")) as found:
        configure(found.home.organization, features={"preview": True, "beta": True})
        found.join("list@example.com", allow())
        found.join("other@example.com")
        found.home.ingest("2.csv", HEADER + csv_row("listed"))
        with found.home.organization.transaction("test") as transaction:
            for number, name in enumerate(("delta", "Alpha", "charlie", "=bravo")):
                fields = {"name": name, "code": f"kin{number}", "emailAddress": "a@b.example"}
                transaction.create(Account.from_wire(fields))
        yield found


@pytest.fixture
def ada(world):
    return world.browser("list@example.com")


def addresses(customer):
    """The address of each page that may be a list, by its path."""
    kinds = ("plans", "balances", "commitments", "contracts", "charges")
    more = {
        "customers/{id}/children": f"customers/{customer}/children",
        **{f"customers/{{id}}/{each}": f"customers/{customer}/{each}" for each in kinds},
        "access/groups/{type}": "access/groups/user",
    }
    plain = {
        each.path.removeprefix(f"{CONSOLE}/")
        for each in ROUTES
        if "GET" in (getattr(each, "methods", None) or ())
    }
    left_out = {"sign-out", "components", "first-file"}
    return {**{each: each for each in plain if "{" not in each and each not in left_out}, **more}


def listings():
    """The titles of the lists that modules of the console declare."""
    names = [each.name for each in pkgutil.walk_packages(console.__path__, "meterlake.console.")]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    return {each.title for each in values if isinstance(each, lists.Listing)} - {"Example"}


FILE = "Download all as CSV"
# What a filter takes that is not one of some choices.
TYPED = {"date": "2026-09-01", "month": "2026-09", "search": "x", "text": "1", "number": "1"}


def filters_of(page):
    """The filters of a list, each with a value that it takes."""
    form = re.search(r'<form class="filter" method="get">.*?</form>', page, re.DOTALL)
    text = form[0] if form else ""
    found = {
        name: TYPED[type_] for name, type_ in re.findall(r'<input name="(\w+)" type="(\w+)"', text)
    }
    for select in re.findall(r"<select.*?</select>", text, re.DOTALL):
        [name] = re.findall(r'<select name="(\w+)"', select)
        found[name] = next(iter(re.findall(r'<option value="([^"]+)"', select)), "")
    return found


def orders_of(browser, address):
    """What orders a list, as it says when it is asked for something else; None if it is no list."""
    said = browser.go(f"{address}?sort=no-field")
    found = re.search(r"is none of its values; choose ([\w, ]+?) Nothing was changed", said)
    return found and found[1].replace(",", "").removeprefix("nothing")


@pytest.fixture(scope="module")
def found(world):
    """What each page that is a list offers, with a value of each filter and its title."""
    browser, offered = world.browser("list@example.com"), {}
    customer = browser.client.get(f"{CONSOLE}/search?q=acme").url.path.rpartition("/")[2]
    for path, place in addresses(customer).items():
        address = f"{CONSOLE}/{place}"
        browser.go(address)
        page = browser.page.text
        if browser.path == address and (orders := orders_of(browser, address)) is not None:
            titles = {unescape(each) for each in re.findall(r"<h1>([^<]*)</h1>", page)}
            offered[path] = (address, orders, filters_of(page), titles, page)
    return offered


def test_the_inventory_has_every_list_with_what_narrows_and_orders_it(found):
    assert {path: Offered(" ".join(each[2]), each[1]) for path, each in found.items()} == INVENTORY
    assert listings() <= {title for each in found.values() for title in each[3]}


@pytest.mark.long
@pytest.mark.parametrize("path", [path for path, each in INVENTORY.items() if each.orders])
def test_a_list_is_narrowed_in_each_of_its_orders(found, ada, path):
    address, orders, filters, _, page = found[path]
    for name in orders.split():
        for order in ("ASC", "DESC"):
            ada.go(f"{address}?{urlencode({**filters, 'sort': name, 'order': order})}")
            assert ada.page.status_code == 200, (name, order, ada.text)
            # Who narrows an ordered list keeps its order.
            assert f'<input type="hidden" name="sort" value="{name}">' in ada.page.text
        if FILE in page:
            # Its other order, where the list is in one of it already.
            head = re.escape(f'href="{address}?sort={name}&amp;order=')
            assert re.search(f'{head}(ASC|DESC)"', page)
    ada.go(f"{address}?sort={orders.split()[0]}&order=UP")
    assert ada.page.status_code == 400
    assert "order: 'UP' is none of its values; choose ASC, DESC" in ada.text


@pytest.mark.parametrize("path", INVENTORY)
def test_a_list_is_a_file_with_the_same_filters(found, ada, path):
    address, _, filters, _, page = found[path]
    ada.go(f"{address}?{urlencode({**filters, 'format': 'csv'})}")
    heads = next(csv.reader(ada.page.text.splitlines()))

    assert ada.page.status_code == 200
    assert ada.page.headers["content-type"] == "text/csv; charset=utf-8"
    assert len(heads) == len(set(heads)) > 2, heads
    # An empty one says how something comes here instead.
    assert FILE in page or "<tbody>" not in page.partition("<main")[2]


@pytest.mark.parametrize("path", ["access/log", "access/people", "data-in/sources", "customers"])
def test_a_list_in_the_order_of_time_turns_round_page_by_page(ada, found, monkeypatch, path):
    monkeypatch.setattr(lists, "_DOWNLOAD_PAGE", 1)
    address, orders = found[path][:2]
    newest, oldest = (
        ada.go(f"{address}?format=csv&sort={orders.split()[-1]}&order={order}")
        and ada.page.text.splitlines()[1:]
        for order in ("DESC", "ASC")
    )

    assert len(newest) > 1
    assert newest == oldest[::-1]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("runs?status=ENDED", "Status: 'ENDED' is none of its values; choose PENDING, "),
        ("bills?status=ENDED", "Status: 'ENDED' is none of its values; choose PENDING, "),
        ("bills/selection?status=ENDED", "Status: 'ENDED' is none of its values; choose PENDING, "),
        ("bills?month=2026-13", "it must be a year and a month such as 2026-10"),
        ("customers?sort=color", "sort: 'color' is none of its values; choose name, code, "),
        ("customers?page=x", "it must be the nextToken of the page before"),
        ("catalogue/pricings?date=never", "it must be a day or an instant"),
        ("runs?format=csv&status=ENDED", "Status: 'ENDED' is none of its values"),
    ],
)
def test_what_no_list_has_is_said_clearly(ada, query, said):
    ada.go(f"{CONSOLE}/{query}")

    assert ada.page.status_code == 400
    assert said in ada.text


def names(text):
    """The names in the rows of the list of customers."""
    return re.findall(r'<th scope="row"><a [^>]*>([^<]*)</a>', text)


def test_filters_and_the_order_stay_on_the_next_page_and_in_the_file(ada, monkeypatch):
    monkeypatch.setattr(lists, "PAGE", 2)
    monkeypatch.setattr(lists, "_DOWNLOAD_PAGE", 2)
    ada.go(f"{CONSOLE}/customers?called=KIN&sort=name&order=DESC")
    seen = names(ada.page.text)
    while following := re.search(r'rel="next" href="([^"]*)"', ada.page.text):
        assert len(seen) % 2 == 0
        ada.go(unescape(following[1]))
        seen += names(ada.page.text)
    ada.go(unescape(re.search(r'href="([^"]*format=csv[^"]*)"', ada.page.text)[1]))
    rows = list(csv.DictReader(ada.page.text.splitlines()))

    assert seen == ["delta", "charlie", "Alpha", "=bravo"]
    # No spreadsheet takes a name for a formula.
    assert [each["Name"] for each in rows] == ["delta", "charlie", "Alpha", "'=bravo"]
    assert len({each["Id"] for each in rows}) == 4


def test_a_file_has_ids_beside_the_names_and_numbers_digit_by_digit(ada):
    ada.go(f"{CONSOLE}/bills?format=csv&sort=billTotal")
    bills_ = list(csv.DictReader(ada.page.text.splitlines()))
    ada.go(f"{CONSOLE}/catalogue/meters?format=csv")
    meters = list(csv.DictReader(ada.page.text.splitlines()))

    assert [Decimal(each["Total"]) for each in bills_] == sorted(
        Decimal(each["Total"]) for each in bills_
    )
    for each in bills_:
        ada.go(f"{CONSOLE}/customers/{each['Account id']}")
        assert each["Name"] in ada.text
        assert f'href="{CONSOLE}/bills/{each["Id"]}"' in ada.page.text
    ada.go(f"{CONSOLE}/bills?sort=billTotal")
    totals = re.findall(r'<td class="number"><data class="number" value="([^"]*)"', ada.page.text)
    assert [Decimal(each["Total"]) for each in bills_] == [Decimal(each) for each in totals]
    assert all(each["By"] and each["By id"] for each in meters)


@pytest.mark.parametrize("path", ["access/people", "customers"])
def test_a_filter_finds_a_text_within_others_whatever_the_case(ada, path):
    ada.go(f"{CONSOLE}/{path}")
    whole = ada.page.text.count("<tr>")
    ada.go(f"{CONSOLE}/{path}?called={'THER@EX' if path == 'access/people' else 'LPH'}")

    assert " contains" in ada.text
    assert 2 <= ada.page.text.count("<tr>") < whole
