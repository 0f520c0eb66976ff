"""What this version does not bill gets no bill, and a reason; everybody else is billed."""

from datetime import UTC, datetime

import pytest

from meterlake.model.billing import Bill, Failure
from tests.billing_world import World

ZERO_ON = [(0, 0, 1)]


@pytest.fixture
def world():
    world = World()
    world.currency("USD", 2)
    world.aggregation("sum")
    world.plan("basic")
    world.pricing("basic", "sum", ZERO_ON)
    world.account("bolt", "basic")
    world.use("bolt", "2026-10-05T00:00:00Z", 3)
    return world


def reason(world):
    made = world.made("2026-10")
    [failure] = [each for each in made if isinstance(each, Failure)]
    assert [each.account_code for each in made if isinstance(each, Bill)] == ["bolt"]
    assert failure.account_code == "acme"
    return failure.reason


def test_a_frequency_without_periods_is_not_passed_over(world):
    world.plan("gold", {"bill_frequency": "AD_HOC"})
    world.account("acme", "gold")

    assert "billFrequency is not available" in reason(world)


def test_a_plan_that_does_not_hold_in_the_month_is_no_obstacle(world):
    world.plan("gold", {"bill_frequency": "AD_HOC"})
    world.account("acme", "gold", end_date=datetime(2026, 10, 1, tzinfo=UTC))

    assert [each.account_code for each in world.bills("2026-10")] == ["bolt"]
