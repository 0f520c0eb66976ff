"""All aggregations of a meter as one query, and its rows as quantities.

The SQL reads one table of the lake at one snapshot. Names of tables and columns are quoted
identifiers, everything else that people chose is a bound parameter.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.availability import not_available
from meterlake.model.billing import Folded, Quantity
from meterlake.model.catalog import Aggregation, Meter, Reduce
from meterlake.model.entity import Configuration, Record
from meterlake.model.measurement import Field, meter_table
from meterlake.model.money import ZERO, divide, exact
from meterlake.model.period import Period


class Reducer(NamedTuple):
    """SQL that folds the values `{v}` of one group of measurements into its quantity.

    Attributes:
        sql: One aggregate; a NULL is no value.
        empty: What it gives for a group without values, which is no usage and no quantity.
        wide: The same where a sum may not fit into 38 digits; slower.
    """

    sql: str
    empty: Any = None
    wide: str | None = None


# Parquet would store a HUGEINT as DOUBLE, so integers leave as DECIMAL.
_COUNT: Final = "CAST(count({v}) AS DECIMAL(38, 0))"
_UNIQUE: Final = "CAST(count(DISTINCT {v}) AS DECIMAL(38, 0))"
# Neither of the two can overflow: numbers of 26 digits, and numbers below 1.
_WIDE_SUM: Final = "{'whole': sum(trunc({v})), 'rest': sum({v} - trunc({v}))}"

REDUCERS: Final[Mapping[Reduce, Reducer]] = {
    Reduce.SUM: Reducer("sum({v})", wide=_WIDE_SUM),
    Reduce.MIN: Reducer("min({v})"),
    Reduce.MAX: Reducer("max({v})"),
    Reduce.COUNT: Reducer(_COUNT, empty=ZERO),
    # A tie must not depend on the order of arrival.
    Reduce.LATEST: Reducer("max_by({v}, (m.ts, m.uid))"),
    # avg() and `/` return DOUBLE for DECIMAL, so MEAN stays a pair until `divide`.
    Reduce.MEAN: Reducer(
        "{'sum': sum({v}), 'count': " + _COUNT + "}",
        empty={"sum": None, "count": ZERO},
        wide="{'sum': " + _WIDE_SUM + ", 'count': " + _COUNT + "}",
    ),
    Reduce.UNIQUE: Reducer(_UNIQUE, empty=ZERO),
}


# DuckDB 1.5.5 wraps around in silence when the sums of two threads do not fit into 128 bits
# together. As long as no value is beyond this, it takes 10^11 of them to get there.
_LARGE_VALUE: Final = "{v} NOT BETWEEN -1000000000000000 AND 1000000000000000"


class Fold(NamedTuple):
    """An aggregation and the column of the meter's table that it reads."""

    aggregation: Record[Aggregation]
    column: str


class Statement(NamedTuple):
    """SQL text and the values of its parameters."""

    sql: str
    parameters: dict[str, Any]


# The place of `large` in a row.
_LARGE: Final = 4


# Periods of the accounts' own; the lists are parallel.
_WINDOWS: Final = """
JOIN (
  SELECT
    unnest(CAST($window_accounts AS VARCHAR[])) AS account_id,
    unnest(CAST($window_starts AS TIMESTAMP[])) AS period_start,
    unnest(CAST($window_ends AS TIMESTAMP[])) AS period_end
) AS w ON m.account_id = w.account_id AND m.ts >= w.period_start AND m.ts < w.period_end"""
# The same periods for every account.
_PERIODS: Final = """
JOIN (
  SELECT
    unnest(CAST($window_starts AS TIMESTAMP[])) AS period_start,
    unnest(CAST($window_ends AS TIMESTAMP[])) AS period_end
) AS w ON m.ts >= w.period_start AND m.ts < w.period_end"""
_RESTRICTED: Final = " AND m.account_id IN (SELECT unnest(CAST($accounts AS VARCHAR[])))"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which measurements are folded, and over which periods; made by the functions below.

    Attributes:
        period: The time that holds all of them.
        join: The periods `w` that the measurements `m` are cut by; the one period if empty.
        where: A further condition.
        parameters: The parameters of both.
    """

    period: Period
    join: str = ""
    where: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


def whole(period: Period, account_ids: Collection[str] | None = None) -> Scope:
    """One period as a whole, for every account or for some."""
    if account_ids is None:
        return Scope(period)
    return Scope(period, where=_RESTRICTED, parameters={"accounts": sorted(account_ids)})


def windows(asked: Sequence[tuple[str, Period]]) -> Scope:
    """Accounts over periods of their own, in one scan; different pairs of account id and period."""
    cut = each([period for _, period in asked])
    accounts = [account_id for account_id, _ in asked]
    return replace(cut, join=_WINDOWS, parameters={**cut.parameters, "window_accounts": accounts})


def each(periods: Sequence[Period]) -> Scope:
    """Every account over each of several periods, such as the days of a month."""
    starts = [period.start for period in periods]
    ends = [period.end for period in periods]
    return Scope(
        Period(min(starts), max(ends)),
        join=_PERIODS,
        parameters={
            "window_starts": [_naive(start) for start in starts],
            "window_ends": [_naive(end) for end in ends],
        },
    )


def by_meter(
    configuration: Configuration,
) -> list[tuple[Record[Meter], list[Record[Aggregation]]]]:
    """Every meter with its aggregations, in an order that does not change.

    Without those that this version does not calculate; see `not_calculated`.
    """
    left_out = {record.id for record, _ in not_calculated(configuration)}
    return [
        (
            meter,
            sorted(
                (
                    each
                    for each in configuration.where(Aggregation, "meter_id", meter.id)
                    if each.id not in left_out
                ),
                key=lambda each: each.id,
            ),
        )
        for meter in sorted(configuration.all(Meter), key=lambda each: each.id)
    ]


def not_calculated(configuration: Configuration) -> list[tuple[Record[Aggregation], str]]:
    """The aggregations that this version does not calculate, and why."""
    found = []
    for record in configuration.all(Aggregation):
        reasons = [str(error) for error in not_available(record.entity)]
        if reasons:
            found.append((record, reasons[0]))
    return found


def table(meter_id: str, snapshot: int) -> str:
    """The SQL of a meter's measurements as a snapshot of the lake has them."""
    return f"lake.{_identifier(meter_table(meter_id))} AT (VERSION => {int(snapshot)})"


