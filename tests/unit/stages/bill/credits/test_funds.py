"""What is left of commitments and balances when a bill is calculated."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.bills.ledger import (
    BillRank,
    LedgerAccount,
    LedgerAccountType,
    Movement,
    PostingKind,
)
from meterlake.model.customers.balances import Balance
from meterlake.stages.bill.credits.funds import (
    BillMoment,
    first_bill_date,
    left_of_balance,
    left_of_commitment,
)

D = Decimal


def day(month, number=1):
    return datetime(2026, month, number, tzinfo=UTC)


def order(month, key="bill"):
    return BillRank.of(date(2026, month, 1), "MONTHLY", 1, key)


def moment(month):
    return BillMoment(order(month), UTC)


def balance(**more):
    return Balance(
        code="b",
        name="B",
        account_id="00000000-0000-0000-0000-000000000001",
        start_date=day(1),
        end_date=day(7),
        currency="USD",
        **more,
    )


def booked(amount, applied=None):
    kind = PostingKind.CREDIT if amount >= 0 else PostingKind.MANUAL
    return Movement(LedgerAccount(LedgerAccountType.BALANCE, "b"), kind, D(amount), applied)


def drawn(amount, bill, *, is_final=False, account=LedgerAccountType.BALANCE):
    own = LedgerAccount(account, "b")
    return Movement(own, PostingKind.CONSUMPTION, D(-amount), None, bill, is_final)


def left(*movements, month=3, **more):
    return left_of_balance(balance(**more), movements, moment(month)).left


def test_what_was_applied_before_the_bill_date_counts():
    assert left(booked(100, day(2, 28)), booked(7, day(3)), booked(3, day(4))) == 100


def test_what_has_no_date_of_its_own_counts_from_the_start():
    assert left(booked(100), booked(-30)) == 70


@pytest.mark.parametrize(
    ("bill", "is_final", "found"),
    [
        (order(2, "earlier"), False, 90),
        (order(4, "later"), False, 100),
        (order(4, "later"), True, 90),
        (order(3, "bill"), False, 100),
        (order(3, "bill"), True, 100),
        (order(3, "a"), False, 90),
        (order(3, "c"), False, 100),
        (None, False, 90),
    ],
)
def test_what_bills_before_drew_is_gone(bill, is_final, found):
    assert left(booked(100), drawn(10, bill, is_final=is_final)) == found


@pytest.mark.parametrize(("month", "found"), [(1, 100), (2, 100), (12, 0)])
def test_what_has_no_date_of_its_own_does_not_count_before_the_start(month, found):
    rank = BillRank.of(date(2026 - month // 12, month, 1), "MONTHLY", 1)

    assert left_of_balance(balance(), [booked(100)], BillMoment(rank, UTC)).left == found


def test_nothing_came_in_yet():
    found = left_of_balance(balance(), [booked(0)], moment(3))

    assert found == (0, False, None, 0)


def test_what_was_applied_after_the_end_pays_for_the_time_before_it_too():
    assert left(booked(100), booked(50, day(7)), month=9) == 150


def test_without_a_rollover_date_nothing_is_carried_over():
    assert left_of_balance(balance(), [booked(100)], moment(9)).rollover is None


@pytest.mark.parametrize(("cap", "found"), [(None, 60), (D(50), 50), (D(80), 60)])
def test_what_is_left_is_carried_over(cap, found):
    rolled = balance(rollover_end_date=day(12), rollover_amount=cap)

    funds = left_of_balance(rolled, [booked(100), drawn(40, order(2, "x"))], moment(9))

    assert funds == (60, True, found, 0)


def test_what_a_rollover_drew_is_gone_for_both():
    rolled = balance(rollover_end_date=day(12), rollover_amount=D(50))
    movements = [
        booked(100),
        drawn(30, order(8, "x"), account=LedgerAccountType.ROLLOVER),
        booked(-5, day(8)),
        booked(9, day(8)),
    ]

    assert left_of_balance(rolled, movements, moment(9)) == (74, True, 20, 30)


def test_an_overdrawn_balance_carries_nothing_over():
    rolled = balance(rollover_end_date=day(12))

    assert left_of_balance(rolled, [booked(-3)], moment(9)) == (-3, False, 0, 0)


def test_a_commitment_is_its_amount_without_what_bills_drew():
    movements = [
        drawn(10, order(2, "x"), account=LedgerAccountType.COMMITMENT),
        drawn(5, order(4, "y"), account=LedgerAccountType.COMMITMENT),
    ]

    assert left_of_commitment(D(100), movements, moment(3)) == 90
    assert left_of_commitment(D(100), [], moment(3)) == 100


@given(
    st.none() | st.datetimes(datetime(2025, 12, 1), datetime(2026, 8, 1), timezones=st.just(UTC)),
    st.sampled_from(["UTC", "Asia/Tokyo", "America/New_York", "Africa/Cairo"]),
    st.integers(-3, 3),
)
def test_a_transaction_counts_for_the_bills_from_its_first_bill_date_on(applied, name, days):
    prepaid, zone = balance(), ZoneInfo(name)
    bill_date = first_bill_date(prepaid, applied, zone) + timedelta(days=days)
    bill = BillMoment(BillRank.of(bill_date, "MONTHLY", 1, "bill"), zone)

    found = left_of_balance(prepaid, [booked(100, applied)], bill).left

    assert found == (100 if days >= 0 else 0)
