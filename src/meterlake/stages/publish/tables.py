"""The tables of the published file beside those of the meters: columns, types, meanings."""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from itertools import groupby
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from meterlake.model.bills.late_usage import LateUsageStatus
from meterlake.model.bills.ledger import LedgerAccountType, PostingKind
from meterlake.model.bills.members import (
    BILL_MEMBERS,
    LINE_MEMBERS,
    BillMember,
    ShownIn,
    members_in,
)
from meterlake.model.bills.unbilled import Uncovered

NUMBER: Final = "DECIMAL(38,12)"
TEXT: Final = "VARCHAR"
INSTANT: Final = "TIMESTAMP"
DAY: Final = "DATE"
INTEGER: Final = "BIGINT"
FLAG: Final = "BOOLEAN"
JSON: Final = "JSON"
_TYPES: Final = {
    bool: FLAG,
    int: INTEGER,
    Decimal: NUMBER,
    datetime: INSTANT,
    date: DAY,
    str: TEXT,
}


class PublishedColumn(NamedTuple):
    """One column: its name, its SQL type, what it means, and where its value stands in a document."""

    name: str
    type: str
    doc: str
    path: str


class Table(NamedTuple):
    """One table that is filled from documents in the shape of the wire."""

    name: str
    doc: str
    columns: tuple[PublishedColumn, ...]


