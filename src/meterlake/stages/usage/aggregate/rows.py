"""The rows of a query as quantities."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, Self

from meterlake.model.bills.bill import MeterUsage, Quantity, Query, Segment, units_of
from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.values.entity import Record
from meterlake.model.values.money import divide
from meterlake.model.values.period import Period, aware
from meterlake.stages.usage.aggregate.queries import segment_filters_of
from meterlake.stages.usage.aggregate.reducers import REDUCERS, narrow
from meterlake.stages.usage.aggregate.rollups import Rollup
from meterlake.stages.usage.aggregate.segments import SegmentFilter

# A row is account, start and end of the period, then these, the numbers of segments, the values.
_GROUP: Final = itemgetter(0, 1, 2)
_MEASUREMENTS: Final = 3
_LARGE: Final = 4
_FIXED: Final = 5

# Which kind of groups a row is about, and the number of its segment: None for all together.
_Part = tuple[int, int] | None
# The number of what is not segmented; the others are the places of their cuts.
_WHOLE: Final = -1


def needs_wide(rows: Iterable[Sequence[Any]]) -> bool:
    """Whether sums among the rows of a query that is not wide cannot be relied on."""
    return any(row[_LARGE] for row in rows)


def decode(
    rollups: Sequence[Rollup],
    rows: Iterable[Sequence[Any]],
    statement: Query | None = None,
) -> Iterator[MeterUsage]:
    """Read the rows of a query of the same folds, which `statement` asked.

    The quantities are exact, even where they are larger than the lake's numbers.
    """
    reader = _Reader.of(rollups)
    for _, group in groupby(rows, key=_GROUP):
        yield reader.usage(list(group), statement)


class _Column(NamedTuple):
    """A fold, where its value stands in a row, and what it is if there was no usage."""

    place: int
    aggregation: Record[Aggregation]
    empty: Any


@dataclass(frozen=True, slots=True)
class _Reader:
    segment_filters: Sequence[SegmentFilter]
    # By the kind of groups: a row has values of its own kind only.
    columns: Mapping[int, Sequence[_Column]]
    periods: dict[tuple[datetime, datetime], Period] = field(default_factory=dict)

    @classmethod
    def of(cls, rollups: Sequence[Rollup]) -> Self:
        segment_filters = segment_filters_of(rollups)
        columns: dict[int, list[_Column]] = defaultdict(list)
        for place, rollup in enumerate(rollups, start=_FIXED + len(segment_filters)):
            reducer = REDUCERS.get(rollup.aggregation.entity.aggregation)
            column = _Column(place, rollup.aggregation, reducer.empty if reducer else None)
            columns[
                _WHOLE
                if rollup.segment_filter is None
                else segment_filters.index(rollup.segment_filter)
            ].append(column)
        return cls(segment_filters, columns)

    def period(self, start: datetime, end: datetime) -> Period:
        if (start, end) not in self.periods:
            self.periods[start, end] = Period(aware(start), aware(end))
        return self.periods[start, end]

    def usage(self, rows: Sequence[Sequence[Any]], statement: Query | None) -> MeterUsage:
        """What one account used in one period; a part's values may stand in two rows."""
        account_id, start, end = rows[0][:_MEASUREMENTS]
        group = (account_id, self.period(start, end))
        quantities: list[Quantity] = []
        unmatched: list[Quantity] = []
        parts = [self._part(row) for row in rows]
        counts: dict[_Part, int] = {}
        for part, row in zip(parts, rows, strict=True):
            counts[part] = counts.get(part, 0) + row[_MEASUREMENTS]
        for part, row in zip(parts, rows, strict=True):
            segment = None if part is None else self.segment_filters[part[0]].segment(part[1])
            listed = unmatched if part and segment is None else quantities
            listed.extend(self._quantities(group, part, (counts[part], segment), row))
        # The measurements of all parts of which each measurement is in one.
        if None in counts:
            total = counts[None]
        else:
            first = min(part[0] for part in counts if part)
            total = sum(count for part, count in counts.items() if part and part[0] == first)
        return MeterUsage(*group, total, quantities, unmatched, statement)

    def _part(self, row: Sequence[Any]) -> _Part:
        if not self.segment_filters:
            return None
        numbers = row[_FIXED : _FIXED + len(self.segment_filters)]
        return next(((k, n) for k, n in enumerate(numbers) if n is not None), None)

    def _quantities(
        self,
        group: tuple[str, Period],
        part: _Part,
        of: tuple[int, Segment | None],
        row: Sequence[Any],
    ) -> Iterator[Quantity]:
        account_id, period = group
        measurements, segment = of
        for place, aggregation, empty in self.columns.get(part[0] if part else _WHOLE, ()):
            value, mean = _value_of(row[place], empty)
            if value is None:
                continue
            entity = aggregation.entity
            yield Quantity(
                account_id=account_id,
                meter_id=entity.meter_id,
                aggregation_id=aggregation.id,
                aggregation_version=aggregation.version,
                period=period,
                value=value,
                units=units_of(value, entity),
                unit=entity.unit,
                measurements=measurements,
                mean=mean,
                segment=segment,
            )


def _value_of(value: Any, empty: Any) -> tuple[Decimal | None, tuple[Decimal, int] | None]:
    """The value, with the sum and count of one that is divided; None if there was no usage."""
    # Most are plain numbers: this is where most of the time in Python goes.
    if not isinstance(value, dict):
        return (None if value == empty else value), None
    found = narrow(value)
    if not isinstance(found, dict):
        return found, None
    if not found["count"]:
        return None, None
    mean = (found["sum"], int(found["count"]))
    return divide(mean[0], Decimal(mean[1])), mean
