"""The measurements themselves, account by account, for aggregations with SQL of their own."""

from collections.abc import Collection
from typing import Final

from meterlake.model.bills.bill import Query
from meterlake.model.catalog.catalog import Meter
from meterlake.model.custom_sql import columns_of, stored_columns_of
from meterlake.model.values.period import naive
from meterlake.model.values.sql import identifier
from meterlake.stages.usage.aggregate.scopes import WITHIN, AggregationScope
from meterlake.stages.usage.aggregate.segments import SegmentFilter, number_segments
from meterlake.stages.usage.aggregate.segments import parameters as segment_values

# Account, start and end of the period, number of the segment: then come the columns of the table.
KEYS: Final = 4


def measurements(
    source: str,
    meter: Meter,
    columns: Collection[str],
    segment_filter: SegmentFilter | None,
    scope: AggregationScope,
) -> Query:
    """Compile the query of the rows of `measurements`, whatever account and segment they are of.

    Args:
        source: What is read: what the scope makes of a `table`.
        meter: The meter.
        columns: The columns that its table has at the snapshot.
        segment_filter: The segments that the rows are told apart by.
        scope: Which measurements, and over which periods.

    Returns:
        A query whose rows are sorted by their `KEYS`, then by time and uid.
    """
    segment_filters = [segment_filter] if segment_filter else []
    bounds = ("w.period_start", "w.period_end")
    if not scope.join:
        bounds = ("CAST($start AS TIMESTAMP)", "CAST($end AS TIMESTAMP)")
    types = columns_of(meter)
    read = [
        f"{f'm.{identifier(stored)}' if stored in columns else f'CAST(NULL AS {types[name]})'}"
        f" AS {identifier(name)}"
        for name, stored in stored_columns_of(meter).items()
    ]
    keys = ["m.account_id", *bounds, "m.segment1" if segment_filter else "NULL"]
    lines = [
        "SELECT\n  " + ",\n  ".join([*(f"{key} AS k{n}" for n, key in enumerate(keys)), *read]),
        f"FROM {number_segments(source, segment_filters)} AS m{scope.restrict(WITHIN)}",
        f"WHERE m.ts >= $start AND m.ts < $end{scope.where}",
        "ORDER BY 1, 2, 3, 4, m.ts, m.uid",
    ]
    times = {"start": naive(scope.period.start), "end": naive(scope.period.end)}
    return Query("\n".join(lines), {**times, **segment_values(segment_filters), **scope.parameters})
