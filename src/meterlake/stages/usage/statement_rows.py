"""The usage behind a line of a bill in detail: a row for each stretch of time and group.

One query reads the measurements of a line once. Names of columns are quoted identifiers, everything
else that people chose is a bound parameter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import Query
from meterlake.model.catalog.catalog import Reduce
from meterlake.model.configuration.statements import AggregationFrequency
from meterlake.model.values.money import ZERO, divide
from meterlake.model.values.period import Period, local_date, midnight, naive
from meterlake.model.values.sql import any_large, identifier
from meterlake.stages.usage.aggregate.reducers import REDUCERS, narrow, share

# Over any parts of the usage, their quantities add up to that of the whole.
ADDITIVE: Final = frozenset({Reduce.SUM, Reduce.COUNT})
# The account that a measurement is of, where a pool counts it as that of another.
OWN_ACCOUNT: Final = "own_account"
_MONTHS: Final = {
    AggregationFrequency.MONTH: 1,
    AggregationFrequency.QUARTER: 3,
    AggregationFrequency.YEAR: 12,
}
_MONTHS_OF_A_YEAR: Final = 12
_NUMBER: Final = 0
_LARGE: Final = 2
# What stands in a row before its groups: the number of its time, how many measurements, `large`.
_FIXED: Final = 3


class FieldValue(NamedTuple):
    """How a field becomes one value of a row.

    Attributes:
        column: The column; None if the meter's table has none yet.
        percentile: The share of a PERCENTILE, in percent.
    """

    column: str | None
    reduce: Reduce
    percentile: Decimal | None = None


class RowGroup(NamedTuple):
    """By what rows are told apart, beside their time.

    Attributes:
        column: The column; None if the meter's table has none yet.
        values: Only these values; any, and none at all, if it is None.
    """

    column: str | None
    values: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class RowsQuestion:
    """What is asked of the measurements of one line.

    Attributes:
        source: What is read.
        where: Which of its measurements `m` are meant.
        parameters: The values of both, with the `start` and `end` of all times.
        times: Which stretches of time there are, in order.
        groups: By what rows are told apart.
        values: The values of each row.
        most: How many rows are wanted at most.
    """

    source: str
    where: str
    parameters: dict[str, Any]
    times: Sequence[Period]
    groups: Sequence[RowGroup]
    values: Sequence[FieldValue]
    most: int


class UsageDetail(NamedTuple):
    """One row: its time by number, its groups, how many measurements, and the values."""

    number: int
    groups: tuple[str | None, ...]
    measurements: int
    values: tuple[Decimal | None, ...]


def split_time(period: Period, frequency: AggregationFrequency, tz: tzinfo) -> list[Period]:
    """A time cut at the calendar of a zone; the first and the last part may be shorter.

    Weeks begin on Monday, quarters in January, April, July and October.
    """
    if frequency is AggregationFrequency.WHOLE_PERIOD:
        return [period]
    parts: list[Period] = []
    start, day = period.start, local_date(period.start, tz)
    # The first day of the unit that it is in.
    if frequency is AggregationFrequency.WEEK:
        day -= timedelta(days=day.weekday())
    elif frequency is not AggregationFrequency.DAY:
        months = _MONTHS[frequency]
        day = date(day.year, (day.month - 1) // months * months + 1, 1)
    while start < period.end:
        # The first day of the next unit.
        if frequency in {AggregationFrequency.DAY, AggregationFrequency.WEEK}:
            day = day + timedelta(days=1 if frequency is AggregationFrequency.DAY else 7)
        else:
            months = day.month - 1 + _MONTHS[frequency]
            day = date(day.year + months // _MONTHS_OF_A_YEAR, months % _MONTHS_OF_A_YEAR + 1, 1)
        end = min(midnight(day, tz), period.end)
        if end > start:
            parts.append(Period(start, end))
            start = end
    return parts


def rows_query(question: RowsQuestion, *, wide: bool = False) -> Query:
    """The query whose rows `read_rows` reads.

    Args:
        question: What is asked.
        wide: Sum whatever there is, at several times the cost; see `needs_wide_rows`.
    """
    summed = {
        f"m.{identifier(each.column)}"
        for each in question.values
        if each.column is not None and each.reduce in REDUCERS and REDUCERS[each.reduce].wide
    }
    selected = [
        "w.number AS number",
        "count(*) AS measurements",
        f"{any_large(sorted(summed))} AS large",
        *(f"{_group_sql(each)} AS g{n}" for n, each in enumerate(question.groups, start=1)),
        *(f"{_value_sql(each, n, wide=wide)} AS v{n}" for n, each in enumerate(question.values)),
    ]
    filters = [
        f"{_group_sql(each)} IN (SELECT unnest(CAST($values{n} AS VARCHAR[])))"
        for n, each in enumerate(question.groups)
        if each.values is not None
    ]
    keys = [1, *range(_FIXED + 1, _FIXED + 1 + len(question.groups))]
    places = ", ".join(map(str, keys))
    order = ", ".join(f"{place} NULLS FIRST" for place in keys)
    conditions = [question.where, "m.ts >= $start", "m.ts < $end", *filters]
    sql = f"""SELECT {", ".join(selected)}
