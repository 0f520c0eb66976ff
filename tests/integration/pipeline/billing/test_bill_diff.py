"""Two contents of a bill and why they differ: each kind of cause alone, and what cannot be compared."""

from datetime import date, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import text

from meterlake.model.bills.differences import CauseKind
from meterlake.model.bills.jobs import BillJobRequest, BillOrder
from meterlake.model.bills.memos import CreditLineItem
from meterlake.model.bills.requests import BillStatus
from meterlake.model.catalog.plans import PlanTemplate, Pricing
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.balances import Balance, BalanceTransaction, EntityType
from meterlake.model.errors import Conflict, Invalid, NotFound
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.balances.balances import BookingCause, book
from meterlake.pipeline.billing.differences.changes import SOURCES_MAX
from meterlake.pipeline.billing.differences.compared_contents import DiffChoice, list_bill_versions
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.pipeline.billing.memos import MemoRef, create_memo
from meterlake.stores.lake.maintenance import compact, expire_snapshots
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.calculations.pins import pinned_snapshots
from tests.bill_diffs import (
    change,
    compare,
    first_line,
    make_bills,
    parts_of,
    retract,
    revert,
)
from tests.bills import a_home_to_bill, price_egress, use
from tests.homes import configure

LAST_TWO = DiffChoice()


@pytest.fixture
def home(tmp_path):
    """A home in which acme has a bill of 42.5 for usage and 31 for the month."""
    with a_home_to_bill(tmp_path) as home:
        home.ids = make_bills(home)
        home.bill = home.ids["acme"]
        yield home


def run_sql(home, statement, **values):
    with home.stores.state.writing_home() as connection:
        connection.execute(text(statement), values)


@pytest.mark.long
def test_nothing_changed_is_no_difference(home):
    found = compare(home, home.bill)
    assert (found.is_same, found.whole("USD")) == (True, 0)
    assert compare(home, home.bill, LAST_TWO).after.version is None
    # What concerns others is nothing to this bill.
    use(home, ("9", "bolt", 5))
    assert compare(home, home.bill).parts == []


@pytest.mark.slow
def test_a_late_file_is_named_now_and_between_versions(home):
    home.clock.advance(days=1)
    use(home, ("9", "acme", 5), ("8", "acme", "0.25"), ("7", "bolt", 1))
    found = compare(home, home.bill)
    assert parts_of(found) == [("usage", "9.csv", "5.25")]
    [cause] = found.parts[0].causes
    assert (cause.detail, cause.at) == ("2 measurements came", home.clock())
    [line] = found.parts[0].lines
    assert (line.type, line.before, line.after) == ("USAGE", Decimal("42.5"), Decimal("47.75"))

    make_bills(home)
    stored = compare(home, home.bill, LAST_TWO)
    assert (stored.before.version, stored.after.version) == (1, 2)
    assert parts_of(stored) == parts_of(found)
    assert compare(home, home.bill).is_same


@pytest.mark.slow
def test_of_many_sources_those_with_the_fewest_measurements_are_one_cause(home):
    """50 files with two measurements each are causes of their own; three with one are one."""
    for number in range(SOURCES_MAX + 3):
        name = f"late{number:02}"
        use(home, (name, "acme", "0.5"), *([(f"{name}b", "acme", "0.25")] if number > 2 else []))
        home.clock.advance(minutes=1)
    found = compare(home, home.bill)

    *single, others = found.parts
    assert [each.name for each in single] == [f"late{n:02}.csv" for n in range(3, SOURCES_MAX + 3)]
    assert {(each.amount, each.if_undone) for each in single} == {(Decimal("0.75"),) * 2}
    assert (others.name, others.amount, others.if_undone) == ("3 more sources", 1.5, 1.5)
    assert others.causes[0].detail == "3 measurements came"
    assert found.whole("USD") == SOURCES_MAX * Decimal("0.75") + Decimal("1.5")


@pytest.mark.slow
def test_a_price_and_a_plan_are_named_with_version_and_author(home):
    change(home, PlanTemplate, "cloud", standingCharge=40)
    band = {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 2}
    change(home, Pricing, "sent", pricingBands=[band])
    found = compare(home, home.bill)
    assert parts_of(found) == [
        ("entity", "PlanTemplate cloud", "9"),
        ("entity", "Pricing sent", "42.5"),
    ]
    plan, price = (each.causes[0] for each in found.parts)
    assert (plan.detail, plan.before, plan.after) == ("standingCharge 31 → 40", "1", "2")
    assert (price.detail, price.author) == ("pricingBands (2 → 1)", "carl")
    assert [each.if_undone for each in found.parts] == [9, Decimal("42.5")]


