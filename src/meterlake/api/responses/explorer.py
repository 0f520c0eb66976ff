"""Bodies and answers of the Data Explorer; the served document is made from them."""

from typing import Any

from meterlake.model.bills.bill import LineItemType
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Day, Flag, Id, Instant, Integer, Number, Text
from meterlake.stores.state import JobStatus


class UsageQueryResponse(Value):
    """Rows of usage; their members follow from the meters and from what was asked."""

    data: tuple[dict[str, Any], ...] | None = None
    has_more_data: bool | None = None


class UsageStatement(Value):
    """The SQL that a question asks of one meter's table in the lake."""

    meter: Text
    sql: Text


class UsageStatementsResponse(Value):
    """The SQL of a question, one statement for each meter that has measurements."""

    data: tuple[UsageStatement, ...]


class NumberMeasurement(Value):
    """A measurement behind a number, with the file and the row that it came in."""

    file: Text | None = None
    source: Text | None = None
    row: Integer | None = None
    part: Integer | None = None
    uid: Text
    account: Text | None = None
    ts: Instant
    received_at: Instant
    value: Any = None


class UsageExplanationResponse(Value):
    """A number of an answer with the SQL that gives it, and a page of its measurements."""

    row: dict[str, Any]
    sql: Text
    measurement_count: Integer
    data: tuple[NumberMeasurement, ...]
    next_token: Text | None = None


class ExplainedMeasurement(Value):
    """A measurement behind a quantity, with the file and the row that it came in."""

    file: Text | None = None
    row: Integer | None = None
    part: Text | None = None
    uid: Text
    ts: Instant
    received_at: Instant
    value: Any = None


class QuantityNowResponse(Value):
    """What a quantity would be if it were calculated now, where that is something else."""

    quantity: Number
    units: Number
    measurement_count: Integer
    measurements_came: Integer
    measurements_gone: Integer


class ExplainedQuantity(Value):
    """A quantity with what it was made of: the statement, its measurements, or its parts."""

    account: Text
    aggregation: Text
    kind: Text
    frequency: Text
    period: Text
    period_start: Instant
    period_end: Instant
    quantity: Number
    units: Number
    unit: Text | None = None
    aggregation_version: Integer
    measurement_count: Integer | None = None
    snapshot: Integer | None = None
    snapshot_kept: Flag
    run_id: Text
    computed_at: Instant
    segment: dict[str, Any] | None = None
    pooled: Any = None
    quantity_unit: Text | None = None
    statement: Text | None = None
    parameters: Any = None
    now: QuantityNowResponse | None = None
    measurements: tuple[ExplainedMeasurement, ...]
    more: Flag
    parts: tuple[dict[str, Any], ...]


class ExplainedQuantitiesResponse(Value):
    """The quantities of an account and an aggregation in a period, each explained."""

    data: tuple[ExplainedQuantity, ...]


class QuantitiesCalculateRequest(Value):
    """The name of a period, such as 2026-10 of months or 2026-10-05 of days."""

    period: Text
    frequency: BillingFrequency = BillingFrequency.MONTHLY


class QuantitiesJobResponse(Value):
    """The calculation of a period: how far it is and, when it has ended, what it came to."""

    id: Id
    status: JobStatus
    frequency: BillingFrequency
    period: Text
    quantities: Integer | None = None
    changed: Flag | None = None
    snapshot: Integer | None = None
    run_id: Text | None = None
    error: Text | None = None
    created_by: Text | None = None
    dt_created: Instant


class UsageOfDay(Value):
    """What was used on one day of the organization."""

    date: Day
    quantity: Number


class AggregationUsage(Value):
    """What was used of one aggregation, in all and by day."""

    aggregation_id: Id
    code: Text | None = None
    name: Text
    meter_id: Id
    meter_code: Text
    meter_name: Text
    unit: Text | None = None
    quantity: Number | None = None
    days: tuple[UsageOfDay, ...]


class AccountUsageResponse(Value):
    """What an account used in a month."""

    account_id: Id
    month: Text
    start_date: Day
    end_date: Day
    aggregations: tuple[AggregationUsage, ...]


