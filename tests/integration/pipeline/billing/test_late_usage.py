"""Late usage of closed periods: found, and recalculated, carried forward or reported, each once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from sqlalchemy import text

from meterlake.model.bills.jobs import NO_DAYS, BillOrder
from meterlake.model.bills.late_usage import LateUsageStatus
from meterlake.model.bills.memos import CreditLineItem, DebitLineItem
from meterlake.model.bills.requests import BillStatus
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.pipeline.billing.late_usage.apply import _Application
from meterlake.pipeline.billing.late_usage.policy import LateRules
from meterlake.pipeline.billing.memos import MemoRef, delete_memo, list_memos
from meterlake.pipeline.billing.run import BillResult, BillRun
from meterlake.pipeline.billing.verification.verify import VerifyChoice, verify_bills
from meterlake.stages.bill import BillSelection
from meterlake.stores import open_stores
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.late_usage.late_bills import late_bills_by_id
from meterlake.stores.state.billing.late_usage.lists import undecided_late_usage
from meterlake.stores.state.billing.memos.memos import line_id
from meterlake.stores.state.core.pages import Page
from tests.bills import use
from tests.homes import HEADER, configure, csv_row
from tests.late_bills import (
    NOVEMBER,
    OCTOBER,
    SEPTEMBER,
    apply_now,
    choose,
    closed_september,
    decided,
    lates,
    lock,
    memos,
    remove,
    retract,
    revert,
    schedule,
    stored,
    totals,
)

pytestmark = pytest.mark.usefixtures("home_database")


@pytest.fixture
def home(tmp_path):
    """A home in which September is billed, and closed, and October is open: it is 2 October."""
    with closed_september(tmp_path) as home:
        yield home


@pytest.mark.slow
def test_without_late_usage_nothing_is_noted(home):
    for policy in ("REPORT", "CARRY_FORWARD", "RECALCULATE"):
        choose(home, policy)
        schedule(home)

    assert decided(home) == []


@pytest.mark.slow
def test_late_usage_is_reported_and_changes_no_bill_unless_a_policy_says_so(home):
    before = totals(home)
    use(home, ("late", "acme", 1), ("late2", "acme", 2))
    home.clock.advance(hours=1)
    schedule(home)
    schedule(home)

    [late] = lates(home)
    assert decided(home) == [("acme", "2026-09", "REPORTED", 3)]
    assert late.is_open
    [source] = late.sources
    assert (source.name, source.measurements) == ("late.csv", 2)
    assert source.first == datetime(2026, 10, 2, tzinfo=UTC)
    assert totals(home) == {**before}


@pytest.mark.happens("bills.lateusage.decision")
def test_a_difference_is_carried_once_by_a_memo_that_names_the_line(home):
    choose(home, "CARRY_FORWARD")
    use(home, ("late", "acme", 1))
    schedule(home)
    schedule(home)

    assert totals(home) == {SEPTEMBER: Decimal("73.5"), OCTOBER: 32}
    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 1, True)]
    assert decided(home) == [("acme", "2026-09", "CARRIED", 1)]
    september, october = (stored(home)["acme", day] for day in (SEPTEMBER, OCTOBER))
    memo = october.content.lines[-1].body
    usage = next(each for each in september.content.lines if each.body["lineItemType"] == "USAGE")
    assert memo["referencedBillId"] == september.id
    assert memo["description"] == f"Late usage: {usage.body['description']}"
    assert memo["productId"] == usage.body["productId"]
    assert verify_bills(home.organization, VerifyChoice()).differences == ()


@pytest.mark.long
def test_late_usage_of_bills_that_carry_that_of_others_is_carried_at_once(home):
    choose(home, "CARRY_FORWARD")
    home.clock.time = datetime(2026, 11, 2, tzinfo=UTC)
    schedule(home)
    use(home, ("late", "acme", 1))
    home.ingest("october.csv", HEADER + csv_row("o", 2, "acme", ts="2026-10-03T00:00:00Z"))
    schedule(home)

    # The memo of September came onto the bill of October after that had been compared.
    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 1, True)]
    assert memos(home, NOVEMBER) == [("DEBIT_MEMO", 2, False)]
    assert sorted(decided(home)) == [
        ("acme", "2026-09", "CARRIED", 1),
        ("acme", "2026-10", "CARRIED", 2),
    ]


@pytest.mark.slow
def test_an_unlocked_bill_is_made_again_and_a_locked_one_reported(home):
    choose(home, "RECALCULATE")
    lock(home, "bolt", SEPTEMBER)
    use(home, ("late", "acme", 1), ("late2", "bolt", -150))
    schedule(home)
    schedule(home)

    assert totals(home)[SEPTEMBER] == Decimal("74.5")
    assert totals(home, "bolt")[SEPTEMBER] == 131
    assert sorted(decided(home)) == [
        ("acme", "2026-09", "RECALCULATED", 1),
        ("bolt", "2026-09", "REPORTED", -50),
    ]
    by_account = {each.account_code: each for each in lates(home)}
    assert by_account["acme"].new_version == 2
    assert by_account["bolt"].reason == "the bill is locked"


@pytest.mark.slow
def test_what_a_backfill_takes_away_and_gives_back_is_carried_both_times(home):
    """The table of the page on late usage, row by row."""
    choose(home, "CARRY_FORWARD")
    use(home, ("late", "acme", 1))
    schedule(home)
    backfill_id = retract(home, "late.csv")
    schedule(home)
    schedule(home)
    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 1, True), ("CREDIT_MEMO", -1, True)]
    assert totals(home)[OCTOBER] == 31

    revert(home, backfill_id)
    schedule(home)
    schedule(home)

    assert [amount for _, amount, _ in memos(home, OCTOBER)] == [1, -1, 1]
    assert decided(home) == [("acme", "2026-09", "CARRIED", n) for n in (1, -1, 1)]
    sources = [each.sources[0] for each in reversed(lates(home))]
    assert [each.name for each in sources] == [
        "late.csv",
        "retract of late.csv, applied",
        "retract of late.csv, reverted",
    ]
    assert [each.measurements for each in sources] == [1, 1, 1]
    assert sources[1].id == sources[2].id == backfill_id

    bill_order(home.organization, BillOrder(days=Month(2026, 9)))
    schedule(home)
    assert [amount for _, amount, _ in memos(home, OCTOBER)] == [1, -1, 1, -1]
    assert totals(home) == {SEPTEMBER: Decimal("74.5"), OCTOBER: 31}


@pytest.mark.slow
def test_a_retraction_of_what_was_billed_is_a_credit(home):
    choose(home, "CARRY_FORWARD")
    retract(home, "1.csv")
    schedule(home)

    assert memos(home, OCTOBER) == [("CREDIT_MEMO", Decimal("-42.5"), True)]
    # Of bolt, 100 of 200 were free of charge.
    assert memos(home, OCTOBER, "bolt") == [("CREDIT_MEMO", -100, True)]


@pytest.mark.slow
def test_a_memo_waits_for_the_next_bill_and_comes_once(home):
    choose(home, "CARRY_FORWARD")
    remove(home, "acme", OCTOBER)
    use(home, ("late", "acme", 1))
    month = BillOrder(days=NO_DAYS, late_usage=True)
    bill_order(home.organization, month)
    bill_order(home.organization, month)
    [late] = lates(home)
    assert (late.status, late.difference) == (LateUsageStatus.WAITING, 1)
    assert late.reason == "the account has no later bill yet that is PENDING"

    schedule(home)
    schedule(home)

    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 1, True)]
    assert decided(home) == [("acme", "2026-09", "CARRIED", 1)]


@pytest.mark.slow
def test_a_memo_goes_on_no_bill_that_is_approved_locked_or_closed(home):
    choose(home, "CARRY_FORWARD")
    home.clock.time = datetime(2026, 12, 5, tzinfo=UTC)
    schedule(home)
    month = BillOrder(days=Month(2026, 11))
    bill_order(home.organization, month)
    lock(home, "acme", OCTOBER)
    with home.organization.transaction("ann") as transaction:
        id_ = stored(home)["acme", NOVEMBER].id
        bills.set_status(transaction, id_, BillStatus.APPROVED)
    use(home, ("late", "acme", 1))
    schedule(home)

    assert memos(home, OCTOBER) == memos(home, NOVEMBER) == []
    assert memos(home, "2027-01-01") == [("DEBIT_MEMO", 1, True)]


@pytest.mark.slow
def test_a_memo_of_a_deleted_bill_is_carried_anew_and_one_that_a_person_deleted_is_not(home):
    choose(home, "CARRY_FORWARD")
    use(home, ("late", "acme", 1), ("late2", "bolt", -150))
    schedule(home)
    remove(home, "acme", OCTOBER)
    [line] = [each for each in stored(home)["bolt", OCTOBER].content.lines if "MEMO/" in each.key]
    october = stored(home)["bolt", OCTOBER].id
    ref = MemoRef(CreditLineItem, october, line_id(october, line.key))
    delete_memo(home.organization, "ann", ref)
    assert totals(home, "bolt")[OCTOBER] == 31

    schedule(home)
    schedule(home)

    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 1, True)]
    assert memos(home, OCTOBER, "bolt") == []
    remove(home, "bolt", OCTOBER)
    schedule(home)
    assert memos(home, OCTOBER, "bolt") == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["REPORT", "CARRY_FORWARD"])
def test_what_was_carried_is_taken_back_if_the_bill_itself_gets_it(home, policy):
    choose(home, "CARRY_FORWARD")
    use(home, ("late", "acme", 1))
    schedule(home)
    choose(home, policy)
    bill_order(home.organization, BillOrder(days=Month(2026, 9)))
    assert totals(home) == {SEPTEMBER: Decimal("74.5"), OCTOBER: 31}
    schedule(home)
    schedule(home)

    assert totals(home) == {SEPTEMBER: Decimal("74.5"), OCTOBER: 31}
    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 1, True), ("CREDIT_MEMO", -1, True)]


@pytest.mark.slow
def test_a_bill_that_is_deleted_and_made_anew_is_charged_once(home):
    choose(home, "CARRY_FORWARD")
    use(home, ("late", "acme", 1))
    schedule(home)
    remove(home, "acme", SEPTEMBER)
    bill_order(home.organization, BillOrder(days=Month(2026, 9)))
    schedule(home)

    assert sum(totals(home).values()) == Decimal("74.5") + 31


@pytest.mark.slow
def test_usage_that_is_reported_and_billed_by_hand_is_open_no_more(home):
    use(home, ("late", "acme", 1))
    schedule(home)
    bill_order(home.organization, BillOrder(days=Month(2026, 9)))
    schedule(home)

    [late] = lates(home)
    assert (late.status, late.difference, late.new_version) == (
        LateUsageStatus.RECALCULATED,
        1,
        2,
    )


@pytest.mark.slow
def test_what_was_reported_is_carried_when_the_policy_says_so(home):
    use(home, ("late", "acme", 1))
    schedule(home)
    choose(home, "CARRY_FORWARD")
    schedule(home)

    assert decided(home) == [("acme", "2026-09", "CARRIED", 1)]
    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 1, True)]


@pytest.mark.slow
def test_a_new_price_is_no_late_usage_and_late_usage_has_the_price_of_its_bill(home):
    choose(home, "CARRY_FORWARD")
    price = {"code": "sent", "planId": "basic", "aggregationId": "sent", "cumulative": True}
    bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 9}]
    price |= {"startDate": "2026-01-01T00:00:00Z", "pricingBands": bands}
    configure(home.organization, pricings=[price])
    use(home, ("late", "acme", 1))
    schedule(home)

    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 1, True)]


@pytest.mark.slow
def test_usage_that_nothing_charges_is_no_difference(home):
    choose(home, "CARRY_FORWARD")
    # Beyond 100 all is free of charge.
    use(home, ("late", "bolt", 5))
    schedule(home)
    schedule(home)

    assert decided(home) == [("bolt", "2026-09", "UNCHANGED", 0)]
    assert memos(home, OCTOBER, "bolt") == []


@pytest.mark.slow
def test_usage_of_a_period_without_a_bill_is_not_late(home):
    choose(home, "CARRY_FORWARD")
    late = HEADER + csv_row("old", 1, "acme", ts="2026-08-03T00:00:00Z")
    home.ingest("old.csv", late)
    schedule(home)

    assert decided(home) == []


@pytest.mark.slow
def test_usage_of_the_open_period_is_billed_as_ever(home):
    choose(home, "CARRY_FORWARD")
    late = HEADER + csv_row("new", 1, "acme", ts="2026-10-01T00:00:00Z")
    home.ingest("new.csv", late)
    schedule(home)

    assert decided(home) == []
    assert totals(home)[OCTOBER] == 32


def apply_elsewhere(home):
    """The same as a worker with stores of its own."""
    with open_stores(home.stores.settings, home.clock) as stores:
        bill_order(stores.organization(home.org_id), BillOrder(days=NO_DAYS, late_usage=True))


@pytest.mark.slow
def test_two_workers_at_once_carry_each_difference_once(home):
    choose(home, "CARRY_FORWARD")
    for number in range(3):
        use(home, (f"late{number}", "acme", 1), (f"more{number}", "bolt", -150))
        with ThreadPoolExecutor(2) as workers:
            list(workers.map(apply_elsewhere, [home, home]))

    assert totals(home)[OCTOBER] == 34
    # 200 less 450: the price of less than nothing is that of its units.
    assert sum(amount for _, amount, _ in memos(home, OCTOBER, "bolt")) == -350
    assert [each.status.value for each in lates(home)] == ["CARRIED"] * 6


@pytest.mark.slow
@pytest.mark.parametrize("more", [0, 5])
def test_who_decides_too_late_decides_nothing(home, more):
    """One worker has compared; another one decides, perhaps with more usage; then the first goes on."""
    choose(home, "CARRY_FORWARD")
    use(home, ("late", "acme", 1))
    slow = policy_of(home)
    slow._note_findings()
    with home.organization.reading() as reader:
        waiting = undecided_late_usage(reader)
        found = late_bills_by_id(reader, [each.bill_id for each in waiting])
    if more:
        use(home, ("more", "acme", more))
    apply_now(home)
    before = totals(home)

    slow._decide_some(waiting, found)

    assert totals(home) == before
    assert before[OCTOBER] == 32 + more


def policy_of(home):
    """The policy as a worker applies it that reads the lake of now."""
    days = DayRange.of_day(date(2026, 10, 1))
    run = BillRun(home.organization, BillSelection(days))
    result = BillResult(days, "a job", home.organization.lake.snapshot())
    return _Application(run, LateRules.read(run, result), None)


@pytest.mark.slow
def test_usage_of_a_child_is_late_for_the_bill_of_its_parent(home):
    child = {"code": "kid", "name": "Kid", "emailAddress": "a@kid.example"}
    configure(home.organization, accounts=[{**child, "parentAccountId": "acme"}])
    # It comes out as before, but the child counts from now on.
    bill_order(home.organization, BillOrder(days=Month(2026, 9)))
    choose(home, "CARRY_FORWARD")
    use(home, ("late", "kid", 3))
    schedule(home)

    # The child had no line.
    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 3, False)]


@pytest.mark.slow
def test_a_line_that_the_bill_does_not_have_is_named_by_the_bill_only(home):
    choose(home, "CARRY_FORWARD")
    retract(home, "1.csv")
    bill_order(home.organization, BillOrder(days=Month(2026, 9)))
    assert totals(home)[SEPTEMBER] == 31
    use(home, ("late", "acme", 4))
    schedule(home)
    schedule(home)

    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 4, False)]
    october, september = stored(home)["acme", OCTOBER], stored(home)["acme", SEPTEMBER]
    assert october.content.lines[-1].body["referencedBillId"] == september.id
    page = list_memos(home.organization, MemoRef(DebitLineItem, october.id), Page(10))
    [entered] = page["data"]
    assert "referencedLineItemId" not in entered
    assert entered["amount"] == 4


@pytest.mark.slow
def test_a_memo_is_in_the_currency_of_its_bill(home):
    account = {"code": "acme", "name": "acme", "emailAddress": "a@a.example", "currency": "EUR"}
    configure(home.organization, currencies=[{"code": "EUR", "name": "Euro"}])
    configure(home.organization, accounts=[account])
    rates = [{"from": "USD", "to": "EUR", "multiplier": Decimal("0.9")}]
    wanted = {"daysBeforeBillDue": 14, "lateUsage": "CARRY_FORWARD", "currencyConversions": rates}
    configure(home.organization, organizationConfig=wanted)
    remove(home, "acme", OCTOBER)
    use(home, ("late", "acme", 3))
    schedule(home)

    [late] = lates(home)
    [line] = late.lines
    assert (late.difference, late.currency) == (3, "USD")
    assert (line.memo_amount, line.memo_currency) == (Decimal("2.7"), "EUR")
    assert memos(home, OCTOBER) == [("DEBIT_MEMO", Decimal("2.7"), True)]


@pytest.mark.slow
def test_what_other_code_makes_otherwise_is_no_late_usage(home):
    """A bill of before an update differs by its usage only."""
    choose(home, "CARRY_FORWARD")
    with home.stores.state.writing_home() as connection:
        connection.execute(text("UPDATE bill_calculation SET digest = 'other'"))
        change = "UPDATE bill_line SET body = replace(body, '42.5', '40') WHERE body LIKE '%42.5%'"
        connection.execute(text(change))
    use(home, ("late", "acme", 3))
    schedule(home)

    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 3, True)]


@pytest.mark.slow
def test_a_bill_without_pins_is_said_to_have_failed_and_changes_nothing(home):
    choose(home, "CARRY_FORWARD")
    with home.stores.state.writing_home() as connection:
        change = "UPDATE bill SET calculation_id = NULL WHERE bill_date = '2026-10-01'"
        connection.execute(text(change))
    use(home, ("late", "acme", 3))
    schedule(home)

    assert decided(home) == [("acme", "2026-09", "FAILED", None)]
    assert "make it again" in lates(home)[0].reason
    bill_order(home.organization, BillOrder(days=Month(2026, 9)))
    schedule(home)
    assert decided(home) == [("acme", "2026-09", "RECALCULATED", 3)]


@pytest.mark.slow
def test_a_minimum_spend_that_late_usage_reaches_is_carried_with_it(home):
    """30 at least: late usage of 5 of bolt's is paid for by the minimum that it had paid."""
    choose(home, "CARRY_FORWARD")
    template = {"code": "cloud", "name": "Cloud", "productId": "cloud", "currency": "USD"}
    more = {"standingCharge": 31, "billFrequency": "MONTHLY", "minimumSpend": 60}
    configure(home.organization, planTemplates=[{**template, **more}])
    bill_order(home.organization, BillOrder(days=Month(2026, 9)))
    assert totals(home)[SEPTEMBER] == 60 + 31
    use(home, ("late", "acme", 20))
    schedule(home)

    assert sorted(memos(home, OCTOBER)) == [
        ("CREDIT_MEMO", Decimal("-17.5"), True),
        ("DEBIT_MEMO", 20, True),
    ]


