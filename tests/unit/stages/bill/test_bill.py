from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.unbilled import Uncovered
from meterlake.model.catalog.catalog import Product
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Period, uncovered_periods
from tests.billing_world import LONG_AGO, SNAPSHOT, World, instant

D = Decimal
ONE_EACH = [(0, 0, 1)]


def world(**organization):
    """One plan at 1 USD a unit, and the account `a` on it."""
    made = World(**organization)
    made.aggregation("sum")
    made.plan("plan")
    made.pricing("plan", "sum", ONE_EACH)
    made.account("a", "plan")
    return made


def lines(made, month="2026-10"):
    return [line for bill in made.bills(month) for line in bill.lines]


def utc(text):
    return instant(f"{text}T00:00:00Z")


def test_a_bill_has_its_dates_and_pins():
    made = world()
    made.use("a", "2026-10-05T00:00:00Z", 3)
    [bill] = made.bills("2026-10")

    assert (bill.start_date, bill.end_date) == (date(2026, 10, 1), date(2026, 11, 1))
    assert (bill.bill_date, bill.due_date) == (date(2026, 11, 1), date(2026, 12, 1))
    assert bill.external_invoice_date == date(2026, 11, 1)
    assert bill.total == 3
    assert bill.pins.snapshot == SNAPSHOT
    assert bill.pins.code == "1.0"
    assert set(bill.pins.versions) == set(made.records)


def test_pins_name_only_what_the_bill_used():
    made = world()
    made.use("a", "2026-10-05T00:00:00Z", 3)
    before = made.bills("2026-10")[0].pins
    made.plan("other plan")
    made.account("b", "other plan")
    made.currency("EUR", 2)
    [first, _] = made.bills("2026-10")

    assert first.pins == before


def test_the_due_date_is_the_accounts_before_the_organizations():
    made = world(external_invoice_date="LAST_DAY_OF_ARREARS")
    made.account("b", "plan", days_before_bill_due=5, purchase_order_number="PO 1")
    [_, bill] = made.bills("2026-02")

    assert bill.due_date == date(2026, 3, 6)
    assert bill.external_invoice_date == date(2026, 2, 28)
    assert bill.purchase_order_number == "PO 1"


def test_every_line_carries_what_it_was_made_from():
    made = world()
    made.use("a", "2026-10-05T00:00:00Z", 3)
    made.use("a", "2026-10-06T00:00:00Z")
    [line] = lines(made)

    assert line.made_from.snapshot == SNAPSHOT
    assert line.made_from.measurements == 2
    assert (line.made_from.aggregation_version, line.made_from.pricing_version) == (1, 1)
    assert made.records[line.made_from.account_plan_id].entity.account_id == derived_id(
        "Account", "a"
    )
    assert line.aggregation_id == derived_id("Aggregation", "sum")
    assert [(band.units, band.subtotal) for band in line.bands] == [(3, 3)]


def test_an_account_without_a_plan_has_no_bill():
    made = world()
    made.account("b")
    made.account("later", "plan", start_date=utc("2026-11-01"))
    made.account("over", "plan", end_date=utc("2026-10-01"))

    assert [bill.account_code for bill in made.bills("2026-10")] == ["a"]


def test_no_usage_and_no_default_make_no_line():
    assert lines(world()) == []


@pytest.mark.parametrize(("default", "amount"), [(0, 0), (7, 7)])
def test_without_usage_the_default_is_priced(default, amount):
    made = World()
    made.aggregation("sum", default_value=D(default))
    made.plan("plan")
    made.pricing("plan", "sum", [(0, 0, 1)])
    made.account("a", "plan")
    [line] = lines(made)

    assert (line.quantity, line.subtotal) == (default, amount)
    assert line.made_from.measurements == 0


def test_a_measurement_without_the_field_is_no_usage_either():
    made = World()
    made.aggregation("count", "COUNT", default_value=D(7))
    made.plan("plan")
    made.pricing("plan", "count", ONE_EACH)
    made.account("a", "plan")
    made.use("a", "2026-10-05T00:00:00Z", n=None, s="x")

    assert [line.quantity for line in lines(made)] == [7]


def test_usage_of_zero_is_usage():
    made = World()
    made.aggregation("sum", default_value=D(7))
    made.plan("plan")
    made.pricing("plan", "sum", [(0, 5, 1)])
    made.account("a", "plan")
    made.use("a", "2026-10-05T00:00:00Z", 0)
    [line] = lines(made)

    assert (line.quantity, line.subtotal, line.bands) == (0, 0, ())


def test_empty_bills_are_made_unless_they_are_suppressed():
    assert [bill.total for bill in world().bills("2026-10")] == [0]
    assert world(suppressed_empty_bills=True).bills("2026-10") == []