@pytest.mark.slow
def test_a_correction_is_named_and_goes_when_it_is_reverted(home):
    use(home, ("9", "acme", 5))
    make_bills(home)
    retract(home, "9.csv", "wrong-file")
    found = compare(home, home.bill)
    assert parts_of(found) == [("correction", "backfill wrong-file", "-5")]
    [cause] = found.parts[0].causes
    assert cause.detail == "retract applied, 'sent twice': 1 measurement went"
    assert cause.author == "ann"
    make_bills(home)

    revert(home, "wrong-file")
    back = compare(home, home.bill)
    assert parts_of(back) == [("correction", "backfill wrong-file", "5")]
    assert back.parts[0].causes[0].detail.startswith("retract reverted")
    # What was said before about the versions between which it was withdrawn is said still.
    assert parts_of(compare(home, home.bill, DiffChoice(2, 3))) == [
        ("correction", "backfill wrong-file", "-5")
    ]
    # Withdrawn and brought back is as it was.
    assert compare(home, home.bill, DiffChoice(2, "now")).is_same
    # And the withdrawn file of the first version came late.
    assert parts_of(compare(home, home.bill, DiffChoice(1, "now"))) == [
        ("correction", "backfill wrong-file", "5")
    ]


@pytest.mark.slow
def test_causes_build_on_each_other_and_say_so(home):
    use(home, ("9", "acme", 5))
    price_egress(home, price=2)
    found = compare(home, home.bill)
    late, price = found.parts
    assert (late.amount, late.if_undone) == (5, 10)
    assert [(each.name, each.amount) for each in late.shared] == [("Pricing sent", 5)]
    assert (price.amount, price.if_undone, price.shared) == (Decimal("47.5"), Decimal("47.5"), [])


@pytest.mark.slow
def test_a_rate_is_named_by_its_pair(home):
    configure(home.organization, currencies=[{"code": "EUR", "name": "Euro"}])
    rates = [{"from": "USD", "to": "EUR", "multiplier": 2}]
    change(home, OrganizationConfig, None, currencyConversions=rates)
    assert compare(home, home.bill).is_same
    change(home, Account, "acme", currency="EUR")
    make_bills(home)
    rates = [
        {"from": "USD", "to": "EUR", "multiplier": 3},
        {"from": "EUR", "to": "USD", "multiplier": 4},
    ]
    change(home, OrganizationConfig, None, currencyConversions=rates, daysBeforeBillDue=9)
    found = compare(home, home.bill)
    assert parts_of(found) == [
        ("entity", "OrganizationConfig " + found.parts[0].causes[0].id, "0"),
        ("rate", "USD to EUR", "73.5"),
    ]
    assert found.parts[0].header == ["dueDate"]
    rate = found.parts[1].causes[0]
    assert (rate.before, rate.after) == ("2", "3")


@pytest.mark.slow
def test_a_bill_in_another_currency_has_a_whole_in_each(home):
    configure(home.organization, currencies=[{"code": "EUR", "name": "Euro"}])
    rates = [{"from": "USD", "to": "EUR", "multiplier": 2}]
    use(home, ("9", "acme", 5))
    change(home, Account, "acme", currency="EUR")
    change(home, OrganizationConfig, None, currencyConversions=rates)
    found = compare(home, home.bill)
    assert [(each, found.whole(each)) for each in found.currencies] == [
        ("USD", Decimal("-73.5")),
        ("EUR", 157),
    ]
    # Neither can be applied without the other.
    shown = [
        (each.currency, *part, each.if_undone)
        for each, part in zip(found.parts, parts_of(found), strict=True)
    ]
    assert shown == [
        ("USD", "usage", "9.csv", "5", 0),
        ("EUR", "usage", "9.csv", "0", 10),
        ("USD", "rate", "Account acme + USD to EUR", "-78.5", Decimal("-78.5")),
        ("EUR", "rate", "Account acme + USD to EUR", "157", 157),
    ]
    assert [each.name for each in found.parts[2].causes] == ["Account acme", "USD to EUR"]


def subscribe_balance(home, amount):
    """A balance of acme that pays for everything."""
    with home.organization.reading() as reader:
        account = reader.find(Account, "acme")
    fields = {"code": "credit", "name": "Credit", "accountId": account.id, "currency": "USD"}
    days = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
    with home.organization.transaction("carl") as transaction:
        balance = transaction.create(Balance.from_wire({**fields, **days}))
    pay_in(home, balance.id, amount)
    return balance.id


def pay_in(home, balance_id, amount):
    with home.organization.transaction("carl") as transaction:
        paid = {"amount": amount, "description": "paid", "appliedDate": "2026-01-01T00:00:00Z"}
        balance = transaction.get(Balance, balance_id)
        book(
            transaction,
            balance,
            BalanceTransaction.from_wire(paid),
            BookingCause(EntityType.USER, "x"),
        )


