"""Credits, draw-downs, overage, hierarchies, the ledger: examples that were reckoned by hand."""

from fractions import Fraction
from typing import Any

import pytest

from tests.billing_oracle import CannotBill, SourceState, World
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


def commitment(**fields: Any) -> Entity:
    row: Entity = {"id": "c", "accountId": "acme", "currency": "USD", "amount": 100}
    return row | {"startDate": "2022-01-01", "endDate": "2023-01-01"} | fields


def balance(amount: Any, **fields: Any) -> Entity:
    row: Entity = {"id": "b", "code": "b", "accountId": "acme", "currency": "USD"}
    row |= {"startDate": START, "endDate": "2023-01-01T00:00:00Z"}
    return row | {"transactions": [{"amount": amount}]} | fields


def state(world: World, after: str, identifier: str = "b") -> SourceState:
    return next(found for found in billing(world, after).sources if found.id == identifier)


def consumed(world: World, when: str, **of: Any) -> list[tuple[str | None, str]]:
    """Which source paid how much of a bill."""
    found = bill_of(world, when, **of).lines
    return [
        (line.source_id, str(-line.converted_subtotal)) for line in found if "CONSUMED" in line.type
    ]


# Credits.


def credit_shop(kind: str, price: int, **more: Any) -> World:
    """10 units are charged at 1, and as many credited at a price; a standing charge of 4."""
    credit: Entity = {"id": "credit", "code": "credit", "planId": "plan", "aggregationId": "agg"}
    credit |= {"startDate": START, "type": kind, "pricingBands": bands((0, 0, price))}
    return shop(used("2022-01-05", 10), template={"standingCharge": 4}, pricings=[credit], **more)


@pytest.mark.parametrize(("price", "expected"), [(1, "-10"), (5, "-14")])
def test_a_product_credit_is_capped_at_the_lines_of_its_product(price: int, expected: str) -> None:
    fee = {
        "date": "2022-02-01",
        "amount": 9,
        "servicePeriodStartDate": START,
        "servicePeriodEndDate": START,
    }
    world = credit_shop(
        "PRODUCT_CREDIT", price, commitments=[commitment(startDate="2022-06-01", feeDates=[fee])]
    )
    assert lines(world, "2022-02-01")[-1] == ("USAGE_CREDIT", expected)


def test_a_global_credit_is_capped_at_all_lines() -> None:
    fee = {
        "date": "2022-02-01",
        "amount": 9,
        "servicePeriodStartDate": START,
        "servicePeriodEndDate": START,
    }
    world = credit_shop(
        "GLOBAL_CREDIT", 5, commitments=[commitment(startDate="2022-06-01", feeDates=[fee])]
    )
    assert lines(world, "2022-02-01")[-1] == ("USAGE_CREDIT", "-23")
    assert bill_of(world, "2022-02-01").total == 0


def test_a_credit_lowers_what_can_be_drawn() -> None:
    world = credit_shop("PRODUCT_CREDIT", 1, balances=[balance(100)])
    assert consumed(world, "2022-02-01") == [("b", "4")]
    assert bill_of(world, "2022-02-01").total == 0


# Draw-downs.


def test_the_printed_prepayment() -> None:
    """15,000 over 12 months, 0.46 per transaction, 1 % beyond: 20,000 transactions are 9,200."""
    world = shop(
        used("2022-01-05", 20000),
        used("2022-02-05", 20000),
        used("2022-03-05", 100),
        pricing={"pricingBands": bands((0, 0, "0.46"))},
        commitments=[commitment(amount=15000, billingPlanId="plan", overageSurchargePercent=1)],
    )
    fee = ("COMMITMENT_FEE", "1250")
    assert lines(world, "2022-02-01") == [("USAGE", "9200"), fee, ("COMMITMENT_CONSUMED", "-9200")]
    assert state(world, "2022-02-01", "c").left == 5800
    second = [("USAGE", "9200"), fee, ("COMMITMENT_CONSUMED", "-5800"), ("OVERAGE_SURCHARGE", "34")]
    assert lines(world, "2022-03-01") == second
    assert lines(world, "2022-04-01") == [("USAGE", "46"), fee, ("OVERAGE_SURCHARGE", "0.46")]


def test_a_rate_of_ten_with_ten_percent_is_eleven() -> None:
    world = shop(
        used("2022-01-05", 3),
        pricing={"pricingBands": bands((0, 0, 10))},
        balances=[balance(20, overageSurchargePercent=10)],
    )
    assert lines(world, "2022-02-01") == [
        ("USAGE", "30"),
        ("BALANCE_CONSUMED", "-20"),
        ("OVERAGE_SURCHARGE", "1"),
    ]


