"""Commitments and balances pay for lines of bills: from the SDK's request to bills and the ledger."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.pipeline.billing.balances.ended_balances import settle_ended_balances
from tests.credit_world import world

__all__ = ["world"]
D = Decimal


def used(world, *plans, **more):
    """An account that used 100 in January, and then nothing."""
    account = world.account(*plans, **more)
    world.use(account, ("2026-01-05", 100))
    return account


def instant(month, day=1):
    return datetime(2026, month, day, tzinfo=UTC)


@pytest.mark.long
def test_a_source_without_a_rate_fails_the_bill_of_its_account_by_name(world):
    account, other = used(world), used(world)
    balance = world.balance(account, 50, currency="JPY")

    [result] = world.run("2026-02-01", accounts=[account, other])

    [failure] = result.failures
    assert (failure.account_code, balance.code in failure.reason) == (account.code, True)
    assert "conversion rate" in failure.reason
    assert (world.bills(account), world.amount(balance)) == ({}, 50)
    assert world.lines(other) == {"2026-02-01": [("USAGE", 100)]}


@pytest.mark.long
def test_a_commitment_is_spent_and_usage_beyond_it_costs_more(world):
    account = world.account()
    commitment = world.commit(account, 100, overage_surcharge_percent=10)
    world.use(account, ("2026-01-05", 60), ("2026-02-05", 150))

    assert world.bill(account, "2026-02-01") == {
        "2026-02-01": [("USAGE", 60), ("COMMITMENT_CONSUMED", -60)]
    }
    assert (world.total(account, "2026-02-01"), world.spent(commitment)) == (0, 60)

    assert world.bill(account, "2026-03-01")["2026-03-01"] == [
        ("USAGE", 150),
        ("COMMITMENT_CONSUMED", -40),
        ("OVERAGE_SURCHARGE", 11),
    ]
    assert world.spent(commitment) == 100
    for line in world.bills(account)["2026-03-01"].line_items[1:]:
        assert (line.commitment_id, line.balance_id) == (commitment.id, None)


@pytest.mark.long
def test_usage_beyond_a_commitment_has_a_line_and_prices_of_its_own(world):
    """200 units cost 150; 120 pay for 140 of them, and 60 are beyond at 3."""
    account = world.account("tiers")
    world.commit(account, 120, separate_overage_usage=True)
    world.use(account, ("2026-01-05", 200))

    assert world.bill(account, "2026-02-01")["2026-02-01"] == [
        ("USAGE", 120),
        ("COMMITMENT_CONSUMED", -120),
        ("OVERAGE_USAGE", 180),
    ]
    usage, _, overage = world.bills(account)["2026-02-01"].line_items
    assert (usage.units, overage.units) == (140, 60)


@pytest.mark.long
def test_a_prepaid_balance_pays_for_months_is_carried_over_and_expires(world):
    account = world.account()
    balance = world.balance(
        account,
        200,
        end_date="2026-03-01T00:00:00Z",
        rollover_end_date="2026-04-01T00:00:00Z",
        rollover_amount=50,
    )
    world.use(account, ("2026-01-05", 60), ("2026-02-05", 30), ("2026-03-05", 20))

    held = []
    for day in ("2026-02-01", "2026-03-01", "2026-04-01"):
        found = world.bill(account, day)[day]
        # Both of its ends are over: what no bill has drawn yet is expired.
        assert world.amount(balance) == 0
        held.append((*found[1], world.total(account, day)))
    assert held == [
        ("BALANCE_CONSUMED", -60, 0),
        ("BALANCE_CONSUMED", -30, 0),
        ("BALANCE_CONSUMED", -20, 0),
    ]

    assert settle_ended_balances(world.server.organization) == 0
    world.check()

    assert world.amount(balance) == 0
    transactions = world.sdk.balances.transactions
    bills = world.bills(account)
    drawn = list(transactions.list(balance.id, entity_type="BILL"))
    assert {(each.entity_id, each.amount) for each in drawn} == {
        (bills["2026-02-01"].id, -60),
        (bills["2026-03-01"].id, -30),
        (bills["2026-04-01"].id, -20),
    }
    [first] = transactions.list(balance.id, entity_id=bills["2026-02-01"].id)
    assert first.amount == -60
    expired = [
        (each.amount, each.applied_date)
        for each in transactions.list(balance.id, entity_type="SCHEDULER")
    ]
    assert sorted(expired) == [(-60, instant(3)), (-30, instant(4))]
    summary = transactions.summary(balance.id)
    assert (summary.total_credit_amount, summary.initial_credit_amount) == (200, 200)
    assert (summary.balance_consumed, summary.rollover_consumed) == (90, 20)
    assert summary.expired_balance_amount == 60


@pytest.mark.long
def test_an_overdraft_pays_for_what_is_left_and_knows_no_overage(world):
    account = used(world)
    balance = world.balance(account, 30, allow_overdraft=True, overage_surcharge_percent=10)

    assert world.bill(account, "2026-02-01") == {
        "2026-02-01": [("USAGE", 100), ("BALANCE_CONSUMED", -100)]
    }
    assert world.amount(balance) == -70


@pytest.mark.long
def test_a_balance_in_another_currency_pays_what_it_is_worth(world):
    """Two dollars a pound, and pounds are what the ledger has."""
    account = used(world)
    balance = world.balance(account, 30.05, currency="GBP")

    assert world.bill(account, "2026-02-01") == {
        "2026-02-01": [("USAGE", 100), ("BALANCE_CONSUMED", D("-60.1"))]
    }
    assert world.amount(balance) == 0
    [drawn] = world.sdk.balances.transactions.list(balance.id, entity_type="BILL")
    assert drawn.amount == -30.05


@pytest.mark.long
def test_what_a_bill_drew_before_it_was_made_again_is_not_listed(world):
    account = used(world)
    balance = world.balance(account, 45)
    transactions = world.sdk.balances.transactions
    world.bill(account, "2026-02-01")
    for amount in (10, 15):
        transactions.create(balance.id, amount=amount)
        world.bill(account, "2026-02-01")

    [drawn] = transactions.list(balance.id, entity_type="BILL")
    assert drawn.amount == -70
    listed = list(transactions.list(balance.id, page_size=1))
    assert sum(each.amount for each in listed) == world.amount(balance) == 0
    assert sorted(each.amount for each in listed) == [-70, 10, 15, 45]
    world.sdk.bills.delete(world.bills(account)["2026-02-01"].id)
    assert list(transactions.list(balance.id, entity_type="BILL")) == []
    assert world.amount(balance) == 70


ORDERS = {
    ("PREPAYMENT", "BALANCE"): [("COMMITMENT_CONSUMED", -80), ("BALANCE_CONSUMED", -20)],
    ("BALANCE", "PREPAYMENT"): [("BALANCE_CONSUMED", -60), ("COMMITMENT_CONSUMED", -40)],
    ("BALANCE",): [("BALANCE_CONSUMED", -60)],
}


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_the_account_says_in_which_order_its_sources_pay(world, order):
    account = used(world, credit_application_order=list(order))
    world.commit(account, 80)
    world.balance(account, 60)

    assert world.bill(account, "2026-02-01")["2026-02-01"][1:] == ORDERS[order]


@pytest.mark.long
def test_else_the_organization_says_it(world):
    account = used(world)
    world.commit(account, 80)
    world.balance(account, 60)

    world.organization(credit_application_order=["BALANCE"])
    try:
        assert world.bill(account, "2026-02-01")["2026-02-01"][1:] == ORDERS["BALANCE",]
    finally:
        world.organization(credit_application_order=["PREPAYMENT", "BALANCE"])
    assert world.bill(account, "2026-02-01")["2026-02-01"][1:] == ORDERS["PREPAYMENT", "BALANCE"]


def test_sources_pay_for_lines_of_their_types_and_products_only(world):
    account = used(world, "usage", "seats")
    world.balance(account, 500, line_item_types=["STANDING_CHARGE"])
    world.balance(account, 40, product_ids=[world.products["cloud"]])

    assert world.bill(account, "2026-02-01")["2026-02-01"] == [
        ("USAGE", 100),
        ("STANDING_CHARGE", 31),
        ("BALANCE_CONSUMED", -31),
        ("BALANCE_CONSUMED", -40),
    ]


@pytest.mark.long
def test_a_source_of_a_contract_pays_for_lines_under_it_only(world):
    account = world.account("seats")
    contract = world.contract(account)
    commitment = world.commit(account, 500, contract_id=contract.id)
    world.attach(account, "usage", contract_id=contract.id)
    world.use(account, ("2026-01-05", 100))

    assert world.bill(account, "2026-02-01")["2026-02-01"] == [
        ("USAGE", 100),
        ("STANDING_CHARGE", 31),
        ("COMMITMENT_CONSUMED", -100),
    ]
    [_, _, line] = world.bills(account)["2026-02-01"].line_items
    assert (line.commitment_id, line.contract_id) == (commitment.id, contract.id)


def test_a_balance_that_ends_in_mid_period_pays_for_its_part_of_it(world):
    account = world.account("usage", "seats")
    world.balance(account, 500, end_date="2026-01-16T00:00:00Z")
    world.use(account, ("2026-01-05", 60), ("2026-01-20", 40))

    assert world.bill(account, "2026-02-01")["2026-02-01"] == [
        ("USAGE", 100),
        ("STANDING_CHARGE", 31),
        ("BALANCE_CONSUMED", -75),
    ]


def january_and_february(world):
    """An account that used 100 in January and 100 in February, with an empty balance."""
    account = used(world)
    world.use(account, ("2026-02-05", 100))
    return account, world.balance(account)


@pytest.mark.long
def test_money_that_applied_before_a_bill_pays_for_it_with_the_next_job(world):
    account, balance = january_and_february(world)
    world.bill(account, "2026-02-01", "2026-03-01")
    other, _ = january_and_february(world)
    world.bill(other, "2026-02-01")

    # Of January's bill, money of 1 February comes too late, that of 31 January does not.
    world.top_up(balance, 30, "2026-02-01")
    assert [world.total(account, day) for day in ("2026-02-01", "2026-03-01")] == [100, 100]
    [result] = world.run("2026-04-01", accounts=[account])
    assert result.failures == []
    assert [world.total(account, day) for day in ("2026-02-01", "2026-03-01")] == [100, 70]

    world.top_up(balance, 120, "2026-01-31")
    [result] = world.run("2026-04-01", accounts=[account])
    assert {str(each.bill_date): each.stored.value for each in result.bills} == {
        "2026-02-01": "updated",
        "2026-03-01": "updated",
        "2026-04-01": "unchanged",
    }
    assert [world.total(account, day) for day in ("2026-02-01", "2026-03-01")] == [0, 50]
    assert world.total(other, "2026-02-01") == 100
    assert world.amount(balance) == 0
    world.check()


@pytest.mark.long
def test_money_that_leaves_a_balance_again_is_missing_on_the_bills_since(world):
    account, balance = january_and_february(world)
    world.top_up(balance, 150)
    world.bill(account, "2026-02-01", "2026-03-01")
    world.sdk.balances.update(
        balance.id,
        account_id=account.id,
        code=balance.code,
        name=balance.code,
        start_date=balance.start_date,
        end_date=balance.end_date,
        currency="USD",
        allow_overdraft=True,
        version=balance.version,
    )

    world.top_up(balance, -120, "2026-02-10")
    world.run("2026-03-01", accounts=[account])

    assert world.total(account, "2026-02-01") == 0
    # An overdraft pays for all of it.
    assert (world.total(account, "2026-03-01"), world.amount(balance)) == (0, -170)
    world.check()


@pytest.mark.long
def test_locked_bills_stay_when_money_comes_that_applied_before(world):
    account, balance = january_and_february(world)
    world.bill(account, "2026-02-01", "2026-03-01")
    january = world.bills(account)["2026-02-01"].id
    world.sdk.bills.update_status(january, status="APPROVED")
    world.sdk.bills.lock(january)

    world.top_up(balance, 130, "2026-01-10")
    [result] = world.run("2026-04-01", accounts=[account])

    assert [str(each.bill_date) for each in result.bills] == ["2026-04-01", "2026-03-01"]
    assert [world.total(account, day) for day in ("2026-02-01", "2026-03-01")] == [100, 0]
    assert world.amount(balance) == 30
    world.check()


@pytest.mark.long
@pytest.mark.parametrize(
    ("percent", "january"),
    [
        (None, [("USAGE", 120), ("BALANCE_CONSUMED", -120), ("OVERAGE_USAGE", 180)]),
        (0, [("USAGE", 150), ("BALANCE_CONSUMED", -120)]),
        (10, [("USAGE", 150), ("BALANCE_CONSUMED", -120), ("OVERAGE_SURCHARGE", 3)]),
    ],
)
def test_usage_beyond_a_balance_has_overage_bands_unless_it_has_a_percent(world, percent, january):
    """200 units cost 150; 120 pay for 140 of them, and 60 are beyond at 3."""
    account = world.account("tiers")
    more = {} if percent is None else {"overage_surcharge_percent": percent}
    balance = world.balance(account, 120, **more)
    world.use(account, ("2026-01-05", 200), ("2026-02-05", 7))

    found = world.bill(account, "2026-02-01", "2026-03-01")

    assert found["2026-02-01"] == january
    assert found["2026-03-01"][0] == (("OVERAGE_USAGE", 21) if percent is None else ("USAGE", 7))
    if percent is None:
        beyond = world.bills(account)["2026-02-01"].line_items[-1]
        assert (beyond.units, beyond.balance_id) == (60, balance.id)


@pytest.mark.long
def test_usage_beyond_a_commitment_has_no_overage_bands_unless_it_is_separate(world):
    """200 units cost 150, of which the commitment pays 120; the bands beyond it do not count."""
    account = world.account("tiers")
    world.commit(account, 120)
    world.use(account, ("2026-01-05", 200))

    assert world.bill(account, "2026-02-01") == {
        "2026-02-01": [("USAGE", 150), ("COMMITMENT_CONSUMED", -120)]
    }


@pytest.mark.long
def test_usage_beyond_a_balance_keeps_its_price_where_it_has_no_overage_bands(world):
    account = used(world)
    world.balance(account, 30)

    assert world.bill(account, "2026-02-01") == {
        "2026-02-01": [("USAGE", 100), ("BALANCE_CONSUMED", -30)]
    }
