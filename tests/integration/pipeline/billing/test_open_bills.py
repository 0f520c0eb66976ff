"""Bills of open periods that no plan makes any more: they are made again, and are empty."""

from datetime import UTC, datetime

import pytest

from meterlake.model.bills.jobs import KIND
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import AccountPlan
from meterlake.pipeline.billing.calculation.preview import preview
from meterlake.pipeline.billing.jobs.jobs import bill_order, create, run_bill_job
from meterlake.pipeline.billing.jobs.schedule import order_of_run
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill
from tests.homes import configure

pytestmark = pytest.mark.usefixtures("home_database")

OCTOBER, NOVEMBER = "2026-11-01", "2026-12-01"


@pytest.fixture
def home(tmp_path):
    """A home on 10 October 2026 with the open bills of acme and bolt."""
    with a_home_to_bill(tmp_path, make_open_bills) as opened:
        opened.clock.time = datetime(2026, 10, 10, 12, 1, tzinfo=UTC)
        yield opened


def make_open_bills(home):
    home.clock.time = datetime(2026, 10, 10, 12, tzinfo=UTC)
    run_scheduled(home)
    assert stored(home) == {("acme", OCTOBER): 1, ("bolt", OCTOBER): 1}


def run_scheduled(home):
    """Bill as the schedule does."""
    with home.organization.reading() as reader:
        [record] = reader.all(OrganizationConfig)
    return bill_order(home.organization, order_of_run(record.entity, home.clock()))


def run_job(home, **body):
    create(home.organization, "ann", body)
    for job in home.stores.state.jobs.waiting(home.org_id, KIND):
        run_bill_job(home.stores, job.id)


def all_bills(home):
    with home.organization.reading() as reader:
        return {
            (each.content.body["accountCode"], str(each.content.key.bill_date)): each
            for each in bills.of_period(reader)
        }


def stored(home):
    """How many lines each bill has, by account and bill date."""
    return {key: len(each.content.lines) for key, each in all_bills(home).items()}


def end(home, account, until):
    change_plan(home, account, end_date=datetime.fromisoformat(until).replace(tzinfo=UTC))


def change_plan(home, account, **changes):
    with home.organization.transaction("test") as t:
        found = t.find(AccountPlan, f"{account}-basic")
        t.update(found.id, found.version, found.entity.model_copy(update=changes))


@pytest.mark.long
def test_the_open_bill_of_a_plan_that_ended_before_is_made_again_and_empty(home):
    end(home, "acme", "2026-09-20")
    run_scheduled(home)

    assert stored(home) == {("acme", OCTOBER): 0, ("bolt", OCTOBER): 1}
    emptied = all_bills(home)["acme", OCTOBER]
    assert (emptied.version, emptied.content.total) == (2, 0)
    run_scheduled(home)
    assert all_bills(home)["acme", OCTOBER] == emptied


def test_it_is_also_made_again_where_empty_bills_are_suppressed(home):
    configure(
        home.organization,
        organizationConfig={"daysBeforeBillDue": 14, "suppressedEmptyBills": True},
    )
    end(home, "acme", "2026-09-20")
    run_scheduled(home)

    assert stored(home)["acme", OCTOBER] == 0


def test_a_job_without_a_date_does_the_same(home):
    end(home, "acme", "2026-09-20")
    run_job(home)
    assert stored(home) == {("acme", OCTOBER): 0, ("bolt", OCTOBER): 1}


def test_a_plan_that_ended_within_the_period_keeps_its_bill(home):
    end(home, "acme", "2026-10-05")
    run_scheduled(home)

    assert stored(home)["acme", OCTOBER] == 1
    assert all_bills(home)["acme", OCTOBER].content.total == 4  # 31 of 31 days are 31.


@pytest.mark.long
def test_a_first_bill_date_moves_the_bill_and_empties_the_old_one(home):
    change_plan(home, "acme", bill_epoch=datetime(2026, 9, 15).date())
    run_scheduled(home)

    assert stored(home) == {("acme", OCTOBER): 0, ("acme", "2026-10-15"): 1, ("bolt", OCTOBER): 1}


