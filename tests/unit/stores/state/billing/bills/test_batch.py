from dataclasses import replace
from datetime import date
from decimal import Decimal
from uuid import UUID

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import BillOutcome, billed_keys, put_all
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey, LineContent
from meterlake.stores.state.core.many_rows import CHUNK

NOVEMBER = date(2026, 11, 1)
# Those of bills whose last day is in October.
BILL_DATES = (date(2026, 10, 2), date(2026, 11, 1))
PENDING, APPROVED = BillStatus.PENDING, BillStatus.APPROVED


def content(number, *amounts, **changes):
    lines = [
        LineContent(f"line {n}", {"subtotal": Decimal(amount)}, {"snapshot": 7})
        for n, amount in enumerate(amounts)
    ]
    made = BillContent(
        key=BillKey(str(UUID(int=number)), NOVEMBER, "MONTHLY", 1),
        period="2026-10",
        currency="USD",
        total=sum(map(Decimal, amounts), Decimal(0)),
        body={"dueDate": "2026-11-15"},
        pins={"snapshot": 7},
        lines=lines,
    )
    return replace(made, **changes)


@pytest.fixture
def put(state, org):
    """Store bills in a transaction of their own; what became of each."""

    def putter(*contents, status=PENDING):
        with state.transaction(org, "USER_1") as transaction:
            outcomes = put_all(transaction, contents, status)
        assert [each.account_id for each in outcomes] == [each.key.account_id for each in contents]
        return [each.stored for each in outcomes]

    return putter


@pytest.fixture
def stored(state, org):
    """The bills of the month in State."""

    def reader():
        with state.reading(org) as reading:
            return bills.of_period(reading, "2026-10")

    return reader


def test_bills_come_back_as_those_that_are_put_one_by_one(state, org, put, stored):
    assert put(content(1, "1.50", "0.20"), content(2)) == [BillOutcome.CREATED] * 2
    with state.transaction(org, "USER_1") as transaction:
        single, _ = bills.put(transaction, content(3, "1.50", "0.20"))
    first, empty, third = stored()

    assert third == single
    assert first.content == content(1, "1.50", "0.20")
    assert (first.version, first.status, first.locked) == (1, PENDING, False)
    assert first.created_by == first.modified_by == "USER_1"
    assert list(empty.content.lines) == []


def test_what_came_out_the_same_is_not_touched_whoever_put_it(state, org, put, stored):
    with state.transaction(org, "USER_1") as transaction:
        bills.put(transaction, content(1, "1.50"))
    before = stored()
    again = content(1, "1.5")
    repinned = replace(again, pins={}, lines=[replace(each, pins={}) for each in again.lines])

    assert put(repinned) == [BillOutcome.UNCHANGED]
    assert stored() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"currency": "EUR"},
        {"total": Decimal(1)},
        {"body": {"dueDate": "2026-11-16"}},
        {"lines": []},
        {"lines": [LineContent("other", {"subtotal": Decimal("1.50")}, {})]},
    ],
)
def test_what_came_out_otherwise_is_at_its_next_version(put, stored, clock, changes):
    put(content(1, "1.50"), content(2, "7"), status=APPROVED)
    later = clock.advance(hours=1)
    changed = content(1, "1.50", **changes)
    outcomes = put(changed, content(2, "7"))
    first, second = stored()

    assert outcomes == [BillOutcome.UPDATED, BillOutcome.UNCHANGED]
    assert (first.version, first.status, first.content) == (2, PENDING, changed)
    assert first.modified == later
    assert (second.version, second.status) == (1, APPROVED)


def test_approving_approves_what_did_not_change(put, stored):
    put(content(1, "1.50"))

    assert put(content(1, "1.50"), status=APPROVED) == [BillOutcome.APPROVED]
    assert put(content(1, "1.50"), status=APPROVED) == [BillOutcome.UNCHANGED]
    assert [(each.version, each.status) for each in stored()] == [(2, APPROVED)]


def test_a_locked_bill_stays_as_it_is(state, org, put, stored):
    put(content(1, "1.50"), status=APPROVED)
    with state.transaction(org, "USER_1") as transaction:
        bills.lock(transaction, stored()[0].id)
    before = stored()

    assert put(content(1, "1.50")) == [BillOutcome.UNCHANGED]
    assert put(content(1, "9"), content(2, "1")) == [BillOutcome.LOCKED, BillOutcome.CREATED]
    assert stored()[:1] == before


def test_more_bills_than_one_statement_takes(put, stored, state, org):
    count = CHUNK + 3
    many = [content(number, "1") for number in range(count)]

    assert put(*many) == [BillOutcome.CREATED] * count
    assert put(*many[:-1], content(count - 1, "2")) == [BillOutcome.UNCHANGED] * (count - 1) + [
        BillOutcome.UPDATED
    ]
    assert len(stored()) == count
    with state.reading(org) as reader:
        assert set(billed_keys(reader, *BILL_DATES)) == {each.key for each in many}
        assert billed_keys(reader, BILL_DATES[0], date(2026, 10, 31)) == []
        assert billed_keys(reader, date(2026, 11, 2), date(2026, 12, 1)) == []


def test_bills_of_several_dates_and_intervals_are_stored_together(put, stored):
    first = content(1, "1")
    later = content(1, "2", key=replace(first.key, bill_date=date(2026, 11, 15)))
    quarter = content(1, "4", key=replace(first.key, interval=3))
    other = content(2, "8", key=replace(later.key, account_id=str(UUID(int=2))))

    assert put(first, later, quarter, other) == [BillOutcome.CREATED] * 4
    assert put(first, content(1, "3", key=later.key), quarter, other) == [
        *(BillOutcome.UNCHANGED, BillOutcome.UPDATED),
        *(BillOutcome.UNCHANGED, BillOutcome.UNCHANGED),
    ]
    assert sorted(each.content.total for each in stored()) == [1, 3, 4, 8]


def test_no_bills_are_nothing_to_do(put, stored):
    assert put() == []
    assert stored() == []


def test_a_bill_belongs_to_its_organization(state, put, stored):
    put(content(1, "1"))
    with state.new_organization("other", "Other", "USER_1") as transaction:
        assert put_all(transaction, [content(1, "2")], PENDING)[0].stored is BillOutcome.CREATED
        assert billed_keys(transaction, *BILL_DATES) == [content(1).key]

    assert [each.content.total for each in stored()] == [1]
