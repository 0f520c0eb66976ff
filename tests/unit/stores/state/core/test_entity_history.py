"""Reading an organization as it was, row by row, while other questions are asked."""

import gc
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.catalog.catalog import Meter, Product
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance, BalanceTransaction, EntityType
from meterlake.model.errors import NotFound
from meterlake.model.values.entity import Deletion, Record
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.named import names_changed
from meterlake.stores.state.billing.credits import balances
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey, LineContent
from meterlake.stores.state.core import entity_history as past
from meterlake.stores.state.core.entity_history import (
    PastConfiguration,
    changes_at,
    codes_at,
    entities_at,
    known_at,
    select_renamed,
)
from tests.homes import EGRESS

MANY = 25
CAUSE = balances.BookingCause(EntityType.USER, "somebody")


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch):
    monkeypatch.setattr(past, "FETCHED", 10)


def product(number, name="P"):
    return Product(name=name, code=f"p{number:04}")


@pytest.fixture
def made(state, org, clock):
    """The ids of three products, of which the second has a new name and the third is gone."""
    with state.transaction(org, "USER_1") as transaction:
        ids = [transaction.create(product(number)).id for number in range(3)]
    clock.advance(hours=2)
    with state.transaction(org, "USER_2") as transaction:
        transaction.update(ids[1], 1, product(1, "New"))
        transaction.delete(Product, ids[2])
    return ids


def test_entities_are_as_they_were(state, org, clock, made):
    now = clock()
    earlier, never = clock.advance(hours=-1), clock.advance(hours=-8)
    with state.reading(org) as reader:
        found = {
            at: {each.id: each.entity.name for each in entities_at(reader, Product, at)}
            for at in (now, earlier, never)
        }
    assert found == {
        now: {made[0]: "P", made[1]: "New"},
        earlier: dict.fromkeys(made, "P"),
        never: {},
    }


def test_changes_are_told_with_deletions(state, org, clock, made):
    now = clock()
    with state.reading(org) as reader:
        since_then = list(changes_at(reader, Product, now, now))
        ever = list(changes_at(reader, Product, clock.advance(days=-1), now))
        later = list(changes_at(reader, Product, now.replace(minute=1), now))
    changed = next(each for each in since_then if isinstance(each, Record))
    [gone] = [each for each in since_then if isinstance(each, Deletion)]

    assert len(since_then) == 2
    assert (changed.id, changed.version, changed.modified_by) == (made[1], 2, "USER_2")
    assert gone == Deletion(made[2], 2, now, "USER_2")
    assert {each.id for each in ever} == set(made)
    assert later == []


def test_what_is_gone_is_known_as_it_was_last_and_what_is_younger_as_it_was_first(
    state, org, clock
):
    never = clock()
    times = [clock.advance(hours=1)]
    with state.transaction(org, "USER_1") as transaction:
        old = transaction.create(product(1)).id
    times.append(clock.advance(hours=1))
    with state.transaction(org, "USER_1") as transaction:
        transaction.update(old, 1, product(2))
    times.append(clock.advance(hours=1))
    with state.transaction(org, "USER_1") as transaction:
        transaction.delete(Product, old)
        new = transaction.create(product(2)).id
    times.append(clock.advance(hours=1))
    with state.transaction(org, "USER_1") as transaction:
        transaction.create(product(3, "Back"), id=old)
    times.append(clock.advance(hours=1))
    with state.reading(org) as reader:
        found = [codes_at(reader, Product, at) for at in (never, *times)]
        records = {each.id: each for each in known_at(reader, Product, times[3])}
        assert records[new] == reader.as_of(Product, new, times[3])
        assert [
            {each.id: each.entity.code for each in known_at(reader, Product, at)}
            for at in (never, *times)
        ] == found
        other = codes_at(reader, Account, times[-1])

    codes = [each[old] for each in found]
    assert codes == ["p0001", "p0001", "p0002", "p0002", "p0003", "p0003"]
    assert [each[new] for each in found] == ["p0002"] * 6
    assert other == {}


def test_what_had_another_name_is_told(state, org, clock):
    before = clock()
    later = clock.advance(hours=1)
    with state.transaction(org, "USER_1") as transaction:
        ids = [transaction.create(product(number)).id for number in range(5)]
    since = clock.advance(hours=1)
    with state.transaction(org, "USER_1") as transaction:
        transaction.update(ids[0], 1, product(0, "New"))
        transaction.update(ids[1], 1, product(9))  # another code
        transaction.update(ids[2], 1, product(2, "New"))
        transaction.delete(Product, ids[3])
    back = clock.advance(hours=1)
    with state.transaction(org, "USER_1") as transaction:
        transaction.update(ids[2], 2, product(2))
    end = clock.advance(hours=1)
    with state.reading(org) as reader:

        def found(*times):
            rows = reader.connection.execute(select_renamed(reader, Product, *times))
            return {ids.index(row.id) for row in rows}

        assert found(since, end) == {0, 2, 3}
        assert found(since, since) == {0, 2, 3}
        assert found(since.replace(minute=1), end) == {2}
        assert found(back, end) == {2}
        assert found(end, end) == set()
        assert found(later, end) == found(before, end) == {0, 1, 2, 3, 4}


