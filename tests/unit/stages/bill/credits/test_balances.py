from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.model.customers.balances import Balance
from meterlake.stages.bill.credits.balances import Entry, overdrawn, summarize

BALANCE = {
    "code": "prepaid",
    "name": "Prepaid",
    "accountId": "1" * 8 + "-0000-4000-8000-" + "0" * 12,
    "startDate": "2026-01-01T00:00:00Z",
    "endDate": "2026-07-01T00:00:00Z",
    "currency": "USD",
}


def month(number):
    return datetime(2026, number, 1, tzinfo=UTC)


def entry(amount, number):
    return Entry(Decimal(amount), month(number))


def summary(*entries, now=8, **changes):
    balance = Balance.from_wire({**BALANCE, **changes})
    return summarize(balance, entries, month(now)).to_wire()


def test_what_is_left_beyond_the_rollover_expires():
    found = summary(
        entry(1000, 1),
        rolloverAmount=800,
        rolloverEndDate="2026-12-01T00:00:00Z",
    )

    assert found == {
        "totalCreditAmount": 1000,
        "totalDebitAmount": 0,
        "initialCreditAmount": 1000,
        "expiredBalanceAmount": 200,
        "balanceConsumed": 0,
        "rolloverConsumed": 0,
    }


@pytest.mark.parametrize(
    ("now", "changes", "expired"),
    [
        (6, {}, 0),
        (7, {}, 1000),
        (8, {"rolloverEndDate": "2026-12-01T00:00:00Z"}, 0),
        (8, {"rolloverAmount": 2000, "rolloverEndDate": "2026-12-01T00:00:00Z"}, 0),
        (8, {"rolloverAmount": 0, "rolloverEndDate": "2026-12-01T00:00:00Z"}, 1000),
    ],
)
def test_nothing_expires_before_the_end_or_when_all_is_carried_over(now, changes, expired):
    assert summary(entry(1000, 1), now=now, **changes)["expiredBalanceAmount"] == expired


def test_debits_count_for_the_balance_before_its_end_and_for_the_rollover_after_it():
    found = summary(
        entry(500, 1),
        entry(500, 2),
        entry(-300, 3),
        entry(-200, 7),
        entry(-1000, 9),
        now=8,
        rolloverAmount=600,
        rolloverEndDate="2026-12-01T00:00:00Z",
    )

    assert found == {
        "totalCreditAmount": 1000,
        "totalDebitAmount": 500,
        "initialCreditAmount": 500,
        "expiredBalanceAmount": 100,
        "balanceConsumed": 300,
        "rolloverConsumed": 200,
    }


def test_what_is_drawn_from_nothing_is_not_consumed():
    found = summary(entry(100, 1), entry(-250, 2), entry(200, 3), entry(-10, 4))

    assert found["balanceConsumed"] == 110
    assert found["expiredBalanceAmount"] == 40
    assert "rolloverConsumed" not in found


def test_the_rollover_is_not_consumed_beyond_what_was_carried_over():
    found = summary(
        entry(100, 1),
        entry(-150, 7),
        now=9,
        rolloverEndDate="2026-12-01T00:00:00Z",
    )

    assert found["rolloverConsumed"] == 100


def test_a_balance_without_transactions_is_all_zeros():
    assert set(summary().values()) == {0}


@pytest.mark.parametrize(
    ("entries", "new", "expected"),
    [
        ([], entry(-1, 1), True),
        ([entry(10, 1)], entry(-10, 1), False),
        ([entry(10, 1)], entry("-10.01", 2), True),
        ([entry(10, 2)], entry(-5, 1), True),
        ([entry(10, 1), entry(-8, 3)], entry(-5, 2), True),
        ([entry(10, 1), entry(-20, 2), entry(20, 3)], entry(-1, 4), False),
        ([entry(-20, 1)], entry(0, 2), False),
        ([entry(-20, 1)], entry(5, 2), False),
    ],
)
def test_a_debit_overdraws_a_balance_at_its_time_or_later(entries, new, expected):
    assert overdrawn(entries, new) is expected
