from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from meterlake.model.bills.bill import (
    BandUsage,
    Bill,
    Line,
    LineItemType,
    MadeFrom,
    Pins,
    ProductName,
    Quantity,
    units_of,
)
from meterlake.model.bills.unbilled import Uncovered, Unpriced
from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.values import wire
from meterlake.model.values.period import Month
from tests.billing_world import record

D = Decimal
OCTOBER = Month(2026, 10).period(UTC)
METER = "4a1e1e0e-1111-4000-8000-000000000000"

BAND = BandUsage(D(0), D(2), D(1000), D("0.25"), D(3), D("0.50"), D("3.50"), "first")
LINE = Line(
    type=LineItemType.USAGE,
    description="Bytes",
    plan_id="plan",
    service_period=OCTOBER,
    quantity=D(1000),
    units=D(2),
    unit="kB",
    currency="GBP",
    subtotal=D("3.50"),
    conversion_rate=D("1.3"),
    converted_subtotal=D("4.55"),
    average_unit_price=D("1.75"),
    product=ProductName("p1", "Product", "product"),
    accounting_product=ProductName("p2", "Books", "books"),
    made_from=MadeFrom(
        snapshot=7,
        account_plan_id="ap",
        account_plan_version=1,
        plan_version=2,
        measurements=12,
        aggregation_version=3,
        meter_version=4,
        pricing_version=5,
    ),
    subject="agg",
    aggregation_id="agg",
    meter_id="meter",
    pricing_id="pricing",
    bands=(BAND,),
    sequence_number=1,
)
BILL = Bill(
    account_id="a",
    account_code="acme",
    period=OCTOBER,
    start_date=date(2026, 10, 1),
    end_date=date(2026, 11, 1),
    bill_date=date(2026, 11, 1),
    due_date=date(2026, 12, 1),
    external_invoice_date=date(2026, 11, 1),
    timezone="UTC",
    currency="USD",
    pins=Pins(7, {"a": 1}, "1.0"),
    lines=(LINE,),
    conversions={("GBP", "USD"): D("1.3")},
)


def aggregation(**changes):
    settings = {
        "name": "A",
        "rounding": "UP",
        "quantity_per_unit": D(500),
        "unit": "kB",
        "meter_id": METER,
        "target_field": "n",
        "aggregation": "SUM",
        **changes,
    }
    return Aggregation(**settings)


@pytest.mark.parametrize(
    ("value", "rounding", "units"),
    [("48900", "UP", 98), ("48900", "DOWN", 97), ("48900", "NONE", D("97.8")), ("0", "UP", 0)],
)
def test_units_are_the_quantity_per_unit_rounded(value, rounding, units):
    assert units_of(D(value), aggregation(rounding=rounding)) == units


def test_a_unit_of_one_leaves_every_digit():
    value = D("12345678901234567890123456.123456789012")

    assert units_of(value, aggregation(rounding="NONE", quantity_per_unit=D(1))) == value


def test_a_quantity_knows_whether_the_lake_can_hold_it():
    def made(value, mean=None):
        return Quantity.of("a", record(aggregation(), "a"), OCTOBER, D(value), 1, mean)

    assert not made("9" * 26 + ".9").overflows
    assert made("1e26").overflows
    assert made("-1e26").overflows
    assert not made("0").overflows
    # A mean that fits is kept; the sum that it was divided from is kept where that fits, too.
    large, small = made("1", (D("1e26"), 10**26)), made("1", (D("9e25"), 9 * 10**25))
    assert (large.overflows, large.stored_mean) == (False, None)
    assert (small.overflows, small.stored_mean) == (False, small.mean)
    assert made("1").stored_mean is None


def test_a_line_has_the_shape_of_the_wire():
    assert LINE.to_wire() == {
        "sequenceNumber": 1,
        "lineItemType": "USAGE",
        "description": "Bytes",
        "quantity": 1000,
        "units": 2,
        "unit": "kB",
        "subtotal": D("3.50"),
        "currency": "GBP",
        "conversionRate": D("1.3"),
        "convertedSubtotal": D("4.55"),
        "averageUnitPrice": D("1.75"),
        "productId": "p1",
        "productName": "Product",
        "productCode": "product",
        "accountingProductId": "p2",
        "accountingProductName": "Books",
        "accountingProductCode": "books",
        "aggregationId": "agg",
        "meterId": "meter",
        "planId": "plan",
        "pricingId": "pricing",
        "usagePerPricingBand": [
            {
                "pricingBandId": "first",
                "lowerLimit": 0,
                "fixedPrice": 3,
                "unitPrice": D("0.25"),
                "unitSubtotal": D("0.50"),
                "bandUnits": 2,
                "bandQuantity": 1000,
                "bandSubtotal": D("3.50"),
                "convertedBandSubtotal": D("4.550"),
            }
        ],
        "servicePeriodStartDate": OCTOBER.start,
        "servicePeriodEndDate": OCTOBER.end,
    }


def test_a_line_keeps_what_it_was_made_from_beside_it():
    assert LINE.made_from.to_wire() == {
        "snapshot": 7,
        "accountPlanId": "ap",
        "accountPlanVersion": 1,
        "planVersion": 2,
        "measurements": 12,
        "aggregationVersion": 3,
        "meterVersion": 4,
        "pricingVersion": 5,
    }


def test_a_lines_key_does_not_depend_on_what_it_costs():
    again = LINE._replace(subtotal=D(0), quantity=D(0), sequence_number=9, pricing_id="other")

    assert again.key == LINE.key == "USAGE/ap/agg/2026-10-01T00:00:00Z"
    assert LINE._replace(subject="other").key != LINE.key
    later = replace(OCTOBER, start=datetime(2026, 10, 2, tzinfo=UTC))
    assert LINE._replace(service_period=later).key != LINE.key


def test_a_bill_has_the_shape_of_the_wire():
    assert wire.loads(wire.dumps(BILL.header())) == {
        "accountId": "a",
        "accountCode": "acme",
        "startDate": "2026-10-01",
        "endDate": "2026-11-01",
        "startDateTimeUTC": "2026-10-01T00:00:00Z",
        "endDateTimeUTC": "2026-11-01T00:00:00Z",
        "billDate": "2026-11-01",
        "dueDate": "2026-12-01",
        "externalInvoiceDate": "2026-11-01",
        "billingFrequency": "MONTHLY",
        "billFrequencyInterval": 1,
        "timezone": "UTC",
        "currency": "USD",
        "currencyConversions": [{"from": "GBP", "to": "USD", "multiplier": D("1.3")}],
        "billTotal": D("4.55"),
    }
    assert BILL.to_wire() == {**BILL.header(), "lineItems": [LINE.to_wire()]}


def test_a_total_is_the_sum_of_the_rounded_lines():
    assert replace(BILL, lines=()).total == 0
    assert replace(BILL, lines=(LINE, LINE, LINE)).total == D("13.65")


def test_pins_and_reports_are_plain_data():
    assert BILL.pins.to_wire() == {"snapshot": 7, "versions": {"a": 1}, "code": "1.0"}
    row = Unpriced("a", None, "m", "meter", OCTOBER, 3, Uncovered.METER_NOT_PRICED)
    assert row.to_wire() == {
        "accountId": "a",
        "meterId": "m",
        "meterCode": "meter",
        "startDateTimeUTC": OCTOBER.start,
        "endDateTimeUTC": OCTOBER.end,
        "measurements": 3,
        "reason": "MeterNotPriced",
    }
