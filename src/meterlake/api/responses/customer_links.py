"""Answers about links to the page of a customer, and what whoever has one reads."""

from typing import Any

from meterlake.model.bills.bill import LineItemType
from meterlake.model.values.entity import Envelope, Value
from meterlake.model.values.fields import Day, Flag, Id, Instant, Integer, Number, Text


class CreatedCustomerLinkResponse(Envelope):
    """A new link, with what nobody is shown again: its token, and its URL."""

    account_id: Id
    name: Text
    dt_expiry: Instant
    allowed_origins: tuple[Text, ...]
    revoked: Flag
    token: Text
    url: Text


class CustomerBand(Value):
    """What one band of a price came to."""

    lower_limit: Number | None = None
    band_quantity: Number | None = None
    unit_price: Number | None = None
    fixed_price: Number | None = None
    band_subtotal: Number | None = None


class CustomerLine(Value):
    """One line of a bill, as its customer sees it."""

    description: Text | None = None
    product_name: Text | None = None
    line_item_type: LineItemType | None = None
    service_period_start_date: Instant | None = None
    service_period_end_date: Instant | None = None
    quantity: Number | None = None
    units: Number | None = None
    unit: Text | None = None
    converted_subtotal: Number | None = None
    sequence_number: Integer | None = None
    child_account_code: Text | None = None
    segment: dict[str, Any] | None = None
    usage_per_pricing_band: tuple[CustomerBand, ...] = ()


class CustomerBillResponse(Value):
    """An approved bill, as its customer sees it; a list shows it without its lines."""

    id: Id
    bill_date: Day
    start_date: Day
    end_date: Day
    due_date: Day | None = None
    timezone: Text
    currency: Text
    bill_total: Number
    sequential_invoice_number: Text | None = None
    purchase_order_number: Text | None = None
    line_items: tuple[CustomerLine, ...] = ()


class OpenBill(Value):
    """What the bill of an open period would come to now."""

    start_date: Day
    end_date: Day
    currency: Text
    bill_total: Number
    timezone: Text
    line_items: tuple[CustomerLine, ...]


class CustomerSpendResponse(Value):
    """What a customer's bills of the periods that are open would come to now."""

    as_of: Instant
    bills: tuple[OpenBill, ...]


class CustomerBalance(Value):
    """Money that a customer has paid ahead, and what is left of it."""

    name: Text
    code: Text
    currency: Text
    amount: Number | None = None
    start_date: Instant
    end_date: Instant


class CustomerPageResponse(Value):
    """A customer as they see themselves, and what is left of what they paid ahead."""

    name: Text
    code: Text
    timezone: Text
    allowed_origins: tuple[Text, ...]
    dt_expiry: Instant
    balances: tuple[CustomerBalance, ...]


class AccountSpendResponse(Value):
    """What the bills of an account's open periods would come to now."""

    account_id: Id
    as_of: Instant
    bills: tuple[dict[str, Any], ...]
    failures: tuple[Text, ...]
