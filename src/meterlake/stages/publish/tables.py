"""The tables of the published file beside those of the meters: columns, types, meanings."""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from itertools import groupby
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from meterlake.model.bill_members import (
    BILL_MEMBERS,
    LINE_MEMBERS,
    BillMember,
    ShownIn,
    members_in,
)
from meterlake.model.late_usage import LateUsageStatus
from meterlake.model.ledger import LedgerAccountType, PostingKind
from meterlake.model.unbilled import Uncovered

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


_ID: Final = Column("id", TEXT, "Its id, for ever.", "id")
# What columns about one thing differ in.
_OF_ONE_THING: Final = re.compile(r"_(id|at|by)$")


def _bill_columns(members: Iterable[BillMember], *starts: str) -> tuple[Column, ...]:
    """The columns of bills or lines; what is about one thing, by name: locked, locked_at, locked_by."""
    columns = [
        Column(each.published_column, sql_type(each.type), each.meaning, each.name)
        for each in members_in(members, ShownIn.PUBLISHED, *starts)
    ]
    things = groupby(columns, lambda each: _OF_ONE_THING.sub("", each.name))
    return tuple(each for _, found in things for each in sorted(found))


BILL: Final = Table(
    "bill",
    "Bills: what an account owes for a period. One row each.",
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
    " over all accounts, what comes and what goes add up to 0.",
    (
        Column("sequence", INTEGER, "The order in which they were made.", "sequence"),
        _ID,
        Column("kind", TEXT, f"Why: {_listed(PostingKind)}.", "kind"),
        Column(
            "from_account",
            TEXT,
            f"What it is taken from: {_listed(LedgerAccountType)}, and an id behind `:`.",
            "fromAccount",
        ),
        Column("to_account", TEXT, "What gets it, in the same form.", "toAccount"),
        Column("amount", NUMBER, "How much, never below 0, in `currency`.", "amount"),
        Column("currency", TEXT, "The currency of the source.", "currency"),
        Column("change", NUMBER, "What it adds to the source; below 0 it takes away.", "change"),
        Column("source_id", TEXT, "balance.id or commitment.id that it is about.", "sourceId"),
        Column("bill_id", TEXT, "bill.id that drew it.", "billId"),
        Column("bill_version", INTEGER, "The version of that bill.", "billVersion"),
        Column("reverses", TEXT, "posting.id that it takes back.", "reverses"),
        Column("applied", INSTANT, "From when on it counts, UTC; NULL for always.", "applied"),
        Column("created", INSTANT, "When it was made, UTC.", "created"),
        Column("created_by", TEXT, "By whom.", "createdBy"),
    ),
)
UNBILLED_USAGE: Final = Table(
    "unbilled_usage",
    "Usage that no bill charges for, as the last run that billed the account in the month found it,"
    " and that of deleted bills, as it is now. One row for each account, meter, aggregation and time.",
    (
        Column("month", TEXT, "The billed month, such as 2026-10.", "month"),
        Column("account", TEXT, "The account's code when it was billed.", "accountCode"),
        Column("account_id", TEXT, "account.id; there may be no such account.", "accountId"),
        Column("meter", TEXT, "The meter's code; NULL of a compound aggregation.", "meterCode"),
        Column("meter_id", TEXT, "meter.id; NULL of a compound aggregation.", "meterId"),
        Column(
            "aggregation",
            TEXT,
            "aggregation.code, or compound_aggregation.code of a deleted bill; NULL if nothing that"
            " the meter is aggregated to has a price.",
            "aggregationCode",
        ),
        Column(
            "aggregation_id", TEXT, "aggregation.id or compound_aggregation.id.", "aggregationId"
        ),
        Column("reason", TEXT, f"Why: {_listed(Uncovered)}.", "reason"),
        Column("detail", TEXT, "More about the reason.", "detail"),
        Column("start", INSTANT, "The usage begins, UTC.", "startDateTimeUTC"),
        Column("end", INSTANT, "The usage ends, UTC.", "endDateTimeUTC"),
        Column("measurements", INTEGER, "How many measurements.", "measurements"),
        Column("quantity", NUMBER, "What was used.", "quantity"),
        Column("quantity_unit", TEXT, "What the quantity is a number of.", "quantityUnit"),
        Column("units", NUMBER, "What a price would be for.", "units"),
        Column("unit", TEXT, "What one unit is called.", "unit"),
        Column("snapshot", INTEGER, "The snapshot of the lake that was billed.", "snapshot"),
        Column("found", INSTANT, "When it was billed, or looked at, UTC.", "found"),
    ),
)
LATE_USAGE: Final = Table(
    "late_usage",
    "Usage that came, or went, after the bill of its period was made, and what was done about it."
    " One row each time that something was found about a bill.",
    (
        _ID,
        Column("account", TEXT, "account.code.", "accountCode"),
        Column("account_id", TEXT, "account.id.", "accountId"),
        Column("month", TEXT, "The billed month, such as 2026-10.", "period"),
        Column("bill_id", TEXT, "bill.id of the bill that lacks it.", "billId"),
        Column("bill_date", DAY, "The date of that bill.", "billDate"),
        Column("bill_version", INTEGER, "The version of the bill that lacks it.", "billVersion"),
        Column("status", TEXT, f"What was done: {_listed(LateUsageStatus)}.", "status"),
        Column("reason", TEXT, "Why nothing, or nothing else, was done.", "reason"),
        Column("difference", NUMBER, "What the bill would come to more.", "difference"),
        Column("currency", TEXT, "The currency of the bill.", "currency"),
        Column("measurements", INTEGER, "How many came; NULL if not counted.", "measurements"),
        Column("sources", JSON, "What brought it: files, backfills, bills.", "sources"),
        Column("new_bill_version", INTEGER, "The version that has it.", "newBillVersion"),
        Column(
            "found", INSTANT, "When it was found, or came if no run has looked, UTC.", "dtFound"
        ),
        Column("decided", INSTANT, "When it was decided, UTC.", "dtDecided"),
    ),
)
LATE_USAGE_LINE: Final = Table(
    "late_usage_line",
    "By how much late usage changes the lines of a bill, and which memo carries it. One row each.",
    (
        Column("late_usage_id", TEXT, "late_usage.id.", "lateUsageId"),
        Column("line_id", TEXT, "bill_line.id; NULL if the bill has no such line.", "lineItemId"),
        Column("description", TEXT, "What people read.", "description"),
        Column("amount", NUMBER, "The difference, in the currency of the bill.", "amount"),
        Column("memo_bill_id", TEXT, "bill.id of the bill with the memo.", "memoBillId"),
        Column("memo_line_id", TEXT, "bill_line.id of the memo.", "memoLineItemId"),
        Column("memo_amount", NUMBER, "What the memo carries, in `memo_currency`.", "memoAmount"),
        Column("memo_currency", TEXT, "The currency of the memo.", "memoCurrency"),
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
    "Quantities of all runs of the aggregation; `quantity_current` has those that count.",
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
        "month": "The month, such as 2026-10, if the run is about one.",
        "frequency": "DAILY, WEEKLY, MONTHLY, ANNUALLY or AD_HOC.",
        "period": "The run's period by its first day in the organization's time zone.",
        "account": "account.code.",
        "meter": "meter.code; NULL for compound aggregations.",
        "aggregation": "The code of the aggregation, simple or compound.",
        "kind": "aggregation or compound.",
        "segment": "The values of the segmented fields as JSON; NULL without segments.",
        "pooled": "parent: with what its children used; child: for information only, it is in the"
        " parent's; NULL otherwise.",
        "quantity": "What was used, to 12 decimals; NULL beyond 26 digits before the point.",
        "units": "The quantity per unit and rounded as the aggregation says, to 12 decimals.",
        "unit": "What one unit is called.",
        "measurements": "How many measurements of the account the period has; 0 for a default.",
        "period_start": "The account's own period begins, UTC, inclusive.",
        "period_end": "The account's own period ends, UTC, exclusive.",
        "quantity_exact": "The quantity with all its digits.",
        "units_exact": "The units with all their digits.",
        "snapshot": "The snapshot of the lake that was read.",
        "computed_at": "When, UTC.",
        "account_id": "account.id.",
        "meter_id": "meter.id.",
        "aggregation_id": "aggregation.id, or compound_aggregation.id.",
        "aggregation_version": "The version of the aggregation.",
        "statement_id": "quantity_statement.id within the same run; NULL for a default.",
    },
)
QUANTITY_STATEMENT: Final = LakeTable(
    "quantity_statement",
    "What the runs asked the lake for their quantities, so that anyone can ask it again.",
    "SELECT run_id, id, meter_id, sql, parameters, snapshot FROM lake.quantity_statement",
    {
        "run_id": "The run that asked it.",
        "id": "What rows of `quantity` of the run call it.",
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
    "Rows that are rejected now: those of the last attempt at each source. A row that was given in"
    " again and rejected again is still the same row, with the reason of its last try.",
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
RETRACTION: Final = LakeTable(
    "retraction",
    "Measurements that backfills withdrew; reverting a backfill takes its rows out.",
    "SELECT * FROM lake.retraction",
    {
        "backfill": "The id of the backfill.",
        "step": "backfill_step.step.",
        "identity": "source.identity of the file that they came from.",
        "row": "The row or line of that file, from 1.",
        "part": "Which of several measurements of the row, from 0.",
        "uid": "The uid, which is free since then.",
        "meter_id": "meter.id.",
        "reason": "Why, as whoever withdrew it said.",
        "retracted_at": "When, UTC.",
        "attempt": "source.attempt that had brought it; NULL if an older version withdrew it.",
    },
)
BACKFILL_STEP: Final = LakeTable(
    "backfill_step",
    "What backfills did to the lake: each is applied, perhaps reverted, perhaps applied again.",
    "SELECT * FROM lake.backfill_step",
    {
        "backfill": "The id of the backfill.",
        "step": "From 1; reverting and applying again are further steps.",
        "action": "apply or revert.",
        "mode": "retract, re-aggregate, re-derive or replace.",
        "author": "Who did it.",
        "reason": "Why, if that was said.",
        "snapshot": "The snapshot of the lake before it.",
        "done_at": "When, UTC.",
    },
)
LAKE_TABLES: Final = (
    *(QUANTITY, QUANTITY_STATEMENT, SOURCE, REJECTED, CALCULATION_ERROR),
    *(RETRACTION, BACKFILL_STEP),
)

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
    Column("timezone", TEXT, "The organization's time zone; its days are those.", "timezone"),
    Column(
        "published_at", INSTANT, "When it was made, UTC; when it was asked, live.", "publishedAt"
    ),
    Column("snapshot", INTEGER, "The snapshot of the lake that it was made from.", "snapshot"),
    Column("meterlake", TEXT, "The version of meterlake that made it.", "meterlake"),
    Column("publication", TEXT, "The name of this publication; NULL live.", "publication"),
)
ABOUT_TABLE: Final = Table("about", "What this is, of whom and from when. One row.", ABOUT)
DICTIONARY: Final = Table(
    "dictionary",
    "Every table and view with its columns: start here.",
    (
        Column("name", TEXT, "The table or view.", "name"),
        Column("column_name", TEXT, "The column; NULL where the table itself is meant.", "column"),
        Column("type", TEXT, "table, view or macro, or the column's type.", "type"),
        Column("meaning", TEXT, "What it means.", "meaning"),
    ),
)


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of a document, or None."""
    value: Any = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
