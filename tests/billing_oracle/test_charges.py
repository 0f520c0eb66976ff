"""Usage, counters, standing charges, minimums, fees, ad hoc items: examples that were reckoned by hand."""

from typing import Any

import pytest

from tests.billing_oracle import CannotBill, World
from tests.billing_oracle.shop import (
    START,
    Entity,
    bands,
    bill_of,
    billing,
    dates,
    lines,
    shop,
    used,
)


def usage(world: World, when: str, **of: Any) -> list[tuple[Any, str]]:
    """Units and amount of each usage line of a bill."""
    found = bill_of(world, when, **of).lines
    return [(line.units, str(line.converted_subtotal)) for line in found if line.type == "USAGE"]


# Usage.


def test_usage_of_a_month_is_one_line() -> None:
    world = shop(used("2022-01-05", 300), used("2022-01-31T23:59:59Z", 400), used("2022-02-01", 5))
    world_bands = bands((0, 0, "0.15"), (500, 0, "0.10"))
    priced = shop(*world.measurements, pricing={"pricingBands": world_bands})
    assert lines(priced, "2022-02-01") == [("USAGE", "95")]


def test_no_usage_has_no_line_and_a_default_or_a_zero_has_one() -> None:
    assert lines(shop(), "2022-02-01") == []
    assert lines(shop(aggregation={"defaultValue": 7}), "2022-02-01") == [("USAGE", "7")]
    assert lines(shop(used("2022-01-05", 0)), "2022-02-01") == [("USAGE", "0")]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("SUM", "9"), ("COUNT", "3"), ("MAX", "5"), ("MIN", "1"), ("LATEST", "1"), ("MEAN", "3")],
)
def test_aggregations_of_numbers(kind: str, expected: str) -> None:
    rows = [used("2022-01-05", 5), used("2022-01-09", 1), used("2022-01-07", 3)]
    assert lines(shop(*rows, aggregation={"aggregation": kind}), "2022-02-01") == [
        ("USAGE", expected)
    ]


def test_a_pricing_that_changes_in_mid_period_has_windows_of_their_own() -> None:
    """Each has its own bands from zero, and its own default value."""
    second: Entity = {"id": "price2", "code": "price2", "planId": "plan", "aggregationId": "agg"}
    second |= {
        "startDate": "2022-01-16T00:00:00Z",
        "cumulative": True,
        "pricingBands": bands((0, 0, 3)),
    }
    world = shop(
        used("2022-01-05", 12),
        pricing={"endDate": "2022-01-16T00:00:00Z", "pricingBands": bands((0, 0, 1), (10, 0, 2))},
        aggregation={"defaultValue": 2},
        pricings=[second],
    )
    assert usage(world, "2022-02-01") == [(12, "14"), (2, "6")]


def test_tiers_can_span_the_plan() -> None:
    """100 units at 1, then 0.5: 80 units in January, 40 in February."""
    world = shop(
        used("2022-01-05", 80),
        used("2022-02-05", 40),
        pricing={"tiersSpanPlan": True, "pricingBands": bands((0, 0, 1), (100, 0, "0.5"))},
    )
    assert usage(world, "2022-02-01") == [(80, "80")]
    assert usage(world, "2022-03-01") == [(40, "30")]
    assert lines(world, "2022-04-01") == []


def test_bands_do_not_reset_inside_a_first_long_period() -> None:
    world = shop(
        used("2022-01-05", 80),
        used("2022-02-05", 40),
        pricing={"pricingBands": bands((0, 0, 1), (100, 0, "0.5"))},
        account_plan={"billEpoch": "2022-02-15"},
    )
    assert usage(world, "2022-02-15") == [(120, "110")]


def test_the_plans_own_pricing_hides_its_templates_for_its_time_only() -> None:
    common: Entity = {
        "id": "price2",
        "code": "price2",
        "planTemplateId": "template",
        "aggregationId": "agg",
    }
    common |= {"startDate": START, "cumulative": True, "pricingBands": bands((0, 0, 3))}
    world = shop(
        used("2022-01-05", 10),
        used("2022-01-20", 10),
        pricing={"startDate": "2022-01-10T00:00:00Z"},
        pricings=[common],
    )
    assert sorted(text for _, text in usage(world, "2022-02-01")) == ["10", "30"]


