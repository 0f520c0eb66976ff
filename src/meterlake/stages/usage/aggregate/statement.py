"""One quantity as a statement that anybody can run again, with its values in it."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import singledispatch
from typing import Any, Final

from meterlake.model.bills.bill import Query
from meterlake.model.catalog.catalog import Aggregation, Reduce
from meterlake.model.values.period import naive
from meterlake.model.values.sql import identifier, quote
from meterlake.stages.usage.aggregate.reducers import REDUCERS
from meterlake.stages.usage.aggregate.rollups import Rollup
from meterlake.stages.usage.aggregate.scopes import AggregationScope
from meterlake.stages.usage.aggregate.segments import number_segments
from meterlake.stages.usage.aggregate.segments import parameters as segment_values
from meterlake.stages.usage.aggregate.time_weighted import average, held_measurements

_PARAMETER: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
# What keeps an account and its selection apart; people could not copy it.
_SEPARATOR: Final = "\x1f"
# What a MEAN is divided from, as two columns.
_MEAN: Final = "sum({v}) AS sum, count({v}) AS count"


def quantity_query(
    source: str, where: str, parameters: Mapping[str, Any], aggregation: Aggregation, column: str
) -> Query:
    """Compile the query of one quantity; not of a time-weighted average, nor of custom SQL.

    Args:
        source: What is read, as SQL.
        where: Which of its measurements `m` count; `$start` and `$end` limit them, too.
        parameters: The values of both.
        aggregation: How they become a quantity.
        column: The column that is aggregated.
    """
    kind = aggregation.aggregation
    sql = _MEAN if kind is Reduce.MEAN else f"{REDUCERS[kind].sql} AS quantity"
    selected = sql.replace("{v}", f"m.{identifier(column)}")
    if aggregation.percentile is not None:
        share = aggregation.percentile.scaleb(-2)
        selected = selected.replace("{p}", f"{share:f}")
    text = (
        f"SELECT {selected}, count(*) AS measurements\nFROM (FROM {source}) AS m"
        f"\nWHERE {where} AND m.ts >= $start AND m.ts < $end"
    )
    return Query(text, dict(parameters))


def average_query(source: str, rollup: Rollup, scope: AggregationScope, segment: Any) -> Query:
    """Compile the query of one time-weighted average: the two sums that it is divided from.

    Args:
        source: What is read: what the scope makes of a `table`.
        rollup: The average.
        scope: The account and the period; what holds already when that begins counts.
        segment: The segment as quantities name it; None without one.
    """
    own = rollup.segment_filter
    filters = [] if own is None or segment is None else [own]
    held = held_measurements(number_segments(source, filters), [rollup], filters, scope)
    value = average(f"m.{identifier(rollup.column)}", "m.until1")
    text = f"SELECT {value} AS average\nFROM {held} AS m"
    start, end = naive(scope.period.start), naive(scope.period.end)
    values = {"start": start, "end": end, **segment_values(filters), **scope.parameters}
    if filters:
        text += "\nWHERE m.segment1 = $segment_number"
        values["segment_number"] = filters[0].names.index(segment) + 1
    return Query(text, values)


def inline_parameters(query: Query) -> str:
    """The text of a query with the values of its parameters in it."""

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        return literal(query.parameters[name]) if name in query.parameters else match[0]

    return _PARAMETER.sub(value_of, query.sql)


@singledispatch
def literal(value: object) -> str:
    """A value as SQL.

    >>> literal(["it's", None]), literal(Decimal("1.50")), literal(True)
    ("['it''s', NULL]", '1.50', 'true')
    """
    return quote(str(value))


@literal.register
def _(value: str) -> str:
    return " || chr(31) || ".join(quote(each) for each in value.split(_SEPARATOR))


@literal.register
def _(_value: None) -> str:
    return "NULL"


@literal.register
def _(value: bool) -> str:
    return "true" if value else "false"


@literal.register
def _(value: int) -> str:
    return str(value)


@literal.register
def _(value: Decimal) -> str:
    return f"{value:f}"


@literal.register
def _(value: datetime) -> str:
    return f"TIMESTAMP {quote(value.replace(tzinfo=None).isoformat(' '))}"


@literal.register
def _(value: date) -> str:
    return f"DATE {quote(value.isoformat())}"


@literal.register(list)
@literal.register(tuple)
def _(value: list[Any]) -> str:
    return f"[{', '.join(map(literal, value))}]"