@pytest.mark.slow
def test_a_child_that_came_after_the_last_calculation_is_no_late_usage(home):
    child = {"code": "kid", "name": "Kid", "emailAddress": "a@kid.example"}
    choose(home, "CARRY_FORWARD")
    configure(home.organization, accounts=[{**child, "parentAccountId": "acme"}])
    use(home, ("late", "kid", 3))
    schedule(home)

    assert decided(home) == [("acme", "2026-09", "UNCHANGED", 0)]


@pytest.mark.slow
def test_what_came_before_the_last_calculation_of_an_unchanged_bill_is_not_late(home):
    """Usage that nothing charges changes no bill: each calculation has read it all the same."""
    choose(home, "CARRY_FORWARD")
    header = "meter,account,uid,ts,measure.n,cost.own,metadata.key\n"
    bill_order(home.organization, BillOrder(days=Month(2026, 9)))
    before = stored(home)["acme", SEPTEMBER].version
    home.ingest("calls.csv", header + "calls,acme,c1,2026-09-05T00:00:00Z,7,1,k\n")
    bill_order(home.organization, BillOrder(days=Month(2026, 9)))
    assert stored(home)["acme", SEPTEMBER].version == before
    schedule(home)
    assert decided(home) == []

    home.ingest("more.csv", header + "calls,acme,c2,2026-09-05T00:00:00Z,7,1,k\n")
    schedule(home)
    assert decided(home) == [("acme", "2026-09", "UNCHANGED", 0)]


@pytest.mark.slow
def test_a_calculation_that_cannot_be_read_stops_no_job_and_is_tried_again(home):
    choose(home, "CARRY_FORWARD")
    use(home, ("late", "acme", 3))
    with home.stores.state.writing_home() as connection:
        change = "UPDATE bill_calculation SET selection = 'broken' || selection"
        connection.execute(text(change))
    assert schedule(home).failures == []
    assert decided(home) == [("acme", "2026-09", "FAILED", None)]
    assert lates(home)[0].reason.startswith("an unexpected error")

    with home.stores.state.writing_home() as connection:
        change = "UPDATE bill_calculation SET selection = replace(selection, 'broken', '')"
        connection.execute(text(change))
    schedule(home)

    assert decided(home) == [("acme", "2026-09", "CARRIED", 3)]