def test_each_priced_segment_has_a_line() -> None:
    other: Entity = {"id": "price2", "code": "price2", "planId": "plan", "aggregationId": "agg"}
    other |= {"startDate": START, "pricingBands": bands((0, 0, 2)), "segment": {"r": "*"}}
    world = shop(
        used("2022-01-05", 10, r="eu"),
        used("2022-01-06", 5, r="us"),
        used("2022-01-07", 1),
        aggregation={"segmentedFields": ["r"], "segments": [{"r": "eu"}, {"r": "*"}]},
        pricing={"segment": {"r": "eu"}},
        pricings=[other],
    )
    found = [
        (line.segment, str(line.converted_subtotal)) for line in bill_of(world, "2022-02-01").lines
    ]
    assert found == [((("r", "eu"),), "10"), ((("r", "*"),), "12")]


def test_a_compound_sees_base_values() -> None:
    """100 in units of ten are 10 units, but 100 for the compound; without usage there is no value."""
    compound: Entity = {"id": "comp", "code": "comp", "calculation": "aggregation.gb * 2"}
    world = shop(
        used("2022-01-05", 100),
        aggregation={"quantityPerUnit": 10, "rounding": "UP"},
        pricing={"aggregationId": None, "compoundAggregationId": "comp"},
        compounds=[compound],
    )
    assert usage(world, "2022-02-01") == [(200, "200")]
    assert usage(world, "2022-03-01") == []


@pytest.mark.parametrize(("evaluates", "expected"), [(False, []), (True, [("USAGE", "5")])])
def test_a_compound_of_nulls_has_a_value_only_if_it_evaluates_them(
    evaluates: bool, expected: list[tuple[str, str]]
) -> None:
    compound: Entity = {"id": "comp", "code": "comp", "references": ["gb"]}
    compound |= {"calculate": lambda values: (values["gb"] or 0) + 5}
    world = shop(
        pricing={"aggregationId": None, "compoundAggregationId": "comp"},
        compounds=[compound | {"evaluateNullAggregations": evaluates}],
    )
    assert lines(world, "2022-02-01") == expected


def test_contracts_limit_time_and_usage() -> None:
    contract: Entity = {
        "id": "c",
        "accountId": "acme",
        "startDate": "2022-01-10",
        "endDate": "2022-02-10",
    }
    filters = [{"dimensionCode": "s", "mode": "EXCLUDE", "value": "free"}]
    rows = [used("2022-01-05", 1), used("2022-01-15", 10), used("2022-01-16", 100, s="free")]
    for limited, expected in ((True, "10"), (False, "11")):
        full = contract | {"applyContractPeriodLimits": limited, "usageFilters": filters}
        world = shop(*rows, account_plan={"contractId": "c"}, contracts=[full])
        assert lines(world, "2022-02-01") == [("USAGE", expected)]


@pytest.mark.parametrize("exclusive", [True, False])
def test_grouping_keys_make_bills_of_contracts(exclusive: bool) -> None:
    """An exclusive key is a bill for each contract; a shared one is one bill for both."""
    contracts = [
        {
            "id": f"c{n}",
            "accountId": "acme",
            "startDate": "2022-01-01",
            "endDate": "2023-01-01",
            "billGroupingKeyId": "k",
        }
        for n in (1, 2)
    ]
    second = {
        "id": "ap2",
        "accountId": "acme",
        "planId": "plan",
        "startDate": START,
        "contractId": "c2",
    }
    world = shop(
        template={"standingCharge": 5},
        account_plan={"contractId": "c1"},
        contracts=contracts,
        account_plans=[second],
        grouping_keys=[{"id": "k", "exclusive": exclusive}],
    )
    found = [(bill.grouping_key, str(bill.total)) for bill in billing(world, "2022-02-01").bills]
    assert found == ([("c1", "5"), ("c2", "5")] if exclusive else [("k", "10")])


def test_lines_are_converted_one_by_one() -> None:
    """A plan in GBP, billed in USD: 3.33 × 1.25 = 4.1625; a missing rate fails."""
    template: Entity = {"currency": "GBP", "standingCharge": "3.33"}
    with pytest.raises(CannotBill, match="no rate from GBP to USD"):
        billing(shop(template=template))
    rate = [{"from": "GBP", "to": "USD", "multiplier": "1.25"}]
    world = shop(
        used("2022-01-05", "0.1"), template=template, organization={"currencyConversions": rate}
    )
    found = bill_of(world, "2022-02-01").lines
    assert [str(line.converted_subtotal) for line in found] == ["0.13", "4.16"]
    assert [str(line.subtotal) for line in found] == ["0.1", "3.33"]


# Minimum spends.


