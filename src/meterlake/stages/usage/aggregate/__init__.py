"""All aggregations of a meter as one query, and its rows as quantities.

The SQL reads one table of the lake at one snapshot. Names of tables and columns are quoted
identifiers, everything else that people chose is a bound parameter.
"""

from meterlake.model.bills.bill import Query
from meterlake.stages.usage.aggregate.queries import KEYS, measurements, query
from meterlake.stages.usage.aggregate.reducers import REDUCERS, Reducer, narrow
from meterlake.stages.usage.aggregate.rollups import (
    Rollup,
    by_meter,
    not_calculated,
    rollups,
    table,
)
from meterlake.stages.usage.aggregate.rows import decode, needs_wide
from meterlake.stages.usage.aggregate.scopes import (
    AggregationScope,
    each,
    others,
    pooled_windows,
    whole,
    windows,
)
from meterlake.stages.usage.aggregate.segments import SegmentFilter, segment_filter_of

__all__ = [
    "KEYS",
    "REDUCERS",
    "AggregationScope",
    "Query",
    "Reducer",
    "Rollup",
    "SegmentFilter",
    "by_meter",
    "decode",
    "each",
    "measurements",
    "narrow",
    "needs_wide",
    "not_calculated",
    "others",
    "pooled_windows",
    "query",
    "rollups",
    "segment_filter_of",
    "table",
    "whole",
    "windows",
]
