"""The views of both doors: what an analyst would start with."""

from collections.abc import Sequence
from datetime import UTC, tzinfo
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote

from meterlake.model.bills.bill import COUNTER_TYPES, LineItemType
from meterlake.model.values.sql import identifier, local_time
from meterlake.stages.publish.entities import ENTITY_TABLES
from meterlake.stages.publish.tables import ABOUT_TABLE, BILL_TABLES, DICTIONARY, LAKE_TABLES, Table


class View(NamedTuple):
    """One view: its query, and the meaning of its columns."""

    name: str
    doc: str
    query: str
    columns: dict[str, str]


class MeterTable(NamedTuple):
    """The table of one meter; `numbers` are the columns and units of its numeric fields."""

    name: str
    code: str
    numbers: tuple[tuple[str, str | None], ...]


QUANTITY_CURRENT: Final = View(
    "quantity_current",
    "The current quantities: those of the newest run of every period.",
    """
    SELECT month, frequency, period, account, meter, aggregation, kind, segment, pooled,
        quantity, units, unit, measurements, period_start, period_end,
        quantity_exact, units_exact, account_id, meter_id, aggregation_id, computed_at
    FROM quantity SEMI JOIN (
        SELECT arg_max(run_id, (computed_at, run_id)) AS run_id
        FROM quantity GROUP BY frequency, period
    ) newest USING (run_id)
    WHERE account_id IS NOT NULL""",
    {
        "month": "The month of the run, such as 2026-10, if it has one.",
        "frequency": "DAILY, WEEKLY, MONTHLY, ANNUALLY or AD_HOC; add up one of them only.",
        "period": "The run's period, named by its first day in the organization's time zone.",
        "account": "account.code.",
        "meter": "meter.code; NULL for compound aggregations.",
        "aggregation": "The code of the aggregation, simple or compound.",
        "kind": "aggregation or compound.",
        "segment": "The values of the segmented fields as JSON; NULL without segments.",
        "pooled": "parent, child or NULL; the parent's quantity already contains the child's usage.",
        "quantity": "The quantity, to 12 decimals.",
        "units": "The priced units, to 12 decimals.",
        "unit": "The name of one unit.",
        "measurements": "The number of the account's measurements in the period.",
        "period_start": "The account's own period begins, UTC, inclusive.",
        "period_end": "The account's own period ends, UTC, exclusive.",
        "quantity_exact": "`quantity` as text, with all its digits.",
        "units_exact": "`units` as text, with all its digits.",
        "account_id": "account.id.",
        "meter_id": "meter.id; NULL for compound aggregations.",
        "aggregation_id": "aggregation.id or compound_aggregation.id.",
        "computed_at": "The time of the run, UTC.",
    },
)


class BillPart(NamedTuple):
    """A part of a bill's total: lines of some types."""

    column: str
    doc: str
    types: tuple[LineItemType, ...]

    @property
    def sql(self) -> str:
        """The expression of its column, over the lines `l` of a bill."""
        listed = ", ".join(f"'{each}'" for each in self.types)
        total = f"coalesce(sum(l.amount) FILTER (l.type IN ({listed})), 0)"
        return f"{total}::DECIMAL(38,12) AS {self.column}"