def test_who_was_billed_before_is_billed_again_even_for_nothing():
    made = world(suppressed_empty_bills=True)
    account_id = made.account("b")
    found = made.made("2026-10", billed=[account_id, derived_id("Account", "a")])

    assert [(bill.account_code, bill.lines) for bill in found] == [("a", ()), ("b", ())]


def test_a_standing_charge_comes_from_the_plan_or_else_from_its_template():
    made = World()
    made.plan("own", {"standing_charge": D(10)}, standing_charge=D(20))
    made.plan("inherited", {"standing_charge": D(10), "standing_charge_description": "Basis"})
    made.plan("none", {"standing_charge": D(10)}, standing_charge=D(0))
    for plan in ("own", "inherited", "none"):
        made.account(plan, plan)

    assert [(line.description, line.subtotal) for line in lines(made)] == [
        ("Basis", 10),
        ("Standing Charge", 20),
    ]


def test_a_plans_pricing_wins_over_its_templates_while_it_holds():
    made = World()
    made.aggregation("sum")
    made.plan("plan")
    made.pricing("plan", "sum", [(0, 0, 1)], inherited=True)
    made.pricing(
        "plan", "sum", [(0, 0, 100)], start_date=utc("2026-10-10"), end_date=utc("2026-10-20")
    )
    made.account("a", "plan")
    for day in (5, 15, 25):
        made.use("a", f"2026-10-{day:02}T00:00:00Z", day)

    assert [(line.service_period, line.quantity, line.subtotal) for line in lines(made)] == [
        (Period(utc("2026-10-01"), utc("2026-10-10")), 5, 5),
        (Period(utc("2026-10-20"), utc("2026-11-01")), 25, 25),
        (Period(utc("2026-10-10"), utc("2026-10-20")), 15, 1500),
    ]
    assert made.unpriced("2026-10") == []


def test_lines_are_in_an_order_that_does_not_change():
    made = World()
    for code in ("z", "b", "a"):
        made.aggregation(code)
    made.plan("plan", standing_charge=D(1))
    for code in ("b", "z", "a"):
        made.pricing("plan", code, ONE_EACH)
    made.account("acc", "plan")
    made.use("acc", "2026-10-05T00:00:00Z", 1)

    assert [(line.sequence_number, line.description) for line in lines(made)] == [
        (1, "a"),
        (2, "b"),
        (3, "z"),
        (4, "Standing Charge"),
    ]
    assert len({line.key for line in lines(made)}) == 4


def test_a_pricing_may_name_its_lines():
    made = World()
    made.aggregation("sum", name="Bytes")
    made.plan("plan")
    made.pricing("plan", "sum", ONE_EACH, description="Traffic")
    made.account("a", "plan")
    made.use("a", "2026-10-05T00:00:00Z", 1)

    assert [line.description for line in lines(made)] == ["Traffic"]


def test_a_missing_rate_fails_one_account_and_no_other():
    made = world()
    made.account("b", "plan", currency="EUR")
    made.use("a", "2026-10-05T00:00:00Z", 1)
    made.use("b", "2026-10-05T00:00:00Z", 1)
    [bill, failure] = made.made("2026-10")

    assert isinstance(bill, Bill)
    assert failure == Failure(
        derived_id("Account", "b"),
        "b",
        "the organization has no conversion rate from USD to EUR; add it to currencyConversions",
    )


def test_a_currency_that_is_never_rounded_fails_what_would_lose_a_digit():
    made = world()
    made.currency("USD", 2, "UNNECESSARY")
    made.account("b", "plan")
    made.use("a", "2026-10-05T00:00:00Z", "1.25")
    made.use("b", "2026-10-05T00:00:00Z", "1.255")
    [bill, failure] = made.made("2026-10")

    assert bill.total == D("1.25")
    assert "more than the 2 decimals of USD" in failure.reason


def test_a_sum_beyond_the_lakes_numbers_fails_its_account_and_no_other():
    made = world()
    made.account("b", "plan")
    made.use("a", "2026-10-05T00:00:00Z", 1)
    for _ in range(1, 3):
        made.use("b", "2026-10-05T00:00:00Z", "9" + "0" * 25)
    [bill, failure] = made.made("2026-10")

    assert bill.total == 1
    assert failure.reason == (
        "'sum' adds up to more than 26 integer digits; correct its measurements"
    )