@pytest.mark.slow
def test_a_credit_spent_elsewhere_is_named_with_who_spent_it(home):
    balance_id = subscribe_balance(home, 100)
    make_bills(home, Month(2026, 8))
    make_bills(home)
    assert compare(home, home.bill).is_same
    # August had a standing charge only; what comes late there is paid before September.
    late = (
        "meter,account,uid,ts,measure.gb,where.region\negress,acme,a,2026-08-03T00:00:00Z,20,eu\n"
    )
    home.ingest("august.csv", late)
    made = bill_order(home.organization, BillOrder(days=Month(2026, 8)))
    assert made.failures == []
    found = compare(home, home.bill, DiffChoice(2, "now"))
    [part] = [each for each in found.parts if each.amount]
    assert (part.causes[0].kind, part.name, part.amount) == (CauseKind.CREDIT, "Balance credit", 20)
    assert "consumption of 51 by the bill of 2026-09-01" in part.causes[0].detail
    assert part.causes[0].id == balance_id
    [line] = part.lines
    assert (line.type, line.before, line.after) == ("BALANCE_CONSUMED", -69, -49)

    pay_in(home, balance_id, 7)
    more = compare(home, home.bill, DiffChoice(2, "now"))
    assert "credit of 7" in next(
        each.causes[0].detail for each in more.parts if each.causes[0].kind is CauseKind.CREDIT
    )
    assert more.whole("USD") == 13


def add_credit(home, amount):
    line = first_line(home, home.bill)
    with home.organization.reading() as reader:
        body = bills.get(reader, home.bill).content.lines[0].body
    fields = {
        "productId": body["productId"],
        "accountingProductId": body["accountingProductId"],
        "description": "sorry",
        "amount": amount,
        "referencedBillId": home.bill,
        "referencedLineItemId": line,
        "servicePeriodStartDate": "2026-09-01T00:00:00Z",
        "servicePeriodEndDate": "2026-10-01T00:00:00Z",
    }
    ref = MemoRef(CreditLineItem, home.bill)
    return create_memo(home.organization, "carl", ref, fields)["id"]


@pytest.mark.slow
def test_a_line_of_a_person_is_a_cause_and_so_is_what_sources_do_not_pay_for_it(home):
    subscribe_balance(home, 1000)
    make_bills(home)
    add_credit(home, 10)
    found = compare(home, home.bill, LAST_TWO)
    assert (found.before.version, found.after.version) == (2, 3)
    assert parts_of(found) == [("memo", "CREDIT_MEMO sorry", "-10")]
    cause = found.parts[0].causes[0]
    assert (cause.detail, cause.author, cause.at) == ("added", "carl", home.clock())
    make_bills(home)
    again = compare(home, home.bill, LAST_TWO)
    assert parts_of(again) == [("memo", "CREDIT_MEMO sorry", "10")]
    assert [each.type for each in again.parts[0].lines] == ["BALANCE_CONSUMED"]
    whole = compare(home, home.bill, DiffChoice(2, 4))
    assert parts_of(whole) == [("memo", "CREDIT_MEMO sorry", "0")]


@pytest.mark.slow
def test_what_a_job_says_is_a_cause(home):
    request = BillJobRequest(bill_date=date(2026, 10, 1), due_date=date(2026, 12, 24))
    bill_order(home.organization, BillOrder(request=request))
    found = compare(home, home.bill, LAST_TWO)
    assert parts_of(found) == [("job", "settings of the job", "0")]
    assert found.parts[0].header == ["dueDate"]
    # Made again now, it would have what the job said that made it.
    assert compare(home, home.bill).is_same


@pytest.mark.slow
def test_deleted_and_new_entities_are_named(home):
    change(home, PlanTemplate, "cloud", standingCharge=40)
    with home.organization.transaction("dora") as transaction:
        for record in list(transaction.all(Pricing)):
            transaction.delete(Pricing, record.id)
    found = compare(home, home.bill)
    assert parts_of(found) == [
        ("entity", "PlanTemplate cloud", "9"),
        ("entity", "Pricing sent", "-42.5"),
    ]
    deleted = found.parts[1].causes[0]
    assert (deleted.detail, deleted.author, deleted.after) == ("deleted", "dora", None)
    make_bills(home)

    price_egress(home, price=3)
    again = compare(home, home.bill)
    assert parts_of(again) == [
        ("entity", "PlanTemplate cloud", "-9"),
        ("entity", "Pricing sent", "127.5"),
    ]
    assert again.parts[1].causes[0].before is None


