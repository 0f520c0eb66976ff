"""A plan of the frequency AD_HOC or MIXED has no billing periods: it charges nothing, and stops no bill."""

from datetime import date

import pytest

from meterlake.model.bills.unbilled import Uncovered
from meterlake.model.customers.contracts import CommitmentFee
from meterlake.model.errors import Invalid
from meterlake.model.rules.balances import billing_plan_has_periods
from meterlake.model.rules.proposed import Proposed
from meterlake.stages.bill import fees_on_no_bill
from tests.billing_world import World, instant

ZERO_ON = [(0, 0, 1)]
OCTOBER = {"start": "2026-10-01T00:00:00Z", "end": "2026-11-01T00:00:00Z"}
JANUARY_TO_JANUARY = {"start_date": date(2026, 1, 1), "end_date": date(2027, 1, 1)}


@pytest.fixture(params=["AD_HOC", "MIXED"])
def world(request):
    """A monthly plan for sums, and one without periods for sums and counts."""
    world = World()
    world.currency("USD", 2)
    world.aggregation("sum")
    world.aggregation("count", "COUNT")
    world.plan("basic", {"standing_charge": 31})
    world.pricing("basic", "sum", ZERO_ON)
    world.plan(
        "odd", {"bill_frequency": request.param, "standing_charge": 100, "minimum_spend": 50}
    )
    world.pricing("odd", "sum", ZERO_ON)
    world.account("acme", "odd")
    world.use("acme", "2026-10-05T00:00:00Z", 3)
    world.frequency = request.param
    return world


def bills(world):
    """The lines of October by the date and the frequency of their bill."""
    return {
        (str(bill.bill_date), bill.billing_frequency.value): [
            (line.type.value, line.converted_subtotal) for line in bill.lines
        ]
        for bill in world.bills("2026-10")
    }


def no_periods(world):
    return f"the plan 'odd' of the frequency {world.frequency} has no billing periods"


def test_it_makes_no_bill_and_charges_nothing(world):
    assert bills(world) == {}
    [row] = world.without("2026-10", ())
    assert (row.account_code, row.reason) == ("acme", no_periods(world))


def test_what_it_prices_is_usage_on_no_bill(world):
    rows = {row.aggregation_code: (row.reason, row.detail) for row in world.unpriced("2026-10")}

    assert rows == {"sum": (Uncovered.NO_BILLING_PERIODS, no_periods(world))}


def test_what_it_does_not_price_has_no_price(world):
    world.pricing("basic", "count", ZERO_ON)

    rows = {row.aggregation_code: row.reason for row in world.unpriced("2026-10")}

    assert rows == {"sum": Uncovered.NO_BILLING_PERIODS, "count": Uncovered.NO_PRICING}


def test_usage_after_it_has_no_plan(world):
    world.account("bolt", "odd", end_date=instant("2026-10-01T00:00:00Z"))
    world.use("bolt", "2026-10-05T00:00:00Z", 4)

    reasons = {row.account_code: row.reason for row in world.unpriced("2026-10")}

    assert reasons["bolt"] is Uncovered.NO_ACCOUNT_PLAN
    assert [row.account_code for row in world.without("2026-10", ())] == ["acme"]


def test_charges_and_fees_on_dates_have_bills_without_it(world):
    world.charge("acme", *OCTOBER.values(), amount=7, bill_date=date(2026, 10, 20))
    world.charge("acme", *OCTOBER.values(), amount=8)
    fee = CommitmentFee(
        date=date(2026, 10, 10),
        amount=5,
        service_period_start_date=instant(OCTOBER["start"]),
        service_period_end_date=instant(OCTOBER["end"]),
    )
    world.commitment("acme", amount=5, fee_dates=(fee,), **JANUARY_TO_JANUARY)

    assert bills(world) == {
        ("2026-10-10", "AD_HOC"): [("COMMITMENT_FEE", 5)],
        ("2026-10-20", "AD_HOC"): [("AD_HOC", 7)],
        ("2026-11-01", "AD_HOC"): [("AD_HOC", 8)],
    }


def test_other_plans_are_billed_as_if_it_were_not_there(world):
    world.subscribe("acme", "basic")
    world.charge("acme", *OCTOBER.values(), amount=8)

    assert bills(world) == {
        ("2026-11-01", "MONTHLY"): [("USAGE", 3), ("STANDING_CHARGE", 31), ("AD_HOC", 8)]
    }
    assert world.unpriced("2026-10") == []
    assert world.without("2026-10", {each.account_id for each in world.bills("2026-10")}) == []


def test_a_plan_group_without_periods_charges_nothing_either(world):
    world.group("group", ["odd"], standing_charge=9)
    world.subscribe("acme", "group")

    assert bills(world) == {}


def test_a_commitment_is_not_billed_with_it(world):
    """It is refused when it is saved; one that was stored before is listed with the account."""
    id_ = world.commitment("acme", amount=5, billing_plan="odd", **JANUARY_TO_JANUARY)
    terms = world.terms("2026-10")
    commitment = world.records[id_].entity

    with pytest.raises(Invalid, match=f"billingPlanId: 'odd' .*{world.frequency}"):
        billing_plan_has_periods(Proposed(id_, commitment, None, terms.configuration))

    [row] = fees_on_no_bill(terms)
    assert row.reason == f"its commitment {id_} has no fees: {no_periods(world)}"
    assert bills(world) == {}


def test_a_commitment_is_billed_with_a_plan_that_has_periods(world):
    world.subscribe("acme", "basic")
    id_ = world.commitment("acme", amount=12, billing_plan="basic", **JANUARY_TO_JANUARY)
    terms = world.terms("2026-10")

    billing_plan_has_periods(Proposed(id_, world.records[id_].entity, None, terms.configuration))

    assert list(fees_on_no_bill(terms)) == []
    assert "COMMITMENT_FEE" in {kind for kind, _ in bills(world)["2026-11-01", "MONTHLY"]}
