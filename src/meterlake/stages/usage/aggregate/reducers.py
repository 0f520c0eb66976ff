"""How the values of one group of measurements become its quantity, in SQL."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.values.money import ZERO, exact


class Reducer(NamedTuple):
    """SQL that folds the values `{v}` of one group of measurements into its quantity.

    A time-weighted average is none of them: it needs more than the group; see `held`.

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

# When a measurement was, as bytes.
TIME_AND_UID: Final = "create_sort_key(m.ts, 'ASC NULLS FIRST', m.uid, 'ASC NULLS FIRST')"

REDUCERS: Final[Mapping[Reduce, Reducer]] = {
    Reduce.SUM: Reducer("sum({v})", wide=_WIDE_SUM),
    Reduce.MIN: Reducer("min({v})"),
    Reduce.MAX: Reducer("max({v})"),
    Reduce.COUNT: Reducer(_COUNT, empty=ZERO),
    # A tie must not depend on the order of arrival. The key is compared as bytes, and made once for
    # all fields of a meter: by (m.ts, m.uid) eight fields take more than twice as long.
    Reduce.LATEST: Reducer(f"max_by({{v}}, {TIME_AND_UID})"),
    # avg() and `/` return DOUBLE for DECIMAL, so MEAN stays a pair until `divide`.
    Reduce.MEAN: Reducer(
        "{'sum': sum({v}), 'count': " + _COUNT + "}",
        empty={"sum": None, "count": ZERO},
        wide="{'sum': " + _WIDE_SUM + ", 'count': " + _COUNT + "}",
    ),
    Reduce.UNIQUE: Reducer(_UNIQUE, empty=ZERO),
    # By nearest rank: the smallest value that is not below the share {p} of the values. DuckDB finds
    # the rank in whole numbers as long as the share is a DECIMAL.
    Reduce.PERCENTILE: Reducer("quantile_disc({v}, CAST({p} AS DECIMAL(38, 22)))"),
}


def share(percentile: Decimal) -> Decimal:
    """The parameter `p` of a percentile."""
    with exact():
        return percentile.scaleb(-2)


# What numbers are taken apart by, so that the products with a time fit into 38 digits.
HIGH: Final = 10**13
FRACTION_DIGITS: Final = 12


def narrow(value: Any) -> Any:
    """Put the parts of a wide sum together, at whatever depth they are."""
    if not isinstance(value, dict):
        return value
    if "whole" not in value:
        return {name: narrow(part) for name, part in value.items()}
    if value["whole"] is None:
        return None
    with exact():
        if "high" in value:
            return value["high"] * HIGH + value["whole"] + value["rest"].scaleb(-FRACTION_DIGITS)
        return value["whole"] + value["rest"]