def minimum_shop(advance: bool, n: int, **more: Any) -> World:
    template: Entity = {"minimumSpend": 1000, "minimumSpendBillInAdvance": advance}
    return shop(used("2022-01-05", n), template=template, **more)


def test_a_minimum_in_arrears_is_topped_up() -> None:
    assert lines(minimum_shop(False, 800), "2022-02-01") == [
        ("USAGE", "800"),
        ("MINIMUM_SPEND", "200"),
    ]
    assert lines(minimum_shop(False, 1200), "2022-02-01") == [("USAGE", "1200")]


@pytest.mark.parametrize(("n", "refund", "total"), [(800, "-800", 1000), (1200, "-1000", 1200)])
def test_a_minimum_in_advance_is_refunded_as_far_as_it_is_covered(
    n: int, refund: str, total: int
) -> None:
    world = minimum_shop(True, n, account_plan={"endDate": "2022-02-01T00:00:00Z"})
    assert lines(world, "2022-01-01") == [("MINIMUM_SPEND", "1000")]
    assert lines(world, "2022-02-01") == [("USAGE", str(n)), ("MINIMUM_SPEND_REFUND", refund)]
    assert sum(bill.total for bill in billing(world).bills) == total


def test_a_minimum_of_a_long_first_period_is_the_sum_and_assessed_once() -> None:
    world = shop(
        used("2022-01-05", 100),
        template={"minimumSpend": 310},
        account_plan={"billEpoch": "2022-02-15"},
    )
    assert lines(world, "2022-02-15") == [("USAGE", "100"), ("MINIMUM_SPEND", "350")]


def test_lower_minimums_count_towards_higher_ones() -> None:
    """Usage 10, the pricing's minimum 30, the plan's 100."""
    world = shop(used("2022-01-05", 10), pricing={"minimumSpend": 30}, plan={"minimumSpend": 100})
    assert lines(world, "2022-02-01") == [
        ("USAGE", "10"),
        ("MINIMUM_SPEND", "20"),
        ("MINIMUM_SPEND", "70"),
    ]


def test_a_lower_minimum_in_advance_counts_with_what_it_adds() -> None:
    world = shop(
        used("2022-01-05", 10),
        pricing={"minimumSpend": 30, "minimumSpendBillInAdvance": True},
        plan={"minimumSpend": 100},
        account_plan={"endDate": "2022-02-01T00:00:00Z"},
    )
    assert lines(world, "2022-01-01") == [("MINIMUM_SPEND", "30")]
    assert lines(world, "2022-02-01") == [
        ("USAGE", "10"),
        ("MINIMUM_SPEND_REFUND", "-10"),
        ("MINIMUM_SPEND", "70"),
    ]


def test_standing_charges_never_count_towards_a_minimum() -> None:
    world = shop(template={"standingCharge": 500, "minimumSpend": 100})
    assert lines(world, "2022-02-01") == [("STANDING_CHARGE", "500"), ("MINIMUM_SPEND", "100")]


def test_a_minimum_on_a_credit_pricing_is_refused() -> None:
    world = shop(pricing={"type": "GLOBAL_CREDIT", "minimumSpend": 1})
    with pytest.raises(CannotBill, match="credit pricing"):
        billing(world)


def group_shop(**group: Any) -> World:
    second: Entity = {"id": "t2", "code": "t2", "productId": "product2", "currency": "USD"}
    second |= {"billFrequency": "MONTHLY", "standingCharge": 20, "minimumSpend": 60}
    return shop(
        used("2022-01-05", 10),
        template={"standingCharge": 10},
        account_plan={"planId": None, "planGroupId": "group"},
        products=[{"id": "product2", "code": "product2"}],
        plan_templates=[second],
        plans=[{"id": "p2", "code": "p2", "planTemplateId": "t2"}],
        plan_groups=[{"id": "group", "code": "group", "currency": "USD", **group}],
        plan_group_links=[{"planGroupId": "group", "planId": plan} for plan in ("plan", "p2")],
    )


def test_a_groups_standing_charge_replaces_those_of_its_plans() -> None:
    standing = [row for row in lines(group_shop(), "2022-02-01") if row[0] == "STANDING_CHARGE"]
    assert standing == [("STANDING_CHARGE", "10"), ("STANDING_CHARGE", "20")]
    found = lines(group_shop(standingCharge=25), "2022-02-01")
    assert found == [("USAGE", "10"), ("STANDING_CHARGE", "25"), ("MINIMUM_SPEND", "60")]