# Every type of line is in one of them: they add up to the total.
BILL_PARTS: Final = (
    BillPart(
        "usage",
        "The part for usage, with overage beyond a commitment or balance.",
        (LineItemType.USAGE, LineItemType.OVERAGE_USAGE, LineItemType.OVERAGE_SURCHARGE),
    ),
    BillPart(
        "counters",
        "The part for counters.",
        COUNTER_TYPES,
    ),
    BillPart(
        "standing_charge",
        "The part that does not depend on usage.",
        (LineItemType.STANDING_CHARGE,),
    ),
    BillPart(
        "minimum_spend",
        "The amounts up to minimum spends; below 0 refunds of them.",
        (LineItemType.MINIMUM_SPEND, LineItemType.MINIMUM_SPEND_REFUND),
    ),
    BillPart(
        "fees",
        "Fees of commitments and balances.",
        (LineItemType.COMMITMENT_FEE, LineItemType.BALANCE_FEE),
    ),
    BillPart("ad_hoc", "Charges of the account itself.", (LineItemType.AD_HOC,)),
    BillPart(
        "credits",
        "The amounts that credit pricings take off, not above 0.",
        (LineItemType.USAGE_CREDIT, LineItemType.CREDIT_DEDUCTION),
    ),
    BillPart(
        "consumed",
        "The amounts that commitments and balances pay, not above 0.",
        (LineItemType.COMMITMENT_CONSUMED, LineItemType.BALANCE_CONSUMED),
    ),
    BillPart(
        "memos",
        "Credits, debits and other corrections.",
        (LineItemType.CREDIT_MEMO, LineItemType.DEBIT_MEMO, LineItemType.MANUAL_ADJUSTMENT),
    ),
)
BILL_PER_ACCOUNT: Final = View(
    "bill_per_account",
    "The payment of every account per month, in parts that add up to the total.",
    f"""
    SELECT b.month, b.account, b.currency, b.total,
        {", ".join(part.sql for part in BILL_PARTS)},
        count(l.bill_id) AS lines, b.status, b.locked, b.due_date, b.id AS bill_id
    FROM bill b LEFT JOIN bill_line l ON l.bill_id = b.id
    GROUP BY ALL ORDER BY b.month, b.total DESC, b.account""",
    {
        "month": "The billed month, such as 2026-10.",
        "account": "The account's code on the bill.",
        "currency": "The currency of the amounts.",
        "total": "The amount to pay.",
        **{part.column: part.doc for part in BILL_PARTS},
        "lines": "The number of lines of the bill.",
        "status": "PENDING or APPROVED.",
        "locked": "Whether the bill can never change again.",
        "due_date": "The last day to pay.",
        "bill_id": "bill.id.",
    },
)
INGEST_HEALTH: Final = View(
    "ingest_health",
    "The rows of each day (UTC) by outcome. received = accepted + repeats + rejected.",
    """
    SELECT finished_at::DATE AS day, count(*) AS sources,
        count(*) FILTER (status = 'failed') AS failed,
        coalesce(sum(received), 0)::BIGINT AS received,
        coalesce(sum(accepted), 0)::BIGINT AS accepted,
        coalesce(sum(repeats), 0)::BIGINT AS repeats,
        coalesce(sum(rejected), 0)::BIGINT AS rejected,
        coalesce(sum(incomplete), 0)::BIGINT AS incomplete,
        max(finished_at) AS last_finished
    FROM source GROUP BY day ORDER BY day""",
    {
        "day": "The day, UTC.",
        "sources": "Attempts to ingest a file.",
        "failed": "Attempts of which no row is readable.",
        "received": "The number of their rows.",
        "accepted": "Rows that the lake has stored.",
        "repeats": "Rows that the lake had already.",
        "rejected": "Rows that broke a rule.",
        "incomplete": "Stored rows that lack a derived value.",
        "last_finished": "The time of the last commit, UTC.",
    },
)
REJECTED_PER_REASON: Final = View(
    "rejected_per_reason",
    "Rejected rows that wait now, by reason, with one of them as an example.",
    """
    SELECT reason, meter, field, count(*) AS rows, count(DISTINCT name) AS files,
        min(detail) AS example
    FROM rejected GROUP BY reason, meter, field ORDER BY rows DESC, reason""",
    {
        "reason": "The reason.",
        "meter": "The meter that the rows name.",
        "field": "The field that breaks the rule.",
        "rows": "The number of rows.",
        "files": "The number of their files.",
        "example": "The finding in one of them.",
    },
)
_USAGE_PER_DAY: Final = "usage_per_day"
_USAGE_PER_UTC_DAY: Final = "usage_per_utc_day"
_MISSING_USAGE: Final = "missing_usage"
# An account is expected to go on: from its first month of a meter on, in each month in which anybody
# has measurements of it. Of rejected rows, what they say themselves counts.
_MISSING: Final = """
    WITH used AS (
        SELECT strftime(day, '%Y-%m') AS month, meter, account, sum(n)::BIGINT AS measurements
        FROM (SELECT day, meter, account, max(measurements) AS n FROM usage_per_day GROUP BY ALL)
        GROUP BY ALL
    ), waiting AS (
        SELECT strftime({local}, '%Y-%m') AS month, meter, account, count(*) AS rejected
        FROM (
            SELECT meter, measurement ->> 'account' AS account,
                timezone('UTC', TRY_CAST(measurement ->> 'ts' AS TIMESTAMPTZ)) AS ts
            FROM rejected
        ) GROUP BY ALL
    ), expected AS (
        SELECT later.month, first.meter, first.account
        FROM (SELECT meter, account, min(month) AS month FROM used GROUP BY ALL) first
        JOIN (SELECT DISTINCT month, meter FROM used) later
            ON later.meter = first.meter AND later.month > first.month
        UNION SELECT month, meter, account FROM waiting
    )
    SELECT e.month, e.account, e.meter, coalesce(u.measurements, 0) AS measurements,
        coalesce(w.rejected, 0) AS rejected
    FROM expected e
    LEFT JOIN used u USING (month, meter, account)
    LEFT JOIN waiting w ON (w.month, w.meter, w.account)
        IS NOT DISTINCT FROM (e.month, e.meter, e.account)
    WHERE u.measurements IS NULL OR w.rejected IS NOT NULL
    ORDER BY e.month DESC, rejected DESC, e.account, e.meter"""