def test_the_currency_of_a_line_may_differ_from_the_bills():
    made = world(currency_conversions=({"from": "USD", "to": "JPY", "multiplier": D("149.5")},))
    made.currency("JPY", 0)
    made.account("b", "plan", currency="JPY")
    made.use("b", "2026-10-05T00:00:00Z", "10.01")
    [_, bill] = made.bills("2026-10")
    [line] = bill.lines

    assert (line.currency, line.subtotal) == ("USD", D("10.01"))
    assert (bill.currency, line.conversion_rate) == ("JPY", D("149.5"))
    assert line.converted_subtotal == 1496  # 1496.495, not from the rounded subtotal
    assert bill.conversions == {("USD", "JPY"): D("149.5")}


def test_usage_before_an_account_plan_is_reported():
    made = world()
    made.account("b", "plan", start_date=utc("2026-10-10"))
    made.use("b", "2026-10-05T00:00:00Z", 3)
    made.use("b", "2026-10-15T00:00:00Z", 5)
    [row] = made.unpriced("2026-10")

    assert (row.account_code, row.aggregation_code, row.quantity, row.measurements) == (
        "b",
        "sum",
        3,
        1,
    )
    assert row.period == Period(utc("2026-10-01"), utc("2026-10-10"))
    assert row.reason is Uncovered.NO_ACCOUNT_PLAN


def test_usage_without_a_pricing_is_reported():
    made = World()
    made.aggregation("sum")
    made.aggregation("max", "MAX")
    made.plan("plan")
    made.pricing("plan", "sum", ONE_EACH, end_date=utc("2026-10-10"))
    made.account("a", "plan")
    made.account("b")
    for code in ("a", "b"):
        made.use(code, "2026-10-15T00:00:00Z", 3)
    found = {(row.account_code, row.reason, row.period.start) for row in made.unpriced("2026-10")}

    # MAX is priced nowhere: it is there to be looked at.
    assert found == {
        ("a", Uncovered.NO_PRICING, utc("2026-10-10")),
        ("b", Uncovered.NO_ACCOUNT_PLAN, utc("2026-10-01")),
    }


def test_usage_of_a_meter_that_nobody_prices_is_reported_without_an_aggregation():
    made = World()
    made.aggregation("max", "MAX")
    made.account("a")
    made.use("a", "2026-10-15T00:00:00Z", 3)
    [row] = made.unpriced("2026-10")

    assert (row.reason, row.aggregation_id, row.quantity) == (
        Uncovered.METER_NOT_PRICED,
        None,
        None,
    )
    assert row.measurements == 1


def test_usage_of_an_account_that_was_deleted_is_reported_by_its_id():
    made = world()
    made.use("gone", "2026-10-15T00:00:00Z", 3)
    [row] = made.unpriced("2026-10")

    assert (row.account_id, row.account_code) == (derived_id("Account", "gone"), None)


def test_accounting_products_come_from_the_pricing_the_aggregation_or_the_plan():
    made = World()
    other = made.add(Product(name="Other", code="other"), "other")
    made.aggregation("own", accounting_product_id=other)
    made.aggregation("plain")
    made.plan("plan", standing_charge=D(1), standing_charge_accounting_product_id=other)
    made.pricing("plan", "own", ONE_EACH, accounting_product_id=made.product)
    made.pricing("plan", "plain", ONE_EACH)
    made.account("a", "plan")
    made.use("a", "2026-10-15T00:00:00Z", 3)
    made.plan("second")
    made.pricing("second", "own", ONE_EACH)
    made.account("b", "second")
    made.use("b", "2026-10-15T00:00:00Z", 3)

    assert [
        (line.description, line.product.code, line.accounting_product.code) for line in lines(made)
    ] == [
        ("own", "product", "product"),
        ("plain", "product", "product"),
        ("Standing Charge", "product", "other"),
        ("own", "product", "other"),
    ]


def test_what_is_left_uncovered():
    whole = Period(utc("2026-10-01"), utc("2026-11-01"))
    days = [utc(f"2026-10-{day:02}") for day in range(1, 32)]

    assert list(uncovered_periods(whole, [])) == [whole]
    assert list(uncovered_periods(whole, [whole])) == []
    assert list(
        uncovered_periods(whole, [Period(LONG_AGO, days[4]), Period(days[9], days[14])])
    ) == [
        Period(days[4], days[9]),
        Period(days[14], whole.end),
    ]
    overlapping = [Period(days[5], days[20]), Period(days[3], days[10])]
    assert list(uncovered_periods(whole, overlapping)) == [
        Period(whole.start, days[3]),
        Period(days[20], whole.end),
    ]
    assert list(uncovered_periods(whole, [replace(whole, end=utc("2027-01-01"))])) == []
    assert list(uncovered_periods(whole, [Period(utc("2026-12-01"), utc("2027-01-01"))])) == [whole]