@pytest.mark.parametrize(("minimum", "extra"), [(100, ["30"]), (70, []), (50, [])])
def test_a_groups_minimum_is_on_top_so_that_the_greater_holds(
    minimum: int, extra: list[str]
) -> None:
    """Usage 10 and the plan's minimum 60 make 70."""
    found = lines(group_shop(standingCharge=0, minimumSpend=minimum), "2022-02-01")
    assert [text for kind, text in found if kind == "MINIMUM_SPEND"] == ["60", *extra]


# Counters.


def seats(*adjustments: tuple[str, int], template: Entity | None = None, **switches: Any) -> World:
    pricing: Entity = {"id": "cp", "counterId": "seats", "planId": "plan", "startDate": START}
    pricing |= {"cumulative": True, "pricingBands": bands((0, 0, 2), (20, 0, 3)), **switches}
    return shop(
        account_plan={"startDate": "2024-06-01T00:00:00Z", "endDate": "2025-07-01T00:00:00Z"},
        template=template or {},
        counters=[{"id": "seats", "code": "seats"}],
        counter_pricings=[pricing],
        counter_adjustments=[
            {"counterId": "seats", "accountId": "acme", "date": day, "value": value}
            for day, value in adjustments
        ],
    )


UNPRORATED: dict[str, Any] = dict.fromkeys(
    ("proRateRunningTotal", "proRateAdjustmentDebit", "proRateAdjustmentCredit"), False
)
RUNNING, DEBIT, CREDIT = (
    "COUNTER_RUNNING_TOTAL_CHARGE",
    "COUNTER_ADJUSTMENT_DEBIT",
    "COUNTER_ADJUSTMENT_CREDIT",
)


def test_the_printed_seats() -> None:
    """15 seats on June 1, 18 on June 15, without proration: 30 + 6 in June, 36 in July."""
    world = seats(
        ("2024-06-01", 15), ("2024-06-15", 18), **UNPRORATED, runningTotalBillInAdvance=False
    )
    assert lines(world, "2024-07-01") == [(RUNNING, "30"), (DEBIT, "6")]
    assert lines(world, "2024-08-01") == [(RUNNING, "36")]


def test_seats_in_advance() -> None:
    world = seats(("2024-06-01", 15), ("2024-06-15", 18), **UNPRORATED)
    assert lines(world, "2024-06-01") == [(RUNNING, "30")]
    assert lines(world, "2024-07-01") == [(DEBIT, "6"), (RUNNING, "36")]


def test_adjustments_are_prorated_from_their_day_on() -> None:
    """From 15 to 25 seats on June 16: 10 + 5 × 3 for 15 of 30 days; back on June 25: 6 of 30 days."""
    world = seats(
        ("2024-05-01", 15), ("2024-06-16", 25), ("2024-06-25", 15), runningTotalBillInAdvance=False
    )
    assert lines(world, "2024-07-01") == [(RUNNING, "30"), (DEBIT, "12.5"), (CREDIT, "-5")]


def test_switches_prorate_each_kind_for_itself() -> None:
    world = seats(
        ("2024-05-01", 15),
        ("2024-06-16", 25),
        ("2024-06-25", 15),
        proRateAdjustmentDebit=False,
        runningTotalBillInAdvance=False,
    )
    assert lines(world, "2024-07-01") == [(RUNNING, "30"), (DEBIT, "25"), (CREDIT, "-5")]


def test_an_unprorated_running_total_is_charged_once_a_period_by_the_first_plan() -> None:
    world = shop(
        account_plan={"endDate": "2022-01-16T00:00:00Z"},
        account_plans=[
            {
                "id": "ap2",
                "accountId": "acme",
                "planId": "plan",
                "startDate": "2022-01-16T00:00:00Z",
            }
        ],
        counters=[{"id": "seats", "code": "seats"}],
        counter_pricings=[
            {
                "id": "cp",
                "counterId": "seats",
                "planId": "plan",
                "startDate": START,
                "pricingBands": bands((0, 0, 1)),
            }
            | UNPRORATED
            | {"runningTotalBillInAdvance": False}
        ],
        counter_adjustments=[
            {"counterId": "seats", "accountId": "acme", "date": "2022-01-01", "value": 31}
        ],
    )
    assert lines(world, "2022-02-01") == [(RUNNING, "31")]


def test_counters_count_towards_a_minimum_also_from_the_bill_before() -> None:
    world = seats(("2024-06-01", 15), template={"minimumSpend": 100})
    assert lines(world, "2024-07-01") == [(RUNNING, "30"), ("MINIMUM_SPEND", "70")]


# Fees and ad hoc items.


