"""The questions of the report, over the names of the published file, and how a gauge is no sum.

Instants between the parameters `start` and `end` are meant, where a query has them.
"""

from collections.abc import Collection, Sequence
from datetime import tzinfo
from typing import Final, NamedTuple

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.values.period import Month
from meterlake.model.values.sql import identifier, local_time
from meterlake.stages.report.content import ACCOUNTS_MAX, POINTS_MAX, ROWS_MAX, Step

_TIME: Final = "ts >= $start AND ts < $end"
# By the whole number below the sum, then by what is above it: as exact as the sum.
_LARGEST: Final = """
    SELECT account, whole, part FROM (
        SELECT account, {amount} FROM {table} WHERE {time} GROUP BY account
    ) AS t(account, whole, part)
    ORDER BY whole + CAST(floor(part) AS DECIMAL(38, 0)) DESC NULLS LAST,
        part - floor(part) DESC, account LIMIT {most}"""
# What all accounts have at the end of each step: the value of one of them would say nothing.
# An account keeps its latest value in steps without one. Each change is added from its step on,
# whole numbers and what is above them apart.
_LATEST_OF_ALL: Final = """
    WITH latest AS (
        SELECT {step} AS step, account_id, arg_max({field}, (ts, uid)) AS value
        FROM {table} WHERE {time} AND {field} IS NOT NULL GROUP BY ALL
    ), change AS (
        SELECT step,
            trunc(value) - coalesce(lag(trunc(value)) OVER own, 0) AS whole,
            value - trunc(value) - coalesce(lag(value - trunc(value)) OVER own, 0) AS part
        FROM latest WINDOW own AS (PARTITION BY account_id ORDER BY step)
    )
    SELECT step, sum(sum(whole)) OVER (ORDER BY step), sum(sum(part)) OVER (ORDER BY step)
    FROM change GROUP BY step ORDER BY step"""
REJECTED: Final = (
    f"SELECT reason, count(*) FROM rejected GROUP BY reason ORDER BY 2 DESC, 1 LIMIT {ROWS_MAX}"
)
DAYS: Final = f"""
    SELECT strftime(day, '%Y-%m-%d'), accepted, repeats, rejected FROM ingest_health
    WHERE day >= $start AND day < $end ORDER BY day DESC LIMIT {POINTS_MAX}"""
_TOTALS: Final = """
    SELECT q.month, q.aggregation, any_value(q.unit), count(DISTINCT q.account_id),
        coalesce(any_value(a.aggregation) IN ('SUM', 'COUNT'), false),
        sum(trunc(q.quantity)), sum(q.quantity - trunc(q.quantity)),
        sum(trunc(q.units)), sum(q.units - trunc(q.units)), any_value(q.aggregation_id)
    FROM quantity_current q LEFT JOIN aggregation a ON a.id = q.aggregation_id
    WHERE q.month IS NOT NULL AND q.aggregation IS NOT NULL
        AND q.pooled IS DISTINCT FROM 'child' {which}
    GROUP BY q.month, q.aggregation ORDER BY q.month DESC, q.aggregation LIMIT {most}"""


class ReportRollup(NamedTuple):
    """How values become one number.

    Attributes:
        word: What stands before the field's name; nothing for sums.
        of: What stands behind it where the values of all accounts are one number.
        sql: Its whole number and what is above it, over the column `{0}`. Added up apart, no sum of
            the widest numbers leaves its type.
    """

    word: str
    of: str
    sql: str


_ONE: Final = "trunc({0}), {0} - trunc({0})"
SUM: Final = ReportRollup("", "", "sum(trunc({0})), sum({0} - trunc({0}))")
LATEST: Final = ReportRollup(
    "latest", " of all accounts", _ONE.replace("{0}", "arg_max({0}, (ts, uid))")
)
LARGEST: Final = ReportRollup("largest", " of any account", _ONE.replace("{0}", "max({0})"))
SMALLEST: Final = ReportRollup("smallest", " of any account", _ONE.replace("{0}", "min({0})"))
# What tells that a field is a gauge, in the order in which it counts.
_GAUGES: Final = {
    Reduce.LATEST: LATEST,
    Reduce.MAX: LARGEST,
    Reduce.TIME_WEIGHTED_AVERAGE: LARGEST,
    Reduce.MEAN: LARGEST,
    Reduce.PERCENTILE: LARGEST,
    Reduce.MIN: SMALLEST,
}


def freshness(table: str) -> str:
    """How many measurements a meter has, the first and the last instant, and the last arrival."""
    return f"SELECT count(*), min(ts), max(ts), max(received_at) FROM {identifier(table)}"


def step_of_rows(step: Step, zone: tzinfo) -> str:
    """The expression of the day or the month that a measurement is in, as text."""
    return f"strftime(date_trunc('{step}', {local_time('ts', zone)}), '%Y-%m-%d')"


def steps(table: str, step: str, sums: str) -> str:
    """The measurements of a meter by step, the newest first.

    Args:
        table: The meter's.
        step: See `step_of_rows`.
        sums: Further columns, each after a comma.
    """
    return (
        f"SELECT {step}, count(*){sums} FROM {identifier(table)} WHERE {_TIME}"
        f" GROUP BY 1 ORDER BY 1 DESC LIMIT {POINTS_MAX}"
    )


def latest_of_all(table: str, step: str, column: str) -> str:
    """What the latest values of all accounts add up to at the end of each step."""
    return _LATEST_OF_ALL.format(
        step=step, field=identifier(column), table=identifier(table), time=_TIME
    )


def largest_accounts(table: str, amount: str) -> str:
    """The accounts with most of a meter.

    Args:
        table: The meter's.
        amount: The whole number and what is above it, as two columns.
    """
    return _LARGEST.format(amount=amount, table=identifier(table), time=_TIME, most=ACCOUNTS_MAX)


def count_accounts(tables: Sequence[str]) -> str:
    """How many accounts have measurements of any of some meters."""
    selects = " UNION ALL ".join(
        f"SELECT DISTINCT account_id FROM {identifier(each)} WHERE {_TIME}" for each in tables
    )
    return f"SELECT count(DISTINCT account_id) FROM ({selects})"


def totals(month: Month | None) -> str:
    """The quantities of a month, or of all, added up by aggregation."""
    which = "" if month is None else f"AND q.month = '{month}'"
    return _TOTALS.format(which=which, most=ROWS_MAX)


def rollup_of(kinds: Collection[Reduce]) -> ReportRollup:
    """How a field is shown whose aggregations are of some kinds.

    A field that some aggregation adds up is added up, and so is one of which nothing is known.
    """
    if Reduce.SUM in kinds:
        return SUM
    return next((rollup for kind, rollup in _GAUGES.items() if kind in kinds), SUM)
