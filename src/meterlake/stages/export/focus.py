"""Lines of bills as rows of FOCUS, the FinOps Open Cost and Usage Specification, version 1.2.

What a row means where a bill leaves it open is said in `docs/focus.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.members import LINE_MEMBERS
from meterlake.model.catalog.catalog import Meter
from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration
from meterlake.model.values.money import amount_of_quotient, exact
from meterlake.stages.export.column_kinds import ExportColumn, Kind, kind_of_member
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

# Every type of line, also the one that no bill has.
CHARGES: Final[Mapping[LineItemType, FocusCharge]] = {
    LineItemType.STANDING_CHARGE: _RECURRING,
    LineItemType.USAGE: _USAGE,
    LineItemType.USAGE_CREDIT: FocusCharge("Credit", "Usage-Based"),
    LineItemType.MINIMUM_SPEND: _RECURRING,
    LineItemType.MINIMUM_SPEND_REFUND: _RECURRING,
    LineItemType.COUNTER_RUNNING_TOTAL_CHARGE: _RECURRING,
    LineItemType.COUNTER_ADJUSTMENT_DEBIT: _PURCHASE,
    LineItemType.COUNTER_ADJUSTMENT_CREDIT: _PURCHASE,
    LineItemType.COMMITMENT_FEE: _RECURRING,
    LineItemType.COMMITMENT_CONSUMED: _CREDIT,
    LineItemType.OVERAGE_SURCHARGE: _USAGE,
    LineItemType.OVERAGE_USAGE: _USAGE,
    LineItemType.BALANCE_CONSUMED: _CREDIT,
    LineItemType.BALANCE_FEE: _PURCHASE,
    LineItemType.AD_HOC: _PURCHASE,
    LineItemType.CREDIT_MEMO: _CREDIT,
    LineItemType.CREDIT_DEDUCTION: _CREDIT,
    LineItemType.DEBIT_MEMO: _ADJUSTMENT,
    LineItemType.MANUAL_ADJUSTMENT: _ADJUSTMENT,
}
# What FOCUS has no column for, in columns of our own.
_OWN: Final = [each for each in LINE_MEMBERS if each.focus]
# What is sold: the first of these members that a line has.
_SOLD: Final = sorted((each for each in LINE_MEMBERS if each.sku), key=lambda each: each.sku)
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
    "BillingPeriodEnd": Kind.INSTANT,
    "BillingPeriodStart": Kind.INSTANT,
    "ChargePeriodEnd": Kind.INSTANT,
    "ChargePeriodStart": Kind.INSTANT,
    **{each.focus: kind_of_member(each) for each in _OWN},
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
    charge = CHARGES[LineItemType(line["lineItemType"])]
    child = line.get("childAccountId")
    if child is None:
        sub_account = {}
    else:
        name = line.get("childAccountCode")
        sub_account = {
            "SubAccountId": child,
            "SubAccountName": name,
            "SubAccountType": "Child account",
        }
    # What corrects its own bill is no correction for FOCUS.
    is_correction = line.get("referencedBillId") not in {None, bill["id"]}
    row: Document = {
        "BilledCost": line["convertedSubtotal"],
        "BillingAccountId": bill["accountId"],
        "BillingAccountName": names.account,
        "BillingAccountType": "Account",
        "BillingCurrency": bill["currency"],
        "BillingPeriodStart": bill["startDateTimeUTC"],
        "BillingPeriodEnd": bill["endDateTimeUTC"],
        "ChargeCategory": charge.category,
        "ChargeClass": "Correction" if is_correction else None,
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
        **sub_account,
        **_prices(line, charge),
        **_sku(line, names),
        **{each.focus: line.get(each.name) for each in _OWN},
    }
    return {column.name: row.get(column.name) for column in FOCUS_COLUMNS}


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
    rate = Decimal(line["conversionRate"])
    with exact():
        converted = price * rate
        cost = amount_of_quotient(price, units) * rate
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
    """What is sold: an aggregation, a counter, a commitment, the plan itself; and its pricing."""
    sold = next((line[each.name] for each in _SOLD if line.get(each.name)), None)
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
