"""Every type of line that a bill can have, in everything that shows lines of bills.

The cases are the members of `LineItemType`: one that is added fails here until each consumer says
what it is.
"""

import csv
import io
from collections.abc import Mapping
from contextlib import closing
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, get_args

import duckdb
import httpx
import pytest
from m3ter.types.bills import LineItemResponse

from meterlake.api.responses.bills import BillLineItemResponse
from meterlake.model.bills.bill import (
    LineItemType,
    ProductName,
)
from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.response import BillLineItem, BillResponse
from meterlake.model.catalog.catalog import Product
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance, BalanceTransaction, EntityType
from meterlake.model.customers.contracts import Commitment
from meterlake.model.values import wire
from meterlake.pipeline.billing.run import content_of
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from meterlake.pipeline.publish.run import publish
from meterlake.stages.export.exported_columns import BILL_COLUMNS, LINE_COLUMNS
from meterlake.stages.export.focus import CHARGES
from meterlake.stages.publish.views import BILL_PARTS
from meterlake.stores.state.billing.bills.batch import put_all
from meterlake.stores.state.billing.credits import balances, ledger
from meterlake.stores.state.billing.credits.balances import BookingCause
from meterlake.stores.state.billing.credits.ledger import BillConsumption, Consumption
from tests.bill_lines import a_bill, a_line, an_id, downloaded, exported
from tests.homes import ACCOUNTS, configure
from tests.served import served

FIRST = date(2026, 3, 1)
DAYS = {"startDate": "2026-03-01T00:00:00Z", "endDate": "2026-04-01T00:00:00Z"}
HELD, AGREED = Decimal(500), Decimal(1200)


class Expected(NamedTuple):
    """What is expected of a type of line.

    Attributes:
        amount: What its line adds to its bill.
        members: What only some lines have; `commitmentId` and `balanceId` are those of the home.
        focus: Category and frequency of FOCUS.
        part: The column of `bill_per_account` that has its amount.
        sold: The member that FOCUS shows as SKU.
    """

    amount: str
    members: Mapping[str, Any]
    focus: tuple[str, str]
    part: str
    sold: str | None = "planId"


