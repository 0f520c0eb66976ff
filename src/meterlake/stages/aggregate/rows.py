"""The rows of a query as quantities."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from meterlake.model.billing import Folded, Quantity, Statement
from meterlake.model.catalog import Aggregation
from meterlake.model.entity import Record
from meterlake.model.money import divide
from meterlake.model.period import Period, aware
from meterlake.stages.aggregate.cuts import Cut
from meterlake.stages.aggregate.folds import Fold
from meterlake.stages.aggregate.reducers import REDUCERS, narrow
from meterlake.stages.aggregate.statements import cuts_of

# A row is account, start and end of the period, then these, the numbers of segments, the values.
_MEASUREMENTS: Final = 3
_LARGE: Final = 4
_FIXED: Final = 5

# Which segments a row is about, and the number of one: None where it is about all together.
_Part = tuple[int, int] | None


def needs_wide(rows: Iterable[Sequence[Any]]) -> bool:
    """Whether sums among the rows of a query that is not wide cannot be relied on."""
    return any(row[_LARGE] for row in rows)


def decode(
    folds: Sequence[Fold],
    rows: Iterable[Sequence[Any]],
    statement: Statement | None = None,
) -> Iterator[Folded]:
    """Read the rows of a query of the same folds, which `statement` asked.

    The quantities are exact, even where they are larger than the lake's numbers.
    """
    reader = _Reader(folds, cuts_of(folds))
    for (account_id, start, end), group in groupby(rows, key=lambda row: tuple(row[:3])):
        folded = Folded(account_id, reader.period(start, end), 0, statement=statement)
        yield reader.filled(folded, list(group))


@dataclass(frozen=True, slots=True)
class _Reader:
    folds: Sequence[Fold]
    cuts: Sequence[Cut]
    periods: dict[tuple[datetime, datetime], Period] = field(default_factory=dict)

    def period(self, start: datetime, end: datetime) -> Period:
        if (start, end) not in self.periods:
            self.periods[start, end] = Period(aware(start), aware(end))
        return self.periods[start, end]

    def filled(self, folded: Folded, rows: Sequence[Sequence[Any]]) -> Folded:
        """What one account used in one period; a part's values may stand in two rows."""
        counts: dict[_Part, int] = {}
        for row in rows:
            part = self._part(row)
            counts[part] = counts.get(part, 0) + row[_MEASUREMENTS]
        for row in rows:
            part = self._part(row)
            for found in self._quantities(folded, part, counts[part], row):
                listed = found.segment is None and part is not None
                (folded.unmatched if listed else folded.quantities).append(found)
        return replace(folded, measurements=_all(counts))

    def _part(self, row: Sequence[Any]) -> _Part:
        numbers = row[_FIXED : _FIXED + len(self.cuts)]
        return next(((k, n) for k, n in enumerate(numbers) if n is not None), None)

    def _quantities(
        self, folded: Folded, part: _Part, measurements: int, row: Sequence[Any]
    ) -> Iterator[Quantity]:
        cut = None if part is None else self.cuts[part[0]]
        segment = cut.segment(part[1]) if cut and part else None
        for fold, value in zip(self.folds, row[_FIXED + len(self.cuts) :], strict=True):
            number = _number(fold.aggregation.entity, value) if fold.cut == cut else None
            if number is not None:
                made = _quantity(fold.aggregation, folded, measurements, number)
                yield replace(made, segment=segment) if segment else made


def _all(counts: dict[_Part, int]) -> int:
    """The measurements of all parts of which each measurement is in one."""
    if None in counts:
        return counts[None]
    first = min(part[0] for part in counts if part)
    return sum(count for part, count in counts.items() if part and part[0] == first)


def _number(aggregation: Aggregation, value: Any) -> Any:
    """The value, or the sum and count of one that is divided; None if there was no usage."""
    found = narrow(value)
    reducer = REDUCERS.get(aggregation.aggregation)
    if found is None or (reducer and found == reducer.empty):
        return None
    if isinstance(found, dict):
        return (found["sum"], int(found["count"])) if found["count"] else None
    return found


def _quantity(
    aggregation: Record[Aggregation], folded: Folded, measurements: int, found: Any
) -> Quantity:
    mean = found if isinstance(found, tuple) else None
    number = divide(mean[0], Decimal(mean[1])) if mean else found
    return Quantity.of(folded.account_id, aggregation, folded.period, number, measurements, mean)
