"""Revenue over HTTP, as a command and as a page: what bills come to, in groups."""

import csv
import io
import json
import re
from decimal import Decimal

import httpx
import pytest
from argon2 import PasswordHasher

from meterlake.cli import run
from meterlake.console.revenue import changes, concentration, measured, share
from meterlake.model.values.period import Month
from meterlake.pipeline.access import login
from meterlake.pipeline.billing.balances import balances
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.summaries import read_month_bills
from tests.bills import subscribe
from tests.console_world import CONSOLE, MONTH, a_console
from tests.homes import HEADER, configure, csv_row, ndjson
from tests.people import allow, deny
from tests.sent_bills import account_id, create, put_bill, top_up

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
    said = (
        "Largest changes since August 2026 There is nothing to compare: August 2026 has no bills."
    )
    assert said in ada.text
    assert "Calls: Our cost: nothing was measured in this month." in ada.text
    assert (
        '<svg viewBox="0 0 800 240" role="img" aria-label="Revenue by month in USD"'
        in ada.page.text
    )
    assert "Nothing was billed" in ada.go(f"{REVENUE}?month=2020-01")


def test_in_one_currency_the_cards_add_up_and_name_the_rates(tmp_path):
    with a_console(tmp_path) as found:
        rates = [{"from": "USD", "to": "EUR", "multiplier": Decimal("0.923")}]
        configure(
            found.home.organization,
            currencies=[{"code": each, "name": each} for each in ("USD", "EUR")],
            organizationConfig={"currencyConversions": rates},
        )
        top_up(found.home, "bolt", 50)
        bill(found.home.organization, Month.parse(MONTH))
        # Another bill is in euros.
        put_bill(found.home, account_id(found.home, "acme"), 9, 100, currency="EUR")
        found.join("ada@example.com", allow())
        ada = found.browser("ada@example.com")
        text = ada.go(f"{REVENUE}?month={MONTH}&reporting=EUR")
        answer = ada.client.get(f"{REVENUE}?month={MONTH}&reporting=EUR&format=csv&table=month")
    rows = list(csv.DictReader(io.StringIO(answer.text)))

    # 204.50 USD are 188.75 EUR, of which a balance paid 50 USD, or 46.15 EUR.
    assert "September 2026, EUR 288.75 EUR" in text
    assert "Billed, EUR 242.60 EUR" in text
    assert "Revenue less 46.15 EUR that balances and commitments paid" in text
    assert "Billed, USD" not in text
    assert "1 USD = 0.923 EUR: the organization's currency conversions of now" in text
    for each in rows:
        for prefix in ("", "reporting"):
            revenue, billed, drawn, ahead = (
                Decimal(each[(prefix + name)[:1].lower() + (prefix + name)[1:]])
                for name in ("Amount", "BilledAmount", "DrawnAmount", "ChargedAheadAmount")
            )
            assert revenue == billed + drawn - ahead


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


SPENT = {
    "acme": Decimal("12.25004"),
    "branch": Decimal("0.5"),
    "bolt": Decimal("7.75"),
    "euro": Decimal("3.125"),
    "idle": Decimal("9.004"),
}


def measure_costs(home):
    """Acme with a branch, and bolt have bills in dollars, euro in euros, and idle has no bill."""
    fields = [
        {"category": "MEASURE", "code": "n", "name": "Jobs"},
        {"category": "COST", "code": "paid", "name": "Paid", "unit": "USD"},
    ]
    work = {"code": "work", "name": "Work", "productId": "cloud", "dataFields": fields}
    configure(
        home.organization,
        currencies=[{"code": each, "name": each} for each in ("USD", "EUR")],
        organizationConfig={
            "currency": "USD",
            "currencyConversions": [
                {"from": "USD", "to": "EUR", "multiplier": Decimal("0.8")},
                {"from": "EUR", "to": "USD", "multiplier": Decimal("1.25")},
            ],
        },
        meters=[{**work, "derivedFields": []}],
        accounts=[
            {"code": "idle", "name": "idle", "emailAddress": "a@b.example"},
            {"code": "euro", "name": "Euro", "emailAddress": "a@b.example", "currency": "EUR"},
            {
                "code": "branch",
                "name": "Branch",
                "emailAddress": "a@b.example",
                "parentAccountId": "acme",
            },
        ],
    )
    subscribe(home, "euro")
    used = HEADER + csv_row("9", "80", "euro")
    rows = [
        {
            "uid": f"cost-{account}",
            "meter": "work",
            "account": account,
            "ts": "2026-09-05T00:00:00Z",
            "measure": {"n": 1},
            "cost": {"paid": float(amount)},
        }
        for account, amount in SPENT.items()
    ]
    assert home.ingest("used.csv", used).rejected == 0
    assert home.ingest("costs.ndjson", ndjson(rows)).rejected == 0
    bill(home.organization, Month.parse(MONTH))


