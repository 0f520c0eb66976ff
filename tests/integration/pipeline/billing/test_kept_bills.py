"""Bills of which nothing changed are not made again; of all others, none is forgotten.

What a run left as it was, a run that makes every bill again has to leave as it was, too.
"""

import random
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import update

from meterlake.model.bills.jobs import BillOrder
from meterlake.model.bills.requests import BillStatus
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.catalog.plans import Pricing
from meterlake.model.customers.balances import Balance, BalanceTransaction, EntityType
from meterlake.model.errors import Invalid
from meterlake.model.values import failpoint
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.balances.balances import BookingCause, book
from meterlake.pipeline.billing.bills import delete_bill
from meterlake.pipeline.billing.calculation import account_bills as kept_bills
from meterlake.pipeline.billing.jobs.jobs import bill, bill_order
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.core.tables import BILL
from tests.billing_oracle.worlds import FEATURES, random_world
from tests.changed_worlds import raise_a_number
from tests.compared_bills import KINDS
from tests.sent_bills import home_with_bills
from tests.stored_worlds import MONTHS, store_world

ALWAYS = DayRange(MONTHS[0].first, MONTHS[-1].after)
SOURCES = ("balances", "commitments", "currencies", "overage", "rollover")


def bill_world(world):
    """Bill all months; what became of how many bills."""
    made = bill_order(world.organization, BillOrder(days=ALWAYS))
    return [each.stored.value for each in made.bills]


def forget_inputs(world):
    """Have every bill made again."""
    with world.organization.transaction("test") as transaction:
        transaction.connection.execute(update(BILL).values(inputs=None))


def stored_bills(world):
    with world.organization.reading() as reader:
        return list(bills.one_by_one(reader))


def change_prices(world, _, rng):
    with world.organization.transaction("test") as transaction:
        for record in list(transaction.all(Pricing)):
            raised = raise_a_number(record.entity.to_wire(), rng)
            transaction.update(record.id, record.version, Pricing.from_wire(raised))


def change_an_entity(world, _, rng):
    with world.organization.transaction("test") as transaction:
        records = [each for kind in KINDS.values() for each in transaction.all(kind)]
        for record in rng.sample(records, len(records)):
            raised = raise_a_number(record.entity.to_wire(), rng)
            if raised:
                entity = type(record.entity).from_wire(raised)
                # Some charges of a world are for balances that there are not.
                with suppress(Invalid):
                    transaction.update(record.id, record.version, entity)
                    return


def measure_more(world, described, rng):
    row = rng.choice(described.measurements)
    world._ingest(replace(described, measurements=[{**row, "uid": f"more-{rng.random()}"}]))


def pay_in(world, _, rng):
    with world.organization.transaction("test") as transaction:
        balances = list(transaction.all(Balance))
        if balances:
            fields = {"amount": 10, "appliedDate": "2022-01-05T00:00:00Z", "description": "more"}
            entity = BalanceTransaction.from_wire(fields)
            book(transaction, rng.choice(balances), entity, BookingCause(EntityType.USER, "test"))


def choose_open_bill(transaction, rng):
    """One that is not locked; none if all are."""
    found = [each.id for each in bills.one_by_one(transaction) if not each.locked]
    return rng.sample(found, min(1, len(found)))


def lock_a_bill(world, _, rng):
    with world.organization.transaction("test") as transaction:
        for id_ in choose_open_bill(transaction, rng):
            bills.set_status(transaction, id_, BillStatus.APPROVED)
            bills.lock(transaction, id_)


def delete_a_bill(world, _, rng):
    with world.organization.transaction("test") as transaction:
        for id_ in choose_open_bill(transaction, rng):
            bills.remove(transaction, id_)


CHANGES = (change_prices, change_an_entity, measure_more, pay_in, lock_a_bill, delete_a_bill)


def check_changes(folder, seed, features, changes):
    """Bill a world, change it, and bill it again and again."""
    rng, described = random.Random(seed), random_world(seed, features)
    with store_world(described, folder) as world:
        world.clock.time = datetime(2022, 12, 2, tzinfo=UTC)
        bill_world(world)
        for change in changes:
            change(world, described, rng)
            world.clock.time = max(world.clock.time, datetime(2022, 12, 3, tzinfo=UTC))
            bill_world(world)
            found = stored_bills(world)
            forget_inputs(world)
            assert set(bill_world(world)) <= {"unchanged", "locked"}, (seed, change.__name__)
            assert stored_bills(world) == found, (seed, change.__name__)


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_has_bills_made_again(tmp_path, change):
    check_changes(tmp_path, 4, SOURCES, [change])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_very_many_changes_have_bills_made_again(tmp_path, seed):
    rng = random.Random(-seed)
    features = rng.sample(sorted(FEATURES), 6)
    check_changes(tmp_path, seed, features, rng.choices(CHANGES, k=4))


@pytest.mark.long
def test_bills_of_which_nothing_changed_are_not_made(tmp_path, monkeypatch):
    with store_world(random_world(4, SOURCES), tmp_path) as world:
        world.clock.time = datetime(2022, 12, 2, tzinfo=UTC)
        assert set(bill_world(world)) == {"created"}
        before = stored_bills(world)

        def never(*_):
            raise AssertionError("a bill was made")

        monkeypatch.setattr(kept_bills.BillKeeper, "digest_of", never)
        assert set(bill_world(world)) == {"unchanged"}
        after = stored_bills(world)
        assert after == before
        assert {each.job_id for each in after}.isdisjoint(each.job_id for each in before)


def test_a_bill_that_is_deleted_while_a_run_leaves_it_as_it_was_is_made_again(
    tmp_path, monkeypatch
):
    with home_with_bills(tmp_path) as home:
        bill(home.organization, Month(2026, 9))
        with home.organization.reading() as reader:
            first, *others = bills.of_period(reader)

        def delete_first(step):
            if step == "bill.made":
                monkeypatch.undo()
                delete_bill(home.organization, "ann", first.id)

        monkeypatch.setattr(failpoint, "hook", delete_first)
        bill(home.organization, Month(2026, 9))
        with home.organization.reading() as reader:
            found = bills.of_period(reader)

    assert [each.content.total for each in found] == [
        each.content.total for each in (first, *others)
    ]
    assert first.id not in {each.id for each in found}
    assert {each.id for each in others} <= {each.id for each in found}