def sql_type(annotation: Any) -> str:
    """The SQL type of a field; whatever is no single value is JSON.

    >>> sql_type(Decimal | None)
    'DECIMAL(38,12)'
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return sql_type(inner[0])
    if origin in {Union, UnionType}:
        kinds = {sql_type(each) for each in inner if each is not NoneType}
        return kinds.pop() if len(kinds) == 1 else JSON
    if origin is Literal:
        return TEXT
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return TEXT
    return _TYPES.get(annotation, JSON)


def _listed(kind: type[StrEnum]) -> str:
    return ", ".join(kind)


_ID: Final = PublishedColumn("id", TEXT, "Its id, for ever.", "id")
# What columns about one thing differ in.
_OF_ONE_THING: Final = re.compile(r"_(id|at|by)$")


def _bill_columns(members: Iterable[BillMember], *starts: str) -> tuple[PublishedColumn, ...]:
    """The columns of bills or lines; what is about one thing, by name: locked, locked_at, locked_by."""
    columns = [
        PublishedColumn(each.published_column, sql_type(each.type), each.meaning, each.name)
        for each in members_in(members, ShownIn.PUBLISHED, *starts)
    ]
    things = groupby(columns, lambda each: _OF_ONE_THING.sub("", each.name))
    return tuple(each for _, found in things for each in sorted(found))


BILL: Final = Table(
    "bill",
    "Bills: the debt of an account for a period. One row each.",
    _bill_columns(
        BILL_MEMBERS,
        *("id", "accountId", "period", "billDate", "sequentialInvoiceNumber", "billingFrequency"),
        *("purchaseOrderNumber", "startDate", "timezone", "currency", "billTotal", "status"),
        *("version", "dtCreated"),
    ),
)
BILL_LINE: Final = Table(
    "bill_line", "The lines of bills. One row each.", _bill_columns(LINE_MEMBERS)
)
POSTING: Final = Table(
    "posting",
    "The ledger of balances and commitments: money goes from one account to another. One row each;"
    " over all accounts, the amounts that come and go add up to 0.",
    (
        PublishedColumn("sequence", INTEGER, "The order of the postings.", "sequence"),
        _ID,
        PublishedColumn("kind", TEXT, f"The reason: {_listed(PostingKind)}.", "kind"),
        PublishedColumn(
            "from_account",
            TEXT,
            f"The account that pays: {_listed(LedgerAccountType)}, and an id after `:`.",
            "fromAccount",
        ),
        PublishedColumn(
            "to_account", TEXT, "The account that gets it, in the same form.", "toAccount"
        ),
        PublishedColumn("amount", NUMBER, "The amount, never below 0, in `currency`.", "amount"),
        PublishedColumn("currency", TEXT, "The currency of the source.", "currency"),
        PublishedColumn(
            "change",
            NUMBER,
            "The amount that it adds to the source; below 0 it takes away.",
            "change",
        ),
        PublishedColumn(
            "source_id", TEXT, "balance.id or commitment.id of the source.", "sourceId"
        ),
        PublishedColumn("bill_id", TEXT, "bill.id of the bill that drew it.", "billId"),
        PublishedColumn("bill_version", INTEGER, "The version of that bill.", "billVersion"),
        PublishedColumn(
            "reverses", TEXT, "posting.id of the posting that it takes back.", "reverses"
        ),
        PublishedColumn(
            "applied", INSTANT, "It counts from then on, UTC; NULL for always.", "applied"
        ),
        PublishedColumn("created", INSTANT, "The time of the posting, UTC.", "created"),
        PublishedColumn("created_by", TEXT, "Its author.", "createdBy"),
    ),
)
UNBILLED_USAGE: Final = Table(
    "unbilled_usage",
    "Usage that no bill charges for: as the last bill run found it, and of deleted bills as it is now."
    " One row for each account, meter, aggregation and time.",
    (
        PublishedColumn("month", TEXT, "The billed month, such as 2026-10.", "month"),
        PublishedColumn(
            "account", TEXT, "The account's code at the time of the run.", "accountCode"
        ),
        PublishedColumn("account_id", TEXT, "account.id; the account may be gone.", "accountId"),
        PublishedColumn(
            "meter", TEXT, "The meter's code; NULL of a compound aggregation.", "meterCode"
        ),
        PublishedColumn("meter_id", TEXT, "meter.id; NULL of a compound aggregation.", "meterId"),
        PublishedColumn(
            "aggregation",
            TEXT,
            "aggregation.code, or compound_aggregation.code of a deleted bill; NULL if no"
            " aggregation of the meter has a price.",
            "aggregationCode",
        ),
        PublishedColumn(
            "aggregation_id", TEXT, "aggregation.id or compound_aggregation.id.", "aggregationId"
        ),
        PublishedColumn("reason", TEXT, f"The reason: {_listed(Uncovered)}.", "reason"),
        PublishedColumn("detail", TEXT, "More about the reason.", "detail"),
        PublishedColumn("start", INSTANT, "The usage begins, UTC.", "startDateTimeUTC"),
        PublishedColumn("end", INSTANT, "The usage ends, UTC.", "endDateTimeUTC"),
        PublishedColumn("measurements", INTEGER, "The number of measurements.", "measurements"),
        PublishedColumn("quantity", NUMBER, "The quantity of the usage.", "quantity"),
        PublishedColumn("quantity_unit", TEXT, "The unit of the quantity.", "quantityUnit"),
        PublishedColumn("units", NUMBER, "The units that a price would charge for.", "units"),
        PublishedColumn("unit", TEXT, "The name of one unit.", "unit"),
        PublishedColumn(
            "snapshot", INTEGER, "The snapshot of the lake that the run read.", "snapshot"
        ),
        PublishedColumn("found", INSTANT, "The time of the run, or of the query, UTC.", "found"),
    ),
)
LATE_USAGE: Final = Table(
    "late_usage",
    "Usage that came, or went, after the bill of its period, and the action on it."
    " One row for each finding about a bill.",
    (
        _ID,
        PublishedColumn("account", TEXT, "account.code.", "accountCode"),
        PublishedColumn("account_id", TEXT, "account.id.", "accountId"),
        PublishedColumn("month", TEXT, "The billed month, such as 2026-10.", "period"),
        PublishedColumn("bill_id", TEXT, "bill.id of the bill that lacks it.", "billId"),
        PublishedColumn("bill_date", DAY, "The date of that bill.", "billDate"),
        PublishedColumn(
            "bill_version", INTEGER, "The version of the bill that lacks it.", "billVersion"
        ),
        PublishedColumn("status", TEXT, f"The action: {_listed(LateUsageStatus)}.", "status"),
        PublishedColumn("reason", TEXT, "The reason for no action, or for this one.", "reason"),
        PublishedColumn(
            "difference", NUMBER, "The amount that the bill would have more.", "difference"
        ),
        PublishedColumn("currency", TEXT, "The currency of the bill.", "currency"),
        PublishedColumn(
            "measurements", INTEGER, "The number of measurements; NULL if unknown.", "measurements"
        ),
        PublishedColumn("sources", JSON, "Its origin: files, backfills, bills.", "sources"),
        PublishedColumn("new_bill_version", INTEGER, "The version that has it.", "newBillVersion"),
        PublishedColumn(
            "found",
            INSTANT,
            "When a run found it, or when it came if no run has looked, UTC.",
            "dtFound",
        ),
        PublishedColumn("decided", INSTANT, "The time of the decision, UTC.", "dtDecided"),
    ),
)
LATE_USAGE_LINE: Final = Table(
    "late_usage_line",
    "The change that late usage makes to lines of a bill, and its memos. One row each.",
    (
        PublishedColumn("late_usage_id", TEXT, "late_usage.id.", "lateUsageId"),
        PublishedColumn(
            "line_id", TEXT, "bill_line.id; NULL if the bill has no such line.", "lineItemId"
        ),
        PublishedColumn("description", TEXT, "The text of the line.", "description"),
        PublishedColumn("amount", NUMBER, "The difference, in the currency of the bill.", "amount"),
        PublishedColumn("memo_bill_id", TEXT, "bill.id of the bill with the memo.", "memoBillId"),
        PublishedColumn("memo_line_id", TEXT, "bill_line.id of the memo.", "memoLineItemId"),
        PublishedColumn(
            "memo_amount", NUMBER, "The amount of the memo, in `memo_currency`.", "memoAmount"
        ),
        PublishedColumn("memo_currency", TEXT, "The currency of the memo.", "memoCurrency"),
    ),
)
# Filled from State, beside those of the entities.
BILL_TABLES: Final = (BILL, BILL_LINE, POSTING, UNBILLED_USAGE, LATE_USAGE, LATE_USAGE_LINE)


class LakeTable(NamedTuple):
    """One table that is copied from the lake: its query, and the meaning of its columns."""

    name: str
    doc: str
    query: str
    columns: dict[str, str]


# Read where `account`, `meter`, `aggregation` and `compound_aggregation` are tables with `id` and
# `code`. Runs of older versions are all about months.
QUANTITY: Final = LakeTable(
    "quantity",
    "Quantities of all runs of the aggregation; `quantity_current` has the current ones.",
    """
    SELECT q.run_id, q.month, coalesce(q.frequency, 'MONTHLY') AS frequency,
        coalesce(q.period, q.month) AS period, a.code AS account, m.code AS meter,
        coalesce(g.code, c.code) AS aggregation, coalesce(q.kind, 'aggregation') AS kind,
        q.segment, q.pooled,
        TRY_CAST(q.quantity AS DECIMAL(38,12)) AS quantity,
        TRY_CAST(q.units AS DECIMAL(38,12)) AS units, q.unit,
        q.measurements, q.period_start, q.period_end, q.quantity AS quantity_exact,
        q.units AS units_exact, q.snapshot, q.computed_at, q.account_id, q.meter_id,
        q.aggregation_id, q.aggregation_version, q.statement_id
    FROM lake.quantity q
    LEFT JOIN account a ON a.id = q.account_id
    LEFT JOIN meter m ON m.id = q.meter_id
    LEFT JOIN aggregation g ON g.id = q.aggregation_id
    LEFT JOIN compound_aggregation c ON c.id = q.aggregation_id""",
    {
        "run_id": "The run that computed it.",
        "month": "The month of the run, such as 2026-10, if it has one.",
        "frequency": "DAILY, WEEKLY, MONTHLY, ANNUALLY or AD_HOC.",
        "period": "The run's period, named by its first day in the organization's time zone.",
        "account": "account.code.",
        "meter": "meter.code; NULL for compound aggregations.",
        "aggregation": "The code of the aggregation, simple or compound.",
        "kind": "aggregation or compound.",
        "segment": "The values of the segmented fields as JSON; NULL without segments.",
        "pooled": "parent: with the usage of its children; child: for information only, since the"
        " parent's contains it; NULL otherwise.",
        "quantity": "The quantity, to 12 decimals; NULL beyond 26 digits before the point.",
        "units": "The units of the quantity, rounded by the rule of the aggregation, to 12 decimals.",
        "unit": "The name of one unit.",
        "measurements": "The number of the account's measurements in the period; 0 for a default.",
        "period_start": "The account's own period begins, UTC, inclusive.",
        "period_end": "The account's own period ends, UTC, exclusive.",
        "quantity_exact": "The quantity with all its digits.",
        "units_exact": "The units with all their digits.",
        "snapshot": "The snapshot of the lake that the run read.",
        "computed_at": "The time of the run, UTC.",
        "account_id": "account.id.",
        "meter_id": "meter.id.",
        "aggregation_id": "aggregation.id, or compound_aggregation.id.",
        "aggregation_version": "The version of the aggregation.",
        "statement_id": "quantity_statement.id within the same run; NULL for a default.",
    },
)
QUANTITY_STATEMENT: Final = LakeTable(
    "quantity_statement",
    "The queries of runs for their quantities, so that you can run them again.",
    "SELECT run_id, id, meter_id, sql, parameters, snapshot FROM lake.quantity_statement",
    {
        "run_id": "The run of the query.",
        "id": "Its name in the rows of `quantity` of the run.",
        "meter_id": "meter.id; NULL for the calculation of a compound aggregation.",
        "sql": "The query, or the calculation.",
        "parameters": "The values of its parameters as JSON.",
        "snapshot": "The snapshot of the lake that it names.",
    },
)
SOURCE: Final = LakeTable(
    "source",
    "The ledger: every attempt to ingest a file. received = accepted + repeats + rejected.",
    "SELECT * FROM lake.source",
    {
        "identity": "A digest of its bytes and constants, by which meterlake knows the same source again.",
        "attempt": "From 1; the same bytes can be tried again.",
        "delivery": "The arrival of the file.",
        "name": "The name of the file.",
        "sha256": "The digest of its bytes.",
        "size_bytes": "Its size.",
        "format": "csv, ndjson, json or parquet, and its compression.",
        "mapping": "The mapping that read it.",
        "status": "done, or failed if no row is readable.",
        "reason": "The reason of the failure.",
        "detail": "The finding in detail.",
        "received_at": "The time of its arrival, UTC.",
        "finished_at": "The time of its commit, UTC.",
        "received": "The number of its rows.",
        "accepted": "Rows that the lake has stored.",
        "repeats": "Rows that the lake had already.",
        "rejected": "Rows that broke a rule.",
        "rounded": "Accepted rows with a number of more than 12 decimals.",
        "reasons": "Rejected rows by reason, as JSON.",
        "versions": "The versions of the configuration, as JSON.",
        "incomplete": "Accepted rows that lack a derived value; see calculation_error.",
    },
)
REJECTED: Final = LakeTable(
    "rejected",
    "Rejected rows that wait now: those of the last attempt at each source. If you requeue a row and it"
    " breaks a rule again, it is still the same row, with the reason of its last try.",
    # `item` stands before it: rejected rows as people mend them, each once.
    """
    SELECT identity, attempt, name, row, part, meter, uid, reason, field, detail, original,
        measurement
    FROM item WHERE status = 'open'""",
    {
        "identity": "source.identity.",
        "attempt": "source.attempt.",
        "name": "The name of the file.",
        "row": "The row or line of the file, from 1.",
        "part": "The number of the measurement in the row, from 0.",
        "meter": "The meter that the row names.",
        "uid": "The uid that the row has.",
        "reason": "The reason, one of a few words.",
        "field": "The field that breaks the rule.",
        "detail": "The finding in detail.",
        "original": "The row as it arrived.",
        "measurement": "The row as a measurement of the API, as JSON; NULL if it cannot be one.",
    },
)
CALCULATION_ERROR: Final = LakeTable(
    "calculation_error",
    "Derived values that stored measurements lack, because their calculation failed.",
    """
    SELECT identity, attempt, name, row, part, meter, uid, field, detail, original
    FROM lake.calculation_error""",
    {
        "identity": "source.identity.",
        "attempt": "source.attempt.",
        "name": "The name of the file.",
        "row": "The row or line of the file, from 1.",
        "part": "The number of the measurement in the row, from 0.",
        "meter": "The meter.",
        "uid": "The uid of the measurement.",
        "field": "The derived field.",
        "detail": "The reason why it has no value.",
        "original": "The row as it arrived.",
    },
)
RETRACTION: Final = LakeTable(
    "retraction",
    "Measurements that backfills withdrew; if you revert a backfill, its rows disappear.",
    "SELECT * FROM lake.retraction",
    {
        "backfill": "The id of the backfill.",
        "step": "backfill_step.step.",
        "identity": "source.identity of the file that brought them.",
        "row": "The row or line of that file, from 1.",
        "part": "The number of the measurement in the row, from 0.",
        "uid": "The uid, which is free since then.",
        "meter_id": "meter.id.",
        "reason": "The reason that its author gave.",
        "retracted_at": "The time of the withdrawal, UTC.",
        "attempt": "source.attempt that had brought it; NULL if an older version withdrew it.",
    },
)
BACKFILL_STEP: Final = LakeTable(
    "backfill_step",
    "Steps of backfills in the lake: you apply each, perhaps revert it, perhaps apply it again.",
    "SELECT * FROM lake.backfill_step",
    {
        "backfill": "The id of the backfill.",
        "step": "From 1; to revert and to apply again are further steps.",
        "action": "apply or revert.",
        "mode": "retract, re-aggregate, re-derive or replace.",
        "author": "Its author.",
        "reason": "The reason, if its author gave one.",
        "snapshot": "The snapshot of the lake before it.",
        "done_at": "The time of the step, UTC.",
    },
)
LAKE_TABLES: Final = (
    *(QUANTITY, QUANTITY_STATEMENT, SOURCE, REJECTED, CALCULATION_ERROR),
    *(RETRACTION, BACKFILL_STEP),
)

# What stands before and behind the fields in the table of a meter.
MEASUREMENT_DOCS: Final = {
    "uid": "Unique for ever within the organization.",
    "account": "The account's code, or its id if you have deleted it.",
    "account_id": "account.id.",
    "ts": "The instant of the usage, UTC; it decides the period.",
    "ets": "The end of the usage, UTC, if the measurement has one.",
    "received_at": "The time of the source's arrival, UTC.",
    "source": "source.identity of the file that brought it.",
    "row": "The row or line of that file, from 1.",
    "part": "The number of the measurement in the row, from 0.",
}

ABOUT: Final = (
    PublishedColumn("organization", TEXT, "The organization's name.", "organization"),
    PublishedColumn("organization_code", TEXT, "The organization's code.", "organizationCode"),
    PublishedColumn(
        "timezone", TEXT, "The organization's time zone, which decides its days.", "timezone"
    ),
    PublishedColumn(
        "published_at",
        INSTANT,
        "The time of publication, UTC; live, the time of the query.",
        "publishedAt",
    ),
    PublishedColumn("snapshot", INTEGER, "The snapshot of the lake behind it.", "snapshot"),
    PublishedColumn("meterlake", TEXT, "The version of meterlake that made it.", "meterlake"),
    PublishedColumn("publication", TEXT, "The name of this publication; NULL live.", "publication"),
)
ABOUT_TABLE: Final = Table("about", "The publication: whose it is, and its time. One row.", ABOUT)
DICTIONARY: Final = Table(
    "dictionary",
    "Every table and view with its columns: start here.",
    (
        PublishedColumn("name", TEXT, "The table or view.", "name"),
        PublishedColumn("column_name", TEXT, "The column; NULL for the table itself.", "column"),
        PublishedColumn("type", TEXT, "table, view or macro, or the column's type.", "type"),
        PublishedColumn("meaning", TEXT, "Its meaning.", "meaning"),
    ),
)


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of a document, or None."""
    value: Any = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