class UsageData(Value):
    """Folded fields of one meter, period and combination of dimensions."""

    meter_code: Text
    date: Instant
    dimensions: dict[str, Any]
    measures: dict[str, Any]


class UsageDataResponse(Value):
    """A series."""

    values: tuple[UsageData, ...]
    has_more_data: Flag


class DimensionValue(Value):
    """One value of a dimension, or an attribute of it."""

    dimension_attribute: Text
    dimension_value: Text


class MeterDimensionsResponse(Value):
    """The values of a dimension of a meter."""

    meter_code: Text
    dimension_name: Text
    dimension_values: tuple[DimensionValue, ...]


class DimensionValuesResponse(Value):
    """The values of a dimension of several meters."""

    meter_codes: tuple[Text, ...]
    dimension_name: Text
    dimension_values: tuple[DimensionValue, ...]


class ExploredMeter(Value):
    """A meter by its names."""

    id: Id
    code: Text
    name: Text


class MetersWithDataResponse(Value):
    """Meters that have measurements in a time."""

    meter_codes: tuple[Text, ...]
    meters: tuple[ExploredMeter, ...]


class LineItemDimensions(Value):
    """What a line of a bill is about."""

    account: Text | None = None
    account_name: Text | None = None
    account_id: Id | None = None
    parent_account_code: Text | None = None
    parent_account_name: Text | None = None
    parent_account_id: Id | None = None
    child_account_id: Id | None = None
    description: Text | None = None
    line_item_type: LineItemType | None = None
    product_name: Text | None = None
    quantity_unit: Text | None = None
    subtotal_unit: Text | None = None
    converted_subtotal_unit: Text | None = None
    bill_id: Id | None = None
    external_invoice_reference: Text | None = None
    commitment_id: Id | None = None
    bill_line_item_id: Id | None = None


class LineItemMeasures(Value):
    """The numbers of a line, and the version of its bill."""

    converted_subtotal: Number | None = None
    subtotal: Number | None = None
    version: Number | None = None
    conversion_rate: Number | None = None
    quantity: Number | None = None
    units: Number | None = None


class BillDetails(Value):
    """The bill of a line, by the parts of its date."""

    day: Integer | None = None
    week: Text | None = None
    year: Integer | None = None
    month: Text | None = None
    locked: Text | None = None
    status: Text | None = None
    due_date: Text | None = None
    start_date: Text | None = None
    end_date: Text | None = None
    service_period_start_date: Text | None = None
    service_period_end_date: Text | None = None
    bill_date: Text | None = None
    timezone: Text | None = None
    year_month: Text | None = None
    bill_currency: Text | None = None
    billing_frequency: Text | None = None


class BillData(Value):
    """One line of a bill."""

    updated_date: Instant | None = None
    dimensions: LineItemDimensions | None = None
    measures: LineItemMeasures | None = None
    bill_details: BillDetails | None = None


class BillDataResponse(Value):
    """Lines of bills."""

    values: tuple[BillData, ...] | None = None
    has_more_data: Flag | None = None


class CommitmentData(Value):
    """One commitment."""

    updated_date: Instant
    dimensions: dict[str, Any]
    measures: dict[str, Any]
    commitment_details: dict[str, Any]


class CommitmentDataResponse(Value):
    """Commitments."""

    values: tuple[CommitmentData, ...]
    has_more_data: Flag


class Obligation(Value):
    """What is still owed of commitments after a month."""

    date_month: Text | None = None
    obligations: dict[Text, Number] | None = None


class DownloadResponse(Value):
    """Where a file is to be had for a while, without a token."""

    download_url: Text


class ExploredName(Value):
    """An account or a product by its names."""

    code: Text | None = None
    name: Text


class AccountNamesResponse(Value):
    """Accounts by code."""

    account_codes: tuple[Text, ...]
    accounts: tuple[ExploredName, ...]


class ProductNamesResponse(Value):
    """Products by name."""

    product_names: tuple[Text, ...]
    products: tuple[ExploredName, ...]
