"""Transactions of balances that schedules make: each once, also after a time without a look."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from meterlake.model.configuration.organization import TransactionType
from meterlake.model.customers.balances import BalanceTransactionSchedule
from meterlake.pipeline.billing.balances.scheduled_transactions import book_due_transactions
from meterlake.pipeline.config import entities
from tests.integration.pipeline.billing.balance_schedules import BalanceSchedule
from tests.integration.pipeline.billing.balances.test_balances import World, world

__all__ = ["world"]
DOCUMENT = {
    "name": "Monthly",
    "code": "monthly",
    "amount": 10,
    "transactionDescription": "Top up",
    "startDate": "2026-10-01T12:00:00Z",
    "endDate": "2027-01-01T00:00:00Z",
    "frequency": "MONTHLY",
    "frequencyInterval": 1,
}


def at(month, day=1, hour=12):
    return datetime(2026, month, day, hour, tzinfo=UTC)


class Scheduled(BalanceSchedule):
    """A schedule that credits 10 at noon of the first of October, November and December."""

    kind = BalanceTransactionSchedule

    def __init__(self, world):
        world.clock.time = at(9, 15)
        super().__init__(
            world, DOCUMENT | {"transactionTypeId": world.id(TransactionType, "top_up")}
        )

    def book(self):
        return book_due_transactions(self.world.organization)

    @property
    def applied(self):
        found = self.world.page(entityType="SCHEDULER", entityId=self.id)["data"]
        assert all(each["amount"] == 10 and each["description"] == "Top up" for each in found)
        return [each["appliedDate"] for each in reversed(found)]


@pytest.fixture
def schedule(world: World):
    return Scheduled(world)


def test_nothing_is_booked_before_it_is_due(schedule):
    schedule.go_to(at(10, 1, 11))

    assert (schedule.book(), schedule.applied) == (0, [])
    assert schedule.shown["nextRun"] == at(10)
    assert "previousRun" not in schedule.shown


def test_each_time_it_runs_is_an_event_of_when_it_runs_next(schedule):
    first, second, third = (f"2026-{month}-01T12:00:00Z" for month in (10, 11, 12))
    schedule.book()
    assert schedule.runs == []
    schedule.go_to(at(10))
    schedule.book()
    schedule.book()
    assert schedule.runs == [((None, first), (first, second))]
    # What is late is done at once, and is one event; the other one is too old for the list.
    schedule.go_to(at(12, 31))
    schedule.book()
    assert schedule.runs == [((first, second), (third, None))]


def test_what_is_due_is_booked_once(schedule):
    schedule.go_to(at(10))

    assert [schedule.book() for _ in range(3)] == [1, 0, 0]
    assert schedule.applied == [at(10)]
    assert (schedule.shown["previousRun"], schedule.shown["nextRun"]) == (at(10), at(11))


def test_after_a_long_time_everything_that_was_due_is_booked(schedule):
    schedule.go_to(at(12, 31))

    assert schedule.book() == 3
    assert schedule.applied == [at(10), at(11), at(12)]
    assert schedule.shown["previousRun"] == at(12)
    assert "nextRun" not in schedule.shown
    assert schedule.world.listed()["prepaid"] == 30


@pytest.mark.slow
def test_more_than_fits_one_transaction_is_booked_bit_by_bit(schedule):
    schedule.change(1, startDate="2025-01-01T12:00:00Z", frequency="DAILY")
    schedule.go_to(at(5))

    booked = [schedule.book() for _ in range(6)]

    assert booked == [100, 100, 100, 100, 86, 0]


def test_a_change_makes_nothing_due_again(schedule):
    schedule.go_to(at(10))
    schedule.book()
    schedule.change(1, startDate="2026-08-15T09:00:00Z")
    schedule.go_to(at(11))

    assert schedule.book() == 1
    assert schedule.applied == [at(10), at(10, 15, 9)]


def test_a_schedule_that_is_gone_books_nothing(schedule):
    entities.delete(schedule.world.organization, "me", schedule.ref(schedule.id))
    schedule.go_to(at(12))

    assert schedule.book() == 0


def test_several_workers_book_it_once(schedule):
    schedule.go_to(at(12, 31))

    with ThreadPoolExecutor(4) as pool:
        booked = [each.result() for each in [pool.submit(schedule.book) for _ in range(4)]]

    assert (sum(booked), len(schedule.applied)) == (3, 3)
