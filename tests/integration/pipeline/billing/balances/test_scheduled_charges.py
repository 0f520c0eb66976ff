"""Charges of balances that schedules make: each once, also after a time without a look."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import BalanceChargeSchedule
from meterlake.model.customers.charges import Charge
from meterlake.model.resources import BY_ENTITY
from meterlake.pipeline.billing.balances.scheduled_transactions import make_due_charges
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from tests.integration.pipeline.billing.balance_schedules import BalanceSchedule
from tests.integration.pipeline.billing.balances.test_balances import FEE, World
from tests.integration.pipeline.billing.both_databases import ON_BOTH, world

__all__ = ["world"]
DOCUMENT = FEE | {
    "servicePeriodStartDate": "2026-10-01T00:00:00Z",
    "servicePeriodEndDate": "2027-01-01T00:00:00Z",
}


def at(month, day=1, hour=0):
    return datetime(2026, month, day, hour, tzinfo=UTC)


class Scheduled(BalanceSchedule):
    """A schedule that charges 10 on the first of October, November and December."""

    kind = BalanceChargeSchedule

    def __init__(self, world):
        world.clock.time = at(9, 15)
        super().__init__(world, DOCUMENT)

    def make(self):
        return make_due_charges(self.world.organization)

    @property
    def account(self):
        return self.world.id(Account, "acme")

    @property
    def charges(self):
        with self.world.organization.reading() as reader:
            found = reader.all(Charge)
        return sorted(found, key=lambda each: each.entity.service_period_start_date)

    @property
    def made(self):
        return [(each.entity.code, str(each.entity.bill_date)) for each in self.charges]

    def delete(self, charge):
        ref = ResourceRef(BY_ENTITY[Charge], {}, charge.id)
        entities.delete(self.world.organization, "me", ref)


@pytest.fixture
def schedule(world: World):
    return Scheduled(world)


def test_nothing_is_charged_before_it_is_due(schedule):
    schedule.go_to(datetime(2026, 9, 30, 23, 59, 59, tzinfo=UTC))

    assert (schedule.make(), schedule.made) == (0, [])
    assert schedule.shown["nextRun"] == at(10)
    assert "previousRun" not in schedule.shown


def test_each_time_it_runs_is_an_event_of_when_it_runs_next(schedule):
    first, second, third = (f"2026-{month}-01T00:00:00Z" for month in (10, 11, 12))
    schedule.make()
    assert schedule.runs == []
    schedule.go_to(at(10))
    schedule.make()
    schedule.make()
    assert schedule.runs == [((None, first), (first, second))]
    # What is late is done at once, and is one event; the other one is too old for the list.
    schedule.go_to(at(12, 31))
    schedule.make()
    assert schedule.runs == [((first, second), (third, None))]


@ON_BOTH
def test_what_is_due_is_charged_once(schedule):
    schedule.go_to(at(10))

    assert [schedule.make() for _ in range(3)] == [1, 0, 0]
    assert schedule.made == [("fee-1", "2026-10-01")]
    assert (schedule.shown["previousRun"], schedule.shown["nextRun"]) == (at(10), at(11))
    [charge] = schedule.charges
    assert (charge.entity.amount, charge.entity.line_item_type) == (10, "BALANCE_FEE")
    assert charge.entity.entity_id == schedule.world.balance
    assert charge.created_by == "balance schedules"


def test_after_a_long_time_everything_that_was_due_is_charged(schedule):
    schedule.go_to(at(12, 31))

    assert schedule.make() == 3
    assert schedule.made == [
        ("fee-1", "2026-10-01"),
        ("fee-2", "2026-11-01"),
        ("fee-3", "2026-12-01"),
    ]
    assert schedule.shown["previousRun"] == at(12)
    assert "nextRun" not in schedule.shown


def test_charges_are_those_of_the_preview(schedule):
    preview = schedule.world.preview(
        servicePeriodStartDate=DOCUMENT["servicePeriodStartDate"],
        servicePeriodEndDate=DOCUMENT["servicePeriodEndDate"],
    )
    schedule.go_to(at(12))
    schedule.make()

    expected = [
        {name: each[name] for name in each if name != "scheduleId"} for each in preview["data"]
    ]
    assert [each.entity.to_wire() for each in schedule.charges] == expected


@ON_BOTH
def test_more_than_fits_one_transaction_is_charged_bit_by_bit(schedule):
    schedule.change(1, servicePeriodStartDate="2025-12-01T00:00:00Z", billFrequency="DAILY")
    schedule.go_to(at(6))

    assert [schedule.make() for _ in range(3)] == [100, 83, 0]


def test_a_change_charges_nothing_again(schedule):
    schedule.go_to(at(10))
    schedule.make()
    schedule.change(1, billFrequency="WEEKLY", servicePeriodStartDate="2026-09-01T00:00:00Z")
    schedule.go_to(at(11, 3))

    assert schedule.make() == 1
    [first, second] = schedule.charges
    assert first.entity.service_period_end_date == at(11)
    # The week that October ends in was charged in part: the next one begins the charges again.
    assert second.entity.service_period_start_date == at(11, 3)


@ON_BOTH
def test_a_taken_code_gets_a_number(schedule):
    other = {**DOCUMENT, "code": "fee-1", "servicePeriodEndDate": "2026-10-02T00:00:00Z"}
    schedule.create(other)
    schedule.create({**other, "code": "fee-1-1"})
    schedule.go_to(at(10))
    charge = {
        "name": "Fee",
        "code": "fee-1",
        "accountId": schedule.account,
        "currency": "USD",
        "entityType": "AD_HOC",
        "lineItemType": "AD_HOC",
        "amount": 1,
        "servicePeriodStartDate": "2026-01-01T00:00:00Z",
        "servicePeriodEndDate": "2026-01-02T00:00:00Z",
    }
    ref = ResourceRef(BY_ENTITY[Charge], {})
    entities.create(schedule.world.organization, "me", ref, charge)

    assert schedule.make() == 3
    assert {code for code, _ in schedule.made} == {"fee-1", "fee-1-1", "fee-1-2", "fee-1-1-1"}


def test_a_deleted_charge_is_not_made_again(schedule):
    schedule.go_to(at(11))
    schedule.make()
    schedule.delete(schedule.charges[1])

    assert (schedule.make(), schedule.made) == (0, [("fee-1", "2026-10-01")])
    assert schedule.shown["previousRun"] == at(11)


def test_a_schedule_that_is_gone_charges_nothing(schedule):
    entities.delete(schedule.world.organization, "me", schedule.ref(schedule.id))
    schedule.go_to(at(12))

    assert schedule.make() == 0


def test_no_charge_is_due_before_the_epoch_of_the_schedule(schedule):
    schedule.change(1, billEpoch="2026-12-01")
    schedule.go_to(at(11, 30))
    assert schedule.make() == 0
    assert schedule.shown["nextRun"] == at(12)

    schedule.go_to(at(12))

    assert schedule.make() == 3
    assert {day for _, day in schedule.made} == {"2026-12-01"}


@ON_BOTH
def test_several_workers_charge_it_once(schedule):
    schedule.go_to(at(12, 31))

    with ThreadPoolExecutor(4) as pool:
        made = [each.result() for each in [pool.submit(schedule.make) for _ in range(4)]]

    assert (sum(made), len(schedule.made)) == (3, 3)
