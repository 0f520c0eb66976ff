"""All aggregations of a meter as one query, and its rows as quantities.

The SQL reads one table of the lake at one snapshot. Names of tables and columns are quoted
identifiers, everything else that people chose is a bound parameter.
"""

from meterlake.model.billing import Query
from meterlake.stages.usage.aggregate.cuts import SegmentFilter, cut_of
from meterlake.stages.usage.aggregate.folds import Fold, by_meter, folds, not_calculated, table
from meterlake.stages.usage.aggregate.measurements import KEYS, measurements
from meterlake.stages.usage.aggregate.reducers import REDUCERS, Reducer, narrow
from meterlake.stages.usage.aggregate.rows import decode, needs_wide
from meterlake.stages.usage.aggregate.scopes import (
    AggregationScope,
    each,
    others,
    pooled,
    whole,
    windows,
)
from meterlake.stages.usage.aggregate.statements import query

__all__ = [
    "KEYS",
    "REDUCERS",
    "AggregationScope",
    "Fold",
    "Query",
    "Reducer",
    "SegmentFilter",
    "by_meter",
    "cut_of",
    "decode",
    "each",
    "folds",
    "measurements",
    "narrow",
    "needs_wide",
    "not_calculated",
    "others",
    "pooled",
    "query",
    "table",
    "whole",
    "windows",
]
