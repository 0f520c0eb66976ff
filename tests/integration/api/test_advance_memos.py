"""Over HTTP: a plan is billed a year in advance, its bill is locked, and the plan ends early."""

import pytest

from meterlake.pipeline.billing.jobs.jobs import run_bill_job
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from tests.homes import ACCOUNTS, configure
from tests.served import served

pytestmark = pytest.mark.usefixtures("home_database")

YEAR = {
    "code": "year",
    "name": "A year",
    "productId": "cloud",
    "currency": "USD",
    "standingCharge": 365,
    "standingChargeBillInAdvance": True,
    "billFrequency": "ANNUALLY",
}


def sell_years(home):
    configure(
        home.organization,
        accounts=ACCOUNTS,
        products=[{"code": "cloud", "name": "Cloud"}],
        planTemplates=[YEAR],
        plans=[{"code": "year", "name": "A year", "planTemplateId": "year"}],
    )


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home", sell_years) as found:
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


@pytest.mark.long
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


def lock(sdk, bill):
    sdk.bills.update_status(bill.id, status="APPROVED")
    sdk.bills.lock(bill.id)


def prepay(sdk, account, amount):
    times = {"start_date": "2026-01-01T00:00:00Z", "end_date": "2030-01-01T00:00:00Z"}
    made = sdk.balances.create(
        account_id=account.id, code="prepaid", name="Prepaid", currency="USD", **times
    )
    applied = "2025-12-01T00:00:00Z"
    sdk.balances.transactions.create(made.id, amount=amount, applied_date=applied)
    return made


@pytest.mark.long
@pytest.mark.parametrize(("prepaid", "memo"), [(200, -65), (500, None)])
def test_what_a_balance_paid_goes_back_to_it_and_the_rest_is_a_memo(server, sdk, prepaid, memo):
    """A year of 365, of which 265 are charged no longer."""
    [acme], [plan] = sdk.accounts.list(codes=["acme"]), sdk.plans.list()
    balance = prepay(sdk, acme, prepaid)
    row = {"account_id": acme.id, "plan_id": plan.id, "start_date": "2026-01-01T00:00:00Z"}
    on_plan = sdk.account_plans.create(**row)
    make(server, sdk, "2026-01-01")
    lock(sdk, bill_of(sdk, "2026-01-01"))
    on_plan = sdk.account_plans.update(
        on_plan.id, **row, end_date="2026-04-11T00:00:00Z", version=on_plan.version
    )
    for _ in range(2):
        make(server, sdk, "2027-01-01")

        # All together the customer owes 100, prepaid or not.
        assert total(sdk) + prepaid - sdk.balances.retrieve(balance.id).amount == 100
        assert sdk.balances.retrieve(balance.id).amount == (200 if prepaid == 200 else 400)
        assert check_ledger(server.organization).differences == ()
    corrected = bill_of(sdk, "2027-01-01")
    assert [each.converted_subtotal for each in corrected.line_items] == ([memo] if memo else [])
    assert corrected.version == 1
    [back, *_] = sdk.balances.transactions.list(balance.id, entity_id=corrected.id)
    assert back.amount == (200 if prepaid == 200 else 265)

    # Locked in turn, it stays. What is charged again then is a memo.
    lock(sdk, corrected)
    sdk.account_plans.update(
        on_plan.id, **row, end_date="2026-05-01T00:00:00Z", version=on_plan.version
    )
    make(server, sdk, "2028-01-01")
    [line] = bill_of(sdk, "2028-01-01").line_items
    assert (line.line_item_type, line.converted_subtotal) == ("DEBIT_MEMO", 20)
    assert check_ledger(server.organization).differences == ()


@pytest.mark.long
def test_a_bill_that_is_deleted_takes_back_what_went_back(server, sdk):
    [acme], [plan] = sdk.accounts.list(codes=["acme"]), sdk.plans.list()
    balance = prepay(sdk, acme, 200)
    row = {"account_id": acme.id, "plan_id": plan.id, "start_date": "2026-01-01T00:00:00Z"}
    on_plan = sdk.account_plans.create(**row)
    make(server, sdk, "2026-01-01")
    lock(sdk, bill_of(sdk, "2026-01-01"))
    sdk.account_plans.update(
        on_plan.id, **row, end_date="2026-04-11T00:00:00Z", version=on_plan.version
    )
    make(server, sdk, "2027-01-01")

    sdk.bills.delete(bill_of(sdk, "2027-01-01").id)
    assert sdk.balances.retrieve(balance.id).amount == 0
    make(server, sdk, "2027-01-01")
    assert sdk.balances.retrieve(balance.id).amount == 200
    assert check_ledger(server.organization).differences == ()