def commitment(**fields: Any) -> Entity:
    row: Entity = {"id": "c", "accountId": "acme", "currency": "USD", "amount": 15000}
    row |= {"startDate": "2022-01-01", "endDate": "2023-01-01", "billingPlanId": "plan"}
    return row | fields


def fees(world: World, after: str = "2024-01-01") -> dict[str, str]:
    found = billing(world, after).bills
    return {
        str(bill.date): str(line.converted_subtotal)
        for bill in found
        for line in bill.lines
        if line.type == "COMMITMENT_FEE"
    }


def test_fifteen_thousand_over_twelve_months() -> None:
    found = fees(shop(commitments=[commitment()]))
    assert list(found) == [f"2022-{month:02}-01" for month in range(2, 13)] + ["2023-01-01"]
    assert set(found.values()) == {"1250"}


def test_fees_in_advance_are_billed_at_the_start() -> None:
    found = fees(shop(commitments=[commitment(commitmentFeeBillInAdvance=True)]))
    assert list(found) == [f"2022-{month:02}-01" for month in range(1, 13)]


def test_fees_carry_the_whole_amount_if_the_plan_holds_for_a_part_only() -> None:
    world = shop(
        account_plan={"endDate": "2022-02-15T00:00:00Z"}, commitments=[commitment(amount=100)]
    )
    assert fees(world) == {"2022-02-01": "66.67", "2022-03-01": "33.33"}


def test_prepaid_and_first_bill_are_taken_off_and_the_first_fee_carries_its_amount() -> None:
    terms = commitment(amount=100, amountPrePaid=10, amountFirstBill=30, endDate="2022-04-01")
    assert fees(shop(commitments=[terms])) == {
        "2022-02-01": "50",
        "2022-03-01": "20",
        "2022-04-01": "20",
    }


def test_fees_of_every_third_bill() -> None:
    terms = commitment(amount=1200, billingInterval=3)
    assert list(fees(shop(commitments=[terms]))) == [
        "2022-02-01",
        "2022-05-01",
        "2022-08-01",
        "2022-11-01",
    ]
    later = commitment(amount=1200, billingInterval=3, billingOffset=2)
    assert list(fees(shop(commitments=[later]))) == [
        "2022-04-01",
        "2022-07-01",
        "2022-10-01",
        "2023-01-01",
    ]


def test_fee_dates_are_ad_hoc_items() -> None:
    dated = {
        "date": "2022-02-01",
        "amount": 5,
        "servicePeriodStartDate": START,
        "servicePeriodEndDate": START,
    }
    terms = commitment(billingPlanId=None, feeDates=[dated, dated | {"date": "2022-02-10"}])
    world = shop(commitments=[terms])
    assert bill_of(world, "2022-02-01").frequency == "MONTHLY"
    assert bill_of(world, "2022-02-10").frequency == "AD_HOC"
    assert lines(world, "2022-02-10") == [("COMMITMENT_FEE", "5")]


def charge(**fields: Any) -> Entity:
    row: Entity = {
        "id": "ch",
        "code": "ch",
        "accountId": "acme",
        "currency": "USD",
        "lineItemType": "AD_HOC",
    }
    row |= {"servicePeriodStartDate": START, "servicePeriodEndDate": "2022-01-10T00:00:00Z"}
    return row | fields


def test_a_charge_without_a_bill_date_waits_for_the_end_of_its_service_period() -> None:
    world = shop(charges=[charge(units=3, unitPrice=2)])
    assert lines(world, "2022-02-01") == [("AD_HOC", "6")]
    ended = shop(account_plan={"endDate": "2021-12-01T00:00:00Z"}, charges=[charge(amount=4)])
    assert dates(ended) == ["2022-01-10"]
    assert bill_of(ended, "2022-01-10").frequency == "AD_HOC"


def test_a_charge_joins_the_bill_with_the_shortest_period() -> None:
    daily: Entity = {"id": "t2", "code": "t2", "productId": "product", "currency": "USD"}
    daily |= {"billFrequency": "DAILY", "standingCharge": 0}
    world = shop(
        charges=[charge(amount=4, billDate="2022-02-01")],
        plan_templates=[daily],
        plans=[{"id": "p2", "code": "p2", "planTemplateId": "t2"}],
        account_plans=[{"id": "ap2", "accountId": "acme", "planId": "p2", "startDate": START}],
    )
    assert lines(world, "2022-02-01", frequency="DAILY") == [("AD_HOC", "4")]
    assert lines(world, "2022-02-01", frequency="MONTHLY") == []
