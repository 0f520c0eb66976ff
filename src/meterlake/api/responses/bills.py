"""Answers about bills and their lines."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.api.responses.envelope import Envelope
from meterlake.model.bill_differences import CauseKind
from meterlake.model.bill_explanation import DerivationRule
from meterlake.model.bill_requests import BillStatus
from meterlake.model.bill_verification import DifferenceSubject
from meterlake.model.billing import LineItemType
from meterlake.model.entity import Value
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


class _OfLine(Value):
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


class BillLineItem(_OfLine):
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


class BillLineItemResponse(_OfLine, Envelope):
    """A line that stands alone."""

    bill_id: Id | None = None
    line_item_type: LineItemType | None = None
    description: Text | None = None
    quantity: Number | None = None
    units: Number | None = None
    unit: Text | None = None
    subtotal: Number | None = None
    currency: Text | None = None
    conversion_rate: Number | None = None
    converted_subtotal: Number | None = None
    average_unit_price: Number | None = None
    child_account_id: Id | None = None
    child_account_code: Text | None = None
    band_usage: tuple[BillLineItemPricingBandUsage, ...] | None = None
    json_usage_generated: Flag | None = None


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


class BillApprovalResponse(Value):
    """How many bills were approved, in words."""

    message: Text | None = None


class ObjectUrlResponse(Value):
    """A link to a file."""

    download_url: Text | None = None


class _MemoResponse(Envelope):
    line_item_type: LineItemType | None = None
    product_id: Id | None = None
    accounting_product_id: Id | None = None
    description: Text | None = None
    service_period_start_date: Instant | None = None
    service_period_end_date: Instant | None = None
    bill_id: Id | None = None
    referenced_bill_id: Id | None = None
    referenced_line_item_id: Id | None = None
    amount: Number | None = None
    amount_to_apply_on_bill: Number | None = None
    reason_id: Id | None = None


class CreditLineItemResponse(_MemoResponse):
    """A line of a person that lowers a bill."""

    credit_reason_id: Id | None = None


class DebitLineItemResponse(_MemoResponse):
    """A line of a person that raises a bill."""

    debit_reason_id: Id | None = None


class BillDifferenceResponse(Value):
    """One thing of a bill, or that it was made from, that is not what it was."""

    subject: DifferenceSubject
    name: Text
    bill_id: Text | None = None
    line_item_id: Text | None = None
    field: Text | None = None
    stored: Any = None
    calculated: Any = None


class BillVerificationResponse(Value):
    """What a bill is against what it was made from."""

    verified: Integer
    unpinned: tuple[Text, ...]
    other_code: Integer
    same: bool
    differences: tuple[BillDifferenceResponse, ...]


class ComparedContentResponse(Value):
    """A content of a bill that is compared; its version is a number, or `now`."""

    version: Any
    snapshot: Integer
    at: Instant


class ComparedTotalResponse(Value):
    """What both contents come to in a currency."""

    currency: Text
    from_: Number = Field(alias="from")
    to: Number
    difference: Number


class LinePartResponse(Value):
    """What a cause does to a line; an amount is absent where the line is."""

    line_item_id: Id
    line_item_type: LineItemType
    description: Text
    from_: Number | None = Field(default=None, alias="from")
    to: Number | None = None
    amount: Number


class SharedAmountResponse(Value):
    """How much of a later cause's part goes with the cause."""

    name: Text
    amount: Number


class DifferenceCauseResponse(Value):
    """One thing that changed between two contents of a bill."""

    cause: CauseKind
    name: Text
    id: Text | None = None
    what: Text | None = None
    from_: Text | None = Field(default=None, alias="from")
    to: Text | None = None
    author: Text | None = None
    at: Instant | None = None


class DifferencePartResponse(DifferenceCauseResponse):
    """What a cause adds to a bill, and what goes if it alone is undone."""

    together: tuple[DifferenceCauseResponse, ...] | None = None
    currency: Text
    amount: Number
    if_undone: Number | None = None
    shared: tuple[SharedAmountResponse, ...] | None = None
    header: tuple[Text, ...] | None = None
    lines: tuple[LinePartResponse, ...]


class BillDiffResponse(Value):
    """The difference of two contents of a bill, by causes whose parts add up to the whole."""

    bill_id: Id
    account_code: Text
    bill_date: Day
    from_: ComparedContentResponse = Field(alias="from")
    to: ComparedContentResponse
    same: bool
    totals: tuple[ComparedTotalResponse, ...]
    differences: tuple[DifferencePartResponse, ...]


class ExplainedNumberResponse(Value):
    """A number of a bill, and the numbers that it follows from."""

    name: Text
    value: Text | None = None
    exact: Text | None = None
    unit: Text
    rule: DerivationRule
    options: dict[str, Any] | None = None
    key: Text | None = None
    facts: dict[str, Any] | None = None
    children: tuple["ExplainedNumberResponse", ...] = ()
    beside: tuple["ExplainedNumberResponse", ...] = ()
    measurements: tuple[dict[str, Any], ...] = ()
    more: bool | None = None


class BillExplanationResponse(Value):
    """What the total of a bill follows from."""

    bill: dict[str, Any]
    same: bool
    differences: tuple[BillDifferenceResponse, ...]
    tree: ExplainedNumberResponse