_USAGE_DOCS: Final = {
    "meter": "meter.code.",
    "account": "account.code.",
    "field": "The column of the meter's table.",
    "unit": "The unit of the field.",
    "total": "The sum of the field; NULL beyond 26 digits before the point.",
    "measurements": "The number of measurements.",
}
# DuckDB ends a query, or is wrong in silence, where values sum up to more than 38 digits. Large ones
# are added apart from the others, so that one of them spoils no other total, and small ones cost
# what they always do.
_SMALL: Final = "{v} BETWEEN -1000000000000000 AND 1000000000000000"
_SUMS: Final = (
    f"sum(CASE WHEN {_SMALL} THEN {{v}} END) AS small,"
    f" sum(CASE WHEN NOT {_SMALL} THEN trunc({{v}}) END) AS whole,"
    f" sum(CASE WHEN NOT {_SMALL} THEN {{v}} - trunc({{v}}) END) AS rest, "
)
_TOTAL: Final = "TRY(coalesce(whole::DECIMAL(38,12) + rest + coalesce(small, 0), small))"
_ORGANIZATION: Final = "of the organization's time zone"
# Minutes are counted from the year 1: before 1970, division would round the other way.
_MINUTE_US: Final = 60_000_000
_EPOCH_US: Final = 62_135_596_800_000_000
_MINUTE: Final = f"((epoch_us({{ts}}) + {_EPOCH_US}) // {_MINUTE_US})"
_NO_USAGE: Final = """
    SELECT NULL::DATE AS day, NULL::VARCHAR AS meter, NULL::VARCHAR AS account,
        NULL::VARCHAR AS field, NULL::VARCHAR AS unit, NULL::DECIMAL(38,12) AS total,
        0::BIGINT AS measurements
    WHERE false"""

FIXED_VIEWS: Final = (QUANTITY_CURRENT, BILL_PER_ACCOUNT, INGEST_HEALTH, REJECTED_PER_REASON)

# The schema of the published file in which the names stand for a lake that its reader attaches.
LIVE: Final = "live"
# What is filled from State, in this order.
STATE_TABLES: Final[tuple[Table, ...]] = (
    *(table for each in ENTITY_TABLES for table in (each.current, each.history)),
    *BILL_TABLES,
)
# File systems take names of 255 bytes; a character of four bytes is twelve when it is quoted.
_FOLDER_MAX: Final = 200
_CUT: Final = 15
# Names that no table of a meter can have.
TAKEN: Final = frozenset(
    {table.name for table in (*STATE_TABLES, ABOUT_TABLE, DICTIONARY)}
    | {table.name for table in LAKE_TABLES}
    | {view.name for view in FIXED_VIEWS}
    | {_USAGE_PER_DAY, _USAGE_PER_UTC_DAY, _MISSING_USAGE}
)


def table_name(code: str, taken: set[str]) -> str:
    """The name of a meter's table: its code, or `meter_<code>` where that is taken.

    DuckDB takes names that differ only in case for the same.
    """
    name = code
    while name.casefold() in taken | TAKEN:
        name = f"meter_{name}"
    taken.add(name.casefold())
    return name


