"""Laws of whole bills, over random organizations."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.billing_oracle import Bill, Line, World, bills
from tests.billing_oracle.money import places_of, round_to
from tests.billing_oracle.shop import Entity, amount
from tests.billing_oracle.worlds import FEATURES, random_world, text_of, worlds
from tests.laws import examples

LONG_BEFORE, SUMMER = date(2000, 1, 1), date(2022, 6, 15)
NO_SOURCES = FEATURES - {"commitments", "balances", "rollover", "overage", "draw_order"}


def law(default: int) -> Callable[[Any], Any]:
    return settings(max_examples=examples(default), deadline=None)


def all_bills(world: World, after: date = SUMMER) -> tuple[Bill, ...]:
    return bills(world, LONG_BEFORE, after).bills


def all_lines(world: World, *types: str, after: date = SUMMER) -> Iterator[Line]:
    for bill in all_bills(world, after):
        yield from (line for line in bill.lines if not types or line.type in types)


def total(lines: Iterator[Line]) -> Decimal:
    return sum((line.converted_subtotal for line in lines), Decimal(0))


@law(8)
@given(worlds())
def test_a_bill_is_the_sum_of_its_rounded_lines(world: World) -> None:
    for bill in all_bills(world):
        assert bill.total == sum(line.converted_subtotal for line in bill.lines)
        for line in bill.lines:
            places, _ = places_of(world, bill.currency)
            assert round_to(Fraction(line.converted_subtotal), places) == line.converted_subtotal
            assert line.converted_subtotal != 0 or line.type == "USAGE"


@pytest.mark.long
@law(8)
@given(worlds(), st.integers(0, 165))
def test_what_is_on_a_bill_does_not_depend_on_which_bills_are_made(world: World, days: int) -> None:
    """Bills until a day are those of a longer calculation; those from a day on are its others."""
    middle = date(2022, 1, 1) + timedelta(days=days)
    whole = all_bills(world)
    assert (*all_bills(world, middle), *bills(world, middle, SUMMER).bills) == whole


@pytest.mark.long
@law(8)
@given(worlds())
def test_bills_differ_in_what_identifies_them(world: World) -> None:
    found = [
        (bill.account_code, bill.date, bill.frequency, bill.interval, bill.grouping_key)
        for bill in all_bills(world)
    ]
    assert len(found) == len(set(found))


@law(8)
@given(worlds())
def test_the_ledger_sums_to_zero_and_the_sources_are_views_of_it(world: World) -> None:
    billing = bills(world, LONG_BEFORE, SUMMER)
    sums: dict[tuple[str, tuple[str, str]], Fraction] = {}
    for row in billing.postings:
        for owner, sign in ((row.giver, -1), (row.taker, 1)):
            key = (row.currency, owner)
            sums[key] = sums.get(key, Fraction(0)) + sign * row.amount
    assert sum(sums.values()) == 0
    for source in billing.sources:
        rolled = sums.get((source.currency, ("ROLLOVER", source.id)), Fraction(0))
        assert sums[(source.currency, (source.kind, source.id))] + rolled == source.left


@law(8)
@given(worlds())
def test_no_source_pays_more_than_it_has(world: World) -> None:
    overdrafts = {row["id"] for row in world.balances if row.get("allowOverdraft")}
    owing = {
        row["id"]
        for row in world.balances
        if any(transaction["amount"] < 0 for transaction in row["transactions"])
    }
    for source in bills(world, LONG_BEFORE, SUMMER).sources:
        assert source.drawn >= 0
        assert source.expired >= 0
        if source.id not in overdrafts | owing:
            assert (
                source.drawn + source.rollover_drawn + source.expired + source.left
                == source.credited
            )
            assert source.left >= 0


@pytest.mark.long
@law(8)
@given(worlds(FEATURES - {"currencies"}))
def test_what_sources_gave_is_what_the_lines_show_but_for_less_than_a_cent_each(
    world: World,
) -> None:
    billing = bills(world, LONG_BEFORE, SUMMER)
    for source in billing.sources:
        shown = sum(
            -line.converted_subtotal
            for bill in billing.bills
            for line in bill.lines
            if line.source_id == source.id and line.type.endswith("_CONSUMED")
        )
        assert 0 <= source.drawn + source.rollover_drawn - Fraction(shown) < Fraction(2, 100)


# Without what makes negative usage (a compound may, and a volume price over a span), and without other sources.
COVERED = NO_SOURCES - {"advance", "charges", "compounds", "currencies", "negatives", "spans"}
BY_DAYS = ("proRateRunningTotal", "proRateAdjustmentDebit", "proRateAdjustmentCredit")


@law(8)
@given(worlds(COVERED))
def test_a_fully_covered_bill_is_zero(world: World) -> None:
    """Counters are charged in arrears and by days, so that a credit finds on its bill what it is for.

    Of a volume price, a credit may be positive, and no source pays for one.
    """
    rich: list[Entity] = [
        {
            "id": f"rich-{row['code']}",
            "accountId": row["id"],
            "currency": "USD",
            "startDate": "2000-01-01",
            "endDate": "2100-01-01",
            "transactions": [{"amount": 10**9}],
        }
        for row in world.accounts
    ]
    exact = dict.fromkeys(BY_DAYS, True) | {"runningTotalBillInAdvance": False}
    counted = [{**row, **exact, "cumulative": True} for row in world.counter_pricings]
    world = replace(world, balances=rich, counter_pricings=counted)
    assert {bill.total for bill in all_bills(world)} <= {0}


@law(8)
@given(worlds(FEATURES - {"negatives"}))
def test_draw_downs_and_credits_never_make_more_of_a_bill_than_its_charges(world: World) -> None:
    """What is paid is at most what is charged, but for refunds and credits that are for other bills."""
    for bill in all_bills(world):
        paid = -sum(
            line.converted_subtotal for line in bill.lines if line.type.endswith("_CONSUMED")
        )
        charged = sum(line.converted_subtotal for line in bill.lines if line.converted_subtotal > 0)
        assert 0 <= paid <= charged


@law(8)
@given(
    worlds({"commitments", "epochs", "frequencies", "nth_bills", "plan_changes", "times", "zones"})
)
def test_the_instalments_of_a_commitment_are_its_amount(world: World) -> None:
    paid: dict[str, Decimal] = {}
    for line in all_lines(world, "COMMITMENT_FEE", after=date(2024, 6, 1)):
        assert line.source_id is not None
        paid[line.source_id] = paid.get(line.source_id, Decimal(0)) + line.converted_subtotal
    for row in world.commitments:
        dated = row.get("feeDates")
        if dated is not None:
            assert paid.get(row["id"], 0) == sum(fee["amount"] for fee in dated)
        elif row["id"] in paid:
            assert paid[row["id"]] == row["amount"] - (row.get("amountPrePaid") or 0)


SHAPES = {
    "segments",
    "roundings",
    "compounds",
    "defaults",
    "spans",
    "pricing_changes",
    "minimums",
    "counters",
}


def in_mode(world: World, mode: str) -> World:
    """All account plans in one mode, those of children left out, and all rounding to the nearest."""
    parents = {row["id"] for row in world.accounts if not row.get("parentAccountId")}
    plans = [
        {**row, "childBillingMode": mode}
        for row in world.account_plans
        if row["accountId"] in parents
    ]
    nearest = [{**row, "roundingMode": "HALF_UP"} for row in world.currencies]
    return replace(world, account_plans=plans, currencies=nearest)


@pytest.mark.long
@law(8)
@given(worlds(SHAPES | {"hierarchy", "negatives", "contracts"}))
def test_summary_and_breakdown_have_one_total_and_children_the_same_but_for_rounding(
    world: World,
) -> None:
    summary, breakdown, child = (
        in_mode(world, mode) for mode in ("PARENT_SUMMARY", "PARENT_BREAKDOWN", "CHILD")
    )
    whole = total(all_lines(summary))
    assert total(all_lines(breakdown)) == whole
    usage = list(all_lines(child, "USAGE"))
    # A minimum may turn each half cent of its usage into one of its own.
    assert abs(total(all_lines(child)) - whole) <= amount("0.01") * len(usage)


@law(8)
@given(worlds({"hierarchy", "segments"}))
def test_own_quantities_of_a_sum_add_up_to_the_pooled_one(world: World) -> None:
    world = replace(
        world,
        aggregations=[
            {**row, "aggregation": "SUM", "targetField": "n"} for row in world.aggregations
        ],
    )
    modes = ("PARENT_SUMMARY", "PARENT_BREAKDOWN", "CHILD")
    sums = {
        sum(line.quantity for line in all_lines(in_mode(world, mode), "USAGE")) for mode in modes
    }
    assert len(sums) == 1


@pytest.mark.long
@law(8)
@given(
    worlds({"minimums", "counters", "groups", "advance", "zones", "times", "negatives", "segments"})
)
def test_each_plan_comes_to_its_minimum_at_least(world: World) -> None:
    """Of ended plans, over all bills: usage, counters, minimums and refunds of a plan are max(usage, minimum)."""
    end = "2022-05-01T00:00:00Z"
    plain = replace(
        world,
        account_plans=[{**row, "endDate": end} for row in world.account_plans],
        plan_templates=[{**row, "minimumSpend": 0} for row in world.plan_templates],
        plans=[{**row, "minimumSpend": None} for row in world.plans],
        plan_groups=[{**row, "minimumSpend": None} for row in world.plan_groups],
        pricings=[{**row, "minimumSpend": None} for row in world.pricings],
    )
    full = replace(world, account_plans=plain.account_plans)
    types = ("MINIMUM_SPEND", "MINIMUM_SPEND_REFUND")
    assert total(all_lines(full)) >= total(all_lines(plain))
    assert not list(all_lines(plain, *types))
    in_arrears = replace(
        full,
        organization={**full.organization, "minimumSpendBillInAdvance": False},
        plan_templates=[{**row, "minimumSpendBillInAdvance": None} for row in full.plan_templates],
        plans=[{**row, "minimumSpendBillInAdvance": None} for row in full.plans],
        plan_groups=[{**row, "minimumSpendBillInAdvance": None} for row in full.plan_groups],
        pricings=[{**row, "minimumSpendBillInAdvance": None} for row in full.pricings],
    )
    assert total(all_lines(in_arrears)) == total(all_lines(full))


@law(8)
@given(worlds({"frequencies", "epochs", "zones", "times"}), st.integers(0, 150 * 24 * 60))
def test_a_plan_that_is_replaced_by_itself_costs_the_same_standing_charges(
    world: World, minutes: int
) -> None:
    """At any minute; but for the rounding of one more line for each account plan."""
    when = text_of(datetime(2022, 1, 2, tzinfo=UTC) + timedelta(minutes=minutes))
    plans: list[Any] = []
    for row in world.account_plans:
        if row["startDate"] < when and not row.get("billEpoch"):
            again = {**row, "id": row["id"] + "-2", "startDate": when}
            plans += [{**row, "endDate": when}, again]
        else:
            plans.append(row)
    accounts = [{**row, "billEpoch": None} for row in world.accounts]
    world = replace(world, accounts=accounts)
    changed = replace(world, account_plans=plans)
    standing = [total(all_lines(found, "STANDING_CHARGE")) for found in (world, changed)]
    assert abs(standing[0] - standing[1]) <= amount("0.01") * len(world.account_plans)


@law(5)
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_measurements_changes_nothing(world: World, rng: Any) -> None:
    shuffled = rng.sample(world.measurements, len(world.measurements))
    assert all_bills(replace(world, measurements=shuffled)) == all_bills(world)


def test_a_world_has_only_the_features_that_are_asked_for() -> None:
    types = {line.type for seed in range(10) for line in all_lines(random_world(seed, ()))}
    assert types == {"USAGE", "STANDING_CHARGE"}
    with pytest.raises(ValueError, match="no feature is called seats"):
        random_world(0, {"seats"})


@pytest.mark.long
def test_worlds_of_all_features_have_lines_of_all_types() -> None:
    types = {line.type for seed in range(20) for line in all_lines(random_world(seed))}
    assert types == {
        "USAGE",
        "COUNTER_RUNNING_TOTAL_CHARGE",
        "COUNTER_ADJUSTMENT_DEBIT",
        "COUNTER_ADJUSTMENT_CREDIT",
        "STANDING_CHARGE",
        "MINIMUM_SPEND",
        "MINIMUM_SPEND_REFUND",
        "COMMITMENT_FEE",
        "BALANCE_FEE",
        "AD_HOC",
        "USAGE_CREDIT",
        "COMMITMENT_CONSUMED",
        "BALANCE_CONSUMED",
        "OVERAGE_SURCHARGE",
        "OVERAGE_USAGE",
    }
