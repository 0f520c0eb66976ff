"""What an invoice in another system is made of: the lines of a bill, put together and in minor units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from meterlake.model.configuration.integration_systems import SplitBy
from meterlake.model.errors import Invalid

# Currencies without a smaller unit, and those with a thousandth, as Stripe has them.
_ZERO_DECIMAL: Final = frozenset(
    [
        "BIF",
        "CLP",
        "DJF",
        "GNF",
        "JPY",
        "KMF",
        "KRW",
        "MGA",
        "PYG",
        "RWF",
        "VND",
        "VUV",
        "XAF",
        "XOF",
        "XPF",
    ]
)
_THREE_DECIMAL: Final = frozenset(["BHD", "JOD", "KWD", "OMR", "TND"])
# Those that are written with two digits, and have no smaller unit all the same.
_WHOLE: Final = frozenset(["ISK", "UGX"])
_FIELDS: Final[Mapping[SplitBy, tuple[str, ...]]] = {
    SplitBy.BILL: (),
    SplitBy.PRODUCT: ("productId",),
    SplitBy.AGGREGATION: ("productId", "aggregationId", "compoundAggregationId", "lineItemType"),
}
_AMOUNT: Final = "convertedSubtotal"


@dataclass(frozen=True, slots=True)
class InvoiceItem:
    """One item of an invoice.

    Attributes:
        amount: In the smallest unit of the currency.
        product_id: Of the product that all of it is for; None if there is none, or several.
        aggregation_id: The same of the aggregation.
    """

    amount: int
    description: str
    product_id: str | None = None
    aggregation_id: str | None = None


def invoice_items(bill: Mapping[str, Any], split: SplitBy) -> list[InvoiceItem]:
    """The items of a bill; together they are its total, to the smallest unit.

    A bill without lines has one item of nothing: there are no invoices without items.

    Raises:
        Invalid: An amount has digits beyond the smallest unit, or the lines are not the total.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for line in bill.get("lineItems", ()):
        groups.setdefault(tuple(line.get(name) for name in _FIELDS[split]), []).append(line)
    if not groups:
        groups[()] = []
    currency = bill["currency"]
    items = [_item(bill, lines, split) for lines in groups.values()]
    total = minor_units(bill["billTotal"], currency)
    if sum(item.amount for item in items) != total:
        rule = f"it must be the sum of the lines of the bill: {sum(item.amount for item in items)}"
        raise Invalid("billTotal", total, rule)
    return items


def minor_units(amount: Decimal | int, currency: str) -> int:
    """An amount in the smallest unit of its currency: nothing is rounded.

    Raises:
        Invalid: It has more digits than the currency.
    """
    digits = 0 if currency in _ZERO_DECIMAL else 3 if currency in _THREE_DECIMAL else 2
    scaled = Decimal(amount).scaleb(digits)
    # The last digit of a thousandth is not taken.
    step = 10 if currency in _THREE_DECIMAL else 100 if currency in _WHOLE else 1
    if scaled % step != 0:
        raise Invalid("amount", amount, f"it must be an amount in the smallest unit of {currency}")
    return int(scaled)


def _item(
    bill: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], split: SplitBy
) -> InvoiceItem:
    amount = sum((Decimal(line[_AMOUNT]) for line in lines), Decimal())
    return InvoiceItem(
        minor_units(amount, bill["currency"]),
        _description(bill, lines[0] if lines else {}, split),
        _common(lines, "productId"),
        _common(lines, "aggregationId") or _common(lines, "compoundAggregationId"),
    )


def _description(bill: Mapping[str, Any], line: Mapping[str, Any], split: SplitBy) -> str:
    period = f"{bill.get('startDate', '')} - {bill.get('endDate', '')}"
    names = {
        SplitBy.BILL: None,
        SplitBy.PRODUCT: line.get("productName"),
        SplitBy.AGGREGATION: line.get("description") or line.get("productName"),
    }
    return f"{names[split] or 'Bill'} ({period})"


def _common(lines: Sequence[Mapping[str, Any]], name: str) -> str | None:
    found = {line.get(name) for line in lines}
    return found.pop() if len(found) == 1 else None