def test_the_last_exhausted_source_says_the_percent() -> None:
    last = balance(10, overageSurchargePercent=50, endDate="2022-06-01T00:00:00Z")
    first = commitment(amount=10, overageSurchargePercent=10)
    world = shop(used("2022-01-05", 30), balances=[last], commitments=[first])
    surcharge = bill_of(world, "2022-02-01").lines[-1]
    assert (surcharge.type, surcharge.source_id) == ("OVERAGE_SURCHARGE", "b")
    assert str(surcharge.converted_subtotal) == "5"


def test_a_balance_that_never_had_anything_has_no_overage() -> None:
    world = shop(used("2022-01-05", 3), balances=[balance(0, overageSurchargePercent=10)])
    assert lines(world, "2022-02-01") == [("USAGE", "3")]


def test_a_fully_covered_bill_is_exactly_zero() -> None:
    world = shop(
        used("2022-01-05", "7.777"), template={"standingCharge": 31}, balances=[balance(1000)]
    )
    assert consumed(world, "2022-02-01") == [("b", "38.78")]
    assert bill_of(world, "2022-02-01").total == 0


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (None, [("c", "100"), ("b", "20")]),
        (["BALANCE", "PREPAYMENT"], [("b", "50"), ("c", "70")]),
        (["BALANCE"], [("b", "50")]),
    ],
)
def test_sources_in_their_order(order: list[str] | None, expected: list[tuple[str, str]]) -> None:
    world = shop(
        used("2022-01-05", 120),
        organization={"creditApplicationOrder": ["BALANCE"]},
        account={"creditApplicationOrder": order or ["PREPAYMENT", "BALANCE"]},
        commitments=[commitment()],
        balances=[balance(50)],
    )
    assert consumed(world, "2022-02-01") == expected


def test_the_source_that_ends_first_is_drawn_first() -> None:
    later, sooner = balance(50), balance(50, id="soon", endDate="2022-06-01T00:00:00Z")
    world = shop(used("2022-01-05", 60), balances=[later, sooner])
    assert consumed(world, "2022-02-01") == [("soon", "50"), ("b", "10")]


def test_a_balance_of_a_part_of_the_period_covers_that_part() -> None:
    """Usage by the units of the part, a standing charge by its days."""
    world = shop(
        used("2022-01-05", 30),
        used("2022-01-20", 10),
        template={"standingCharge": 31},
        balances=[balance(1000, startDate="2022-01-16T00:00:00Z")],
    )
    assert consumed(world, "2022-02-01") == [("b", "26")]


def test_sources_are_for_types_products_and_contracts() -> None:
    for limit, expected in (
        ({"lineItemTypes": ["STANDING_CHARGE"]}, [("b", "7")]),
        ({"productIds": ["other"]}, []),
        ({"productIds": ["product"]}, [("b", "17")]),
        ({"contractId": "other"}, []),
    ):
        world = shop(
            used("2022-01-05", 10), template={"standingCharge": 7}, balances=[balance(100, **limit)]
        )
        assert consumed(world, "2022-02-01") == expected


def test_charges_are_drawn_by_service_period_then_creation() -> None:
    """The codes do not matter: the earlier one is paid first, of two at one time the one made first."""
    row: Entity = {"accountId": "acme", "currency": "USD", "lineItemType": "AD_HOC", "amount": 10}
    row |= {"billDate": "2022-02-01", "servicePeriodEndDate": "2022-01-20T00:00:00Z"}
    charges = [
        row | {"id": code, "code": code, "servicePeriodStartDate": f"2022-01-{day}T00:00:00Z"}
        for code, day in (("a", "12"), ("c", "10"), ("b", "10"))
    ]
    window = balance(15, endDate="2022-01-20T00:00:00Z", lineItemTypes=["AD_HOC"])
    world = shop(charges=charges, balances=[window])
    found = bill_of(world, "2022-02-01").lines
    assert [line.item_code for line in found] == ["c", "b", "a", None]
    assert consumed(world, "2022-02-01") == [("b", "15")]
    assert found[-1].start == found[0].start


