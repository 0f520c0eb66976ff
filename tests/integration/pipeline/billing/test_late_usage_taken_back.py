"""Memos of late usage are taken back once their bill itself has what they carry, or has lost it."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.cli import run
from meterlake.model.bills.jobs import BillOrder
from meterlake.model.bills.late_usage import LateSourceKind
from meterlake.model.bills.memos import CreditLineItem, DebitLineItem
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unbilled import ReviewKind
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import delete_bill
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.pipeline.billing.memos import MemoRef, delete_memo, get_memo, update_memo
from meterlake.pipeline.billing.verification.verify import VerifyChoice, verify_bills
from meterlake.pipeline.closing.bill_review import review_bills
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.memos.memos import line_id
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

# What acme's bills of September and October come to before anything is late.
BEFORE = Decimal("73.5") + 31


@pytest.fixture
def home(tmp_path):
    """A home in which September is billed, and closed, and October is open: it is 2 October."""
    with closed_september(tmp_path) as home:
        yield home


@pytest.fixture
def carried(home):
    """The same with 5 more of September on the bill of October."""
    choose(home, "CARRY_FORWARD")
    use(home, ("late", "acme", 5))
    schedule(home)
    assert memos(home, OCTOBER) == [("DEBIT_MEMO", 5, True)]
    return home


def billed(home):
    """What the bills of acme come to, and what of them is still open."""
    still = [each for each in lates(home) if each.is_open and each.account_code in {"", "acme"}]
    return sum(totals(home).values()), sum(each.difference for each in still)


def bill_september(home):
    bill_order(home.organization, BillOrder(days=Month(2026, 9)))


def approve(home, account, day):
    with home.organization.transaction("ann") as transaction:
        bills.set_status(transaction, stored(home)[account, day].id, BillStatus.APPROVED)


def memo_of(home, day):
    """The only memo on a bill of acme."""
    bill = stored(home)["acme", day]
    [key] = [each.key for each in bill.content.lines if each.key.startswith("MEMO/")]
    return MemoRef(DebitLineItem, bill.id, line_id(bill.id, key))


def change_memo(home, amount):
    ref = memo_of(home, OCTOBER)
    found = get_memo(home.organization, ref)
    names = ("version", "description", "referencedBillId", "referencedLineItemId")
    names += ("productId", "servicePeriodStartDate", "servicePeriodEndDate")
    changed = {name: found[name] for name in names} | {"amount": amount}
    changed["accountingProductId"] = found["productId"]
    update_memo(home.organization, "ann", ref, changed)


@pytest.mark.long
def test_a_bill_that_is_made_again_after_its_late_usage_was_carried_charges_it_once(carried):
    """The second table of the page on late usage."""
    approve(carried, "acme", SEPTEMBER)
    assert totals(carried) == {SEPTEMBER: Decimal("73.5"), OCTOBER: 36}
    choose(carried, "RECALCULATE")
    use(carried, ("more", "acme", 10))
    schedule(carried)
    schedule(carried)

    assert totals(carried) == {SEPTEMBER: Decimal("88.5"), OCTOBER: 31}
    assert memos(carried, OCTOBER) == [("DEBIT_MEMO", 5, True), ("CREDIT_MEMO", -5, True)]
    assert billed(carried) == (BEFORE + 15, 0)
    by_status = {(each.status.value, each.difference): each.sources for each in lates(carried)}
    assert {key: [each.name for each in found] for key, found in by_status.items()} == {
        ("CARRIED", 5): ["late.csv"],
        ("RECALCULATED", 15): ["more.csv"],
        ("CARRIED", -5): ["the bill itself, version 3"],
    }
    [source] = by_status["CARRIED", -5]
    assert source.kind is LateSourceKind.BILL
    assert verify_bills(carried.organization, VerifyChoice()).differences == ()


def test_a_memo_that_is_deleted_with_its_bill_is_carried_anew(carried):
    delete_bill(carried.organization, "ann", stored(carried)["acme", OCTOBER].id)
    schedule(carried)

    assert memos(carried, OCTOBER) == [("DEBIT_MEMO", 5, True)]
    assert billed(carried) == (BEFORE + 5, 0)


def test_what_is_carried_of_a_bill_that_is_deleted_for_good_is_taken_back_at_once(carried):
    deleted = stored(carried)["acme", SEPTEMBER]
    delete_bill(carried.organization, "ann", deleted.id)

    assert totals(carried) == {OCTOBER: 31}
    assert memos(carried, OCTOBER) == [("DEBIT_MEMO", 5, True), ("CREDIT_MEMO", -5, False)]
    [taken_back] = [each for each in lates(carried) if each.is_correction]
    assert (taken_back.bill_id, taken_back.difference) == (deleted.id, -5)
    assert [each.name for each in taken_back.sources] == ["the bill itself, deleted"]
    schedule(carried)
    assert totals(carried) == {OCTOBER: 31}
    bill_september(carried)
    schedule(carried)
    assert billed(carried) == (BEFORE + 5, 0)


@pytest.mark.slow
def test_what_is_taken_back_of_a_deleted_bill_waits_for_a_bill_or_for_the_bill_itself(carried):
    lock(carried, "acme", OCTOBER)
    delete_bill(carried.organization, "ann", stored(carried)["acme", SEPTEMBER].id)
    assert billed(carried) == (36, -5)
    schedule(carried)
    assert billed(carried) == (36, -5)
    bill_september(carried)
    schedule(carried)
    assert billed(carried) == (BEFORE + 10, -5)
    delete_bill(carried.organization, "ann", stored(carried)["acme", SEPTEMBER].id)
    assert billed(carried) == (36, -5)
    carried.clock.time = datetime(2026, 11, 2, tzinfo=UTC)
    schedule(carried)

    assert memos(carried, NOVEMBER) == [("CREDIT_MEMO", -5, False)]


def test_memos_of_bills_that_an_older_version_deleted_are_taken_back_by_the_next_job(carried):
    remove(carried, "acme", SEPTEMBER)
    assert totals(carried) == {OCTOBER: 36}
    schedule(carried)

    assert billed(carried) == (31, 0)


@pytest.mark.slow
def test_a_memo_that_a_person_deleted_is_not_taken_back(carried):
    delete_memo(carried.organization, "ann", memo_of(carried, OCTOBER))
    choose(carried, "RECALCULATE")
    use(carried, ("more", "acme", 10))
    schedule(carried)
    schedule(carried)

    assert memos(carried, OCTOBER) == []
    assert billed(carried) == (BEFORE + 15, 0)


@pytest.mark.slow
def test_a_memo_that_a_person_changed_is_taken_back_as_it_stands(carried):
    change_memo(carried, 3)
    choose(carried, "RECALCULATE")
    use(carried, ("more", "acme", 10))
    schedule(carried)
    schedule(carried)

    assert memos(carried, OCTOBER) == [("DEBIT_MEMO", 3, True), ("CREDIT_MEMO", -3, True)]
    assert billed(carried) == (BEFORE + 15, 0)


@pytest.mark.slow
def test_taking_back_is_undone_by_nobody_who_deletes_that_memo(carried):
    bill_september(carried)
    [credit] = [each for each in lates(carried) if each.difference == -5]
    october = stored(carried)["acme", OCTOBER].id
    ref = MemoRef(CreditLineItem, october, credit.lines[0].memo_id)
    delete_memo(carried.organization, "ann", ref)
    schedule(carried)

    assert memos(carried, OCTOBER) == [("DEBIT_MEMO", 5, True)]


@pytest.mark.slow
def test_a_locked_memo_is_taken_back_on_the_next_bill_and_waits_for_it(carried):
    lock(carried, "acme", OCTOBER)
    choose(carried, "RECALCULATE")
    use(carried, ("more", "acme", 10))
    schedule(carried)
    schedule(carried)

    assert billed(carried) == (BEFORE + 20, -5)
    assert ("acme", "2026-09", "WAITING", -5) in decided(carried)
    carried.clock.time = datetime(2026, 11, 2, tzinfo=UTC)
    schedule(carried)

    assert memos(carried, NOVEMBER) == [("CREDIT_MEMO", -5, True)]
    assert billed(carried) == (BEFORE + 15 + 31, 0)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["REPORT", "CARRY_FORWARD", "RECALCULATE"])
def test_a_bill_that_comes_out_as_it_was_takes_back_what_was_retracted(home, policy):
    choose(home, "CARRY_FORWARD")
    bill_september(home)
    version = stored(home)["acme", SEPTEMBER].version
    use(home, ("late", "acme", 5))
    schedule(home)
    choose(home, policy)
    retract(home, "late.csv")
    bill_september(home)

    assert stored(home)["acme", SEPTEMBER].version == version
    assert billed(home) == (BEFORE, 0)
    schedule(home)
    assert billed(home) == (BEFORE, 0)


@pytest.mark.slow
def test_what_is_retracted_and_brought_back_around_a_recalculation_is_charged_once(carried):
    backfill_id = retract(carried, "late.csv")
    schedule(carried)
    assert billed(carried) == (BEFORE, 0)
    choose(carried, "RECALCULATE")
    revert(carried, backfill_id)
    schedule(carried)
    assert billed(carried) == (BEFORE + 5, 0)
    choose(carried, "CARRY_FORWARD")
    backfill_id = retract(carried, "late.csv")
    schedule(carried)
    assert billed(carried) == (BEFORE, 0)
    choose(carried, "REPORT")
    revert(carried, backfill_id)
    schedule(carried)

    assert billed(carried) == (BEFORE, 5)


@pytest.mark.slow
def test_what_comes_after_a_bill_was_made_again_has_the_policy_of_its_own(carried):
    """What is taken back and what is reported of one bill do not hide each other."""
    choose(carried, "REPORT")
    bill_september(carried)
    use(carried, ("more", "acme", 3))
    schedule(carried)
    schedule(carried)

    assert memos(carried, OCTOBER) == [("DEBIT_MEMO", 5, True), ("CREDIT_MEMO", -5, True)]
    assert decided(carried)[-1] == ("acme", "2026-09", "REPORTED", 3)
    assert billed(carried) == (BEFORE + 5, 3)


@pytest.mark.slow
def test_whoever_bills_by_hand_takes_back_at_once(carried):
    """No schedule has to run: perhaps there is none."""
    bill_september(carried)

    assert billed(carried) == (BEFORE + 5, 0)
    assert memos(carried, OCTOBER) == [("DEBIT_MEMO", 5, True), ("CREDIT_MEMO", -5, True)]


@pytest.mark.slow
def test_the_recalculation_of_one_bill_takes_back_at_once(carried):
    chosen = (stored(carried)["acme", SEPTEMBER].id,)
    bill_order(carried.organization, BillOrder(bill_ids=chosen))

    assert billed(carried) == (BEFORE + 5, 0)


@pytest.mark.slow
@pytest.mark.parametrize("first", [OCTOBER, NOVEMBER])
def test_a_memo_and_the_one_that_takes_it_back_are_lost_with_their_bills(carried, first):
    """They stand on two bills, of which one after the other is deleted and made anew."""
    approve(carried, "acme", OCTOBER)
    carried.clock.time = datetime(2026, 11, 5, tzinfo=UTC)
    schedule(carried)
    bill_september(carried)
    assert memos(carried, NOVEMBER) == [("CREDIT_MEMO", -5, True)]
    for day in (first, OCTOBER if first == NOVEMBER else NOVEMBER):
        remove(carried, "acme", day)
        bill_order(carried.organization, BillOrder(days=Month(2026, 10)))
        schedule(carried)
        assert billed(carried) == (BEFORE + 5 + 31, 0)


@pytest.mark.slow
def test_late_usage_of_a_deleted_bill_is_open_once(carried):
    """Two files of one bill were carried onto a bill that is deleted: what is open is their sum."""
    use(carried, ("more", "acme", 10))
    schedule(carried)
    choose(carried, "REPORT")
    remove(carried, "acme", OCTOBER)
    schedule(carried)

    assert billed(carried) == (BEFORE, 15)
    [late] = [each for each in lates(carried) if each.is_open]
    assert sorted(each.name for each in late.sources) == ["late.csv", "more.csv"]


@pytest.mark.slow
def test_what_was_carried_and_lost_joins_what_is_reported(carried):
    choose(carried, "REPORT")
    use(carried, ("more", "acme", 10))
    schedule(carried)
    remove(carried, "acme", OCTOBER)
    schedule(carried)

    assert billed(carried) == (BEFORE, 15)


@pytest.mark.slow
def test_what_was_reported_and_is_retracted_before_a_bill_comes_out_as_it_was_is_open_no_more(home):
    use(home, ("late", "acme", 5))
    schedule(home)
    assert billed(home) == (BEFORE, 5)
    retract(home, "late.csv")
    bill_september(home)
    schedule(home)

    assert billed(home) == (BEFORE, 0)


@pytest.mark.slow
def test_a_memo_in_another_currency_is_taken_back_to_the_cent(home):
    account = {"code": "acme", "name": "acme", "emailAddress": "a@a.example", "currency": "EUR"}
    configure(home.organization, currencies=[{"code": "EUR", "name": "Euro"}])
    configure(home.organization, accounts=[account])
    convert(home, "0.9")
    remove(home, "acme", OCTOBER)
    use(home, ("late", "acme", 3))
    schedule(home)
    convert(home, "0.5")
    bill_september(home)
    schedule(home)

    found = [amount for _, amount, _ in memos(home, OCTOBER)]
    assert found == [Decimal("2.7"), Decimal("-2.7")]


def convert(home, rate):
    rates = [{"from": "USD", "to": "EUR", "multiplier": Decimal(rate)}]
    wanted = {"daysBeforeBillDue": 14, "lateUsage": "CARRY_FORWARD", "currencyConversions": rates}
    configure(home.organization, organizationConfig=wanted)


@pytest.mark.slow
def test_a_new_price_of_a_bill_that_is_made_again_is_charged_once_too(carried):
    """The bill comes to other money than what was carried of it: all of that is taken back."""
    price = {"code": "sent", "planId": "basic", "aggregationId": "sent", "cumulative": True}
    bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 2}]
    price |= {"startDate": "2026-01-01T00:00:00Z", "pricingBands": bands}
    configure(carried.organization, pricings=[price])
    bill_september(carried)
    schedule(carried)

    assert totals(carried)[SEPTEMBER] == 31 + 2 * Decimal("47.5")
    assert billed(carried) == (31 + 2 * Decimal("47.5") + 31, 0)


@pytest.mark.slow
def test_what_is_to_be_taken_back_hides_nothing_that_came_later(carried, capsys):
    lock(carried, "acme", OCTOBER)
    bill_september(carried)
    use(carried, ("more", "acme", 10))
    at = ["--home", str(carried.stores.home), "--json"]
    assert run(["late", *at]) == 0
    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines()]

    waiting = [(each["status"], each["difference"]) for each in lines if "status" in each]
    assert ("WAITING", -5) in waiting
    assert ("OPEN", 10) in waiting
    found = review_bills(carried.organization, Month(2026, 9))
    told = {each.detail for each in found if each.kind is ReviewKind.LATE_USAGE}
    assert told == {
        "memos of usage that the bill has by now are to be taken back, -5.00 USD: WAITING",
        "usage that came after the bill was made comes to +10.00 USD: OPEN",
    }


@pytest.mark.slow
def test_only_accounts_that_are_billed_have_memos_taken_back(carried):
    """A job of some accounts does not touch the bills of others."""
    late = HEADER + csv_row("b", -150, "bolt", ts="2026-09-05T00:00:00Z")
    carried.ingest("bolt.csv", late)
    apply_now(carried)
    ids = {
        code: stored(carried)[code, SEPTEMBER].content.key.account_id for code in ("acme", "bolt")
    }
    order = BillOrder(days=Month(2026, 9), account_ids=(ids["bolt"],))
    bill_order(carried.organization, order)

    assert [amount for _, amount, _ in memos(carried, OCTOBER, "bolt")] == [-50, 50]
    assert memos(carried, OCTOBER) == [("DEBIT_MEMO", 5, True)]
