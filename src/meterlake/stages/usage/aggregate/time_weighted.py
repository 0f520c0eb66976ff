"""Time-weighted averages: values times the microseconds that they hold within a period.

A value holds from its `ts` to its `ets`, without one to the next value of the account (and of the
segment), at most to the end of the period. What holds already when the period begins counts from
there on: so what came before the period is read, too. Of values at the same `ts` the one with the
greatest uid holds.
"""

from collections.abc import Sequence
from typing import Final

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.values.sql import identifier
from meterlake.stages.usage.aggregate.reducers import FRACTION_DIGITS, HIGH
from meterlake.stages.usage.aggregate.rollups import Rollup
from meterlake.stages.usage.aggregate.scopes import AggregationScope
from meterlake.stages.usage.aggregate.segments import SegmentFilter

# When a value ends; NULL of what is no value. Below, when the next value begins.
_UNTIL: Final = """CASE
      WHEN {v} IS NULL THEN NULL
      WHEN {next} = m.ts THEN m.ts
      WHEN m.ets IS NOT NULL THEN greatest(m.ets, m.ts)
      ELSE coalesce({next}, CAST($end AS TIMESTAMP))
    END"""
_NEXT: Final = (
    "lead(CASE WHEN {v} IS NOT NULL THEN m.ts END IGNORE NULLS)"
    " OVER (PARTITION BY m.account_id{segment} ORDER BY m.ts, m.uid)"
)
_HELD: Final = "(epoch_us(least({until}, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))"
# Values have 26 digits before the point and 12 behind it, times up to 14: each part fits.
_AVERAGE: Final = f"""{{
    'sum': {{
      'high': CAST(sum({{whole}} // {HIGH} * {{held}}) AS DECIMAL(38, 0)),
      'whole': CAST(sum({{whole}} % {HIGH} * {{held}}) AS DECIMAL(38, 0)),
      'rest': CAST(sum({{rest}} * {{held}}) AS DECIMAL(38, 0))
    }},
    'count': CAST(sum({{held}}) AS DECIMAL(38, 0))
  }}"""
_WHOLE: Final = "CAST(trunc({v}) AS HUGEINT)"
_REST: Final = (
    "CAST(CAST({v} - trunc({v}) AS DECIMAL(25, 12))"
    f" * CAST({10**FRACTION_DIGITS} AS DECIMAL(13, 0)) AS HUGEINT)"
)


def is_time_weighted(rollup: Rollup) -> bool:
    """Whether a fold is a time-weighted average."""
    return rollup.aggregation.entity.aggregation is Reduce.TIME_WEIGHTED_AVERAGE


def held_measurements(
    source: str,
    rollups: Sequence[Rollup],
    segment_filters: Sequence[SegmentFilter],
    scope: AggregationScope,
) -> str:
    """The measurements that hold within the periods, one row for each of their periods.

    Args:
        source: What is read, with the numbers of segments.
        rollups: The folds of a query; those that are time-weighted get a column `until<n>`.
        segment_filters: The segments of the query.
        scope: The periods.
    """
    ends = {
        n: _until(
            rollup.column,
            segment_filters.index(rollup.segment_filter) + 1 if rollup.segment_filter else None,
        )
        for n, rollup in enumerate(rollups, start=1)
        if is_time_weighted(rollup)
    }
    listed = ",\n    ".join(f"{sql} AS until{n}" for n, sql in ends.items())
    last = f"greatest({', '.join(f'm.until{n}' for n in ends)})" if len(ends) > 1 else ""
    last = last or f"m.until{next(iter(ends))}"
    within = f"m.ts < w.period_end AND {last} > w.period_start"
    bounds = "w.period_start, w.period_end"
    if not scope.join:
        bounds = "CAST($start AS TIMESTAMP) AS period_start, CAST($end AS TIMESTAMP) AS period_end"
    return (
        f"(\n  SELECT m.*, {bounds}\n  FROM (\n    SELECT m.*,\n    {listed}"
        f"\n    FROM {source} AS m\n    WHERE m.ts < $end{scope.where}\n  ) AS m"
        f"{scope.restrict(within)}\n  WHERE {last} > $start\n)"
    )


def lasting(source: str, column: str, segment_filter: SegmentFilter | None = None) -> str:
    """The measurements before `$end`; `until1` tells how long the value of each holds.

    Args:
        source: What is read, with the numbers of segments.
        column: The values.
        segment_filter: The segments of the average.
    """
    until = _until(column, 1 if segment_filter else None)
    return f"(SELECT m.*, {until} AS until1 FROM (FROM {source}) AS m WHERE m.ts < $end)"


def average(value: str, until: str) -> str:
    """The two sums of an average, over the rows of `held`.

    Args:
        value: SQL of the values.
        until: SQL of when each value ends; NULL of what is no value.
    """
    # What another average holds longer is here with times that are over.
    times = f"greatest(0, {_HELD.replace('{until}', until)})"
    weight = f"CASE WHEN {until} IS NULL THEN NULL ELSE {times} END"
    return (
        _AVERAGE.replace("{whole}", _WHOLE)
        .replace("{rest}", _REST)
        .replace("{held}", f"({weight})")
        .replace("{v}", value)
    )


def _until(column: str, segment: int | None) -> str:
    parted = "" if segment is None else f", m.segment{segment}"
    upcoming = _NEXT.replace("{segment}", parted)
    return _UNTIL.replace("{next}", upcoming).replace("{v}", f"m.{identifier(column)}")