USAGE = {"pricingId": an_id("pricing"), "meterId": an_id("meter")}
AGGREGATION = {**USAGE, "aggregationId": an_id("aggregation"), "segment": {"region": "eu"}}
COUNTER = {"counterId": an_id("counter"), "pricingId": an_id("pricing")}
CHARGE = {"chargeId": an_id("charge"), "contractId": an_id("contract")}
COMMITMENT, BALANCE = {"commitmentId": ""}, {"balanceId": ""}
CHILD = {"childAccountId": an_id("child"), "childAccountCode": "branch"}
MEMO = {
    "referencedBillId": an_id("earlier bill"),
    "referencedLineItemId": an_id("earlier line"),
    "reasonId": an_id("reason"),
}
PAID_ONCE, REPEATED = ("Purchase", "One-Time"), ("Purchase", "Recurring")
USED, CREDIT, ADJUSTMENT = (
    ("Usage", "Usage-Based"),
    ("Credit", "One-Time"),
    ("Adjustment", "One-Time"),
)
EXPECTED = {
    LineItemType.USAGE: Expected("10", AGGREGATION | CHILD, USED, "usage", "aggregationId"),
    LineItemType.COUNTER_RUNNING_TOTAL_CHARGE: Expected(
        "20", COUNTER, REPEATED, "counters", "counterId"
    ),
    LineItemType.COUNTER_ADJUSTMENT_DEBIT: Expected(
        "5", COUNTER, PAID_ONCE, "counters", "counterId"
    ),
    LineItemType.COUNTER_ADJUSTMENT_CREDIT: Expected(
        "-5", COUNTER, PAID_ONCE, "counters", "counterId"
    ),
    LineItemType.STANDING_CHARGE: Expected(
        "31", {"planGroupId": an_id("group")}, REPEATED, "standing_charge", "planGroupId"
    ),
    LineItemType.MINIMUM_SPEND: Expected("40", {}, REPEATED, "minimum_spend"),
    LineItemType.MINIMUM_SPEND_REFUND: Expected("-8", {}, REPEATED, "minimum_spend"),
    LineItemType.COMMITMENT_FEE: Expected("100", COMMITMENT, REPEATED, "fees", "commitmentId"),
    LineItemType.BALANCE_FEE: Expected("15", CHARGE | BALANCE, PAID_ONCE, "fees", "chargeId"),
    LineItemType.AD_HOC: Expected("7.5", CHARGE, PAID_ONCE, "ad_hoc", "chargeId"),
    LineItemType.USAGE_CREDIT: Expected(
        *("-3", {"compoundAggregationId": an_id("compound"), "pricingId": an_id("pricing")}),
        *(("Credit", "Usage-Based"), "credits", "compoundAggregationId"),
    ),
    LineItemType.COMMITMENT_CONSUMED: Expected(
        "-250", COMMITMENT, CREDIT, "consumed", "commitmentId"
    ),
    LineItemType.BALANCE_CONSUMED: Expected("-60", BALANCE, CREDIT, "consumed", "balanceId"),
    LineItemType.OVERAGE_SURCHARGE: Expected("1.5", COMMITMENT, USED, "usage", "commitmentId"),
    LineItemType.OVERAGE_USAGE: Expected("12", AGGREGATION, USED, "usage", "aggregationId"),
    LineItemType.CREDIT_MEMO: Expected("-9", MEMO, CREDIT, "memos"),
    LineItemType.DEBIT_MEMO: Expected("9", MEMO, ADJUSTMENT, "memos"),
    LineItemType.MANUAL_ADJUSTMENT: Expected("-2", MEMO, ADJUSTMENT, "memos"),
    LineItemType.CREDIT_DEDUCTION: Expected("-1", {}, CREDIT, "credits"),
}
KINDS = pytest.mark.parametrize("kind", LineItemType)
# What the API shows and exports do not, and why.
NOT_OF_BILLS = {
    "lineItems": "they are an export of their own",
    "billJobId": "a calculation that changes nothing changes no bill, and so no export of changes",
    "lastCalculatedDate": "the same",
    "jsonStatementGenerated": "statements are made apart from bills",
    "csvStatementGenerated": "the same",
    "statementStale": "the same",
    "recalculationDue": "a top-up changes no bill until it is calculated",
}
NOT_OF_LINES = {
    "jsonUsageGenerated": "deprecated, and always false",
    "usagePerPricingBand": "it is `bandUsage`, as where a line stands alone",
}


class World(NamedTuple):
    """A home with a bill of each type of line, and all that shows them."""

    server: Any
    account_id: str
    sources: Mapping[str, str]
    bills: Mapping[LineItemType, str]
    lines: Mapping[str, list[dict[str, Any]]]
    warehouse: Path

    def members(self, kind):
        return {
            name: self.sources.get(name, found) for name, found in EXPECTED[kind].members.items()
        }

    def line(self, of, kind, name="lineItemType"):
        [found] = [each for each in self.lines[of] if each[name] == kind]
        return found


def make_bills(organization):
    """Store a bill with one line for each type, and post what it draws."""
    with organization.transaction("test") as t:
        account = t.find(Account, "acme")
        product = t.find(Product, "cloud")
        [held], [agreed] = t.all(Balance), t.all(Commitment)
        balances.append(
            t, held, BalanceTransaction(amount=HELD), BookingCause(EntityType.USER, "test")
        )
        sources = {"balanceId": held.id, "commitmentId": agreed.id}
        name = ProductName(product.id, product.entity.name, product.entity.code)
        lines = [
            a_line(
                *(kind, EXPECTED[kind].amount, FIRST + timedelta(days=number), name),
                {each: sources.get(each, found) for each, found in EXPECTED[kind].members.items()},
            )
            for number, kind in enumerate(LineItemType)
        ]
        made = put_all(
            t, [content_of(a_bill(account.id, each)) for each in lines], BillStatus.APPROVED
        )
        ids = dict(zip(LineItemType, (each.bill_id for each in made), strict=True))
        draw(t, ids, sources)
    return account.id, sources, ids


def draw(transaction, ids, sources):
    drawn = {
        LineItemType.COMMITMENT_CONSUMED: (LedgerAccountType.COMMITMENT, "commitmentId"),
        LineItemType.BALANCE_CONSUMED: (LedgerAccountType.BALANCE, "balanceId"),
    }
    ledger.repost_bills(
        transaction,
        [
            BillConsumption(
                *(ids[kind], 1),
                [
                    Consumption(
                        LedgerAccount(type_, sources[name]), -Decimal(EXPECTED[kind].amount), "USD"
                    )
                ],
            )
            for kind, (type_, name) in drawn.items()
        ],
    )


