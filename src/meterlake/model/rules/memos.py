"""Rules of lines that people put on bills."""

from decimal import Decimal
from typing import Final

from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.memos import CreditLineItem, DebitLineItem, MemoLineItem
from meterlake.model.catalog.catalog import Product
from meterlake.model.configuration.organization import (
    CreditReason,
    Currency,
    DebitReason,
    PicklistItem,
)
from meterlake.model.errors import Invalid
from meterlake.model.rules.references import existing
from meterlake.model.values.entity import Configuration, Entity
from meterlake.model.values.money import ONE, ZERO, plain
from meterlake.model.values.period import format_instant

REASONS: Final[dict[type[Entity], tuple[str, type[PicklistItem]]]] = {
    CreditLineItem: ("creditReasonId", CreditReason),
    DebitLineItem: ("debitReasonId", DebitReason),
}
_PLACES: Final = 2
_UNIT: Final = "unit"


def check_memo(
    new: MemoLineItem, before: MemoLineItem | None, currency: str, configuration: Configuration
) -> None:
    """Refuse a line that cannot stand on a bill.

    Raises:
        Invalid: It is of another type, ends before it starts, has digits that its currency has not,
            or names a product or a reason that does not exist.
    """
    known = (new.default_type, LineItemType.MANUAL_ADJUSTMENT)
    if new.type not in known:
        raise Invalid("lineItemType", new.type.value, f"it must be {known[0]} or {known[1]}")
    start, end = new.service_period_start_date, new.service_period_end_date
    if end <= start:
        rule = f"it must be after servicePeriodStartDate {format_instant(start)}"
        raise Invalid("servicePeriodEndDate", format_instant(end), rule)
    _check_amounts(new, currency, configuration)
    for name, id_ in (
        ("productId", new.product_id),
        ("accountingProductId", new.accounting_product_id),
    ):
        existing(Product, name, id_, configuration)
    _check_reasons(new, before, configuration)


def _check_amounts(new: MemoLineItem, currency: str, configuration: Configuration) -> None:
    found = configuration.find(Currency, currency)
    places = _PLACES if found is None else found.entity.max_decimal_places
    applied = new.amount_to_apply_on_bill
    for name, amount in (("amount", new.amount), ("amountToApplyOnBill", applied)):
        if amount is not None and len(plain(amount).partition(".")[2]) > places:
            raise Invalid(
                name, amount, f"it must have at most {places} decimals, those of {currency}"
            )
    if applied is not None and applied > new.amount:
        raise Invalid(
            "amountToApplyOnBill", applied, f"it must be at most amount {plain(new.amount)}"
        )


def _check_reasons(
    new: MemoLineItem, before: MemoLineItem | None, configuration: Configuration
) -> None:
    """A reason is not archived when it is picked; it may be so later."""
    name, kind = REASONS[type(new)]
    own = f"{name.removesuffix('ReasonId')}_reason_id"
    for wire_name, field in (("reasonId", "reason_id"), (name, own)):
        id_ = getattr(new, field)
        if id_ is None:
            continue
        reason = existing(kind, wire_name, id_, configuration)
        if reason.entity.archived and getattr(before, field, None) != id_:
            raise Invalid(wire_name, id_, "it must be a reason that is not archived")
    if None not in {new.reason_id, getattr(new, own)} and new.reason_id != getattr(new, own):
        raise Invalid(
            "reasonId", new.reason_id, f"it is another reason than {name}; give one of the two"
        )


def signed_amount(new: MemoLineItem) -> Decimal:
    """What a line adds to its bill: less than 0 for a credit."""
    amount = new.amount if new.amount_to_apply_on_bill is None else new.amount_to_apply_on_bill
    return -amount if isinstance(new, CreditLineItem) and amount else amount


def memo_line(
    new: MemoLineItem, reason_id: str | None, currency: str, configuration: Configuration
) -> dict[str, object]:
    """What a bill shows of a line, without its number; products are named as they are now."""
    product = configuration.get(Product, new.product_id)
    accounting = configuration.get(Product, new.accounting_product_id)
    line = {
        **memo_members(new, signed_amount(new), currency),
        "productId": product.id,
        "productName": product.entity.name,
        "productCode": product.entity.code,
        "accountingProductId": accounting.id,
        "accountingProductName": accounting.entity.name,
        "accountingProductCode": accounting.entity.code,
        "reasonId": reason_id,
    }
    return {name: value for name, value in line.items() if value is not None}


def memo_members(new: MemoLineItem, amount: Decimal, currency: str) -> dict[str, object]:
    """What a bill shows of a line whatever it is about: one of a quantity at the whole amount."""
    one = ONE if amount else ZERO
    line: dict[str, object] = {
        "lineItemType": new.type.value,
        "description": new.description,
        "quantity": one,
        "units": one,
        "unit": _UNIT,
        "subtotal": amount,
        "currency": currency,
        "conversionRate": ONE,
        "convertedSubtotal": amount,
        "averageUnitPrice": amount,
        "usagePerPricingBand": [],
        "servicePeriodStartDate": new.service_period_start_date,
        "servicePeriodEndDate": new.service_period_end_date,
        "referencedBillId": new.referenced_bill_id,
        "referencedLineItemId": new.referenced_line_item_id,
    }
    return {name: value for name, value in line.items() if value is not None}