def folds(
    meter: Meter, aggregations: Iterable[Record[Aggregation]], columns: Collection[str]
) -> list[Fold]:
    """The aggregations of a meter that can have values.

    Args:
        meter: The meter.
        aggregations: Its aggregations.
        columns: The columns that its table has at the snapshot; a new field comes to it with the
            first measurements that carry it.
    """
    found = []
    for aggregation in aggregations:
        code = aggregation.entity.target_field
        category = meter.category(code)
        assert category is not None, code
        column = Field(category, code).column
        if column in columns:
            found.append(Fold(aggregation, column))
    return found


def query(source: str, folds: Sequence[Fold], scope: Scope, *, wide: bool = False) -> Statement:
    """Compile all aggregations of a meter into one query.

    Args:
        source: What is read; `table` gives it.
        folds: The aggregations; without any, measurements are counted.
        scope: Which measurements, and by what they are grouped.
        wide: Sum whatever there is, at several times the cost. Needed if DuckDB reports an
            overflow, or if `needs_wide` says so.

    Returns:
        A query whose rows `decode` reads.
    """
    cut = bool(scope.join)
    selected = [
        "m.account_id",
        f"{'w.period_start' if cut else 'CAST($start AS TIMESTAMP)'} AS period_start",
        f"{'w.period_end' if cut else 'CAST($end AS TIMESTAMP)'} AS period_end",
        "count(*) AS measurements",
        f"{_large(folds)} AS large",
        *(f"{_sql(fold, wide=wide)} AS a{n}" for n, fold in enumerate(folds, start=1)),
    ]
    lines = [
        "SELECT\n  " + ",\n  ".join(selected),
        f"FROM (FROM {source}) AS m{scope.join}",
        f"WHERE m.ts >= $start AND m.ts < $end{scope.where}",
        f"GROUP BY m.account_id{', w.period_start, w.period_end' if cut else ''}",
        "ORDER BY 1, 2, 3",
    ]
    bounds = {"start": _naive(scope.period.start), "end": _naive(scope.period.end)}
    return Statement("\n".join(lines), {**bounds, **scope.parameters})


def needs_wide(rows: Iterable[Sequence[Any]]) -> bool:
    """Whether sums among the rows of a query that is not wide cannot be relied on."""
    return any(row[_LARGE] for row in rows)


def decode(folds: Sequence[Fold], rows: Iterable[Sequence[Any]]) -> Iterator[Folded]:
    """Read the rows of a query of the same folds.

    The quantities are exact, even where they are larger than the lake's numbers.
    """
    periods: dict[tuple[datetime, datetime], Period] = {}
    for account_id, start, end, measurements, _, *values in rows:
        if (start, end) not in periods:
            periods[start, end] = Period(_aware(start), _aware(end))
        folded = Folded(account_id, periods[start, end], measurements)
        for fold, value in zip(folds, values, strict=True):
            quantity = _quantity(fold.aggregation, folded, value)
            if quantity is not None:
                folded.quantities.append(quantity)
        yield folded


def _quantity(aggregation: Record[Aggregation], folded: Folded, value: Any) -> Quantity | None:
    found = narrow(value)
    if found == REDUCERS[aggregation.entity.aggregation].empty:
        return None
    mean = (found["sum"], int(found["count"])) if isinstance(found, dict) else None
    number = divide(mean[0], Decimal(mean[1])) if mean else found
    return Quantity.of(
        folded.account_id, aggregation, folded.period, number, folded.measurements, mean
    )


def narrow(value: Any) -> Any:
    """Put the two parts of a wide sum together, at whatever depth they are."""
    if not isinstance(value, dict):
        return value
    if "whole" not in value:
        return {name: narrow(part) for name, part in value.items()}
    if value["whole"] is None:
        return None
    with exact():
        return value["whole"] + value["rest"]


def _sql(fold: Fold, *, wide: bool) -> str:
    reducer = _reducer(fold)
    sql = (reducer.wide if wide else None) or reducer.sql
    return sql.replace("{v}", f"m.{_identifier(fold.column)}")


def _large(folds: Sequence[Fold]) -> str:
    summed = sorted({fold.column for fold in folds if _reducer(fold).wide})
    tests = [_LARGE_VALUE.replace("{v}", f"m.{_identifier(column)}") for column in summed]
    return f"coalesce(bool_or({' OR '.join(tests)}), false)" if tests else "false"


def _reducer(fold: Fold) -> Reducer:
    return REDUCERS[fold.aggregation.entity.aggregation]


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _naive(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(tzinfo=None)


def _aware(instant: datetime) -> datetime:
    return instant.replace(tzinfo=UTC)
