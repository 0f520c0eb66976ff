"""The books of October, kept in plain Python: what must be in the lake and what it amounts to.

Sums are kept as fractions, months by `zoneinfo`; nothing is shared with meterlake.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any, Final

from sample_data.usage import BERLIN, Measurement

START: Final = datetime(2026, 10, 1, tzinfo=BERLIN).astimezone(UTC)
END: Final = datetime(2026, 11, 1, tzinfo=BERLIN).astimezone(UTC)

Rows = Sequence[tuple[Measurement, Any]]

FOLDS: Final[dict[str, Callable[[Rows], Fraction]]] = {
    "SUM": lambda rows: sum((Fraction(value) for _, value in rows), Fraction(0)),
    "COUNT": lambda rows: Fraction(len(rows)),
    "MAX": lambda rows: max(Fraction(value) for _, value in rows),
    "MIN": lambda rows: min(Fraction(value) for _, value in rows),
    "MEAN": lambda rows: sum((Fraction(value) for _, value in rows), Fraction(0)) / len(rows),
    "UNIQUE": lambda rows: Fraction(len({value for _, value in rows})),
    "LATEST": lambda rows: Fraction(max(rows, key=lambda row: (row[0].ts, row[0].uid))[1]),
}
ROUNDINGS: Final[dict[str, Callable[[Fraction], Fraction]]] = {
    "UP": lambda units: Fraction(math.ceil(units)),
    "DOWN": lambda units: Fraction(math.floor(units)),
    "NEAREST": lambda units: Fraction(math.floor(units + Fraction(1, 2))),
    "NONE": lambda units: units,
}


def text(number: Fraction) -> str:
    """Plain digits: exact where they end within 20 significant digits, else rounded half-even."""
    context = Context(prec=20, rounding=ROUND_HALF_EVEN)
    decimal = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    return format(decimal.normalize(context), "f")


def quantities(
    stored: Iterable[Measurement],
    aggregations: Sequence[Mapping[str, Any]],
    start: datetime = START,
    end: datetime = END,
) -> list[dict[str, Any]]:
    """What every account used by every aggregation within a period, ordered by code."""
    groups: dict[tuple[str, str], list[tuple[Measurement, Any]]] = defaultdict(list)
    for one in stored:
        if start <= one.ts < end:
            for aggregation in aggregations:
                if aggregation["meterId"] == one.meter:
                    value = _field(one, aggregation["targetField"])
                    groups[one.account, aggregation["code"]].append((one, value))
    by_code = {aggregation["code"]: aggregation for aggregation in aggregations}
    return [
        {"account": account, "aggregation": code, **_fold(rows, by_code[code])}
        for (account, code), rows in sorted(groups.items(), key=lambda group: group[0])
    ]


def _fold(rows: Rows, aggregation: Mapping[str, Any]) -> dict[str, Any]:
    quantity = FOLDS[aggregation["aggregation"]](rows)
    units = ROUNDINGS[aggregation["rounding"]](quantity / Fraction(aggregation["quantityPerUnit"]))
    return {
        "quantity": text(quantity),
        "units": text(units),
        "unit": aggregation["unit"],
        "measurements": len(rows),
    }


def _field(one: Measurement, code: str) -> Any:
    [value] = [value for name, value in one.fields.items() if name.partition(".")[2] == code]
    return value
