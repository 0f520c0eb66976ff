"""Scheduled billing: a job at every due instant, once; and bills that approve themselves."""

from datetime import UTC, datetime, timedelta

import pytest

from meterlake.model.bills.jobs import KIND
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.pipeline.billing.jobs import auto_approval
from meterlake.pipeline.billing.jobs.auto_approval import approve_due
from meterlake.pipeline.billing.jobs.jobs import bill_order, create, get_job, run_bill_job
from meterlake.pipeline.billing.jobs.schedule import order_of_run, submit_scheduled
from meterlake.pipeline.events.reader import read_log
from meterlake.pipeline.maintenance.maintain import forget_events
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, use
from tests.homes import configure
from tests.sent_bills import top_up

pytestmark = pytest.mark.usefixtures("home_database")

HOURLY = {"scheduledBillInterval": 1}
GRACE = {"autoApproveBillsGracePeriod": 2, "autoApproveBillsGracePeriodUnit": "HOURS"}


@pytest.fixture
def home(tmp_path):
    """A home in October 2026, at midnight."""
    with a_home_to_bill(tmp_path) as home:
        yield home


@pytest.fixture
def later(home):
    """The home on New Year's Day 2027, after all that was configured, with an hourly schedule."""
    home.clock.time = datetime(2027, 1, 1, 0, 5, tzinfo=UTC)
    settings(home, **HOURLY)
    return home


def settings(home, **fields):
    """Change the organization's settings, and let a moment pass."""
    configure(home.organization, organizationConfig={"daysBeforeBillDue": 14, **fields})
    home.clock.advance(minutes=1)


def submit(home):
    return submit_scheduled(home.organization)


def run_all(home):
    for job in home.stores.state.jobs.waiting(home.org_id, KIND):
        run_bill_job(home.stores, job.id)


def stored(home):
    with home.organization.reading() as reader:
        found = bills.of_period(reader)
    return {
        (each.content.body["accountCode"], str(each.content.key.bill_date)): each for each in found
    }


def statuses(home):
    return {key: each.status.value for key, each in stored(home).items()}


def approve_held_bills(home):
    home.stores.settings = home.stores.settings.model_copy(update={"approve_held_bills": True})


def approve(home):
    return approve_due(home.organization)


def test_without_a_schedule_or_before_its_first_instant_there_is_no_job(later):
    assert submit(later) is None
    settings(later, scheduledBillInterval=0)
    later.clock.advance(hours=50)

    assert submit(later) is None


@pytest.mark.long
def test_a_run_is_made_once_also_after_a_time_without_a_worker(later):
    later.clock.advance(hours=1)

    first = submit(later)
    assert first is not None
    assert submit(later) is None
    run_all(later)
    assert submit(later) is None

    later.clock.advance(hours=50)
    second = submit(later)
    assert second not in (None, first)
    run_all(later)
    assert submit(later) is None


def test_while_a_run_is_unfinished_the_next_one_waits(later):
    later.clock.advance(hours=1)
    assert submit(later)
    later.clock.advance(hours=1)
    assert submit(later) is None

    run_all(later)

    assert submit(later)


@pytest.mark.long
def test_a_run_waits_while_ten_jobs_are_unfinished(later):
    made = [create(later.organization, "ann", {"billDate": "2026-10-01"})["id"] for _ in range(10)]
    later.clock.advance(hours=1)
    assert submit(later) is None

    run_bill_job(later.stores, made[0])

    assert submit(later)


@pytest.mark.long
def test_a_run_makes_open_bills_and_those_of_the_day_before(later):
    """It is 1 January: bills of December closed less than a day ago."""
    later.clock.advance(hours=1)
    job_id = submit(later)
    run_all(later)

    assert get_job(later.organization, job_id)["createdBy"] == "bill schedule"
    assert set(stored(later)) == {
        (code, bill_date) for code in ("acme", "bolt") for bill_date in ("2027-01-01", "2027-02-01")
    }


@pytest.mark.long
def test_late_usage_changes_a_bill_until_a_day_after_its_period(home):
    with home.organization.reading() as reader:
        [record] = reader.all(OrganizationConfig)

    def totals():
        order = order_of_run(record.entity, home.clock())
        return {
            each.account_code: str(each.total)
            for each in bill_order(home.organization, order).bills
            if str(each.bill_date) == "2026-10-01"
        }

    assert totals() == {"acme": "73.50", "bolt": "131.00"}
    use(home, ("late", "acme", 1))
    home.clock.advance(hours=23, minutes=59)
    assert totals() == {"acme": "74.50", "bolt": "131.00"}
    home.clock.advance(minutes=1)
    assert totals() == {}


def test_a_bill_approves_itself_after_its_grace_period_and_not_before(home):
    settings(home, **GRACE)
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    create(home.organization, "ann", {})
    run_all(home)
    home.clock.advance(minutes=118)
    assert approve(home) == 0

    home.clock.advance(minutes=1)

    assert approve(home) == 2
    assert approve(home) == 0
    assert set(statuses(home).items()) == {
        ((code, bill_date), status)
        for code in ("acme", "bolt")
        for bill_date, status in (("2026-10-01", "APPROVED"), ("2026-11-01", "PENDING"))
    }