def explored(http, path, **more):
    answer = http.post(f"/dataexplorer/{path}", json={**DAYS, **more})
    assert answer.status_code == httpx.codes.OK, answer.text
    return wire.loads(answer.content)


@pytest.fixture(scope="module")
def world(home_database, tmp_path_factory):
    with (
        served(tmp_path_factory.mktemp(home_database) / "home", limit_explorer=False) as server,
        server.http() as http,
    ):
        configure(
            server.organization,
            accounts=ACCOUNTS,
            organizationConfig={"daysBeforeBillDue": 14, "currency": "USD", "billPrefix": "INV-"},
            products=[{"code": "cloud", "name": "Cloud"}],
            balances=[
                {
                    "code": "credit",
                    "name": "Credit",
                    "accountId": "acme",
                    "currency": "USD",
                    "startDate": "2026-01-01T00:00:00Z",
                    "endDate": "2027-01-01T00:00:00Z",
                }
            ],
            commitments=[
                {
                    "accountId": "acme",
                    "currency": "USD",
                    "amount": int(AGREED),
                    "startDate": "2026-01-01",
                    "endDate": "2026-05-16",
                    "feeDates": [
                        {
                            "date": "2026-01-01",
                            "amount": int(AGREED),
                            "servicePeriodStartDate": "2026-01-01T00:00:00Z",
                            "servicePeriodEndDate": "2026-05-16T00:00:00Z",
                        }
                    ],
                }
            ],
        )
        account_id, sources, ids = make_bills(server.organization)
        text = exported(server, "billLineItems", "jsonl")
        table = exported(server, "billLineItems", "csv")
        lines = {
            "jsonl": [wire.loads(line.encode()) for line in text.splitlines()],
            "csv": list(csv.DictReader(io.StringIO(table))),
            "focus": list(csv.DictReader(io.StringIO(exported(server, "focus", "csv")))),
            "standard": downloaded(http, DAYS),
            "xero": downloaded(http, DAYS, externalSystem="XERO"),
        }
        path = publish(server.organization).path
        yield World(server, account_id, sources, ids, lines, path)


@pytest.fixture
def warehouse(world):
    with closing(duckdb.connect(str(world.warehouse), read_only=True)) as connection:
        yield connection


@pytest.fixture
def http(world):
    with world.server.http() as client:
        yield client


def test_every_type_is_expected_once():
    assert set(EXPECTED) == set(LineItemType)


def test_the_api_and_the_sdk_know_every_type():
    literal = get_args(LineItemResponse.model_fields["line_item_type"].annotation)[0]
    assert set(LineItemType) == set(get_args(literal))


@KINDS
def test_a_line_is_exported_with_all_its_members(world, kind):
    line = world.line("jsonl", kind)
    members = world.members(kind)

    assert {name: line.get(name) for name in members} == members
    assert line["convertedSubtotal"] == Decimal(EXPECTED[kind].amount)
    assert (line["billId"], line["accountCode"]) == (world.bills[kind], "acme")
    cells = world.line("csv", kind)
    texts = {
        name: wire.dumps_sorted(each) for name, each in members.items() if isinstance(each, dict)
    }
    assert {name: cells[name] for name in members} == members | texts
    assert set(line) <= set(cells), "a member without a column"


def wire_names(model):
    return {field.alias or name for name, field in model.model_fields.items()}


def test_exported_bills_have_all_that_the_api_shows():
    missing = wire_names(BillResponse) - {column.name for column in BILL_COLUMNS}
    assert missing == set(NOT_OF_BILLS)


def test_exported_lines_have_all_that_the_api_shows():
    shown = wire_names(BillLineItem) | wire_names(BillLineItemResponse)
    assert shown - {column.name for column in LINE_COLUMNS} == set(NOT_OF_LINES)


def test_an_exported_bill_says_what_the_api_says(world, http):
    rows = [
        wire.loads(line.encode()) for line in exported(world.server, "bills", "jsonl").splitlines()
    ]
    for row in rows:
        shown = wire.loads(http.get(f"/bills/{row['id']}").content)
        same = set(shown) - set(NOT_OF_BILLS)
        assert {name: row.get(name) for name in same} == {name: shown[name] for name in same}
    assert len(rows) == len(LineItemType)
    assert {row["sequentialInvoiceNumber"] for row in rows} == {
        f"INV-{number}" for number in range(1, len(rows) + 1)
    }