def folder_name(name: str) -> str:
    """A table's name as that of a folder: what paths cannot hold, or globs read, is `%` and hex.

    A name that is too long for a folder is cut, with a digest of the whole behind it.

    >>> folder_name("a/b")
    'a%2Fb'
    """
    folder = quote(name, safe=" ") if name.strip(".") else name.replace(".", "%2E")
    if len(folder) <= _FOLDER_MAX:
        return folder
    return f"{quote(name[:_CUT], safe=' ')}~{sha256(name.encode()).hexdigest()[:16]}"


def usage_views(meters: Sequence[MeterTable], timezone: tzinfo) -> tuple[View, View, View]:
    """The views that add up every numeric field of every meter per day and account, and what lacks.

    Args:
        meters: The meters.
        timezone: The organization's time zone, whose days `usage_per_day` has.
    """
    doc = "Usage per day ({zone}), meter, account and field; the sum of the field's values."
    days = {"day": "The day of `ts` in the organization's time zone."} | _USAGE_DOCS
    utc_days = {"day": "The day of `ts`, UTC."} | _USAGE_DOCS
    return (
        View(_USAGE_PER_DAY, doc.format(zone=_ORGANIZATION), _query(meters, timezone), days),
        View(_USAGE_PER_UTC_DAY, doc.format(zone="UTC"), _query(meters, UTC), utc_days),
        View(
            _MISSING_USAGE,
            "Months in which usage may be missing: the account has no measurements of the meter"
            " although it had some in an earlier month, or has rejected rows that wait.",
            _MISSING.format(local=local_time("ts", timezone)),
            {
                "month": "Such as 2026-10, of the organization's time zone; NULL if no row has one.",
                "account": "account.code, or the code in rejected rows.",
                "meter": "meter.code, or the code in rejected rows.",
                "measurements": "The number of its measurements in the month.",
                "rejected": "The number of its rejected rows that wait.",
            },
        ),
    )


def _query(meters: Sequence[MeterTable], timezone: tzinfo) -> str:
    selects = [_per_day(meter, *number, timezone) for meter in meters for number in meter.numbers]
    selects += [_per_day(meter, None, None, timezone) for meter in meters if not meter.numbers]
    return " UNION ALL ".join([_NO_USAGE, *selects])


def _per_day(meter: MeterTable, column: str | None, unit: str | None, timezone: tzinfo) -> str:
    sums = "" if column is None else _SUMS.replace("{v}", f"m.{identifier(column)}")
    total = "NULL::DECIMAL(38,12)" if column is None else _TOTAL
    day, rows = _days(identifier(meter.name), timezone)
    return (
        f"SELECT day, {text(meter.code)} AS meter, account, {text(column)} AS field,"
        f" {text(unit)} AS unit, {total} AS total, measurements FROM ("
        f"SELECT {day} AS day, m.account AS account, {sums}count(*) AS measurements"
        f" FROM {rows} GROUP BY ALL)"
    )


def _days(table: str, timezone: tzinfo) -> tuple[str, str]:
    """The day of a measurement in a time zone, and the rows `m` that it is an expression over.

    DuckDB takes a microsecond of CPU to look up one instant's time in a zone, twenty times what
    adding up takes, so each minute is looked up once.
    """
    if str(timezone) == "UTC":
        return "m.ts::DATE", f"{table} m"
    local = local_time(f"make_timestamp(minute * {_MINUTE_US} - {_EPOCH_US})", timezone)
    minutes = f"SELECT DISTINCT {_MINUTE.format(ts='ts')} AS minute FROM {table}"
    days = f"SELECT minute, {local}::DATE AS day FROM ({minutes})"
    return "z.day", f"{table} m JOIN ({days}) z ON {_MINUTE.format(ts='m.ts')} = z.minute"


def text(value: str | None) -> str:
    """A text as an SQL literal."""
    return "NULL::VARCHAR" if value is None else "'" + value.replace("'", "''") + "'"


def comment(kind: str, names: Sequence[str], doc: str) -> str:
    """The statement that documents a table, a view or a column."""
    place = ".".join(identifier(name) for name in names)
    return f"COMMENT ON {kind} {place} IS {text(doc)}"
