"""Lines of bills as rows of FOCUS."""

from decimal import Decimal

import pytest

from meterlake.model.bills.bill import LineItemType
from meterlake.model.values.entity import Configuration
from meterlake.stages.export.focus import CHARGES, FOCUS_COLUMNS, Names, focus_document

# The columns of the cost and usage dataset of FOCUS 1.2.
OF_VERSION_1_2 = [
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingCurrency",
    "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
]
# Never null, whatever the charge is.
ALWAYS = {
    "BilledCost",
    "BillingAccountId",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingCurrencyEffectiveCost",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
}
PRICED = {
    "ContractedUnitPrice",
    "ListUnitPrice",
    "PricingCategory",
    "PricingCurrency",
    "PricingQuantity",
    "PricingUnit",
    "SkuId",
    "SkuPriceId",
}
NAMES = Names("Cloud, Inc.", "Acme", Configuration(()))
BILL = {
    "id": "bill-1",
    "accountId": "account-1",
    "currency": "EUR",
    "startDateTimeUTC": "2026-10-01T00:00:00Z",
    "endDateTimeUTC": "2026-11-01T00:00:00Z",
}
LINE = {
    "id": "line-1",
    "lineItemType": "USAGE",
    "description": "Sent",
    "quantity": Decimal(2500),
    "units": Decimal("2.5"),
    "unit": "GB",
    "averageUnitPrice": Decimal("0.333"),
    "subtotal": Decimal("0.83"),
    "currency": "USD",
    "conversionRate": Decimal("0.9"),
    "convertedSubtotal": Decimal("0.75"),
    "aggregationId": "aggregation-1",
    "meterId": "meter-1",
    "pricingId": "pricing-1",
    "planId": "plan-1",
    "servicePeriodStartDate": "2026-10-01T00:00:00Z",
    "servicePeriodEndDate": "2026-11-01T00:00:00Z",
}


def row(**changes):
    return focus_document(BILL, LINE | changes, NAMES)


def test_the_columns_are_those_of_the_specification_and_ours_behind_them():
    names = [column.name for column in FOCUS_COLUMNS]
    ours = [name for name in names if name.startswith("x_")]

    assert names == OF_VERSION_1_2 + ours
    assert list(row()) == names


def test_every_type_of_line_is_a_charge():
    assert set(CHARGES) == set(LineItemType)


@pytest.mark.parametrize("kind", CHARGES)
def test_what_must_not_be_null_is_not(kind):
    found = row(lineItemType=kind)
    priced = PRICED if found["ChargeCategory"] in {"Usage", "Purchase"} else set()

    assert [name for name in ALWAYS | priced if found[name] is None] == []
    assert (found["ConsumedQuantity"] is not None) == (found["ChargeCategory"] == "Usage")
    assert (found["PricingQuantity"] is None) == (found["PricingUnit"] is None)


def test_a_usage_in_another_currency():
    found = {name: value for name, value in row().items() if value is not None}

    assert found["BilledCost"] == found["EffectiveCost"] == Decimal("0.75")
    assert (found["BillingCurrency"], found["PricingCurrency"]) == ("EUR", "USD")
    assert found["ContractedUnitPrice"] == Decimal("0.2997")
    assert found["ContractedCost"] == Decimal("0.74925")
    assert found["PricingCurrencyContractedUnitPrice"] == Decimal("0.333")
    assert found["PricingCurrencyEffectiveCost"] == Decimal("0.83")
    assert (found["PricingQuantity"], found["x_Quantity"]) == (Decimal("2.5"), 2500)
    assert (found["SkuId"], found["SkuPriceId"]) == ("aggregation-1", "pricing-1")
    assert found["SkuMeter"] == "Sent"  # the meter itself is gone
    assert found["ServiceName"] == "Cloud, Inc."
    assert "SubAccountId" not in found


def test_what_only_some_lines_have():
    found = row(
        childAccountId="child-1",
        childAccountCode="branch",
        segment={"region": "eu"},
        referencedBillId="bill-0",
        productName="Storage",
    )
    assert (found["SubAccountId"], found["SubAccountName"]) == ("child-1", "branch")
    assert found["SkuPriceDetails"] == '{"x_region":"eu"}'
    assert found["ChargeClass"] == "Correction"
    assert found["ServiceName"] == "Storage"


@pytest.mark.parametrize(("bill_id", "found"), [("bill-0", "Correction"), (BILL["id"], None)])
def test_only_what_is_about_an_earlier_bill_is_a_correction(bill_id, found):
    assert row(lineItemType="DEBIT_MEMO", referencedBillId=bill_id)["ChargeClass"] == found


def test_a_credit_has_no_price():
    found = row(lineItemType="CREDIT_MEMO", convertedSubtotal=Decimal(-5))

    assert found["ContractedCost"] == found["ListCost"] == found["BilledCost"] == -5
    assert found["PricingQuantity"] is found["ContractedUnitPrice"] is None