def test_costs_stand_beside_the_revenue_of_exactly_their_customers(tmp_path, capsys):
    with a_console(tmp_path) as found:
        organization = found.home.organization
        measure_costs(found.home)
        found.join("ada@example.com", allow())
        ada = found.browser("ada@example.com")
        own = ada.go(f"{REVENUE}?month={MONTH}")
        exact = ada.page.text
        in_dollars = ada.go(f"{REVENUE}?month={MONTH}&reporting=USD")
        found.join("bills@example.com", allow("config:retrieve"))
        assert "Costs and margin" not in found.browser("bills@example.com").go(REVENUE)
        capsys.readouterr()
        told = revenue(found, capsys, "--margin", "--by", "customer", "--month", MONTH)
        refused = ["revenue", "--margin", "--by", "month", "--by", "product", "--month", MONTH]
        assert run([*refused, "--home", str(found.home.stores.home)]) == 1

        # What it comes to by the lines that are stored, and by what was sent.
        with organization.reading() as reader:
            made = [bills.get(reader, each.id) for each in read_month_bills(reader, MONTH)]
    billed = {"USD": Decimal(0), "EUR": Decimal(0)}
    for each in made:
        for line in each.content.lines:
            if line.body["productCode"] == "cloud":
                billed[each.content.currency] += Decimal(line.body["convertedSubtotal"])
    dollars = SPENT["acme"] + SPENT["branch"] + SPENT["bolt"]
    assert min(billed.values()) > 0

    # A child's costs are the parent's, who has the bill.
    costs = {each["accountCode"]: (each["cost"], each.get("margin")) for each in told}
    acme = SPENT["acme"] + SPENT["branch"]
    [revenue_of_acme] = [each["revenue"] for each in told if each["accountCode"] == "acme"]
    assert costs["acme"] == (acme, revenue_of_acme - acme)
    assert costs["euro"] == (0, None)

    def row(unit, customers, revenue, cost):
        left = revenue - cost
        part = (left * 100 / revenue).quantize(Decimal("0.1"))
        numbers = [f"{each:,.2f} USD" for each in (revenue, cost, left)]
        return f"Cloud {unit} {customers} {' '.join(numbers)} {part} %"

    assert row("USD", 3, billed["USD"], dollars) in own
    assert f'title="{dollars}"' in exact
    # Euros less dollars would be nothing: the page offers one currency.
    assert f"Cloud EUR 1 {billed['EUR']:,.2f} EUR 3.12 USD Compare in USD" in own
    assert "1 customer has costs in this month, and no bill to set them against." in own
    assert "idle 9.00 USD" in own
    whole = billed["USD"] + billed["EUR"] * Decimal("1.25")
    assert row("USD", 4, whole, dollars + SPENT["euro"]) in in_dollars
    assert (
        row("USD", 4, whole, dollars + SPENT["euro"]).replace("Cloud", "All of USD") in in_dollars
    )


def test_what_a_balance_pays_is_revenue_and_no_loss_of_no_product(tmp_path):
    times = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
    with a_console(tmp_path) as found:
        home = found.home
        ahead = create(
            home,
            "balances",
            code="ahead",
            name="Ahead",
            accountId=account_id(home, "acme"),
            currency="USD",
            **times,
        )
        found.join("ada@example.com", allow())
        ada = found.browser("ada@example.com")
        ada.go(f"{REVENUE}?month={MONTH}")
        [before] = re.findall(r"September 2026, USD ([\d.,]+ USD)", ada.text)
        balances.create_transaction(
            home.organization,
            "test",
            ahead["id"],
            {"amount": Decimal(2), "appliedDate": times["startDate"]},
        )
        bill(home.organization, Month.parse(MONTH))
        page = ada.go(f"{REVENUE}?month={MONTH}")
        month = ada.go(f"{CONSOLE}/months/{MONTH}")

    billed = f"{Decimal(before.removesuffix(' USD').replace(',', '')) - 2:,.2f} USD"
    assert f"September 2026, USD {before}" in page
    assert f"Billed, USD {billed} Revenue less 2.00 USD that balances and commitments paid" in page
    assert "No product" not in page
    assert f"{billed} 2 bills" in month
    assert f"Billed: balances and commitments paid 2.00 USD . Revenue is {before} ." in month
