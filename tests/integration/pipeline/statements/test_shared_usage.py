"""Where the usage of one meter is on several lines: of children, of contracts, and beyond a commitment."""

from decimal import Decimal

import pytest

from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import aggregation
from tests.homes import a_home, configure
from tests.statement_world import (
    SEPTEMBER,
    START,
    bill_ids,
    content_of,
    define,
    document_of,
    pricing,
    use,
)

ACCOUNTS = [
    {"code": "corp", "name": "Corp", "emailAddress": "a@b.example"},
    {"code": "kid", "name": "Kid", "emailAddress": "a@b.example", "parentAccountId": "corp"},
    {"code": "buyer", "name": "Buyer", "emailAddress": "a@b.example"},
    {"code": "party", "name": "Party", "emailAddress": "a@b.example"},
]
USAGE = [
    ("1", "corp", "1.25", "2026-09-02T00:00:00Z", "eu"),
    ("2", "kid", "3.5", "2026-09-03T00:00:00Z", "us"),
    ("3", "buyer", "10", "2026-09-03T00:00:00Z", "eu"),
    ("4", "buyer", "20.5", "2026-09-04T00:00:00Z", "us"),
    ("5", "party", "7", "2026-09-04T00:00:00Z", "us"),
    ("6", "party", "8", "2026-09-04T00:00:00Z", "eu"),
]


def on_plan(account, **more):
    return {"code": account, "accountId": account, "planId": "basic", "startDate": START, **more}


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """The statements of all bills by the codes of their accounts."""
    with a_home(tmp_path_factory.mktemp("shared")) as home:
        template = {"code": "cloud", "name": "Cloud", "productId": "cloud", "currency": "USD"}
        configure(
            home.organization,
            organizationConfig={"daysBeforeBillDue": 14, "currency": "USD"},
            products=[{"code": "cloud", "name": "Cloud"}],
            aggregations=[aggregation("sent", "SUM"), aggregation("calls", "COUNT")],
            planTemplates=[{**template, "standingCharge": 0, "billFrequency": "MONTHLY"}],
            plans=[{"code": "basic", "name": "Basic", "planTemplateId": "cloud"}],
            pricings=[pricing("sent", 1), pricing("calls", 2)],
            accounts=ACCOUNTS,
            contracts=[
                {
                    "code": "eu-only",
                    "name": "EU",
                    "accountId": "party",
                    "startDate": "2026-01-01",
                    "endDate": "2027-01-01",
                    "usageFilters": [{"dimensionCode": "region", "mode": "INCLUDE", "value": "eu"}],
                }
            ],
            accountPlans=[
                on_plan("corp"),
                on_plan("buyer"),
                on_plan("party", contractId="eu-only"),
            ],
            commitments=[
                {
                    "accountId": "buyer",
                    "currency": "USD",
                    "amount": 12,
                    "startDate": "2026-09-01",
                    "endDate": "2027-01-01",
                    "separateOverageUsage": True,
                    "overageSurchargePercent": 0,
                    "amountPrePaid": 12,
                }
            ],
        )
        use(home, USAGE)
        assert not bill(home.organization, SEPTEMBER).failures
        define(home, aggregationFrequency="DAY", generateSlimStatements=True)
        found = [document_of(content_of(home, each)) for each in bill_ids(home)]
    return {each["bill"]["accountCode"]: each for each in found}


def quantities(document):
    """The rows of each line that has usage, by what it is and whose."""
    return {
        (line["description"], line.get("childAccountCode")): [
            row["quantity"] for row in line["usage"][0]["rows"]
        ]
        for line in document["lines"]
        if "usage" in line
    }


@pytest.mark.parametrize("account", ["corp", "buyer", "party"])
def test_rows_add_up_to_the_quantity_of_the_lines_that_charge_for_them(documents, account):
    document = documents[account]
    for line in document["lines"]:
        if "usage" in line:
            [usage] = line["usage"]
            others = [each for each in document["lines"] if each.get("usageOf") == line["id"]]
            charged = sum((Decimal(each["quantity"]) for each in (line, *others)), Decimal(0))
            rows = sum((Decimal(row["quantity"]) for row in usage["rows"]), Decimal(0))
            assert Decimal(usage["quantity"]) == charged == rows


def test_each_account_of_a_family_has_the_rows_of_its_own(documents):
    assert quantities(documents["corp"]) == {
        ("Sent", "kid"): ["3.5"],
        ("Sent", None): ["1.25"],
        ("Calls", "kid"): ["1"],
        ("Calls", None): ["1"],
    }


def test_rows_of_a_contract_are_those_of_its_filters(documents):
    assert quantities(documents["party"]) == {("Sent", None): ["8"], ("Calls", None): ["1"]}


def test_usage_beyond_a_commitment_has_its_rows_once(documents):
    lines = documents["buyer"]["lines"]
    beyond = [each for each in lines if each["lineItemType"] == "OVERAGE_USAGE"]

    assert beyond
    assert quantities(documents["buyer"])["Sent", None] == ["10", "20.5"]
    kept = {each["id"] for each in lines if "usage" in each}
    assert all(("usage" in each) != (each.get("usageOf") in kept) for each in beyond)