@KINDS
def test_a_line_is_a_row_of_focus(world, kind):
    expected = EXPECTED[kind]
    row = world.line("focus", kind, "x_LineItemType")

    assert (row["ChargeCategory"], row["ChargeFrequency"]) == expected.focus == CHARGES[kind]
    assert row["ChargeClass"] == ("Correction" if expected.members is MEMO else "")
    assert row["PricingCategory"] == (
        "Standard" if expected.focus[0] in {"Usage", "Purchase"} else ""
    )
    members = {"planId": an_id("plan"), **world.members(kind)}
    assert row["SkuId"] == members[expected.sold]
    assert Decimal(row["BilledCost"]) == Decimal(expected.amount)
    assert row["InvoiceId"] == world.bills[kind]
    own = {
        "x_CommitmentId": "commitmentId",
        "x_BalanceId": "balanceId",
        "x_ContractId": "contractId",
        "x_ReferencedBillId": "referencedBillId",
        "x_ReferencedLineItemId": "referencedLineItemId",
        "SubAccountId": "childAccountId",
    }
    assert {name: row[name] for name in own} == {
        name: members.get(member, "") for name, member in own.items()
    }
    assert (row["SkuPriceDetails"] == '{"x_region":"eu"}') == ("segment" in members)


@KINDS
def test_a_line_is_explored(world, http, kind):
    found = explored(http, "bills", lineItemTypes=[kind.value])
    [row] = found["values"]

    assert row["dimensions"]["lineItemType"] == kind
    assert row["dimensions"]["billId"] == world.bills[kind]
    for name in ("commitmentId", "childAccountId"):
        assert row["dimensions"].get(name) == world.members(kind).get(name)
    assert row["measures"]["convertedSubtotal"] == Decimal(EXPECTED[kind].amount)


@pytest.mark.sees("PostQueryCommitmentLineItems")
def test_commitments_are_explored_with_their_lines(http):
    found = explored(http, "commitments/lineitems")["values"]
    kinds = {row["dimensions"]["lineItemType"] for row in found}
    about = {kind for kind in LineItemType if EXPECTED[kind].members is COMMITMENT}

    assert kinds == about | {LineItemType.OVERAGE_USAGE}
    [row] = explored(http, "commitments")["values"]
    assert row["measures"] == {"amount": 1200, "amountSpent": 250, "amountRemaining": 950}


