from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.model.configuration.organization import BillConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance, BalanceTransaction, EntityType
from meterlake.model.errors import StillReferenced
from meterlake.stores.state import State
from meterlake.stores.state.billing.credits.balances import (
    BalanceFilters,
    BookingCause,
    amounts,
    append,
    latest,
    list_balances,
    of_balance,
    refuse_booked_balance,
)
from meterlake.stores.state.core.pages import Page
from tests.migrations import changing, insert, upgrade

CAUSE = BookingCause(EntityType.BILL, "a bill")


@pytest.fixture
def balance(state, org):
    """A balance with three transactions."""
    with state.transaction(org, "USER_1") as transaction:
        account = transaction.create(Account(name="A", code="a", email_address="a@b.example"))
        made = transaction.create(
            Balance(
                code="b",
                name="B",
                account_id=account.id,
                start_date=datetime(2026, 1, 1, tzinfo=UTC),
                end_date=datetime(2026, 7, 1, tzinfo=UTC),
                currency="USD",
            )
        )
        for amount in ("1.10", "2", "-0.05"):
            append(transaction, made, BalanceTransaction(amount=Decimal(amount)), CAUSE)
    return made.id


def test_transactions_are_numbered_and_kept_as_they_were(state, org, balance, clock):
    with state.reading(org) as reader:
        first, second, third = of_balance(reader, balance)

    assert [each.sequence for each in (first, second, third)] == [1, 2, 3]
    assert (first.amount, third.amount, first.applied) == (
        Decimal("1.1"),
        Decimal("-0.05"),
        clock(),
    )
    assert (first.cause, first.record.version) == (CAUSE, 1)


def test_the_latest_come_first(state, org, balance):
    with state.reading(org) as reader:
        assert [each.sequence for each in latest(reader, balance, {}, None, 2)] == [3, 2]
        assert [each.sequence for each in latest(reader, balance, {}, 2, 2)] == [1]
        assert latest(reader, balance, {"entity_id": "another"}, None, 2) == []


def test_amounts_are_sums_until_an_instant(state, org, balance, clock):
    with state.reading(org) as reader:
        assert amounts(reader, [balance, "x"], clock()) == {balance: Decimal("3.05")}
        assert amounts(reader, [balance], datetime(2026, 1, 1, tzinfo=UTC)) == {}
        assert amounts(reader, [], clock()) == {}


def test_a_balance_with_transactions_is_held(state, org, balance):
    with state.reading(org) as reader:
        with pytest.raises(StillReferenced):
            refuse_booked_balance(reader, balance)
        refuse_booked_balance(reader, "another")


@pytest.mark.parametrize(("second", "found"), [(0, 1), (1, 0)])
def test_the_end_of_a_balance_is_a_bound(state, org, balance, second, found):
    end = datetime(2026, 7, 1, 0, 0, second, tzinfo=UTC)

    with state.reading(org) as reader:
        from_then, _ = list_balances(reader, BalanceFilters(ends_from=end), Page(10))
        before, _ = list_balances(reader, BalanceFilters(ends_before=end), Page(10))
        unlinked, _ = list_balances(reader, BalanceFilters(contract_id=""), Page(10))

    assert (len(from_then), len(before)) == (found, 1 - found)
    assert [each.id for each in unlinked] == [balance]


def test_an_organization_of_an_older_home_gets_its_bill_configuration(empty_database):
    with changing(empty_database) as connection:
        upgrade(connection, "0002")
        made = "2026-01-01T00:00:00.000000Z"
        insert(connection, "organization", id="1", code="old", name="Old", created=made)

    with State.at(empty_database) as state, state.reading("1") as reader:
        [found] = reader.all(BillConfig)
        [past] = reader.history(BillConfig, found.id)

    assert (found.version, found.created_by, found.entity) == (1, "SYSTEM", BillConfig())
    assert (past.version, past.entity) == (1, BillConfig())
