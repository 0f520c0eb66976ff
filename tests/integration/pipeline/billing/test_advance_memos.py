"""Plans that end, are replaced or extended after they were billed in advance."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from meterlake.model.bills.jobs import BillOrder
from meterlake.model.bills.requests import BillStatus
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.catalog.plans import Plan, PlanTemplate
from meterlake.model.customers.accounts import AccountPlan
from meterlake.pipeline.billing.explanation.explain import ExplanationRequest, explain_bill
from meterlake.pipeline.billing.jobs.jobs import bill_order, run_bill_job
from meterlake.pipeline.billing.jobs.schedule import submit_scheduled
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.memos.memos import line_id
from tests.explained_trees import as_node, check_tree
from tests.homes import a_home, configure

pytestmark = pytest.mark.usefixtures("home_database")

MEMOS = {"CREDIT_MEMO", "DEBIT_MEMO"}


def template(code, charge, **more):
    return {
        "code": code,
        "name": code,
        "productId": "cloud",
        "currency": "USD",
        "standingCharge": charge,
        "standingChargeBillInAdvance": True,
        "billFrequency": "MONTHLY",
        **more,
    }


@pytest.fixture
def home(tmp_path):
    """A year for 365, a month for 31 or 62; all in advance; and quarters in a lump with month one."""
    with a_home(tmp_path) as made:
        templates = [
            template("year", 365, billFrequency="ANNUALLY"),
            template("month", 31),
            template("double", 62),
            template("minimum", 0, minimumSpend=62, minimumSpendBillInAdvance=True),
            template("quarter", 90, standingChargeBillInAdvance=False, standingChargeInterval=3),
        ]
        configure(
            made.organization,
            organizationConfig={"daysBeforeBillDue": 14, "allowOverlappingPlans": True},
            products=[{"code": "cloud", "name": "Cloud"}],
            planTemplates=templates,
            plans=[
                {"code": each["code"], "name": each["code"], "planTemplateId": each["code"]}
                for each in templates
            ],
        )
        yield made


def subscribe(home, plan, start, end=None, code=None):
    """Put acme on a plan for some days, or change when it is on it."""
    row = {
        "code": code or plan,
        "accountId": "acme",
        "planId": plan,
        "startDate": f"{start}T00:00:00Z",
    }
    if end is not None:
        row["endDate"] = f"{end}T00:00:00Z"
    configure(home.organization, accountPlans=[row])


def make(home, day, **more):
    """Make the bills of a date, as a job does that is asked for them."""
    last = date.fromisoformat(day) - timedelta(days=1)
    return bill_order(home.organization, BillOrder(days=DayRange.of_day(last), **more))


def stored(home):
    with home.organization.reading() as reader:
        return bills.of_period(reader)


def lock(home, day):
    [found] = [each for each in stored(home) if str(each.content.key.bill_date) == day]
    with home.organization.transaction("test") as transaction:
        bills.set_status(transaction, found.id, BillStatus.APPROVED)
        bills.lock(transaction, found.id)


def bill_and_lock(home, plan):
    """Put acme on a plan from the first of January on, and lock the bill of that day."""
    subscribe(home, plan, "2026-01-01")
    make(home, "2026-01-01")
    lock(home, "2026-01-01")


def lines(home):
    """All lines by bill date, as (type, amount); credits and debits with what they refer to."""
    found = {}
    for bill in stored(home):
        rows = [
            (each.body["lineItemType"], Decimal(each.body["convertedSubtotal"]))
            for each in bill.content.lines
        ]
        found[f"{bill.content.key.bill_date} {bill.content.key.frequency}"] = rows
    return found


def total(home):
    return sum((each.content.total for each in stored(home)), Decimal(0))


def memos(home):
    return {
        day: [amount for kind, amount in rows if kind in MEMOS]
        for day, rows in lines(home).items()
        if any(kind in MEMOS for kind, _ in rows)
    }


@pytest.mark.long
def test_an_unlocked_bill_is_calculated_again_by_any_later_job(home):
    subscribe(home, "month", "2026-01-01")
    make(home, "2026-01-01")
    make(home, "2026-02-01")
    subscribe(home, "month", "2026-01-01", "2026-02-11")
    result = make(home, "2026-03-01")

    assert [str(each.bill_date) for each in result.bills] == ["2026-03-01", "2026-02-01"]
    assert lines(home)["2026-02-01 MONTHLY"] == [("STANDING_CHARGE", Decimal("11.07"))]
    assert not memos(home)


@pytest.mark.long
def test_a_locked_year_that_ends_on_day_100_gives_back_the_rest(home):
    bill_and_lock(home, "year")
    subscribe(home, "year", "2026-01-01", "2026-04-11")
    for _ in range(2):
        make(home, "2027-01-01")

    assert lines(home) == {
        "2026-01-01 ANNUALLY": [("STANDING_CHARGE", 365)],
        "2027-01-01 ANNUALLY": [("CREDIT_MEMO", -265)],
    }
    [charged, corrected] = stored(home)
    [line], [memo] = charged.content.lines, corrected.content.lines
    assert memo.body["referencedBillId"] == charged.id
    assert memo.body["referencedLineItemId"] == line_id(charged.id, line.key)
    assert memo.body["servicePeriodStartDate"] == "2026-04-11T00:00:00Z"
    assert memo.body["servicePeriodEndDate"] == "2027-01-01T00:00:00Z"
    assert memo.body["productCode"] == "cloud"


def test_a_plan_that_is_replaced_on_the_10th_gives_back_from_then_on(home):
    bill_and_lock(home, "month")
    subscribe(home, "month", "2026-01-01", "2026-01-10")
    subscribe(home, "double", "2026-01-10")
    make(home, "2026-02-01")

    assert lines(home)["2026-02-01 MONTHLY"] == [
        ("STANDING_CHARGE", 44),
        ("STANDING_CHARGE", 62),
        ("CREDIT_MEMO", -22),
    ]


@pytest.mark.long
def test_a_memo_follows_every_change_while_its_own_bill_is_unlocked(home):
    bill_and_lock(home, "year")
    for end, amount in (("2026-07-20", -165), ("2026-04-11", -265), ("2026-12-31", -1)):
        subscribe(home, "year", "2026-01-01", end)
        make(home, "2027-01-01")
        assert memos(home) == {"2027-01-01 ANNUALLY": [amount]}
    subscribe(home, "year", "2026-01-01", "2027-06-01")
    make(home, "2027-01-01")
    assert not memos(home)


@pytest.mark.long
def test_what_ended_twice_or_was_extended_again_is_corrected_by_the_difference(home):
    subscribe(home, "year", "2026-01-01")
    subscribe(home, "month", "2026-01-02", code="other")
    make(home, "2026-01-01")
    lock(home, "2026-01-01")
    subscribe(home, "year", "2026-01-01", "2026-07-20")
    make(home, "2026-02-01")
    lock(home, "2026-02-01")
    subscribe(home, "year", "2026-01-01", "2026-04-11")
    make(home, "2026-03-01")
    make(home, "2026-03-01")
    assert memos(home) == {"2026-02-01 MONTHLY": [-165], "2026-03-01 MONTHLY": [-100]}
    lock(home, "2026-03-01")
    subscribe(home, "year", "2026-01-01", "2026-10-08")
    make(home, "2026-04-01")
    make(home, "2026-05-01")

    found = memos(home)
    assert found == {
        "2026-02-01 MONTHLY": [-165],
        "2026-03-01 MONTHLY": [-100],
        "2026-04-01 MONTHLY": [180],
    }
    assert lines(home)["2026-04-01 MONTHLY"][-1][0] == "DEBIT_MEMO"


@pytest.mark.long
def test_without_a_next_bill_there_is_one_on_the_day_of_the_plans_next_one(home):
    """The plan ends with the bill that charged the next month: it has no bill any more."""
    subscribe(home, "month", "2026-01-01")
    make(home, "2026-02-01")
    lock(home, "2026-02-01")
    subscribe(home, "month", "2026-01-01", "2026-02-01")
    make(home, "2026-03-01")
    make(home, "2026-04-01")

    assert lines(home) == {
        "2026-02-01 MONTHLY": [("STANDING_CHARGE", 31)],
        "2026-03-01 AD_HOC": [("CREDIT_MEMO", -31)],
    }
    # It is extended again: what stands on the bill that may be changed goes.
    subscribe(home, "month", "2026-01-01", "2026-03-01")
    make(home, "2026-03-01")
    assert lines(home)["2026-03-01 AD_HOC"] == []


@pytest.mark.long
def test_a_later_job_makes_the_bill_of_a_memo_that_was_never_made(home):
    subscribe(home, "month", "2026-01-01")
    make(home, "2026-02-01")
    lock(home, "2026-02-01")
    subscribe(home, "month", "2026-01-01", "2026-02-01")
    make(home, "2026-05-01")

    assert memos(home) == {"2026-03-01 AD_HOC": [-31]}


@pytest.mark.long
def test_a_bill_that_was_made_before_gets_the_memo_of_a_change_of_today(home):
    bill_and_lock(home, "month")
    make(home, "2026-02-01")
    subscribe(home, "month", "2026-01-01", "2026-01-11")
    make(home, "2026-04-01")

    assert lines(home)["2026-02-01 MONTHLY"] == [("CREDIT_MEMO", -21)]


@pytest.mark.long
def test_no_memo_goes_on_a_bill_that_the_lock_date_closes(home):
    subscribe(home, "month", "2026-01-01")
    make(home, "2026-01-01", approve=True)
    configure(home.organization, billConfig={"billLockDate": "2026-01-31"})
    subscribe(home, "month", "2026-01-01", "2026-01-11")
    make(home, "2026-02-01")
    make(home, "2026-03-01")

    assert memos(home) == {"2026-03-01 AD_HOC": [-21]}


@pytest.mark.long
@pytest.mark.parametrize("charge", [310, 0])
def test_prices_of_a_memo_are_those_of_its_line(home, charge):
    bill_and_lock(home, "month")
    changed = template("month", charge)
    configure(home.organization, planTemplates=[changed])
    make(home, "2026-02-01")
    assert not memos(home)

    subscribe(home, "month", "2026-01-01", "2026-01-11")
    make(home, "2026-02-01")
    assert lines(home)["2026-02-01 MONTHLY"] == [("CREDIT_MEMO", -21)]


@pytest.mark.long
def test_a_group_of_three_months_that_ends_in_its_second_one_is_corrected(home):
    subscribe(home, "quarter", "2026-01-01")
    make(home, "2026-02-01")
    lock(home, "2026-02-01")
    subscribe(home, "quarter", "2026-01-01", "2026-02-15")
    make(home, "2026-03-01")

    assert lines(home) == {
        "2026-02-01 MONTHLY": [("STANDING_CHARGE", 90)],
        "2026-03-01 MONTHLY": [("CREDIT_MEMO", -45)],
    }


@pytest.mark.long
def test_a_minimum_in_advance_is_corrected_and_given_back_within_what_is_left(home):
    bill_and_lock(home, "minimum")
    subscribe(home, "minimum", "2026-01-01", "2026-01-11")
    make(home, "2026-02-01")

    assert memos(home) == {"2026-02-01 MONTHLY": [-42]}
    assert total(home) == 20


def test_another_change_of_an_account_plan_makes_no_memo(home):
    subscribe(home, "month", "2026-01-01")
    make(home, "2026-02-01")
    lock(home, "2026-02-01")
    row = {
        "code": "month",
        "accountId": "acme",
        "planId": "month",
        "startDate": "2026-01-01T00:00:00Z",
    }
    configure(home.organization, accountPlans=[row | {"childBillingMode": "CHILD"}])
    make(home, "2026-03-01")

    assert not memos(home)


@pytest.mark.long
def test_the_scheduled_job_makes_bills_again_that_it_would_not_look_at(home):
    """A bill of January that may be changed, and a plan that ends early: it is the next year."""
    subscribe(home, "month", "2026-01-01")
    make(home, "2026-02-01")
    subscribe(home, "month", "2026-01-01", "2026-02-11")
    home.clock.time = datetime(2027, 4, 3, tzinfo=UTC)
    configure(
        home.organization,
        organizationConfig={
            "daysBeforeBillDue": 14,
            "allowOverlappingPlans": True,
            "scheduledBillInterval": 1,
        },
    )
    home.clock.advance(hours=2)
    job = submit_scheduled(home.organization)
    result = run_bill_job(home.stores, job)

    assert [str(each.bill_date) for each in result.bills] == ["2026-02-01"]
    # 10 of 28 days of February.
    assert lines(home) == {"2026-02-01 MONTHLY": [("STANDING_CHARGE", Decimal("11.07"))]}


@pytest.mark.long
def test_bills_of_a_date_that_are_one_have_the_memo(home):
    configure(
        home.organization, organizationConfig={"daysBeforeBillDue": 14, "consolidateBills": True}
    )
    bill_and_lock(home, "year")
    subscribe(home, "year", "2026-01-01", "2026-04-11")
    subscribe(home, "month", "2026-04-11")
    make(home, "2026-05-01")

    assert lines(home)["2026-05-01 MIXED"] == [
        ("STANDING_CHARGE", Decimal("20.67")),
        ("STANDING_CHARGE", 31),
        ("CREDIT_MEMO", -265),
    ]


@pytest.mark.long
def test_a_plan_of_a_child_is_corrected_on_the_bill_of_its_parent(home):
    configure(
        home.organization,
        accounts=[
            {"code": "child", "name": "Child", "emailAddress": "c@example.com"}
            | {"parentAccountId": "acme"}
        ],
    )
    row = {"code": "of child", "accountId": "child", "planId": "month"}
    row["startDate"] = "2026-01-01T00:00:00Z"
    configure(home.organization, accountPlans=[row])
    make(home, "2026-01-01")
    lock(home, "2026-01-01")
    configure(home.organization, accountPlans=[row | {"endDate": "2026-01-10T00:00:00Z"}])
    make(home, "2026-02-01")

    [corrected] = [each for each in stored(home) if str(each.content.key.bill_date) == "2026-02-01"]
    [memo] = corrected.content.lines
    assert corrected.content.body["accountCode"] == "acme"
    assert memo.body["childAccountCode"] == "child"
    assert (
        memo.body["convertedSubtotal"] == "-22.00" or Decimal(memo.body["convertedSubtotal"]) == -22
    )


@pytest.mark.long
def test_only_what_is_charged_for_a_time_after_the_bill_date_is_corrected(home):
    """A plan begins in mid-period: its first part, which is over, and the next month stand on a bill."""
    subscribe(home, "month", "2026-01-17")
    make(home, "2026-02-01")
    lock(home, "2026-02-01")
    subscribe(home, "month", "2026-01-17", "2026-01-22")
    make(home, "2026-03-01")

    assert lines(home) == {
        "2026-02-01 MONTHLY": [("STANDING_CHARGE", 15), ("STANDING_CHARGE", 31)],
        "2026-03-01 AD_HOC": [("CREDIT_MEMO", -31)],
    }


@pytest.mark.long
def test_a_plan_that_ended_before_and_is_extended_gets_a_debit_on_the_same_bill_as_its_own(home):
    """Half of January is charged and locked; then the plan holds on."""
    subscribe(home, "month", "2026-01-01", "2026-01-11")
    make(home, "2026-01-01")
    lock(home, "2026-01-01")
    subscribe(home, "month", "2026-01-01")
    make(home, "2026-02-01")

    assert lines(home) == {
        "2026-01-01 MONTHLY": [("STANDING_CHARGE", 10)],
        "2026-02-01 MONTHLY": [("STANDING_CHARGE", 31), ("DEBIT_MEMO", 21)],
    }
    assert total(home) == 62


def delete(home, kind, code):
    with home.organization.transaction("test") as transaction:
        transaction.delete(kind, transaction.find(kind, code).id)


@pytest.mark.long
def test_a_plan_that_is_deleted_after_its_bill_was_locked_gives_all_of_it_back(home):
    bill_and_lock(home, "year")
    delete(home, AccountPlan, "year")
    make(home, "2027-01-01")

    assert lines(home) == {
        "2026-01-01 ANNUALLY": [("STANDING_CHARGE", 365)],
        "2027-01-01 AD_HOC": [("CREDIT_MEMO", -365)],
    }
    lock(home, "2027-01-01")
    make(home, "2028-01-01")
    assert total(home) == 0


@pytest.mark.long
def test_a_plan_that_ended_and_is_deleted_then_gives_back_the_rest(home):
    bill_and_lock(home, "year")
    subscribe(home, "month", "2026-01-02")
    subscribe(home, "year", "2026-01-01", "2026-07-20")
    make(home, "2026-02-01")
    assert lines(home)["2026-02-01 MONTHLY"][-1] == ("CREDIT_MEMO", -165)
    lock(home, "2026-02-01")

    delete(home, AccountPlan, "year")
    make(home, "2026-03-01")
    assert lines(home)["2026-03-01 MONTHLY"] == [("STANDING_CHARGE", 31), ("CREDIT_MEMO", -200)]
    make(home, "2026-03-01")
    assert lines(home)["2026-03-01 MONTHLY"] == [("STANDING_CHARGE", 31), ("CREDIT_MEMO", -200)]


@pytest.mark.long
@pytest.mark.parametrize("kinds", [(Plan,), (Plan, PlanTemplate)])
def test_a_plan_may_be_deleted_with_its_account_plan(home, kinds):
    bill_and_lock(home, "year")
    subscribe(home, "month", "2026-01-02")
    delete(home, AccountPlan, "year")
    for kind in kinds:
        delete(home, kind, "year")
    make(home, "2026-02-01")

    assert lines(home)["2026-02-01 MONTHLY"][-1] == ("CREDIT_MEMO", -365)


@pytest.mark.long
def test_a_bill_that_is_not_locked_has_nothing_of_a_deleted_plan_with_the_next_job(home):
    subscribe(home, "month", "2026-01-01")
    subscribe(home, "year", "2026-01-01")
    make(home, "2026-01-01")
    delete(home, AccountPlan, "year")
    make(home, "2026-02-01")

    assert total(home) == 62
    assert not [each for rows in lines(home).values() for each in rows if each[0] in MEMOS]


@pytest.mark.long
def test_a_plan_that_is_deleted_and_comes_back_under_its_id_is_charged(home):
    bill_and_lock(home, "year")
    with home.organization.transaction("test") as transaction:
        record = transaction.find(AccountPlan, "year")
        transaction.delete(AccountPlan, record.id)
        transaction.create(record.entity, record.id)
    make(home, "2027-01-01")

    assert lines(home)["2027-01-01 ANNUALLY"] == [("STANDING_CHARGE", 365)]


@pytest.mark.long
def test_a_plan_that_has_no_billing_periods_any_more_is_corrected_all_the_same(home):
    """Its bill says when the next one would have been."""
    bill_and_lock(home, "year")
    configure(home.organization, planTemplates=[template("year", 365, billFrequency="AD_HOC")])
    subscribe(home, "year", "2026-01-01", "2026-04-11")
    make(home, "2027-01-01")

    assert lines(home) == {
        "2026-01-01 ANNUALLY": [("STANDING_CHARGE", 365)],
        "2027-01-01 AD_HOC": [("CREDIT_MEMO", -265)],
    }


@pytest.mark.long
def test_the_memo_of_a_line_is_explained_by_what_the_line_would_be(home):
    bill_and_lock(home, "month")
    subscribe(home, "month", "2026-01-01", "2026-01-10")
    make(home, "2026-02-01")
    [found] = [each for each in stored(home) if str(each.content.key.bill_date) == "2026-02-01"]

    explained = explain_bill(home.organization, ExplanationRequest(found.id))

    tree = as_node(explained.root)
    check_tree(tree)
    assert explained.differences == []
    [memo] = tree["children"]
    assert (memo["facts"]["type"], memo["value"]) == ("CREDIT_MEMO", "-22")
    [difference] = memo["children"]
    assert difference["rule"] == "difference"
    assert [each["value"] for each in difference["children"]] == ["9", "31"]
    references = difference["children"][1]["facts"]
    assert references["line"] == found.content.lines[0].body["referencedLineItemId"]
