"""Revenue over HTTP, as a command and as a page: what bills come to, in groups."""

import json
import re
from decimal import Decimal

import httpx
import pytest
from argon2 import PasswordHasher

from meterlake.cli import run
from meterlake.console.revenue import (
    Cost,
    changes,
    concentration,
    margins_by_product,
    measured,
    share,
)
from meterlake.model.values.period import Month
from meterlake.pipeline.access import login
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.month import read_month_bills
from tests.console_world import CONSOLE, MONTH, a_console
from tests.homes import configure, ndjson
from tests.people import allow, deny

REVENUE = f"{CONSOLE}/revenue"


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with a_console(tmp_path_factory.mktemp("console")) as found:
        bill(found.home.organization, Month.parse(MONTH), approve=True, accounts=["acme"])
        found.join("ada@example.com", allow())
        found.join("catalog@example.com", allow("config:retrieve", "config:product/*"))
        yield found


def revenue(world, capsys, *arguments):
    asked = ["revenue", *arguments, "--home", str(world.home.stores.home), "--json"]
    assert run(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    return [json.loads(each, parse_float=Decimal, parse_int=Decimal) for each in lines]


def test_a_month_is_what_its_bills_come_to_and_what_of_it_is_approved(world, capsys):
    [total] = revenue(world, capsys, "--month", MONTH)
    customers = revenue(world, capsys, "--by", "customer", "--month", MONTH)
    products = revenue(world, capsys, "--by", "product", "--month", MONTH)

    assert (total["month"], total["count"]) == (MONTH, 2)
    approved = {each["accountCode"]: each["approvedAmount"] for each in customers}
    assert approved["bolt"] == 0
    assert total["approvedAmount"] == approved["acme"] > 0
    assert total["draftAmount"] == total["amount"] - total["approvedAmount"]
    # The largest comes first, and the groups come to the same.
    amounts = [each["amount"] for each in customers]
    assert amounts == sorted(amounts, reverse=True)
    assert sum(amounts) == sum(each["amount"] for each in products) == total["amount"]


def test_groups_that_there_are_not_are_refused(world, capsys):
    assert run(["revenue", "--by", "weather", "--home", str(world.home.stores.home)]) == 1
    assert "--by" in capsys.readouterr().err


def test_the_page_shows_totals_shares_and_changes(world):
    ada = world.browser("ada@example.com")
    ada.go(f"{REVENUE}?month={MONTH}")

    assert "Revenue of September 2026" in ada.text
    assert "2 customers have bills." in ada.text
    assert re.search(r"The largest has [\d.]+ % of USD\.", ada.text)
    assert "Largest changes since August 2026" in ada.text
    assert "Calls: Our cost none nothing was measured" in ada.text
    assert (
        '<svg viewBox="0 0 800 240" role="img" aria-label="Revenue by month in USD"'
        in ada.page.text
    )
    assert "Nothing was billed" in ada.go(f"{REVENUE}?month=2020-01")


def test_a_currency_without_a_rate_is_said_and_in_no_sum(world):
    ada = world.browser("ada@example.com")
    ada.go(f"{REVENUE}?month={MONTH}&reporting=SEK")

    assert "There is no rate from USD to SEK" in ada.text


def test_tables_are_downloaded(world):
    ada = world.browser("ada@example.com")
    ada.page = ada.client.get(f"{REVENUE}?month={MONTH}&format=csv&table=customer")
    head, *rows = ada.page.text.splitlines()

    assert ada.page.headers["content-type"].startswith("text/csv")
    assert head.startswith("accountCode,accountName,currency,amount")
    assert {each.partition(",")[0] for each in rows} == {"acme", "bolt"}


def test_who_may_not_read_all_bills_sees_no_revenue(world):
    catalog = world.browser("catalog@example.com")
    catalog.go(REVENUE)
    assert catalog.page.status_code == httpx.codes.FORBIDDEN
    world.join(
        "some@example.com",
        allow("config:retrieve"),
        deny("config:retrieve", "config:bill/item/0b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b11"),
    )
    some = world.browser("some@example.com")
    some.go(REVENUE)
    assert some.page.status_code == httpx.codes.FORBIDDEN


def row(account, amount, currency="USD", **more):
    return {"accountId": account, "amount": Decimal(amount), "currency": currency, **more}


def test_amounts_of_several_currencies_are_one_only_by_rates():
    rows = [row("a", "1", "USD", reportingAmount=Decimal("0.9")), row("a", "7", "SEK")]

    assert [(each["unit"], each["value"]) for each in measured(rows, "EUR")] == [
        ("EUR", Decimal("0.9"))
    ]
    assert [each["unit"] for each in measured(rows, None)] == ["USD", "SEK"]


def test_changes_have_the_largest_first_also_of_who_came_or_left():
    now = measured([row("a", "10"), row("new", "3")], None)
    before = measured([row("a", "11"), row("gone", "5")], None)
    found = changes(now, before)["USD"]

    assert [(each.row["accountId"], each.difference) for each in found] == [
        ("gone", Decimal(-5)),
        ("new", Decimal(3)),
        ("a", Decimal(-1)),
    ]


def test_concentration_is_the_share_of_the_largest():
    rows = measured([row(str(number), amount) for number, amount in enumerate("6211")], None)

    assert concentration(rows) == {"USD": [(1, Decimal("60.0"))]}
    assert share(Decimal(1), Decimal(0)) is None


def test_the_margin_of_a_product_is_its_bills_less_the_costs_of_its_own_meters(tmp_path):
    spent = {"acme": Decimal("12.25"), "bolt": Decimal("7.75")}
    fields = [
        {"category": "MEASURE", "code": "n", "name": "Jobs"},
        {"category": "COST", "code": "paid", "name": "Paid", "unit": "USD"},
    ]
    work = {"code": "work", "name": "Work", "productId": "cloud", "dataFields": fields}
    with a_console(tmp_path) as found:
        organization = found.home.organization
        configure(organization, meters=[{**work, "derivedFields": []}])
        rows = [
            {
                "uid": f"cost-{account}",
                "meter": "work",
                "account": account,
                "ts": "2026-09-05T00:00:00Z",
                "measure": {"n": 1},
                "cost": {"paid": float(amount)},
            }
            for account, amount in spent.items()
        ]
        assert found.home.ingest("costs.ndjson", ndjson(rows)).rejected == 0
        found.join("ada@example.com", allow())
        ada = found.browser("ada@example.com")
        ada.go(f"{REVENUE}?month={MONTH}")

        # What it comes to by the lines that are stored, and by what was sent.
        with organization.reading() as reader:
            bills_of_month = [
                bills.get(reader, each.id) for each in read_month_bills(reader, MONTH)
            ]
        lines = [line.body for each in bills_of_month for line in each.content.lines]
        billed = sum(
            Decimal(each["convertedSubtotal"]) for each in lines if each["productCode"] == "cloud"
        )
        cost = sum(spent.values())
        left = billed - cost
        part = (left * 100 / billed).quantize(Decimal("0.1"))
        numbers = [f"{each:,.2f} USD" for each in (billed, cost, left)]
        assert f"Cloud {' '.join(numbers)} {part} %" in ada.text


def test_costs_without_a_product_or_in_another_currency_are_in_no_margin():
    products = [{"unit": "USD", "productId": "p", "value": Decimal(100)}]
    costs = [
        Cost("a", "USD", "p", Decimal(30)),
        Cost("b", "USD", "p", Decimal("0.5")),
        Cost("of no product", "USD", None, Decimal(7)),
        Cost("in euros", "EUR", "p", Decimal(9)),
        Cost("nothing measured", "USD", "p", None),
        Cost("of a product without bills", "USD", "q", Decimal(4)),
    ]
    [margin] = margins_by_product(costs, products)
    assert (margin.cost, margin.left, margin.share) == (
        Decimal("30.5"),
        Decimal("69.5"),
        Decimal("69.5"),
    )
