"""Fees, charges and ends of balances over HTTP: from the SDK's request to bills and the ledger."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import count

import m3ter
import pytest

from meterlake.pipeline.billing.balances.ended_balances import settle_ended_balances
from meterlake.pipeline.billing.balances.scheduled_transactions import make_due_charges
from meterlake.pipeline.billing.jobs.jobs import run_bill_job
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from tests.served import served

D = Decimal
NUMBERS = count()


@pytest.fixture(scope="module")
def server(home_database, tmp_path_factory):
    with served(tmp_path_factory.mktemp(home_database) / "home") as found:
        yield found


@pytest.fixture(scope="module")
def sdk(server):
    with server.sdk() as client:
        yield client


@pytest.fixture(scope="module")
def plan(sdk):
    product = sdk.products.create(code="cloud", name="Cloud")
    template = sdk.plan_templates.create(
        code="cloud",
        name="Cloud",
        product_id=product.id,
        currency="USD",
        standing_charge=0,
        bill_frequency="MONTHLY",
    )
    return sdk.plans.create(code="cloud", name="Cloud", plan_template_id=template.id)


@pytest.fixture
def account(sdk, plan):
    code = f"account{next(NUMBERS)}"
    made = sdk.accounts.create(code=code, name=code, email_address="a@example.com")
    sdk.account_plans.create(
        account_id=made.id, plan_id=plan.id, start_date=datetime(2026, 1, 1, tzinfo=UTC)
    )
    return made


def commit(sdk, account, **more):
    settings = {
        "currency": "USD",
        "amount": 470,
        "start_date": "2026-01-16",
        "end_date": "2026-03-01",
    }
    return sdk.commitments.create(account_id=account.id, **{**settings, **more})


def bill(server, sdk, account, *days):
    """The lines of the bills of some dates: frequency, type, description, amount, what it is for."""
    for day in days:
        job = sdk.bill_jobs.create(bill_date=day, account_ids=[account.id])
        assert run_bill_job(server.stores, job.id).failures == []
    return [
        (
            str(each.bill_date),
            each.billing_frequency,
            *((line.line_item_type, D(str(line.converted_subtotal))) for line in each.line_items),
        )
        for each in sorted(
            sdk.bills.list(account_id=account.id, additional=["lineItems"]),
            key=lambda each: (each.bill_date, each.billing_frequency),
        )
    ]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"amount_pre_paid": 471}, "amountPrePaid"),
        ({"amount_pre_paid": 400, "amount_first_bill": 71}, "amountFirstBill"),
        ({"billing_interval": 2}, "billingInterval"),
    ],
)
def test_wrong_terms_of_fees_are_refused_by_name(sdk, account, changes, field):
    with pytest.raises(m3ter.BadRequestError, match=field):
        commit(sdk, account, **changes)


@pytest.mark.long
def test_a_commitment_is_billed_with_the_bills_of_its_plan(server, sdk, account, plan):
    """The worked example of the documentation."""
    made = commit(sdk, account, billing_plan_id=plan.id, commitment_fee_description="Year fee")

    found = bill(server, sdk, account, "2026-02-01", "2026-03-01", "2026-04-01")

    assert found == [
        ("2026-02-01", "MONTHLY", ("COMMITMENT_FEE", 160)),
        ("2026-03-01", "MONTHLY", ("COMMITMENT_FEE", 310)),
        ("2026-04-01", "MONTHLY"),
    ]
    [first] = sdk.bills.list(account_id=account.id, bill_date="2026-02-01")
    [line] = sdk.bills.line_items.list(first.id)
    assert (line.description, line.commitment_id, line.plan_id) == ("Year fee", made.id, None)
    assert (line.service_period_start_date, line.service_period_end_date) == (
        datetime(2026, 1, 16, tzinfo=UTC),
        datetime(2026, 2, 1, tzinfo=UTC),
    )


@pytest.mark.long
def test_a_changed_commitment_changes_its_bills(server, sdk, account, plan):
    made = commit(sdk, account, billing_plan_id=plan.id)
    bill(server, sdk, account, "2026-02-01")
    [before] = sdk.bills.list(account_id=account.id)

    settings = {"currency": "USD", "start_date": "2026-01-16", "end_date": "2026-03-01"}
    sdk.commitments.update(
        made.id,
        account_id=account.id,
        amount=940,
        billing_plan_id=plan.id,
        version=made.version,
        **settings,
    )

    assert bill(server, sdk, account, "2026-02-01")[0][2] == ("COMMITMENT_FEE", 320)
    [after] = sdk.bills.list(account_id=account.id)
    assert (after.id, after.version) == (before.id, before.version + 1)


@pytest.mark.long
def test_fees_on_dates_join_the_bill_of_their_date_or_make_one(server, sdk, account):
    period = {
        "service_period_start_date": "2026-01-01T00:00:00Z",
        "service_period_end_date": "2027-01-01T00:00:00Z",
    }
    dates = ("2026-02-01", 300), ("2026-02-14", 170)
    commit(
        sdk,
        account,
        fee_dates=[{"date": day, "amount": amount, **period} for day, amount in dates],
    )

    assert bill(server, sdk, account, "2026-02-14", "2026-02-01") == [
        ("2026-02-01", "MONTHLY", ("COMMITMENT_FEE", 300)),
        ("2026-02-14", "AD_HOC", ("COMMITMENT_FEE", 170)),
    ]


def test_a_charge_shows_its_bill(server, sdk, account):
    charge = sdk.charges.create(
        account_id=account.id,
        code="setup",
        name="Setup",
        currency="USD",
        entity_type="AD_HOC",
        line_item_type="AD_HOC",
        amount=25,
        bill_date="2026-02-14",
        service_period_start_date="2026-01-01T00:00:00Z",
        service_period_end_date="2026-02-01T00:00:00Z",
    )
    assert charge.bill_id is None

    assert bill(server, sdk, account, "2026-02-14") == [("2026-02-14", "AD_HOC", ("AD_HOC", 25))]

    [made] = sdk.bills.list(account_id=account.id)
    assert sdk.charges.retrieve(charge.id).bill_id == made.id
    assert [each.bill_id for each in sdk.charges.list(account_id=account.id)] == [made.id]
    with server.sdk() as other:
        other.bills.delete(made.id)
    assert sdk.charges.retrieve(charge.id).bill_id is None


@pytest.mark.long
def test_a_schedule_charges_for_a_balance_by_itself(server, sdk, account):
    balance = sdk.balances.create(
        account_id=account.id,
        code=f"balance of {account.code}",
        name="Prepaid",
        currency="USD",
        start_date="2026-01-01T00:00:00Z",
        end_date="2027-01-01T00:00:00Z",
    )
    terms = {
        "balance_id": balance.id,
        "code": "quarter",
        "name": "Quarter",
        "currency": "USD",
        "bill_frequency": "MONTHLY",
        "bill_frequency_interval": 1,
        "bill_in_advance": False,
        "charge_description": "Fee of the balance",
        "units": 3,
        "unit_price": 2.5,
        "service_period_start_date": "2026-01-01T00:00:00Z",
        "service_period_end_date": "2026-02-15T00:00:00Z",
    }
    preview = sdk.balances.charge_schedules.preview(**terms)
    schedule = sdk.balances.charge_schedules.create(**terms)
    assert preview.next_run == schedule.next_run == datetime(2026, 2, 1, tzinfo=UTC)

    assert [make_due_charges(server.organization) for _ in range(2)] == [2, 0]

    shown = sdk.balances.charge_schedules.retrieve(schedule.id, balance_id=balance.id)
    assert (shown.previous_run, shown.next_run) == (datetime(2026, 2, 15, tzinfo=UTC), None)
    charges = list(sdk.charges.list(schedule_id=schedule.id))
    assert sorted(each.code for each in charges) == ["quarter-1", "quarter-2"]
    assert {(each.schedule_id, each.entity_id) for each in charges} == {(schedule.id, balance.id)}
    assert list(sdk.charges.list(schedule_id=balance.id)) == []
    assert bill(server, sdk, account, "2026-02-01", "2026-02-15") == [
        ("2026-02-01", "MONTHLY", ("BALANCE_FEE", D("7.5"))),
        ("2026-02-15", "AD_HOC", ("BALANCE_FEE", D("7.5"))),
    ]
    [first] = sdk.bills.list(account_id=account.id, bill_date="2026-02-01")
    [line] = sdk.bills.line_items.list(first.id)
    assert (line.description, line.balance_id) == ("Fee of the balance", balance.id)


def test_what_a_balance_leaves_at_its_end_is_carried_over_or_expires(server, sdk, account):
    balance = sdk.balances.create(
        account_id=account.id,
        code=f"ended of {account.code}",
        name="Ended",
        currency="USD",
        start_date="2026-01-01T00:00:00Z",
        end_date="2026-03-01T00:00:00Z",
        rollover_end_date="9998-01-01T00:00:00Z",
        rollover_amount=800,
    )
    sdk.balances.transactions.create(balance.id, amount=1000, applied_date="2026-01-02T00:00:00Z")

    # The top-up has settled it before it was answered.
    assert settle_ended_balances(server.organization) == 0

    assert sdk.balances.retrieve(balance.id).amount == 800
    found = list(sdk.balances.transactions.list(balance.id))
    assert [(each.amount, each.entity_type, each.applied_date) for each in found] == [
        (-200, "SCHEDULER", datetime(2026, 3, 1, tzinfo=UTC)),
        (1000, "SERVICE_USER", datetime(2026, 1, 2, tzinfo=UTC)),
    ]
    summary = sdk.balances.transactions.summary(balance.id)
    assert (summary.expired_balance_amount, summary.total_debit_amount) == (200, 0)
    assert check_ledger(server.organization).differences == ()