@pytest.mark.sees("PostQueryObligations")
def test_obligations_are_what_is_left_after_each_month(http):
    year = {"startDate": "2025-12-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
    found = explored(http, "commitments/obligations", **year)

    assert found == [
        {"dateMonth": "2026-01", "obligations": {"USD": 1200}},
        {"dateMonth": "2026-02", "obligations": {"USD": 1200}},
        {"dateMonth": "2026-03", "obligations": {"USD": 950}},
        {"dateMonth": "2026-04", "obligations": {"USD": 950}},
        {"dateMonth": "2026-05", "obligations": {"USD": 0}},
    ]
    nobody = [{"name": "account", "filter": ["bolt"]}]
    assert explored(http, "commitments/obligations", **year, dimensions=nobody) == []
    assert len(explored(http, "commitments/obligations", **year, limit=2)) == 2


@pytest.mark.sees("PostQueryObligationsDownloadCsv", "PostQueryObligationsDownloadJson")
def test_obligations_are_downloaded(http):
    for format_ in ("csv", "json"):
        url = explored(http, f"commitments/obligations/download/{format_}")["downloadUrl"]
        assert "2026-03" in httpx.get(url).text


@KINDS
def test_a_line_is_published(world, warehouse, kind):
    query = "SELECT * FROM bill_line WHERE type = ?"
    rows = warehouse.execute(query, [kind.value]).fetchall()
    names = [column[0] for column in warehouse.description]
    [row] = [dict(zip(names, each, strict=True)) for each in rows]
    columns = {
        "commitmentId": "commitment_id",
        "balanceId": "balance_id",
        "chargeId": "charge_id",
        "contractId": "contract_id",
        "counterId": "counter_id",
        "pricingId": "pricing_id",
        "compoundAggregationId": "compound_aggregation_id",
        "planGroupId": "plan_group_id",
        "childAccountId": "child_account_id",
        "reasonId": "reason_id",
        "referencedBillId": "referenced_bill_id",
        "referencedLineItemId": "referenced_line_id",
    }
    members = world.members(kind)

    assert row["amount"] == Decimal(EXPECTED[kind].amount)
    assert {name: row[name] for name in columns.values()} == {
        column: members.get(name) for name, column in columns.items()
    }
    assert row["id"] == world.line("jsonl", kind)["id"]


@KINDS
def test_a_line_is_in_one_part_of_its_bill(world, warehouse, kind):
    parts = [part.column for part in BILL_PARTS]
    query = f"SELECT total, {', '.join(parts)} FROM bill_per_account WHERE bill_id = ?"
    [(total, *found)] = warehouse.execute(query, [world.bills[kind]]).fetchall()
    amounts = dict(zip(parts, found, strict=True))

    assert total == sum(found) == Decimal(EXPECTED[kind].amount)
    assert amounts[EXPECTED[kind].part] == total


def test_what_sources_hold_and_the_ledger_are_published(world, warehouse):
    ask = warehouse.execute
    assert ask("SELECT amount FROM balance").fetchall() == [(HELD - 60,)]
    assert ask("SELECT amount_spent FROM commitment").fetchall() == [(Decimal(250),)]
    changes = "SELECT source_id, sum(change) FROM posting GROUP BY 1"
    assert dict(ask(changes).fetchall()) == {
        world.sources["balanceId"]: HELD - 60,
        world.sources["commitmentId"]: Decimal(-250),
    }
    drawn = "SELECT bill_id, amount FROM posting WHERE kind = 'consumption'"
    assert dict(ask(drawn).fetchall()) == {
        world.bills[LineItemType.COMMITMENT_CONSUMED]: Decimal(250),
        world.bills[LineItemType.BALANCE_CONSUMED]: Decimal(60),
    }


@KINDS
def test_a_line_is_downloaded_as_csv(world, kind):
    row = world.line("standard", kind)
    members = world.members(kind)
    shown = set(members) & set(row)

    assert {name: row[name] for name in shown - {"segment"}} == {
        name: members[name] for name in shown - {"segment"}
    }
    assert set(members) - shown <= {
        *("aggregationId", "compoundAggregationId", "meterId", "pricingId", "childAccountId"),
    }
    assert Decimal(row["convertedSubtotal"]) == Decimal(EXPECTED[kind].amount)
    [xero] = [
        each
        for each in world.lines["xero"]
        if each["*InvoiceNumber"] == row["sequentialInvoiceNumber"]
    ]
    assert Decimal(xero["*UnitAmount"]) == Decimal(EXPECTED[kind].amount)
    assert (xero["*Quantity"], xero["*AccountCode"]) == ("1", "cloud")
    assert xero["*Description"] == row["description"]


@KINDS
def test_a_line_is_listed(world, kind):
    sdk = world.server.sdk()
    [line] = sdk.bills.line_items.list(bill_id=world.bills[kind])
    members = world.members(kind)
    shown = line.to_dict()

    assert (line.line_item_type, line.converted_subtotal) == (kind, float(EXPECTED[kind].amount))
    assert {name: shown.get(name) for name in members} == members
    assert sdk.bills.line_items.retrieve(line.id, bill_id=world.bills[kind]) == line
    [embedded] = sdk.bills.retrieve(world.bills[kind]).line_items
    assert {name: embedded.to_dict().get(name) for name in members} == members


@KINDS
def test_lines_of_the_organization_are_chosen_by_their_type(world, http, kind):
    answer = http.get("/lineitems", params={"lineItemType": kind.value})
    [line] = answer.json()["data"]
    assert line["billId"] == world.bills[kind]


def test_lines_of_the_organization_are_chosen_by_their_commitment(world, http):
    params = {"commitmentId": world.sources["commitmentId"]}
    found = http.get("/lineitems", params=params).json()["data"]
    about = {kind for kind in LineItemType if EXPECTED[kind].members is COMMITMENT}
    assert {line["lineItemType"] for line in found} == about


def test_the_books_of_every_type_balance(world):
    found = check_ledger(world.server.organization)
    assert (found.postings, found.differences) == (3, ())
