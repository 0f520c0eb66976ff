"""Lines of bills as rows of FOCUS, the FinOps Open Cost and Usage Specification, version 1.2.

What a row means where a bill leaves it open is said in `docs/focus.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from meterlake.model import wire
from meterlake.model.catalog import Meter
from meterlake.model.entity import Configuration
from meterlake.model.errors import NotFound
from meterlake.model.money import exact
from meterlake.stages.export.column_kinds import ExportColumn, Kind
from meterlake.stages.export.documents import Document


class FocusCharge(NamedTuple):
    """What a type of line is in the words of FOCUS."""

    category: str
    frequency: str


_USAGE: Final = FocusCharge("Usage", "Usage-Based")
_RECURRING: Final = FocusCharge("Purchase", "Recurring")
_PURCHASE: Final = FocusCharge("Purchase", "One-Time")
_CREDIT: Final = FocusCharge("Credit", "One-Time")
_ADJUSTMENT: Final = FocusCharge("Adjustment", "One-Time")

# Every type of line that the contract knows, also those that no bill has yet.
CHARGES: Final[Mapping[str, FocusCharge]] = {
    "STANDING_CHARGE": _RECURRING,
    "USAGE": _USAGE,
    "USAGE_CREDIT": FocusCharge("Credit", "Usage-Based"),
    "MINIMUM_SPEND": _RECURRING,
    "MINIMUM_SPEND_REFUND": _RECURRING,
    "COUNTER_RUNNING_TOTAL_CHARGE": _RECURRING,
    "COUNTER_ADJUSTMENT_DEBIT": _PURCHASE,
    "COUNTER_ADJUSTMENT_CREDIT": _PURCHASE,
    "COMMITMENT_FEE": _PURCHASE,
    "COMMITMENT_CONSUMED": _CREDIT,
    "OVERAGE_SURCHARGE": _USAGE,
    "OVERAGE_USAGE": _USAGE,
    "BALANCE_CONSUMED": _CREDIT,
    "BALANCE_FEE": _PURCHASE,
    "AD_HOC": _PURCHASE,
    "CREDIT_MEMO": _CREDIT,
    "CREDIT_DEDUCTION": _CREDIT,
    "DEBIT_MEMO": _ADJUSTMENT,
    "MANUAL_ADJUSTMENT": _ADJUSTMENT,
}
# What is sold, by the first of these members that a line has.
_SOLD: Final = (
    "aggregationId",
    "compoundAggregationId",
    "counterId",
    "chargeId",
    "planId",
    "productId",
)
_PRICED: Final = frozenset({"Usage", "Purchase"})

_TEXT: Final = (
    "AvailabilityZone",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "ConsumedUnit",
    "InvoiceId",
    "InvoiceIssuerName",
    "PricingCategory",
    "PricingCurrency",
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
    "x_BillLineItemId",
    "x_LineItemType",
    "x_PlanId",
    "x_ContractId",
)
_KINDS: Final = {
    **dict.fromkeys(_TEXT, Kind.TEXT),
    "BilledCost": Kind.NUMBER,
    "EffectiveCost": Kind.NUMBER,
    "PricingCurrencyEffectiveCost": Kind.NUMBER,
    "CommitmentDiscountQuantity": Kind.EXACT,
    "ConsumedQuantity": Kind.EXACT,
    "ContractedCost": Kind.EXACT,
    "ContractedUnitPrice": Kind.EXACT,
    "ListCost": Kind.EXACT,
    "ListUnitPrice": Kind.EXACT,
    "PricingCurrencyContractedUnitPrice": Kind.EXACT,
    "PricingCurrencyListUnitPrice": Kind.EXACT,
    "PricingQuantity": Kind.EXACT,
    "x_ConversionRate": Kind.EXACT,
    "x_Quantity": Kind.EXACT,
    "BillingPeriodEnd": Kind.INSTANT,
    "BillingPeriodStart": Kind.INSTANT,
    "ChargePeriodEnd": Kind.INSTANT,
    "ChargePeriodStart": Kind.INSTANT,
}
_CURRENCIES: Final = {
    name: "PricingCurrency" if name.startswith("PricingCurrency") else "BillingCurrency"
    for name in _KINDS
    if name.endswith(("Cost", "UnitPrice"))
}
# In the order of the alphabet, as the specification lists them; ours behind.
FOCUS_COLUMNS: Final = tuple(
    ExportColumn(name, _KINDS[name], _CURRENCIES.get(name, "")) for name in sorted(_KINDS)
)


@dataclass(frozen=True, slots=True)
class Names:
    """How people call what a line names by its id.

    Attributes:
        provider: Who sends the bills: the organization.
        account: The account that is billed.
        configuration: Where the meters are.
    """

    provider: str
    account: str
    configuration: Configuration

    def meter(self, id: str) -> str | None:
        """The name of a meter; None if it is gone."""
        try:
            return self.configuration.get(Meter, id).entity.name
        except NotFound:
            return None


def focus_document(bill: Document, line: Document, names: Names) -> Document:
    """One line of a bill as a row of FOCUS, with all its columns.

    Args:
        bill: As the wire shows it.
        line: With `id`.
        names: Of what both refer to.
    """
    charge = CHARGES[line["lineItemType"]]
    row: Document = {
        "BilledCost": line["convertedSubtotal"],
        "BillingAccountId": bill["accountId"],
        "BillingAccountName": names.account,
        "BillingAccountType": "Account",
        "BillingCurrency": bill["currency"],
        "BillingPeriodStart": bill["startDateTimeUTC"],
        "BillingPeriodEnd": bill["endDateTimeUTC"],
        "ChargeCategory": charge.category,
        "ChargeClass": "Correction" if line.get("referencedBillId") else None,
        "ChargeDescription": line["description"],
        "ChargeFrequency": charge.frequency,
        "ChargePeriodStart": line["servicePeriodStartDate"],
        "ChargePeriodEnd": line["servicePeriodEndDate"],
        "EffectiveCost": line["convertedSubtotal"],
        "InvoiceId": bill["id"],
        "InvoiceIssuerName": names.provider,
        "ProviderName": names.provider,
        "PublisherName": names.provider,
        "ServiceCategory": "Other",
        "ServiceName": line.get("productName") or names.provider,
        "ServiceSubcategory": "Other (Other)",
        **_sub_account(line),
        **_prices(line, charge),
        **_sku(line, names),
        "x_BillLineItemId": line["id"],
        "x_LineItemType": line["lineItemType"],
        "x_PlanId": line.get("planId"),
        "x_ContractId": line.get("contractId"),
        "x_ConversionRate": line["conversionRate"],
        "x_Quantity": line["quantity"],
    }
    return {column.name: row.get(column.name) for column in FOCUS_COLUMNS}


def _sub_account(line: Document) -> Document:
    child = line.get("childAccountId")
    if child is None:
        return {}
    name = line.get("childAccountCode")
    return {"SubAccountId": child, "SubAccountName": name, "SubAccountType": "Child account"}


def _prices(line: Document, charge: FocusCharge) -> Document:
    """What was used at which price; a line without a price of its own costs what is billed."""
    billed = line["convertedSubtotal"]
    shown = {
        "PricingCurrency": line["currency"],
        "PricingCurrencyEffectiveCost": line["subtotal"],
        "ListCost": billed,
        "ContractedCost": billed,
    }
    if charge.category not in _PRICED:
        return shown
    units, price = Decimal(line["units"]), Decimal(line["averageUnitPrice"])
    with exact():
        converted = price * Decimal(line["conversionRate"])
        cost = converted * units
    shown |= {
        "ContractedCost": cost,
        "ContractedUnitPrice": converted,
        "ListCost": cost,
        "ListUnitPrice": converted,
        "PricingCategory": "Standard",
        "PricingCurrencyContractedUnitPrice": price,
        "PricingCurrencyListUnitPrice": price,
        "PricingQuantity": units,
        "PricingUnit": line["unit"] or "Units",
    }
    if charge.category == "Usage":
        shown |= {"ConsumedQuantity": units, "ConsumedUnit": shown["PricingUnit"]}
    return shown


def _sku(line: Document, names: Names) -> Document:
    """What is sold: an aggregation, a counter, or the plan itself; and the pricing of it."""
    sold = next((line[name] for name in _SOLD if line.get(name)), None)
    if sold is None:
        return {}
    segment = line.get("segment")
    details = {f"x_{name}": value for name, value in segment.items()} if segment else None
    meter = line.get("meterId")
    price = line.get("pricingId") or sold
    return {
        "SkuId": sold,
        "SkuMeter": (names.meter(meter) if meter else None) or line["description"],
        "SkuPriceId": price,
        "SkuPriceDetails": wire.dumps_sorted(details) if details else None,
    }
