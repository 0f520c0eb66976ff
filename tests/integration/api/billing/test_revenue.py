"""Revenue over HTTP: sums of bills by group, and in one currency by the organization's rates."""

import re
from decimal import Decimal

import httpx
import pytest

from meterlake.model.values import wire
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row, ndjson
from tests.organizations import Clock
from tests.served import served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Acme and bolt have a bill of August and one of September each."""
    with served(tmp_path_factory.mktemp("revenue") / "home") as found:
        home = Home(found.stores, found.org_id, Clock())
        currencies = [{"code": each, "name": each} for each in ("USD", "EUR")]
        rates = [{"from": "USD", "to": "EUR", "multiplier": Decimal("0.9")}]
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        price_egress(home)
        subscribe(home, "acme", "bolt")
        configure(
            found.organization,
            currencies=currencies,
            organizationConfig={"currency": "USD", "currencyConversions": rates},
        )
        rows = csv_row("1", "42.5") + csv_row("2", "200", "bolt")
        assert home.ingest("a.csv", HEADER + rows).rejected == 0
        bill(found.organization, Month(2026, 8))
        bill(found.organization, Month(2026, 9), approve=True)
        yield found


@pytest.fixture
def ask(server):
    with server.http() as http:

        def get(status=httpx.codes.OK, **query):
            found = http.get("/revenue", params=query)
            assert found.status_code == status, found.text
            return wire.loads(found.text)

        get.http = http
        yield get


def amounts(answer, *members):
    return [tuple(each.get(name) for name in members) for each in answer["data"]]


@pytest.mark.sees("GetRevenue")
def test_months_come_to_what_their_bills_come_to(ask):
    found = ask(startMonth="2026-08", endMonth="2026-09")
    bills = ask.http.get("/bills", params={"includeBillTotal": True}).text
    total = sum(Decimal(str(each["billTotal"])) for each in wire.loads(bills)["data"])

    assert [each["month"] for each in found["data"]] == ["2026-09", "2026-08"]
    assert sum(Decimal(each["billedAmount"]) for each in found["data"]) == total > 0
    september, august = found["data"]
    assert (september["draftAmount"], august["approvedAmount"]) == (0, 0)
    assert "reportingAmount" not in september


def test_groups_come_to_the_same_as_the_month(ask):
    asked = {"startMonth": "2026-09", "endMonth": "2026-09"}
    [whole] = ask(**asked)["data"]
    customers = ask(**asked, groups="customer")
    products = ask(**asked, groups="product,customer")

    assert amounts(customers, "accountCode") == [("bolt",), ("acme",)]
    for found in (customers, products):
        assert sum(Decimal(each["amount"]) for each in found["data"]) == whole["amount"]
    first = ask(**asked, groups="customer", pageSize=1)
    rest = ask(**asked, groups="customer", pageSize=1, nextToken=first["nextToken"])
    assert amounts(first, "accountCode") + amounts(rest, "accountCode") == [("bolt",), ("acme",)]
    assert "nextToken" not in rest
    acme = customers["data"][1]["accountId"]
    assert amounts(ask(**asked, groups="customer", accountIds=acme), "accountCode") == [("acme",)]


def test_amounts_are_converted_where_there_is_a_rate(ask):
    asked = {"startMonth": "2026-09", "endMonth": "2026-09"}
    euro = ask(**asked, reportingCurrency="EUR")
    krona = ask(**asked, reportingCurrency="SEK")

    [row] = euro["data"]
    assert row["reportingAmount"] == round(Decimal(row["amount"]) * Decimal("0.9"), 2)
    assert euro["missingRates"] == []
    assert krona["missingRates"] == ["USD"]
    assert "reportingAmount" not in krona["data"][0]
    assert ask(**asked, currency="EUR")["data"] == []


@pytest.mark.sees("GetMargins")
def test_margins_are_revenue_less_what_measures_cost(tmp_path):
    fields = [
        {"category": "MEASURE", "code": "n", "name": "Jobs"},
        {"category": "COST", "code": "paid", "name": "Paid", "unit": "USD"},
    ]
    work = {"code": "work", "name": "Work", "dataFields": fields, "derivedFields": []}
    with served(tmp_path / "home") as found, found.http() as http:
        home = Home(found.stores, found.org_id, Clock())
        asked = {"month": "2026-09", "group": "customer"}
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        price_egress(home)
        subscribe(home, "acme", "bolt")
        none = wire.loads(http.get("/revenue/margins", params=asked).text)
        configure(found.organization, meters=[work])
        rows = csv_row("1", "42.5") + csv_row("2", "200", "bolt")
        assert home.ingest("a.csv", HEADER + rows).rejected == 0
        paid = {"uid": "3", "meter": "work", "ts": "2026-09-05T00:00:00Z", "measure": {"n": 1}}
        costs = [{**paid, "account": "acme", "cost": {"paid": 12.25}}]
        assert home.ingest("b.ndjson", ndjson(costs)).rejected == 0
        bill(found.organization, Month(2026, 9))
        customers = wire.loads(http.get("/revenue/margins", params=asked).text)
        first = wire.loads(http.get("/revenue/margins", params={**asked, "pageSize": 1}).text)
        token = {**asked, "pageSize": 1, "nextToken": first["nextToken"]}
        rest = wire.loads(http.get("/revenue/margins", params=token).text)
        products = wire.loads(http.get("/revenue/margins", params={"month": "2026-09"}).text)
        months = {"startMonth": "2026-09", "endMonth": "2026-09"}
        [whole] = wire.loads(http.get("/revenue", params=months).text)["data"]
        refused = http.get("/revenue/margins", params={**asked, "group": "month"})

    assert (none["measures"], none["data"]) == ([], [])
    assert customers["measures"] == [{"name": "Work: Paid", "unit": "USD", "isMeasured": True}]
    assert [each["accountCode"] for each in customers["data"]] == ["bolt", "acme"]
    assert customers["data"][1]["cost"] == Decimal("12.25")
    assert first["data"] + rest["data"] == customers["data"]
    for answer in (customers, products):
        [total] = answer["totals"]
        assert total["revenue"] == whole["amount"]
        assert total["cost"] == Decimal("12.25")
        for each in (*answer["data"], total):
            assert each["margin"] == each["revenue"] - each["cost"]
        for name in ("revenue", "cost", "margin"):
            assert sum(Decimal(each[name]) for each in answer["data"]) == total[name]
    assert refused.status_code == httpx.codes.BAD_REQUEST


@pytest.mark.parametrize(
    "query",
    [
        {"groups": "weather"},
        {"startMonth": "2026-13"},
        {"startMonth": "2026-10", "endMonth": "2026-09"},
        {"startMonth": "1990-01", "endMonth": "2026-09"},
    ],
)
def test_what_is_no_question_is_refused(ask, query):
    ask(httpx.codes.BAD_REQUEST, **query)


def test_what_a_prepayment_pays_is_revenue_in_the_ledger_and_here(tmp_path):
    with served(tmp_path / "home") as found, found.http() as http:
        home = Home(found.stores, found.org_id, Clock())
        times = {
            "currency": "USD",
            "startDate": "2026-01-01T00:00:00Z",
            "endDate": "2027-01-01T00:00:00Z",
        }
        configure(
            found.organization,
            meters=[EGRESS],
            accounts=ACCOUNTS,
            currencies=[{"code": "USD", "name": "USD"}],
            balances=[{"code": "ahead", "name": "Ahead", "accountId": "acme", **times}],
            charges=[
                {
                    "code": "fee",
                    "name": "Fee",
                    "accountId": "acme",
                    "currency": "USD",
                    "entityType": "BALANCE",
                    "entityId": "ahead",
                    "lineItemType": "BALANCE_FEE",
                    "amount": 30,
                    "billDate": "2026-09-10",
                    "servicePeriodStartDate": "2026-09-01T00:00:00Z",
                    "servicePeriodEndDate": "2026-10-01T00:00:00Z",
                }
            ],
        )
        price_egress(home)
        subscribe(home, "acme", "bolt")
        rows = csv_row("1", "42.5") + csv_row("2", "200", "bolt")
        assert home.ingest("a.csv", HEADER + rows).rejected == 0
        asked = {"startMonth": "2026-09", "endMonth": "2026-09"}

        def revenue(**groups):
            return wire.loads(http.get("/revenue", params=asked | groups).text)["data"]

        bill(found.organization, Month(2026, 9))
        [before] = revenue()
        [balance] = wire.loads(http.get("/balances").text)["data"]
        paid = {"amount": 2, "appliedDate": "2026-01-01T00:00:00Z"}
        assert http.post(f"/balances/{balance['id']}/transactions", json=paid).is_success
        bill(found.organization, Month(2026, 9))
        [after] = revenue()

        # A debit that somebody puts on a bill is in each of the groups.
        ids = [each["id"] for each in wire.loads(http.get("/bills").text)["data"]]
        made = [wire.loads(http.get(f"/bills/{each}").text) for each in ids]
        first, line = next(
            (each, line) for each in made for line in each["lineItems"] if line.get("productId")
        )
        debit = {
            "amount": 5,
            "productId": line["productId"],
            "accountingProductId": line["productId"],
            "referencedBillId": first["id"],
            "referencedLineItemId": line["id"],
            "description": "late",
            "servicePeriodStartDate": "2026-09-01T00:00:00Z",
            "servicePeriodEndDate": "2026-10-01T00:00:00Z",
        }
        assert http.post(f"/bills/{first['id']}/debitlineitems", json=debit).is_success
        [debited] = revenue()
        bills = wire.loads(http.get("/bills", params={"includeBillTotal": True}).text)["data"]
        total = sum(Decimal(each["billTotal"]) for each in bills)
        by_product, by_customer = revenue(groups="product"), revenue(groups="customer")
        ledger = http.get("/ledger/beancount").text

    booked = re.findall(r"Income:Revenue:\S+  (-?[\d.]+) USD", ledger.partition(" open ")[0])
    drawn = -sum(map(Decimal, booked))
    assert drawn == after["drawnAmount"] == 2
    assert before["amount"] == after["amount"]
    assert after["chargedAheadAmount"] == before["chargedAheadAmount"] == 30
    assert before["billedAmount"] - after["billedAmount"] == 2
    assert debited["amount"] - after["amount"] == 5
    assert debited["billedAmount"] == total == debited["amount"] - 2 + 30
    assert after["draftAmount"] == after["amount"]
    for rows in (by_product, by_customer):
        for member in ("amount", "billedAmount", "drawnAmount", "chargedAheadAmount"):
            assert sum(Decimal(each[member]) for each in rows) == debited[member], member