def test_a_transaction_counts_for_bills_after_its_date() -> None:
    rows = [
        {"amount": 5, "appliedDate": "2022-01-31T12:00:00Z"},
        {"amount": 7, "appliedDate": "2022-02-01T00:00:00Z"},
    ]
    world = shop(
        used("2022-01-05", 10), used("2022-02-05", 10), balances=[balance(0, transactions=rows)]
    )
    assert consumed(world, "2022-02-01") == [("b", "5")]
    assert consumed(world, "2022-03-01") == [("b", "7")]


def test_a_refund_lowers_the_lines_that_it_covered() -> None:
    template: Entity = {"minimumSpend": 100, "minimumSpendBillInAdvance": True}
    ended: Entity = {"endDate": "2022-02-01T00:00:00Z"}
    world = shop(
        used("2022-01-05", 130), template=template, account_plan=ended, balances=[balance(500)]
    )
    assert consumed(world, "2022-01-01") == [("b", "100")]
    assert consumed(world, "2022-02-01") == [("b", "30")]
    assert [str(bill.total) for bill in billing(world).bills] == ["0", "0"]


def test_a_refund_leaves_other_lines_to_be_drawn() -> None:
    template: Entity = {
        "minimumSpend": 100,
        "minimumSpendBillInAdvance": True,
        "standingCharge": 50,
    }
    ended: Entity = {"endDate": "2022-02-01T00:00:00Z"}
    for kind, expected in (("USAGE", "30"), ("STANDING_CHARGE", "50")):
        source = balance(500, lineItemTypes=[kind])
        world = shop(
            used("2022-01-05", 130), template=template, account_plan=ended, balances=[source]
        )
        assert consumed(world, "2022-02-01") == [("b", expected)]


def test_another_currency_is_posted_at_the_rate() -> None:
    """100 USD of usage, a balance of 50 EUR at 1.5."""
    rates = [{"from": "EUR", "to": "USD", "multiplier": "1.5"}]
    world = shop(
        used("2022-01-05", 10),
        used("2022-02-05", 100),
        organization={"currencyConversions": rates},
        balances=[balance(50, currency="EUR")],
    )
    assert consumed(world, "2022-02-01") == [("b", "10")]
    assert state(world, "2022-02-01").drawn == Fraction("6.67")
    assert consumed(world, "2022-03-01") == [("b", "64.99")]
    assert state(world, "2022-03-01").left == 0
    with pytest.raises(CannotBill, match="b: no rate"):
        billing(shop(used("2022-01-05", 10), balances=[balance(50, currency="EUR")]))


def test_a_rest_below_the_smallest_unit_is_given_too() -> None:
    world = shop(used("2022-01-05", 10), balances=[balance("10.004", overageSurchargePercent=10)])
    assert consumed(world, "2022-02-01") == [("b", "10")]
    assert state(world, "2022-02-01").left == 0


# Rollover.


def test_the_printed_rollover() -> None:
    """1,000 left, of which 800 roll over: 200 expire."""
    world = shop(
        balances=[
            balance(1000, endDate="2022-02-01T00:00:00Z", rolloverEndDate="2022-04-01T00:00:00Z")
        ]
    )
    assert state(world, "2022-03-01").expired == 0
    rolling = balance(
        1000,
        endDate="2022-02-01T00:00:00Z",
        rolloverEndDate="2022-04-01T00:00:00Z",
        rolloverAmount=800,
    )
    world = shop(used("2022-02-05", 300), balances=[rolling])
    assert state(world, "2022-03-01").expired == 200
    assert state(world, "2022-03-01").left == 500
    assert state(world, "2022-04-01").expired == 700
    assert state(world, "2022-04-01").left == 0


def test_time_before_the_end_is_drawn_before_the_expiry() -> None:
    """A balance of 100 ends on 16 January; 40 are used before, 30 after; at most 20 roll over."""
    rolling = balance(
        100,
        endDate="2022-01-16T00:00:00Z",
        rolloverEndDate="2022-03-01T00:00:00Z",
        rolloverAmount=20,
    )
    world = shop(used("2022-01-05", 40), used("2022-01-20", 30), balances=[rolling])
    assert consumed(world, "2022-02-01") == [("b", "40"), ("b", "20")]
    found = state(world, "2022-02-01")
    assert found.expired == 40
    assert found.left == 0