@pytest.mark.slow
def test_a_plan_that_is_gone_takes_the_whole_bill(home):
    with home.organization.transaction("dora") as transaction:
        with home.organization.reading() as reader:
            acme = reader.find(Account, "acme").id
        [plan] = [each for each in transaction.all(AccountPlan) if each.entity.account_id == acme]
        transaction.delete(AccountPlan, plan.id)
    found = compare(home, home.bill)
    assert parts_of(found) == [("entity", f"AccountPlan {plan.entity.code}", "-73.5")]


@pytest.mark.slow
def test_a_locked_bill_says_what_it_would_be_and_why(home):
    with home.organization.transaction("carl") as transaction:
        bills.set_status(transaction, home.bill, BillStatus.APPROVED)
        bills.lock(transaction, home.bill)
    assert compare(home, home.bill).is_same
    use(home, ("9", "acme", 5))
    make_bills(home)
    assert parts_of(compare(home, home.bill)) == [("usage", "9.csv", "5")]
    assert len(list_bill_versions(home.organization, home.bill)) == 1


@pytest.mark.slow
def test_other_code_is_a_cause_and_a_tampered_line_is_none(home):
    use(home, ("9", "acme", 5))
    run_sql(home, "UPDATE bill SET total = '70' WHERE id = :id", id=home.bill)
    tampered = "UPDATE bill_line SET body = replace(body, '42.5', '39') WHERE bill_id = :id"
    run_sql(home, tampered, id=home.bill)
    found = compare(home, home.bill)
    assert parts_of(found) == [("usage", "9.csv", "5"), ("unknown", "version 1", "3.5")]
    assert not found.is_explained
    assert "bill verify" in found.parts[1].causes[0].detail

    run_sql(home, "UPDATE bill_calculation SET digest = 'other', code = '0.1'")
    by_code = compare(home, home.bill)
    assert parts_of(by_code) == [("usage", "9.csv", "5"), ("code", "code of meterlake", "3.5")]
    assert by_code.is_explained
    assert by_code.parts[1].causes[0].before == "0.1"


@pytest.mark.slow
def test_measurements_of_an_expired_snapshot_are_those_that_are_there_still(home):
    for number in range(3):
        use(home, (f"9{number}", "acme", 5))
        make_bills(home)
    lake = home.organization.lake
    with lake.lock():
        compact(lake)
        expire_snapshots(lake, timedelta(0), pinned_snapshots(home.stores.state, home.org_id))
    found = compare(home, home.bill, DiffChoice(1, 3))
    assert parts_of(found) == [("usage", "90.csv", "5"), ("usage", "91.csv", "5")]
    assert parts_of(compare(home, home.bill, DiffChoice(2, "now"))) == [
        ("usage", "91.csv", "5"),
        ("usage", "92.csv", "5"),
    ]
    # What was withdrawn since is in no snapshot any more: that is said, and not guessed.
    retract(home, "1.csv", "gone")
    with lake.lock():
        compact(lake)
        expire_snapshots(lake, timedelta(0), {lake.snapshot()})
    lost = compare(home, home.bill, DiffChoice(1, "now"))
    assert lost.whole("USD") == Decimal("-27.5")
    assert not lost.is_explained


@pytest.mark.slow
def test_versions_that_there_are_not_are_refused(home):
    use(home, ("9", "acme", 5))
    make_bills(home)
    for choice, error, about in (
        (DiffChoice(7, "now"), NotFound, "it has 1, 2"),
        (DiffChoice(2, 1), Invalid, "a version after 2"),
        (DiffChoice(1, 7), NotFound, "it has 1, 2"),
        (DiffChoice(None, 1), Invalid, "those with a content are 1, 2"),
    ):
        with pytest.raises(error, match=about):
            compare(home, home.bill, choice)
    with pytest.raises(NotFound, match="bill"):
        compare(home, "00000000-0000-4000-8000-000000000000")
    # An approval is a version with the content of the one before it.
    with home.organization.transaction("carl") as transaction:
        bills.set_status(transaction, home.bill, BillStatus.APPROVED)
    assert compare(home, home.bill, DiffChoice(1, 3)).after.version == 2
    with pytest.raises(Invalid, match="another content than version 2"):
        compare(home, home.bill, DiffChoice(2, 3))
    run_sql(home, "UPDATE bill SET calculation_id = NULL WHERE id = :id", id=home.bill)
    with pytest.raises(Conflict, match="does not say what it was made from"):
        compare(home, home.bill)


@pytest.mark.slow
def test_what_cannot_be_calculated_now_is_said_with_the_reason(home):
    change(home, Account, "acme", currency="USD")
    configure(home.organization, currencies=[{"code": "EUR", "name": "Euro"}])
    change(home, Account, "acme", currency="EUR")
    with pytest.raises(Conflict, match=r"as it would be now cannot be calculated: .*conversion"):
        compare(home, home.bill)
