"""Over HTTP: a plan is billed a year in advance, its bill is locked, and the plan ends early."""

import pytest

from meterlake.pipeline.billing.jobs import run_bill_job
from tests.homes import ACCOUNTS, configure
from tests.served import served

YEAR = {
    "code": "year",
    "name": "A year",
    "productId": "cloud",
    "currency": "USD",
    "standingCharge": 365,
    "standingChargeBillInAdvance": True,
    "billFrequency": "ANNUALLY",
}


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home") as found:
        configure(
            found.stores,
            found.org_id,
            accounts=ACCOUNTS,
            products=[{"code": "cloud", "name": "Cloud"}],
            planTemplates=[YEAR],
            plans=[{"code": "year", "name": "A year", "planTemplateId": "year"}],
        )
        yield found


@pytest.fixture
def sdk(server):
    with server.sdk() as client:
        yield client


def make(server, sdk, day):
    run_bill_job(server.stores, sdk.bill_jobs.create(bill_date=day).id)


def bill_of(sdk, day):
    [found] = sdk.bills.list(bill_date=day)
    return found


def total(sdk):
    return sum(line.converted_subtotal for bill in sdk.bills.list() for line in bill.line_items)


def test_a_year_that_ends_on_day_100_is_given_back_from_then_on(server, sdk):
    [acme], [plan] = sdk.accounts.list(codes=["acme"]), sdk.plans.list()
    row = {"account_id": acme.id, "plan_id": plan.id, "start_date": "2026-01-01T00:00:00Z"}
    on_plan = sdk.account_plans.create(**row)
    make(server, sdk, "2026-01-01")
    charged = bill_of(sdk, "2026-01-01")
    sdk.bills.update_status(charged.id, status="APPROVED")
    sdk.bills.lock(charged.id)
    sdk.account_plans.update(
        on_plan.id, **row, end_date="2026-04-11T00:00:00Z", version=on_plan.version
    )
    make(server, sdk, "2027-01-01")

    corrected = bill_of(sdk, "2027-01-01")
    [line], [memo] = charged.line_items, corrected.line_items
    assert (memo.line_item_type, memo.converted_subtotal) == ("CREDIT_MEMO", -265)
    assert (memo.referenced_bill_id, memo.referenced_line_item_id) == (charged.id, line.id)
    assert total(sdk) == 100
    # Locked in turn, it stays; whoever bills again makes no second one.
    sdk.bills.update_status(corrected.id, status="APPROVED")
    sdk.bills.lock(corrected.id)
    for day in ("2027-01-01", "2028-01-01"):
        make(server, sdk, day)
    assert total(sdk) == 100