def test_what_the_rollover_paid_is_gone_for_the_balance() -> None:
    """Of 20, a charge in advance takes 15 until 16 January and 5 of the rollover; usage finds nothing."""
    rolling = balance(20, endDate="2022-01-16T00:00:00Z", rolloverEndDate="2022-03-01T00:00:00Z")
    template: Entity = {"standingCharge": 31, "standingChargeBillInAdvance": True}
    ended: Entity = {"endDate": "2022-02-01T00:00:00Z"}
    world = shop(used("2022-01-05", 10), template=template, account_plan=ended, balances=[rolling])
    assert consumed(world, "2022-01-01") == [("b", "15"), ("b", "5")]
    assert consumed(world, "2022-02-01") == []
    assert state(world, "2022-02-01").left == 0


# Overage.


def test_separate_overage_is_split_where_the_source_ran_dry() -> None:
    """100 units at 1, then 0.5; 120 units are 110. A commitment of 105 covers 110 units; 10 are left."""
    world = shop(
        used("2022-01-05", 120),
        pricing={
            "pricingBands": bands((0, 0, 1), (100, 0, "0.5")),
            "overagePricingBands": bands((0, 0, 2)),
        },
        commitments=[commitment(amount=105, separateOverageUsage=True)],
    )
    found = bill_of(world, "2022-02-01").lines
    rows: list[tuple[Any, ...]] = [
        (line.type, line.units, str(line.converted_subtotal)) for line in found
    ]
    assert rows == [
        ("USAGE", 110, "105"),
        ("COMMITMENT_CONSUMED", 1, "-105"),
        ("OVERAGE_USAGE", 10, "20"),
    ]


def test_beyond_a_balance_overage_bands_count_unless_it_has_a_percent() -> None:
    """100 units at 1, then 0.5; 120 units are 110. A balance of 105 covers 110 units; 10 are left."""
    pricing = {
        "pricingBands": bands((0, 0, 1), (100, 0, "0.5")),
        "overagePricingBands": bands((0, 0, 2)),
    }

    def billed(**more: Any) -> list[tuple[str, str]]:
        used_once = used("2022-01-05", 120)
        return lines(
            shop(used_once, pricing=pricing, balances=[balance(105, **more)]), "2022-02-01"
        )

    assert billed() == [("USAGE", "105"), ("BALANCE_CONSUMED", "-105"), ("OVERAGE_USAGE", "20")]
    whole = [("USAGE", "110"), ("BALANCE_CONSUMED", "-105")]
    assert billed(overageSurchargePercent=0) == whole
    assert billed(overageSurchargePercent=10) == [*whole, ("OVERAGE_SURCHARGE", "0.5")]
    never_filled = shop(used("2022-01-05", 120), pricing=pricing, balances=[balance(0)])
    assert lines(never_filled, "2022-02-01") == [("USAGE", "110")]


def test_separate_overage_without_bands_keeps_the_price() -> None:
    """Volume pricing has no inverse: the units are split in proportion."""
    world = shop(
        used("2022-01-05", 30),
        pricing={"cumulative": False},
        commitments=[commitment(amount=10, separateOverageUsage=True)],
    )
    found = bill_of(world, "2022-02-01").lines
    rows: list[tuple[Any, ...]] = [
        (line.type, line.units) for line in found if line.type != "COMMITMENT_CONSUMED"
    ]
    assert rows == [
        ("USAGE", 10),
        ("OVERAGE_USAGE", 20),
    ]
    assert bill_of(world, "2022-02-01").total == 20


def test_usage_after_the_source_ran_dry_is_all_overage() -> None:
    world = shop(
        used("2022-01-05", 100),
        used("2022-02-05", 7),
        commitments=[commitment(amount=100, separateOverageUsage=True)],
    )
    assert lines(world, "2022-03-01") == [("OVERAGE_USAGE", "7")]


def test_an_overdraft_pays_the_rest_and_knows_no_overage() -> None:
    world = shop(
        used("2022-01-05", 30),
        balances=[balance(10, allowOverdraft=True, overageSurchargePercent=10)],
    )
    assert lines(world, "2022-02-01") == [("USAGE", "30"), ("BALANCE_CONSUMED", "-30")]
    assert state(world, "2022-02-01").left == -20


def test_an_overdraft_waits_until_every_source_is_empty() -> None:
    over = balance(10, allowOverdraft=True, endDate="2022-06-01T00:00:00Z")
    world = shop(used("2022-01-05", 30), balances=[over, balance(15, id="other")])
    assert consumed(world, "2022-02-01") == [("b", "15"), ("other", "15")]


# Hierarchies.


