"""How the values of a field become one number of the report: a gauge is not added up."""

from collections.abc import Collection
from typing import Final, NamedTuple

from meterlake.model.catalog.catalog import Reduce


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


def rollup_of(kinds: Collection[Reduce]) -> ReportRollup:
    """How a field is shown whose aggregations are of some kinds.

    A field that some aggregation adds up is added up, and so is one of which nothing is known.
    """
    if Reduce.SUM in kinds:
        return SUM
    return next((rollup for kind, rollup in _GAUGES.items() if kind in kinds), SUM)