def test_a_preview_shows_the_bill_that_a_plan_makes(home):
    change_plan(home, "acme", bill_epoch=datetime(2026, 9, 15).date())
    account_id = all_bills(home)["acme", OCTOBER].content.key.account_id
    body = {"accountIds": [account_id], "billingFrequency": "MONTHLY", "billFrequencyInterval": 1}

    assert str(preview(home.organization, "ann", body)["billDate"]) == "2026-10-15"


def test_approved_bills_wait_again_and_locked_ones_stay(home):
    for account in ("acme", "bolt"):
        with home.organization.transaction("ann") as t:
            id_ = all_bills(home)[account, OCTOBER].id
            bills.set_status(t, id_, BillStatus.APPROVED)
            if account == "bolt":
                bills.lock(t, id_)
        end(home, account, "2026-09-20")
    run_scheduled(home)

    assert stored(home) == {("acme", OCTOBER): 0, ("bolt", OCTOBER): 1}
    assert all_bills(home)["acme", OCTOBER].status is BillStatus.PENDING


@pytest.mark.long
def test_bills_of_other_times_frequencies_and_accounts_stay(home):
    run_job(home, billDate=NOVEMBER)
    later = stored(home)
    end(home, "acme", "2026-09-20")
    run_job(home, billingFrequency="WEEKLY")
    run_job(home, accountIds=[all_bills(home)["bolt", OCTOBER].content.key.account_id])
    assert stored(home) == later

    run_scheduled(home)
    assert stored(home) == later | {("acme", OCTOBER): 0}


@pytest.mark.long
def test_bills_of_a_job_with_its_own_periods_stay_and_it_leaves_others(home):
    run_job(home, billDate="2026-12-15", monthEpoch="2026-01-15")
    both = {("acme", "2026-12-15"): 1, ("bolt", "2026-12-15"): 1}
    assert stored(home) == {("acme", OCTOBER): 1, ("bolt", OCTOBER): 1, **both}

    end(home, "acme", "2026-09-20")
    run_scheduled(home)
    assert stored(home) == {("acme", OCTOBER): 0, ("bolt", OCTOBER): 1, **both}


def test_a_job_with_its_own_periods_bills_no_part_of_what_was_billed(home):
    made = create(
        home.organization, "ann", {"billingFrequency": "MONTHLY", "monthEpoch": "2026-01-15"}
    )
    result = run_bill_job(home.stores, made["id"])

    assert stored(home) == {("acme", OCTOBER): 1, ("bolt", OCTOBER): 1}
    reason = (
        "its plan 'basic' was billed for a part of the time until 2026-10-15, on its bill of"
        " 2026-11-01"
    )
    assert [(each.account_code, each.reason) for each in result.failures] == [
        ("acme", reason),
        ("bolt", reason),
    ]


def test_a_job_with_epochs_that_make_the_same_periods_changes_nothing(home):
    before = all_bills(home)
    run_job(home, billingFrequency="MONTHLY", monthEpoch="2025-03-01")

    assert {key: each.version for key, each in all_bills(home).items()} == {
        key: each.version for key, each in before.items()
    }


@pytest.mark.long
def test_a_bill_of_a_single_charge_that_is_open_stays_as_long_as_there_is_the_charge(home):
    charge = {
        "code": "setup",
        "name": "Set-up",
        "accountId": "acme",
        "currency": "USD",
        "amount": 5,
        "entityType": "AD_HOC",
        "lineItemType": "AD_HOC",
        "billDate": "2026-10-11",
        "servicePeriodStartDate": "2026-10-01T00:00:00Z",
        "servicePeriodEndDate": "2026-10-02T00:00:00Z",
    }
    configure(home.organization, charges=[charge])
    run_job(home, billDate="2026-10-11")
    run_scheduled(home)
    assert stored(home)["acme", "2026-10-11"] == 1

    configure(home.organization, charges=[charge | {"billDate": "2026-12-24"}])
    run_scheduled(home)
    assert stored(home)["acme", "2026-10-11"] == 0