def family(mode: str, *rows: Entity, **more: Any) -> World:
    children = [{"id": name, "code": name, "parentAccountId": "acme"} for name in ("kid1", "kid2")]
    children[1]["currency"] = more.pop("currency", "USD")
    return shop(
        *rows,
        pricing={"pricingBands": bands((0, 0, 1), (10, 0, "0.1"))},
        account_plan={"childBillingMode": mode},
        accounts=children,
        **more,
    )


ROWS = (used("2022-01-05", 4), used("2022-01-06", 7, "kid1"), used("2022-01-07", 9, "kid2"))


def test_a_summary_is_one_line_for_the_pool() -> None:
    assert lines(family("PARENT_SUMMARY", *ROWS), "2022-02-01") == [("USAGE", "11")]


def test_a_breakdown_shares_the_pooled_amount_by_own_quantities() -> None:
    found = bill_of(family("PARENT_BREAKDOWN", *ROWS), "2022-02-01").lines
    rows: list[tuple[Any, ...]] = [
        (line.child_code, line.quantity, str(line.converted_subtotal)) for line in found
    ]
    assert rows == [
        (None, 4, "2.2"),
        ("kid1", 7, "3.85"),
        ("kid2", 9, "4.95"),
    ]


def test_children_are_billed_for_their_share() -> None:
    rates = [{"from": "USD", "to": "EUR", "multiplier": "0.5"}]
    world = family(
        "CHILD",
        *ROWS,
        currency="EUR",
        organization={"currencyConversions": rates},
        template={"standingCharge": 5},
    )
    assert lines(world, "2022-02-01") == [("USAGE", "2.2"), ("STANDING_CHARGE", "5")]
    assert lines(world, "2022-02-01", "kid1") == [("USAGE", "3.85")]
    assert lines(world, "2022-02-01", "kid2") == [("USAGE", "2.48")]


def test_weights_that_sum_to_zero_put_all_on_the_parent() -> None:
    world = family("PARENT_BREAKDOWN", aggregation={"defaultValue": 5})
    found = bill_of(world, "2022-02-01").lines
    rows: list[tuple[Any, ...]] = [
        (line.child_code, str(line.converted_subtotal)) for line in found
    ]
    assert rows == [(None, "5")]


@pytest.mark.parametrize(("mode", "account"), [("PARENT_BREAKDOWN", "acme"), ("CHILD", "kid1")])
def test_a_plan_of_a_child_is_rated_by_itself(mode: str, account: str) -> None:
    """The child's 7 units and the pool's 13; the lines stand where the mode of the child's plan says."""
    own = {
        "id": "ap2",
        "accountId": "kid1",
        "planId": "plan",
        "startDate": START,
        "childBillingMode": mode,
    }
    world = family("PARENT_SUMMARY", *ROWS, account_plans=[own])
    found = [text for _, text in lines(world, "2022-02-01")]
    if account == "acme":
        assert sorted(found) == ["10.3", "7"]
        assert dates(world, "2022-02-01", "kid1") == []
    else:
        assert found == ["10.3"]
        assert lines(world, "2022-02-01", account) == [("USAGE", "7")]


def test_counters_of_a_pool_are_added_up() -> None:
    world = family(
        "PARENT_BREAKDOWN",
        counters=[{"id": "seats", "code": "seats"}],
        counter_pricings=[
            {
                "id": "cp",
                "counterId": "seats",
                "planId": "plan",
                "startDate": START,
                "pricingBands": bands((0, 0, 31)),
            }
            | {"runningTotalBillInAdvance": False}
        ],
        counter_adjustments=[
            {"counterId": "seats", "accountId": name, "date": day, "value": value}
            for name, day, value in (
                ("acme", "2022-01-01", 2),
                ("kid1", "2022-01-01", 3),
                ("kid2", "2022-01-31", 5),
            )
        ],
    )
    assert lines(world, "2022-02-01") == [
        ("COUNTER_RUNNING_TOTAL_CHARGE", "155"),
        ("COUNTER_ADJUSTMENT_DEBIT", "5"),
    ]


def test_sources_belong_to_the_account_that_is_billed() -> None:
    own = balance(3, id="kids", accountId="kid1")
    assert consumed(family("PARENT_SUMMARY", *ROWS, balances=[own, balance(4)]), "2022-02-01") == [
        ("b", "4")
    ]
    world = family("CHILD", *ROWS, balances=[own, balance(4)])
    assert consumed(world, "2022-02-01") == [("b", "2.2")]
    assert consumed(world, "2022-02-01", account="kid1") == [("kids", "3")]