def test_what_others_refer_to_is_read_while_rows_come(state, org, clock):
    with state.transaction(org, "USER_1") as transaction:
        account = transaction.create(Account(name="A", code="a", email_address="a@b.example"))
        for number in range(MANY):
            transaction.create(product(number))
    found = []
    with state.reading(org) as reader:
        around = PastConfiguration(reader, clock())
        for each in entities_at(reader, Product, clock()):
            found.append(each.entity.code)
            assert around.get(Account, account.id) == account
            if len(found) % 10 == 0:
                assert reader.get(Account, account.id) == account
        with pytest.raises(NotFound):
            around.get(Account, "nobody")
        assert around.find(Product, "p0001").entity == product(1)

    assert sorted(found) == [f"p{number:04}" for number in range(MANY)]


@pytest.mark.long
def test_a_reader_that_stops_early_leaves_nothing_behind(state, org, clock):
    with state.transaction(org, "USER_1") as transaction:
        for number in range(MANY):
            transaction.create(product(number))
    with state.reading(org) as reader:
        first = next(entities_at(reader, Product, clock()))
    gc.collect()
    with state.transaction(org, "USER_1") as transaction:
        assert transaction.delete(Product, first.id) == first


def test_bills_come_one_by_one_with_their_lines(state, org, clock):
    with state.transaction(org, "USER_1") as transaction:
        for number, lines in enumerate((2, 0, 1)):
            bills.put(transaction, content(str(number), lines))
    clock.advance(hours=1)
    with state.transaction(org, "USER_1") as transaction:
        [first, *_] = bills.of_period(transaction)
        bills.set_status(transaction, first.id, BillStatus.APPROVED)
    with state.reading(org) as reader:
        found = list(bills.one_by_one(reader))
        assert [len(each.content.lines) for each in found] == [2, 0, 1]
        assert found == [bills.get(reader, each.id) for each in found]
        assert list(bills.one_by_one(reader, "2026-10")) == found
        assert list(bills.one_by_one(reader, "2026-09")) == []
        [changed] = bills.one_by_one(reader, since=clock())
    assert changed.id == first.id


@pytest.mark.parametrize("renames", [(), ("account",), ("meter", "gone")])
def test_bills_that_name_what_was_renamed(state, org, clock, renames):
    began = clock()
    account = Account(name="A", code="a", email_address="a@b.example")
    meter, removed = (Meter.from_wire(EGRESS | {"code": code}) for code in ("m", "n"))
    with state.transaction(org, "USER_1") as t:
        made = {"account": t.create(account).id, "meter": t.create(meter).id}
        made["gone"] = t.create(removed).id
        billed = {
            "account": (made["account"], 2, None),
            "meter": ("1", 3, made["meter"]),
            "gone": ("2", 1, made["gone"]),
            "no line": ("3", 0, None),
            "other": ("4", 1, made["account"]),
        }
        bill_ids = {name: bills.put(t, content(*each))[0].id for name, each in billed.items()}
    since = clock.advance(hours=1)
    with state.transaction(org, "USER_1") as t:
        if "account" in renames:
            t.update(made["account"], 1, replaced(account, name="B"))
        if "meter" in renames:
            t.update(made["meter"], 1, replaced(meter, name="B"))
        if "gone" in renames:
            t.delete(Meter, made["gone"])
    with state.reading(org) as reader:

        def found(since, period=None):
            also = names_changed(reader, since, clock())
            return list(bills.one_by_one(reader, period, since, also))

        assert {each.id for each in found(since)} == {bill_ids[name] for name in renames}
        assert all(each == bills.get(reader, each.id) for each in found(since))
        assert found(since, "2026-09") == found(since.replace(minute=1)) == []
        assert found(began) == list(bills.one_by_one(reader))


def replaced(entity, **changes):
    return type(entity).from_wire(entity.to_wire() | changes)


def content(account, lines, meter=None):
    body = {"subtotal": 1} if meter is None else {"subtotal": 1, "meterId": meter}
    return BillContent(
        key=BillKey(account, date(2026, 11, 1), "MONTHLY", 1),
        period="2026-10",
        currency="USD",
        total=Decimal(lines),
        body={},
        pins={},
        lines=[LineContent(f"line {n}", body, {}) for n in range(lines)],
    )


def test_transactions_and_what_balances_hold_are_as_they_were(state, org, clock):
    with state.transaction(org, "USER_1") as transaction:
        account = transaction.create(Account(name="A", code="a", email_address="a@b.example"))
        entity = Balance(
            code="b",
            name="B",
            account_id=account.id,
            start_date=datetime(2026, 1, 1, tzinfo=UTC),
            end_date=datetime(2026, 7, 1, tzinfo=UTC),
            currency="USD",
        )
        balance = transaction.create(entity)
        balance_id = balance.id
        balances.append(transaction, balance, BalanceTransaction(amount=Decimal(5)), CAUSE)
    before = clock()
    after = clock.advance(hours=1)
    with state.transaction(org, "USER_1") as transaction:
        late = BalanceTransaction(amount=Decimal(2), applied_date=before)
        balances.append(transaction, balance, late, CAUSE)
    with state.reading(org) as reader:
        every = list(balances.one_by_one(reader, None, after))
        assert [(each, booked.sequence) for each, booked in every] == [
            (balance_id, 1),
            (balance_id, 2),
        ]
        assert list(balances.one_by_one(reader, None, before)) == every[:1]
        assert list(balances.one_by_one(reader, after, after)) == every[1:]
        # What was booked later may apply to earlier: it was not known then.
        assert balances.amounts(reader, [balance_id], before) == {balance_id: 7}
        assert balances.amounts(reader, [balance_id], before, as_of=True) == {balance_id: 5}
        assert [each.id for each in changes_at(reader, Balance, after, after)] == [balance_id]
