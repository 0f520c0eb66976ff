"""Segments: which of them a measurement belongs to, as one more column of what is read.

An exact value beats `*`, more exact fields beat fewer; between as many, the one that is exact in an
earlier field wins. `*`, like a field that a segment does not name, matches whatever is there, and
measurements without the field too.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import Segment
from meterlake.model.catalog.catalog import ANY_VALUE, Aggregation, Meter
from meterlake.model.measurements.measurement import Field
from meterlake.model.values.sql import identifier

# The number of what matches no segment.
UNMATCHED: Final = 0


class SegmentFilter(NamedTuple):
    """The segments of an aggregation.

    Attributes:
        columns: The columns of the segmented fields; None where the meter's table has none yet.
        segments: Their values, in the order of `columns`; the first segment is number 1.
        names: The same segments as quantities name them.
    """

    columns: tuple[str | None, ...]
    segments: tuple[tuple[str, ...], ...]
    names: tuple[Segment, ...]

    def segment(self, number: int) -> Segment | None:
        """The segment of a number; None of what matches none."""
        return None if number == UNMATCHED else self.names[number - 1]


def segment_filter_of(
    aggregation: Aggregation, meter: Meter, columns: Collection[str]
) -> SegmentFilter | None:
    """The segments of an aggregation of a meter; None if it has none."""
    if not aggregation.segments:
        return None
    fields = aggregation.segmented_fields
    # Of two that match the same, only one may match, or the usage would count twice.
    segments: dict[tuple[str, ...], Segment] = {}
    for each in aggregation.segments:
        values = tuple(each.get(field, ANY_VALUE) for field in fields)
        segments.setdefault(values, tuple(sorted(each.items())))
    read = [column(meter, field) for field in fields]
    return SegmentFilter(
        columns=tuple(name if name in columns else None for name in read),
        segments=tuple(segments),
        names=tuple(segments.values()),
    )


def column(meter: Meter, code: str) -> str:
    """The column of a field in the meter's table."""
    category = meter.category(code)
    assert category is not None, code
    return Field(category, code).column


def number_segments(source: str, segment_filters: Sequence[SegmentFilter]) -> str:
    """A source whose measurements carry the number of their segment, as `segment1` and so on.

    `parameters` has the values that the text names.
    """
    if not segment_filters:
        return f"(FROM {source})"
    numbers, joins = [], []
    for k, segment_filter in enumerate(segment_filters, start=1):
        found = []
        for n, shape in enumerate(_shapes(segment_filter), start=1):
            if any(shape):
                found.append(f"s{k}_{n}.number")
                name = f"s{k}_{n}"
                exact = [i for i, each in enumerate(shape, start=1) if each]
                listed = "".join(
                    f"unnest(CAST(${name}_{i} AS VARCHAR[])) AS value{i}, " for i in exact
                )
                equal = " AND ".join(
                    f"{_column_sql(segment_filter.columns[i - 1])} = {name}.value{i}" for i in exact
                )
                join = (
                    f"\n  LEFT JOIN (SELECT {listed}unnest(CAST(${name} AS INTEGER[])) AS number) AS {name}"
                    f"\n    ON {equal}"
                )
                joins.append(join)
            else:
                found.append(str(_numbers(segment_filter, shape)[0]))
                break
        else:
            found.append(str(UNMATCHED))
        numbers.append(f"coalesce({', '.join(found)}) AS segment{k}")
    return (
        f"(\n  SELECT m.*, {', '.join(numbers)}\n  FROM (FROM {source}) AS m"
        + "".join(joins)
        + "\n)"
    )


def parameters(segment_filters: Sequence[SegmentFilter]) -> dict[str, Any]:
    """The values of segments that `numbered` names."""
    values: dict[str, Any] = {}
    for k, segment_filter in enumerate(segment_filters, start=1):
        for n, shape in enumerate(_shapes(segment_filter), start=1):
            if any(shape):
                values[f"s{k}_{n}"] = _numbers(segment_filter, shape)
                for i, exact in enumerate(shape, start=1):
                    if exact:
                        values[f"s{k}_{n}_{i}"] = [
                            segment_filter.segments[number - 1][i - 1]
                            for number in values[f"s{k}_{n}"]
                        ]
    return values


def _shapes(segment_filter: SegmentFilter) -> list[tuple[bool, ...]]:
    """Where the segments are exact, the strongest shape first."""
    shapes = {_shape(segment) for segment in segment_filter.segments}
    return sorted(shapes, key=lambda shape: (-sum(shape), [not exact for exact in shape]))


def _shape(segment: tuple[str, ...]) -> tuple[bool, ...]:
    return tuple(value != ANY_VALUE for value in segment)


def _numbers(segment_filter: SegmentFilter, shape: tuple[bool, ...]) -> list[int]:
    return [n for n, each in enumerate(segment_filter.segments, start=1) if _shape(each) == shape]


def _column_sql(column: str | None) -> str:
    return "CAST(NULL AS VARCHAR)" if column is None else f"m.{identifier(column)}"
