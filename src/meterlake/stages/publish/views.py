"""The views of the published file: what an analyst would start with."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from meterlake.stages.publish.tables import ABOUT_TABLE, DICTIONARY, LAKE_TABLES, TABLES


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
    "The quantities that count: those of the newest run of every month.",
    """
    SELECT month, account, meter, aggregation, quantity, units, unit, measurements,
        quantity_exact, units_exact, account_id, meter_id, aggregation_id, computed_at
    FROM quantity SEMI JOIN (
        SELECT month, arg_max(run_id, (computed_at, run_id)) AS run_id
        FROM quantity GROUP BY month
    ) newest USING (month, run_id)
    WHERE account_id IS NOT NULL""",
    {
        "month": "The month, such as 2026-10, in the organization's time zone.",
        "account": "account.code.",
        "meter": "meter.code.",
        "aggregation": "aggregation.code.",
        "quantity": "What was used, to 12 decimals.",
        "units": "What is priced, to 12 decimals.",
        "unit": "What one unit is called.",
        "measurements": "How many measurements of the account the month has.",
    },
)
BILL_PER_ACCOUNT: Final = View(
    "bill_per_account",
    "What every account pays per month, and for what.",
    """
    SELECT b.month, b.account, b.currency, b.total,
        coalesce(sum(l.amount) FILTER (l.type = 'USAGE'), 0)::DECIMAL(38,12) AS usage,
        coalesce(sum(l.amount) FILTER (l.type = 'STANDING_CHARGE'), 0)::DECIMAL(38,12)
            AS standing_charge,
        count(l.bill_id) AS lines, b.status, b.locked, b.due_date, b.id AS bill_id
    FROM bill b LEFT JOIN bill_line l ON l.bill_id = b.id
    GROUP BY ALL ORDER BY b.month, b.total DESC, b.account""",
    {
        "month": "The billed month, such as 2026-10.",
        "account": "The account's code when it was billed.",
        "currency": "The currency of the amounts.",
        "total": "What is to be paid.",
        "usage": "The part that is for usage.",
        "standing_charge": "The part that is paid whatever is used.",
        "lines": "How many lines the bill has.",
        "bill_id": "bill.id.",
    },
)
INGEST_HEALTH: Final = View(
    "ingest_health",
    "What arrived per day (UTC), and what became of it. received = accepted + repeats + rejected.",
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
        "sources": "Files that were ingested, all attempts.",
        "failed": "Those that could not be read at all.",
        "received": "Rows that they have.",
        "accepted": "Rows that were stored.",
        "repeats": "Rows that had been stored before.",
        "rejected": "Rows that were not accepted.",
        "incomplete": "Stored rows that lack a derived value.",
        "last_finished": "When the last one was committed, UTC.",
    },
)
REJECTED_PER_REASON: Final = View(
    "rejected_per_reason",
    "Rows that are rejected now, by reason, and one of them as an example.",
    """
    SELECT reason, meter, field, count(*) AS rows, count(DISTINCT name) AS files,
        min(detail) AS example
    FROM rejected GROUP BY reason, meter, field ORDER BY rows DESC, reason""",
    {
        "reason": "Why.",
        "meter": "The meter that the rows name.",
        "field": "The field that it is about.",
        "rows": "How many rows.",
        "files": "How many files they are in.",
        "example": "What was found in one of them.",
    },
)
_USAGE_PER_DAY: Final = "usage_per_day"
_USAGE_DOCS: Final = {
    "day": "The day of `ts`, UTC.",
    "meter": "meter.code.",
    "account": "account.code.",
    "field": "The column of the meter's table that is added up.",
    "unit": "The unit of the field.",
    "total": "The sum of the field.",
    "measurements": "How many measurements.",
}
_NO_USAGE: Final = """
    SELECT NULL::DATE AS day, NULL::VARCHAR AS meter, NULL::VARCHAR AS account,
        NULL::VARCHAR AS field, NULL::VARCHAR AS unit, NULL::DECIMAL(38,12) AS total,
        0::BIGINT AS measurements
    WHERE false"""

FIXED_VIEWS: Final = (QUANTITY_CURRENT, BILL_PER_ACCOUNT, INGEST_HEALTH, REJECTED_PER_REASON)

# Names that no table of a meter can have.
TAKEN: Final = frozenset(
    {table.name for table in (*TABLES, *LAKE_TABLES, ABOUT_TABLE, DICTIONARY)}
    | {view.name for view in FIXED_VIEWS}
    | {_USAGE_PER_DAY}
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


def usage_per_day(meters: Sequence[MeterTable]) -> View:
    """The view that adds up every numeric field of every meter per day and account."""
    selects = [_per_day(meter, *number) for meter in meters for number in meter.numbers]
    selects += [_per_day(meter, None, None) for meter in meters if not meter.numbers]
    query = " UNION ALL ".join([_NO_USAGE, *selects])
    doc = "Usage per day (UTC), meter, account and field; the sum of the field's values."
    return View(_USAGE_PER_DAY, doc, query, _USAGE_DOCS)


def _per_day(meter: MeterTable, column: str | None, unit: str | None) -> str:
    total = "NULL::DECIMAL(38,12)" if column is None else f"sum({identifier(column)})"
    return (
        f"SELECT ts::DATE AS day, {text(meter.code)} AS meter, account,"
        f" {text(column)} AS field, {text(unit)} AS unit, {total} AS total,"
        f" count(*) AS measurements FROM {identifier(meter.name)} GROUP BY day, account"
    )


def text(value: str | None) -> str:
    """A text as an SQL literal."""
    return "NULL::VARCHAR" if value is None else "'" + value.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def comment(kind: str, names: Sequence[str], doc: str) -> str:
    """The statement that documents a table, a view or a column."""
    place = ".".join(identifier(name) for name in names)
    return f"COMMENT ON {kind} {place} IS {text(doc)}"