FROM (FROM {question.source}) AS m
JOIN (
  SELECT
    unnest(CAST($time_starts AS TIMESTAMP[])) AS time_start,
    unnest(CAST($time_ends AS TIMESTAMP[])) AS time_end,
    unnest(CAST($time_numbers AS INTEGER[])) AS number
) AS w ON m.ts >= w.time_start AND m.ts < w.time_end
WHERE {" AND ".join(conditions)}
GROUP BY {places}
ORDER BY {order}
LIMIT $most"""
    return Query(sql, question.parameters | _parameters(question))


def _parameters(question: RowsQuestion) -> dict[str, Any]:
    return {
        "time_starts": [naive(each.start) for each in question.times],
        "time_ends": [naive(each.end) for each in question.times],
        "time_numbers": list(range(len(question.times))),
        "most": question.most,
        **{
            f"values{n}": list(each.values)
            for n, each in enumerate(question.groups)
            if each.values is not None
        },
        **{
            f"share{n}": share(each.percentile)
            for n, each in enumerate(question.values)
            if each.percentile is not None and each.column is not None
        },
    }


def _group_sql(group: RowGroup) -> str:
    return "CAST(NULL AS VARCHAR)" if group.column is None else f"m.{identifier(group.column)}"


def _value_sql(value: FieldValue, number: int, *, wide: bool) -> str:
    reducer = REDUCERS.get(value.reduce)
    if value.column is None or reducer is None:
        return "NULL"
    sql = (reducer.wide if wide else None) or reducer.sql
    return sql.replace("{v}", f"m.{identifier(value.column)}").replace("{p}", f"$share{number}")


def needs_wide_rows(rows: Sequence[Sequence[Any]]) -> bool:
    """Whether sums among the rows of a query that is not wide cannot be relied on."""
    return any(row[_LARGE] for row in rows)


def read_rows(question: RowsQuestion, rows: Sequence[Sequence[Any]]) -> list[UsageDetail]:
    """The rows of a query as values; what adds up is 0 where nothing was measured."""
    first = _FIXED + len(question.groups)
    return [
        UsageDetail(
            number=row[_NUMBER],
            groups=tuple(row[_FIXED:first]),
            measurements=row[1],
            values=tuple(map(_read_value, row[first:], question.values)),
        )
        for row in rows
    ]


def _read_value(value: Any, field: FieldValue) -> Decimal | None:
    found = narrow(value)
    if isinstance(found, dict):
        return divide(found["sum"], Decimal(found["count"])) if found["count"] else None
    if found is None and field.reduce in ADDITIVE:
        return ZERO
    number: Decimal | None = found
    return number