def test_a_bill_that_is_out_of_date_waits_until_it_is_calculated_again(home):
    settings(home, **GRACE)
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)
    top_up(home, "acme")
    home.clock.advance(hours=3)

    assert approve(home) == 1
    assert statuses(home) == {
        ("acme", "2026-10-01"): "PENDING",
        ("bolt", "2026-10-01"): "APPROVED",
    }
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)
    assert approve(home) == 1


@pytest.mark.long
def test_without_a_grace_period_no_bill_approves_itself(home):
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)
    home.clock.advance(days=100)

    assert approve(home) == 0
    assert set(statuses(home).values()) == {"PENDING"}


@pytest.mark.long
def test_a_bill_that_was_approved_and_changed_waits_for_a_person(home):
    settings(home, **GRACE)
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)
    home.clock.advance(hours=3)
    assert approve(home) == 2
    use(home, ("late", "acme", 1))
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)

    assert approve(home) == 0
    assert statuses(home)["acme", "2026-10-01"] == "PENDING"
    # Nor is it forgotten with the events of the time.
    read_log(home.organization)
    home.clock.advance(days=60)
    assert forget_events(home.organization) > 0
    assert approve(home) == 0


@pytest.mark.long
def test_a_bill_that_changed_before_it_was_ever_approved_approves_itself(home):
    settings(home, **GRACE)
    for uid in ("one", "two"):
        use(home, (uid, "acme", 1))
        create(home.organization, "ann", {"billDate": "2026-10-01"})
        run_all(home)
    assert stored(home)["acme", "2026-10-01"].version == 2
    home.clock.advance(hours=3)

    assert approve(home) == 2


@pytest.mark.long
def test_an_approval_that_a_person_took_back_stays_so(home):
    settings(home, **GRACE)
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)
    home.clock.advance(hours=3)
    approve(home)
    with home.organization.transaction("ann") as transaction:
        id_ = stored(home)["bolt", "2026-10-01"].id
        bills.set_status(transaction, id_, BillStatus.PENDING)

    assert approve(home) == 0


def test_a_bill_whose_account_failed_since_is_held_back(home):
    settings(home, **GRACE)
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)
    # There is no rate from its plan's currency.
    account = {"code": "acme", "name": "acme", "emailAddress": "a@a.example", "currency": "EUR"}
    configure(home.organization, currencies=[{"code": "EUR", "name": "Euro"}])
    configure(home.organization, accounts=[account])
    home.clock.advance(minutes=1)
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)
    home.clock.advance(hours=3)

    assert approve(home) == 1
    assert statuses(home) == {("acme", "2026-10-01"): "PENDING", ("bolt", "2026-10-01"): "APPROVED"}
    approve_held_bills(home)
    assert approve(home) == 1
    assert set(statuses(home).values()) == {"APPROVED"}


@pytest.mark.long
def test_a_bill_with_usage_without_a_price_is_held_back_until_it_has_one(home):
    settings(home, **GRACE)
    pricing = {"code": "sent", "planId": "basic", "aggregationId": "sent", "cumulative": True}
    bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}]

    def price_from(start):
        found = {**pricing, "startDate": start, "pricingBands": bands}
        configure(home.organization, pricings=[found])
        create(home.organization, "ann", {"billDate": "2026-10-01"})
        run_all(home)
        home.clock.advance(hours=3)

    price_from("2026-09-10T00:00:00Z")  # Usage is of the 3rd.
    assert approve(home) == 0

    price_from("2026-01-01T00:00:00Z")
    assert approve(home) == 2


@pytest.mark.long
def test_a_bill_is_held_back_however_many_jobs_there_were_since(home, monkeypatch):
    monkeypatch.setattr(auto_approval, "JOBS_AT_ONCE", 2)
    settings(home, **GRACE)
    pricing = {"code": "sent", "planId": "basic", "aggregationId": "sent", "cumulative": True}
    bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}]
    late = {**pricing, "startDate": "2026-09-10T00:00:00Z", "pricingBands": bands}
    configure(home.organization, pricings=[late])
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)
    for _ in range(5):
        home.clock.advance(minutes=1)
        create(home.organization, "ann", {"billDate": "2026-09-01"})
        run_all(home)
    home.clock.advance(hours=3)

    approve(home)
    october = {status for (_, day), status in statuses(home).items() if day == "2026-10-01"}
    assert october == {"PENDING"}


@pytest.mark.long
def test_a_setting_approves_bills_with_usage_without_a_price(home):
    settings(home, **GRACE)
    pricing = {"code": "sent", "planId": "basic", "aggregationId": "sent", "cumulative": True}
    bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}]
    late = {**pricing, "startDate": "2026-09-10T00:00:00Z", "pricingBands": bands}
    configure(home.organization, pricings=[late])
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)
    home.clock.advance(hours=3)
    assert approve(home) == 0

    approve_held_bills(home)
    assert approve(home) == 2


@pytest.mark.long
def test_locked_bills_and_those_of_other_days_stay(home):
    settings(home, **GRACE)
    create(home.organization, "ann", {"billDate": "2026-10-01"})
    run_all(home)
    home.clock.time -= timedelta(hours=1)

    assert approve(home) == 0
