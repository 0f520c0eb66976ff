"""The members of a bill and of its lines, as the API shows them and as templates read them."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.model.bill_requests import BillStatus
from meterlake.model.billing import LineItemType
from meterlake.model.entity import Value
from meterlake.model.envelope import Envelope
from meterlake.model.fields import Day, Flag, Id, Instant, Integer, Number, Text
from meterlake.model.organization import CurrencyConversion
from meterlake.model.pricing import BillingFrequency


class BillLineItemPricingBandUsage(Value):
    """What one band of a pricing charges for."""

    pricing_band_id: Text | None = None
    lower_limit: Number | None = None
    fixed_price: Number | None = None
    unit_subtotal: Number | None = None
    unit_price: Number | None = None
    band_units: Number | None = None
    band_quantity: Number | None = None
    band_subtotal: Number | None = None
    credit_type_id: Id | None = None
    converted_band_subtotal: Number | None = None


class LineMembers(Value):
    """What every line shows, also where it stands alone."""

    product_name: Text | None = None
    product_code: Text | None = None
    accounting_product_id: Id | None = None
    accounting_product_name: Text | None = None
    accounting_product_code: Text | None = None
    aggregation_id: Id | None = None
    compound_aggregation_id: Id | None = None
    counter_id: Id | None = None
    charge_id: Id | None = None
    segment: dict[str, Text] | None = None
    group: dict[str, Text] | None = None
    meter_id: Id | None = None
    plan_id: Id | None = None
    plan_group_id: Id | None = None
    commitment_id: Id | None = None
    balance_id: Id | None = None
    credit_type_id: Id | None = None
    pricing_id: Id | None = None
    reason_id: Id | None = None
    contract_id: Id | None = None
    sequence_number: Integer | None = None
    additional: dict[str, Any] | None = None
    product_id: Id | None = None
    service_period_start_date: Instant | None = None
    service_period_end_date: Instant | None = None
    referenced_bill_id: Id | None = None
    referenced_line_item_id: Id | None = None


class BillLineItem(LineMembers):
    """A line as its bill shows it."""

    description: Text
    quantity: Number
    units: Number
    unit: Text
    subtotal: Number
    currency: Text
    conversion_rate: Number
    converted_subtotal: Number
    line_item_type: LineItemType
    average_unit_price: Number
    id: Id | None = None
    child_account_id: Id | None = None
    child_account_code: Text | None = None
    usage_per_pricing_band: tuple[BillLineItemPricingBandUsage, ...] | None = None


class BillResponse(Envelope):
    """A bill with its lines."""

    account_id: Id | None = None
    account_code: Text | None = None
    start_date: Day | None = None
    end_date: Day | None = None
    start_date_time_utc: Annotated[Instant | None, Field(alias="startDateTimeUTC")] = None
    end_date_time_utc: Annotated[Instant | None, Field(alias="endDateTimeUTC")] = None
    bill_date: Day | None = None
    due_date: Day | None = None
    billing_frequency: BillingFrequency | None = None
    bill_frequency_interval: Integer | None = None
    timezone: Text | None = None
    currency: Text | None = None
    locked: Flag | None = None
    created_date: Instant | None = None
    status: BillStatus | None = None
    bill_job_id: Id | None = None
    currency_conversions: tuple[CurrencyConversion, ...] | None = None
    last_calculated_date: Instant | None = None
    line_items: tuple[BillLineItem, ...] | None = None
    purchase_order_number: Text | None = None
    external_invoice_reference: Text | None = None
    external_invoice_date: Day | None = None
    json_statement_generated: Flag | None = None
    csv_statement_generated: Flag | None = None
    statement_stale: Flag | None = None
    bill_total: Number | None = None
    sequential_invoice_number: Text | None = None
    dt_approved: Instant | None = None
    approved_by: Text | None = None
    dt_locked: Instant | None = None
    locked_by: Text | None = None
