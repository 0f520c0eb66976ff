"""The tables of the published file beside those of the meters: columns, types, meanings."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

NUMBER: Final = "DECIMAL(38,12)"
TEXT: Final = "VARCHAR"
INSTANT: Final = "TIMESTAMP"
DAY: Final = "DATE"
INTEGER: Final = "BIGINT"
FLAG: Final = "BOOLEAN"
JSON: Final = "JSON"


class Column(NamedTuple):
    """One column: its name, its SQL type, what it means, and where its value stands in a document."""

    name: str
    type: str
    doc: str
    path: str


class Table(NamedTuple):
    """One table that is filled from documents in the shape of the wire."""

    name: str
    doc: str
    columns: tuple[Column, ...]


_VERSION: Final = (
    Column("version", INTEGER, "How often it was written; 1 when new.", "version"),
    Column("created", INSTANT, "When it was created, UTC.", "dtCreated"),
    Column("modified", INSTANT, "When it was last changed, UTC.", "dtLastModified"),
)
_ID: Final = Column("id", TEXT, "Its id, for ever.", "id")
_CODE: Final = Column("code", TEXT, "Its code, which people know; it may change.", "code")
_NAME: Final = Column("name", TEXT, "Its name.", "name")
_FIELDS: Final = Column("custom_fields", JSON, "Its custom fields.", "customFields")

ACCOUNT: Final = Table(
    "account",
    "End customers: who uses and pays. One row each.",
    (
        _ID,
        _CODE,
        _NAME,
        Column("email_address", TEXT, "Where its bills go.", "emailAddress"),
        Column("currency", TEXT, "What it is billed in; the organization's if NULL.", "currency"),
        Column("parent_account_id", TEXT, "account.id of its parent.", "parentAccountId"),
        Column("country", TEXT, "The country of its address.", "address.country"),
        Column("purchase_order_number", TEXT, "Shown on its bills.", "purchaseOrderNumber"),
        Column(
            "days_before_bill_due",
            INTEGER,
            "Days from bill date to due date; the organization's if NULL.",
            "daysBeforeBillDue",
        ),
        _FIELDS,
        *_VERSION,
    ),
)
PRODUCT: Final = Table(
    "product", "What customers buy. One row each.", (_ID, _CODE, _NAME, _FIELDS, *_VERSION)
)
METER: Final = Table(
    "meter",
    "Kinds of measurements. One row each; the measurements are in the table that it names.",
    (
        _ID,
        _CODE,
        _NAME,
        Column("table_name", TEXT, "The table of this file with its measurements.", "tableName"),
        Column("product_id", TEXT, "product.id; NULL for all products.", "productId"),
        Column("data_fields", JSON, "Its fields with category, code, name, unit.", "dataFields"),
        _FIELDS,
        *_VERSION,
    ),
)
AGGREGATION: Final = Table(
    "aggregation",
    "How one field of a meter becomes a quantity, and a quantity the units that are priced.",
    (
        _ID,
        _CODE,
        _NAME,
        Column("meter_id", TEXT, "meter.id.", "meterId"),
        Column("target_field", TEXT, "The code of the meter's field.", "targetField"),
        Column("method", TEXT, "SUM, MIN, MAX, COUNT, LATEST, MEAN or UNIQUE.", "aggregation"),
        Column(
            "quantity_per_unit", NUMBER, "A quantity divided by it is units.", "quantityPerUnit"
        ),
        Column("rounding", TEXT, "How units are rounded to whole ones.", "rounding"),
        Column("unit", TEXT, "What one unit is called.", "unit"),
        Column("default_value", NUMBER, "The quantity where nothing was used.", "defaultValue"),
        _FIELDS,
        *_VERSION,
    ),
)
PLAN: Final = Table(
    "plan",
    "What customers subscribe to, with what it takes over from its template. One row each.",
    (
        _ID,
        _CODE,
        _NAME,
        Column("plan_template_id", TEXT, "The id of its template.", "planTemplateId"),
        Column("plan_template_name", TEXT, "The name of its template.", "template.name"),
        Column("product_id", TEXT, "product.id.", "productId"),
        Column("currency", TEXT, "What its prices are in.", "template.currency"),
        Column("bill_frequency", TEXT, "How often it is billed.", "template.billFrequency"),
        Column(
            "standing_charge",
            NUMBER,
            "What a full period costs before any usage, in `currency`.",
            "effectiveStandingCharge",
        ),
        Column("account_id", TEXT, "account.id, if it is for one account only.", "accountId"),
        _FIELDS,
        *_VERSION,
    ),
)
PRICING: Final = Table(
    "pricing",
    "What units of an aggregation cost on a plan, or on all plans of a template. One row each.",
    (
        _ID,
        _CODE,
        Column("plan_id", TEXT, "plan.id; NULL if a template's.", "planId"),
        Column("plan_template_id", TEXT, "The template; NULL if a plan's.", "planTemplateId"),
        Column("aggregation_id", TEXT, "aggregation.id.", "aggregationId"),
        Column("start_date", INSTANT, "From when it holds, UTC, inclusive.", "startDate"),
        Column("end_date", INSTANT, "Until when, UTC, exclusive; NULL for ever.", "endDate"),
        Column(
            "cumulative",
            FLAG,
            "true: every band prices its part (tiered). false: the last band prices all (volume).",
            "cumulative",
        ),
        Column(
            "bands",
            JSON,
            "List of lowerLimit (exclusive), fixedPrice, unitPrice, in the plan's currency.",
            "pricingBands",
        ),
        Column("description", TEXT, "What it is for.", "description"),
        *_VERSION,
    ),
)
ACCOUNT_PLAN: Final = Table(
    "account_plan",
    "The time during which an account is on a plan. One row each.",
    (
        _ID,
        Column("account_id", TEXT, "account.id.", "accountId"),
        Column("plan_id", TEXT, "plan.id.", "planId"),
        Column("product_id", TEXT, "product.id of the plan.", "productId"),
        Column("start_date", INSTANT, "From when, UTC, inclusive.", "startDate"),
        Column("end_date", INSTANT, "Until when, UTC, exclusive; NULL for ever.", "endDate"),
        _FIELDS,
        *_VERSION,
    ),
)
BILL: Final = Table(
    "bill",
    "Bills: what an account owes for a period. One row each.",
    (
        _ID,
        Column("account", TEXT, "The account's code when it was billed.", "accountCode"),
        Column("account_id", TEXT, "account.id.", "accountId"),
        Column("month", TEXT, "The billed month, such as 2026-10.", "period"),
        Column("bill_date", DAY, "The first day after the period.", "billDate"),
        Column("due_date", DAY, "When it is to be paid.", "dueDate"),
        Column("start_date", DAY, "The first day of its period.", "startDate"),
        Column("end_date", DAY, "The day after the last of its period.", "endDate"),
        Column("timezone", TEXT, "Where its days begin and end.", "timezone"),
        Column("currency", TEXT, "What it is billed in.", "currency"),
        Column("total", NUMBER, "The sum of its lines, in `currency`.", "billTotal"),
        Column("status", TEXT, "PENDING or APPROVED.", "status"),
        Column("locked", FLAG, "Whether it can never change again.", "locked"),
        Column("snapshot", INTEGER, "The snapshot of the lake it was made from.", "pins.snapshot"),
        Column("pins", JSON, "Everything that it was made from, with versions.", "pins"),
        *_VERSION,
    ),
)
BILL_LINE: Final = Table(
    "bill_line",
    "The lines of bills. One row each.",
    (
        Column("bill_id", TEXT, "bill.id.", "billId"),
        Column("account", TEXT, "The account's code when it was billed.", "accountCode"),
        Column("account_id", TEXT, "account.id.", "accountId"),
        Column("month", TEXT, "The billed month, such as 2026-10.", "period"),
        Column("sequence_number", INTEGER, "Its place on the bill, from 1.", "sequenceNumber"),
        Column("type", TEXT, "What it charges for: USAGE, STANDING_CHARGE.", "lineItemType"),
        Column("description", TEXT, "What people read.", "description"),
        Column("product", TEXT, "The product's code when it was billed.", "productCode"),
        Column("product_id", TEXT, "product.id.", "productId"),
        Column("plan_id", TEXT, "plan.id.", "planId"),
        Column("meter_id", TEXT, "meter.id; NULL if it charges no usage.", "meterId"),
        Column("aggregation_id", TEXT, "aggregation.id; NULL if no usage.", "aggregationId"),
        Column("pricing_id", TEXT, "pricing.id; NULL if no usage.", "pricingId"),
        Column("service_start", INSTANT, "What it is for begins, UTC.", "servicePeriodStartDate"),
        Column("service_end", INSTANT, "What it is for ends, UTC.", "servicePeriodEndDate"),
        Column("quantity", NUMBER, "What was used, to 12 decimals.", "quantity"),
        Column("units", NUMBER, "What is priced, to 12 decimals.", "units"),
        Column("unit", TEXT, "What one unit is called.", "unit"),
        Column(
            "average_unit_price", NUMBER, "`subtotal` per unit, to 12 decimals.", "averageUnitPrice"
        ),
        Column("subtotal", NUMBER, "The amount in `currency`.", "subtotal"),
        Column("currency", TEXT, "The currency of the prices.", "currency"),
        Column("conversion_rate", NUMBER, "`bill_currency` per `currency`.", "conversionRate"),
        Column("amount", NUMBER, "What is paid, in `bill_currency`.", "convertedSubtotal"),
        Column("bill_currency", TEXT, "The currency of the bill.", "billCurrency"),
        Column("bands", JSON, "What each band of the pricing charges.", "bandUsage"),
        Column("made_from", JSON, "Snapshot and versions that it was made from.", "madeFrom"),
    ),
)
TABLES: Final = (
    ACCOUNT,
    PRODUCT,
    METER,
    AGGREGATION,
    PLAN,
    PRICING,
    ACCOUNT_PLAN,
    BILL,
    BILL_LINE,
)


class LakeTable(NamedTuple):
    """One table that is copied from the lake: its query, and the meaning of its columns."""

    name: str
    doc: str
    query: str
    columns: dict[str, str]


# Read where `account`, `meter` and `aggregation` are tables with `id` and `code`.
QUANTITY: Final = LakeTable(
    "quantity",
    "Quantities of all runs of the aggregation; `quantity_current` has those that count.",
    """
    SELECT q.run_id, q.month, a.code AS account, m.code AS meter, g.code AS aggregation,
        TRY_CAST(q.quantity AS DECIMAL(38,12)) AS quantity,
        TRY_CAST(q.units AS DECIMAL(38,12)) AS units, q.unit,
        q.measurements, q.period_start, q.period_end, q.quantity AS quantity_exact,
        q.units AS units_exact, q.snapshot, q.computed_at, q.account_id, q.meter_id,
        q.aggregation_id, q.aggregation_version
    FROM lake.quantity q
    LEFT JOIN account a ON a.id = q.account_id
    LEFT JOIN meter m ON m.id = q.meter_id
    LEFT JOIN aggregation g ON g.id = q.aggregation_id""",
    {
        "run_id": "The run that computed it.",
        "month": "The month, such as 2026-10, in the organization's time zone.",
        "account": "account.code.",
        "meter": "meter.code.",
        "aggregation": "aggregation.code.",
        "quantity": "What was used, to 12 decimals; NULL beyond 26 digits before the point.",
        "units": "The quantity per unit and rounded as the aggregation says, to 12 decimals.",
        "unit": "What one unit is called.",
        "measurements": "How many measurements of the account the month has.",
        "period_start": "The month begins, UTC, inclusive.",
        "period_end": "The month ends, UTC, exclusive.",
        "quantity_exact": "The quantity with all its digits.",
        "units_exact": "The units with all their digits.",
        "snapshot": "The snapshot of the lake that was read.",
        "computed_at": "When, UTC.",
        "account_id": "account.id.",
        "meter_id": "meter.id.",
        "aggregation_id": "aggregation.id.",
        "aggregation_version": "The version of the aggregation.",
    },
)
SOURCE: Final = LakeTable(
    "source",
    "The ledger: every attempt to ingest a file. received = accepted + repeats + rejected.",
    "SELECT * FROM lake.source",
    {
        "identity": "What makes it the same source: a digest of its bytes and constants.",
        "attempt": "From 1; the same bytes can be tried again.",
        "delivery": "Which arrival of the file it was.",
        "name": "The name of the file.",
        "sha256": "The digest of its bytes.",
        "size_bytes": "Its size.",
        "format": "csv, ndjson, json or parquet, and how it was compressed.",
        "mapping": "The mapping it was read with.",
        "status": "done, or failed if nothing of it could be read.",
        "reason": "Why it failed.",
        "detail": "What exactly was found.",
        "received_at": "When it arrived, UTC.",
        "finished_at": "When it was committed, UTC.",
        "received": "Rows that it has.",
        "accepted": "Rows that were stored.",
        "repeats": "Rows that had been stored before.",
        "rejected": "Rows that were not accepted.",
        "rounded": "Accepted rows with a number that had more than 12 decimals.",
        "reasons": "Rejected rows by reason, as JSON.",
        "versions": "The versions of the configuration, as JSON.",
        "incomplete": "Accepted rows that lack a derived value; see calculation_error.",
    },
)
REJECTED: Final = LakeTable(
    "rejected",
    "Rows that are rejected now: those of the last attempt at each source, without what was given"
    " in again.",
    """
    SELECT r.* FROM lake.rejected r SEMI JOIN (
        SELECT identity, max(attempt) AS attempt FROM lake.source
        WHERE status = 'done' GROUP BY identity
    ) newest USING (identity, attempt)
    ANTI JOIN lake.requeue USING (identity, row, part)""",
    {
        "identity": "source.identity.",
        "attempt": "source.attempt.",
        "name": "The name of the file.",
        "row": "The row or line of the file, from 1.",
        "part": "Which of several measurements of the row, from 0.",
        "meter": "The meter that the row names.",
        "uid": "The uid that the row has.",
        "reason": "Why, as one of few words.",
        "field": "The field that it is about.",
        "detail": "What exactly was found.",
        "original": "The row as it was delivered.",
        "measurement": "The row as a measurement of the wire, as JSON; NULL if it cannot be one.",
    },
)
CALCULATION_ERROR: Final = LakeTable(
    "calculation_error",
    "Derived values that stored measurements lack, as they could not be calculated.",
    """
    SELECT identity, attempt, name, row, part, meter, uid, field, detail, original
    FROM lake.calculation_error""",
    {
        "identity": "source.identity.",
        "attempt": "source.attempt.",
        "name": "The name of the file.",
        "row": "The row or line of the file, from 1.",
        "part": "Which of several measurements of the row, from 0.",
        "meter": "The meter.",
        "uid": "The uid of the measurement.",
        "field": "The derived field.",
        "detail": "Why it has no value.",
        "original": "The row as it was delivered.",
    },
)
LAKE_TABLES: Final = (QUANTITY, SOURCE, REJECTED, CALCULATION_ERROR)

# What stands before and behind the fields in the table of a meter.
MEASUREMENT_DOCS: Final = {
    "uid": "Unique for ever within the organization.",
    "account": "The account's code, or its id where it was deleted.",
    "account_id": "account.id.",
    "ts": "When it was used, UTC; decides the period.",
    "ets": "When the usage ended, UTC, if that was said.",
    "received_at": "When the source arrived, UTC.",
    "source": "source.identity of the file that it came from.",
    "row": "The row or line of that file, from 1.",
    "part": "Which of several measurements of the row, from 0.",
}

ABOUT: Final = (
    Column("organization", TEXT, "The organization's name.", "organization"),
    Column("organization_code", TEXT, "The organization's code.", "organizationCode"),
    Column("published_at", INSTANT, "When the file was made, UTC.", "publishedAt"),
    Column("snapshot", INTEGER, "The snapshot of the lake that it was made from.", "snapshot"),
    Column("meterlake", TEXT, "The version of meterlake that made it.", "meterlake"),
)
ABOUT_TABLE: Final = Table("about", "What this file is. One row.", ABOUT)
DICTIONARY: Final = Table(
    "dictionary",
    "Every table and view with its columns: start here.",
    (
        Column("name", TEXT, "The table or view.", "name"),
        Column("column_name", TEXT, "The column; NULL where the table itself is meant.", "column"),
        Column("type", TEXT, "table or view, or the column's type.", "type"),
        Column("meaning", TEXT, "What it means.", "meaning"),
    ),
)


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of a document, or None."""
    value: Any = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
