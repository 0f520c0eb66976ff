"""What is left of balances that ended: carried over or expired, once, and anew after late bills."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from sqlalchemy import text

from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType
from meterlake.model.customers.balances import Balance
from meterlake.model.resources import BY_ENTITY
from meterlake.pipeline.billing.balances import balances
from meterlake.pipeline.billing.balances.ended_balances import settle_ended_balances
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.stores.state.billing.credits import ledger
from meterlake.stores.state.billing.credits.ledger import Consumption
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events.events import EventFilter, page
from tests.integration.pipeline.billing.balances.test_balances import BALANCE, World
from tests.integration.pipeline.billing.both_databases import ON_BOTH, world

__all__ = ["world"]
D = Decimal
BILL = "00000000-0000-4000-8000-00000000b111"


def at(month, day=1):
    return datetime(2026, month, day, tzinfo=UTC)


class Ended:
    """A balance of 1000 that ends on 1 March; 800 of it are carried over until 1 June."""

    def __init__(self, world):
        self.world = world
        world.clock.time = at(1, 15)
        document = {
            **BALANCE,
            "code": "ending",
            "accountId": entities_account(world),
            "endDate": "2026-03-01T00:00:00Z",
            "rolloverEndDate": "2026-06-01T00:00:00Z",
            "rolloverAmount": 800,
        }
        self.document = document
        made = entities.create(world.organization, "me", self.ref(), document)
        self.id = made["id"]
        world.book(1000, self.id)

    def ref(self, id=None):
        return ResourceRef(BY_ENTITY[Balance], {}, id)

    def go_to(self, instant):
        self.world.clock.time = instant

    def settle(self):
        return settle_ended_balances(self.world.organization)

    def change(self, version, **changes):
        document = self.document | changes | {"version": version}
        entities.update(self.world.organization, "me", self.ref(self.id), document)

    def draw(self, amount, kind=LedgerAccountType.BALANCE, bill=BILL, version=1):
        """What a bill draws, in place of what it drew before."""
        draws = [Consumption(LedgerAccount(kind, self.id), D(amount), "USD")] if amount else []
        with self.world.organization.transaction("bills") as transaction:
            ledger.repost(transaction, bill, version, draws)

    @property
    def held(self):
        return self.world.listed()["ending"]

    @property
    def accounts(self):
        """What the accounts of balances and of what expired have."""
        found = check_ledger(self.world.organization)
        return {kind.value: amount for (kind, _), amount in found.accounts.items() if amount}

    @property
    def differences(self):
        """What the books find, but for lines of bills, which these tests make none of."""
        found = check_ledger(self.world.organization).differences
        return [each for each in found if not each.what.startswith("lines of bill")]

    @property
    def shown(self):
        page = Page(100, None)
        found = balances.list_transactions(self.world.organization, self.id, {}, page)
        return [(each["amount"], each["entityType"]) for each in reversed(found["data"])]


def entities_account(world):
    return world.configuration.get(Balance, world.balance).entity.account_id


@pytest.fixture
def ended(world: World):
    return Ended(world)


def test_nothing_is_posted_before_the_end(ended):
    ended.go_to(datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC))

    ended.settle()

    assert (ended.held, ended.shown) == (1000, [(1000, "SERVICE_USER")])


@ON_BOTH
def test_what_is_not_carried_over_expires(ended):
    """The worked example of the documentation."""
    ended.go_to(at(3))

    # Another balance of the world ends on the same day.
    assert [ended.settle() for _ in range(3)] == [2, 0, 0]

    assert ended.held == 800
    assert ended.shown == [(1000, "SERVICE_USER"), (-200, "SCHEDULER")]
    assert ended.accounts == {"customer": -1000, "rollover": 800, "expired": 200}
    summary = ended.world.summary(ended.id)
    assert (summary["expiredBalanceAmount"], summary["totalDebitAmount"]) == (200, 0)
    assert ended.differences == []


def test_what_is_left_of_the_rollover_expires_at_its_end(ended):
    ended.go_to(at(3))
    ended.settle()
    ended.draw(300, LedgerAccountType.ROLLOVER)
    assert ended.held == 500
    ended.go_to(at(6))

    assert [ended.settle() for _ in range(2)] == [1, 0]

    assert (ended.held, ended.accounts["expired"]) == (0, 700)
    assert ended.differences == []


def test_both_ends_at_once_are_as_one_after_the_other(ended):
    ended.draw(300, LedgerAccountType.ROLLOVER)
    ended.go_to(at(7))

    ended.settle()

    assert ended.accounts == {"customer": -1000, "expired": 700, "revenue": 300}


@ON_BOTH
def test_a_bill_that_is_calculated_later_draws_what_had_expired(ended):
    ended.go_to(at(3))
    ended.settle()
    ended.draw(150)

    assert ended.settle() == 1

    assert ended.held == 800
    assert ended.accounts == {"customer": -1000, "rollover": 800, "expired": 50, "revenue": 150}
    # The expiry of 200 was taken back, and is listed no more.
    assert ended.shown == [(1000, "SERVICE_USER"), (-150, "BILL"), (-50, "SCHEDULER")]
    assert ended.differences == []

    ended.draw(350, version=2)
    assert [ended.settle() for _ in range(2)] == [1, 0]
    assert (ended.held, ended.accounts.get("expired", 0)) == (650, 0)
    assert ended.differences == []

    ended.draw(0, version=3)
    ended.settle()
    assert (ended.held, ended.accounts["expired"]) == (800, 200)


def test_what_comes_in_after_the_end_expires_when_its_time_comes(ended):
    ended.world.book(70, ended.id, appliedDate="2026-04-01T00:00:00Z")
    ended.go_to(at(3, 2))
    assert [ended.settle() for _ in range(2)] == [2, 0]
    assert ended.accounts["expired"] == 200

    ended.go_to(at(4))

    assert [ended.settle() for _ in range(2)] == [1, 0]
    assert (ended.held, ended.accounts["expired"]) == (800, 270)
    assert ended.differences == []


def test_an_overdrawn_balance_keeps_what_it_owes(ended):
    ended.draw(1100)
    ended.go_to(at(7))

    ended.settle()

    assert ended.held == -100
    assert ended.accounts == {"customer": -1000, "balance": -100, "revenue": 1100}


@ON_BOTH
def test_another_end_is_another_leftover(ended):
    ended.go_to(at(3))
    ended.settle()

    ended.change(1, endDate="2026-05-01T00:00:00Z")
    assert ended.settle() == 1
    assert (ended.held, ended.accounts) == (1000, {"customer": -1000, "balance": 1000})
    ended.go_to(at(5))
    ended.settle()
    assert ended.accounts["expired"] == 200

    ended.change(2, endDate="2026-05-01T00:00:00Z", rolloverAmount=1000)
    assert [ended.settle() for _ in range(2)] == [1, 0]
    assert (ended.held, ended.accounts.get("expired", 0)) == (1000, 0)
    assert ended.differences == []


def test_what_expires_is_an_event_of_the_amount(ended):
    ended.go_to(at(3))
    ended.settle()

    with ended.world.organization.reading() as reader:
        found = page(reader, EventFilter(resource_id=ended.id), Page(10))[0]
    amounts = [each.event for each in found if each.event.name == "billing.balanceamount.updated"]
    assert [amounts[0].data[side]["amount"] for side in ("oldDto", "newDto")] == [1000, 800]


@ON_BOTH
def test_several_workers_post_it_once(ended):
    ended.go_to(at(7))

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(ended.settle) for _ in range(4)]:
            each.result()

    assert ended.shown == [(1000, "SERVICE_USER"), (-200, "SCHEDULER"), (-800, "SCHEDULER")]
    assert ended.settle() == 0


def test_a_balance_without_money_is_looked_at_once(ended):
    ended.world.book(-1000, ended.id)
    ended.go_to(at(7))

    assert [ended.settle() for _ in range(2)] == [2, 0]
    assert ended.shown == [(1000, "SERVICE_USER"), (-1000, "SERVICE_USER")]


@ON_BOTH
def test_what_is_posted_wrongly_is_a_difference(ended):
    ended.go_to(at(3))
    ended.settle()
    with ended.world.organization.transaction("test") as transaction:
        statement = text("UPDATE posting SET amount = '150' WHERE kind = 'expiry'")
        transaction.connection.execute(statement)

    found = [each for each in ended.differences if each.id == ended.id]

    assert {(each.what, each.ledger, each.found) for each in found} == {
        ("what a balance leaves at its end", "expiry 150, rollover 800", "expiry 200, rollover 800")
    }
