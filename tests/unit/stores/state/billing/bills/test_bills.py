from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.errors import Conflict, Locked, NotFound
from meterlake.stores.state import State
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.bills import PutOutcome
from meterlake.stores.state.billing.late_usage.late_bills import oldest_bills
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey, LineContent
from tests.migrations import changing, insert, upgrade

KEY = BillKey("2054cfc5-18df-47ce-926c-5817033073b4", date(2026, 11, 1), "MONTHLY", 1)
LINES = (
    LineContent("usage:egress", {"quantity": 150, "subtotal": Decimal("14.10")}, {"snapshot": 7}),
    LineContent("standing", {"subtotal": Decimal("0.00")}, {}),
)
CONTENT = BillContent(
    key=KEY,
    period="2026-10",
    currency="USD",
    total=Decimal("14.10"),
    body={"dueDate": date(2026, 11, 15)},
    pins={"snapshot": 7},
    lines=LINES,
)


@pytest.fixture
def write(state, org):
    """Call a function with a transaction of its own."""

    def writer(function, *arguments):
        with state.transaction(org, "USER_1") as transaction:
            return function(transaction, *arguments)

    return writer


def test_a_bill_comes_back_with_its_lines_in_order(state, org, write):
    stored, outcome = write(bills.put, CONTENT)

    with state.reading(org) as reader:
        [read] = bills.of_period(reader, "2026-10")
        assert read == bills.get(reader, stored.id) == stored
        assert bills.of_period(reader, "2026-11") == []
        assert bills.of_period(reader) == [stored]
    assert outcome is PutOutcome.CREATED
    assert (stored.version, stored.status, stored.locked) == (1, BillStatus.PENDING, False)
    assert [line.key for line in stored.content.lines] == ["usage:egress", "standing"]
    assert stored.content.lines[0].body == {"quantity": 150, "subtotal": Decimal("14.1")}
    assert stored.content.total == Decimal("14.1")


def test_who_reads_sees_bills_of_one_moment_and_holds_nobody_up(state, org, write):
    stored, _ = write(bills.put, CONTENT)
    with state.reading(org) as reader:
        before = bills.of_period(reader)
        more = replace(CONTENT, total=Decimal("15.10"), lines=LINES[:1])
        _, outcome = write(bills.put, more)
        assert outcome is PutOutcome.RECALCULATED
        assert bills.of_period(reader) == before == [stored]

    with state.reading(org) as reader:
        [changed] = bills.of_period(reader)
    assert (changed.content.total, len(changed.content.lines)) == (Decimal("15.1"), 1)


def test_the_oldest_snapshot_of_a_period_is_known(state, org, write):
    write(bills.put, CONTENT)
    other = replace(KEY, account_id="5d9d4a3e-0000-4000-8000-000000000000")
    write(bills.put, replace(CONTENT, key=other, pins={"snapshot": 10}))
    with state.reading(org) as reader:
        assert oldest_bills(reader, 8) == [("2026-10", "MONTHLY", 7)]
        assert oldest_bills(reader, 7) == []


def test_the_oldest_snapshot_of_a_period_is_known_of_bills_of_older_versions_too(empty_database):
    made = "2026-11-01T00:00:00.000000Z"
    bill = {"org": "o", "bill_date": "2026-11-01", "frequency": "MONTHLY", "interval": 1}
    bill |= {"period": "2026-10", "version": 1, "status": "PENDING", "locked": False, "body": "{}"}
    bill |= {"currency": "USD", "total": "1", "created": made, "created_by": "me"}
    with changing(empty_database) as connection:
        upgrade(connection, "0011")
        insert(connection, "organization", id="o", code="o", name="O", created=made)
        for snapshot in (7, 10):
            pins = f'{{"snapshot":{snapshot}}}'
            own = {"id": f"b{snapshot}", "account_id": f"a{snapshot}", "pins": pins}
            insert(connection, "bill", **bill, **own, modified=made, modified_by="me")

    with State.at(empty_database) as state, state.reading("o") as reader:
        assert oldest_bills(reader, 8) == [("2026-10", "MONTHLY", 7)]
        assert oldest_bills(reader, 7) == []


def test_the_same_bill_again_changes_nothing(write, clock):
    stored, _ = write(bills.put, CONTENT)
    write(bills.set_status, stored.id, BillStatus.APPROVED)
    clock.advance(days=1)
    later = [replace(LINES[0], pins={"snapshot": 8}), LINES[1]]

    again, outcome = write(bills.put, replace(CONTENT, pins={"snapshot": 8}, lines=later))

    assert outcome is PutOutcome.UNCHANGED
    assert (again.version, again.status) == (2, BillStatus.APPROVED)
    assert again.content.pins == {"snapshot": 7}


@pytest.mark.parametrize(
    "changes",
    [
        {"lines": LINES[:1]},
        {"lines": LINES[::-1]},
        {"lines": (replace(LINES[0], body={"quantity": 151}), LINES[1])},
        {"lines": ()},
        {"total": Decimal("14.11")},
        {"currency": "EUR"},
        {"body": {"dueDate": date(2026, 11, 16)}},
    ],
)
def test_another_content_is_the_next_version_and_pending_again(write, changes):
    stored, _ = write(bills.put, CONTENT)
    write(bills.set_status, stored.id, BillStatus.APPROVED)

    again, outcome = write(bills.put, replace(CONTENT, **changes))

    assert outcome is PutOutcome.RECALCULATED
    assert (again.id, again.version, again.status) == (stored.id, 3, BillStatus.PENDING)
    assert len(again.content.lines) == len(changes.get("lines", LINES))


@pytest.mark.parametrize(
    "key",
    [
        replace(KEY, bill_date=date(2026, 12, 1)),
        replace(KEY, interval=3),
        replace(KEY, frequency="DAILY"),
    ],
)
def test_another_identity_is_another_bill(write, key):
    first, _ = write(bills.put, CONTENT)
    second, outcome = write(bills.put, replace(CONTENT, key=key))

    assert outcome is PutOutcome.CREATED
    assert second.id != first.id


def test_only_an_approved_bill_is_locked(write):
    stored, _ = write(bills.put, CONTENT)

    with pytest.raises(Conflict, match="only an approved bill can be locked"):
        write(bills.lock, stored.id)


def test_a_locked_bill_never_changes(write):
    stored, _ = write(bills.put, CONTENT)
    write(bills.set_status, stored.id, BillStatus.APPROVED)
    locked = write(bills.lock, stored.id)

    for function, argument in (
        (bills.put, replace(CONTENT, total=Decimal(1))),
        (bills.set_status, stored.id),
        (bills.lock, stored.id),
    ):
        arguments = (argument, BillStatus.PENDING) if function is bills.set_status else (argument,)
        with pytest.raises(Locked):
            write(function, *arguments)
    assert write(bills.put, CONTENT) == (locked, PutOutcome.UNCHANGED)


def test_approving_twice_is_approving_once(write):
    stored, _ = write(bills.put, CONTENT)
    approved = write(bills.set_status, stored.id, BillStatus.APPROVED)

    assert write(bills.set_status, stored.id, BillStatus.APPROVED) == approved
    assert approved.version == 2


def test_there_is_no_bill_of_that_id(write):
    with pytest.raises(NotFound):
        write(bills.lock, "nobody")
