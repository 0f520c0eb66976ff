"""Answers about one price that changes: what bills would come to, and the price that follows."""

from typing import Any

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Integer, Number, Text


class MonthChange(Value):
    """What the bills of a month come to before and after, in one currency."""

    month: Text
    currency: Text
    before: Number
    after: Number
    difference: Number


class PriceChangePreviewResponse(Value):
    """What new bands would do to bills; nothing is stored."""

    months: dict[str, Any]
    snapshot: Integer
    changed_entities: Integer
    added_accounts: tuple[Text, ...]
    accounts: Integer
    rows: Integer
    rows_changed: Integer
    totals: dict[str, Any]
    not_priced: tuple[dict[str, Any], ...]
    left_out: Integer
    unpriced_usage: dict[str, Any]
    earlier_bills: Integer
    stored_bills: dict[str, Any]
    by_month: tuple[MonthChange, ...]
    changes: tuple[dict[str, Any], ...]


class PricingReplaceResponse(Value):
    """The price that ends, and the one that follows; without the first if that got the bands itself."""

    original_pricing: dict[str, Any] | None = None
    new_pricing: dict[str, Any]
