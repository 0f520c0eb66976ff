"""All aggregations of a meter as one query."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from meterlake.model.billing import Statement
from meterlake.model.large_sums import any_large
from meterlake.model.money import exact
from meterlake.model.period import naive
from meterlake.model.sql import identifier
from meterlake.stages.aggregate.cuts import Cut, numbered
from meterlake.stages.aggregate.cuts import parameters as segment_values
from meterlake.stages.aggregate.folds import Fold
from meterlake.stages.aggregate.held import average, held, is_held
from meterlake.stages.aggregate.reducers import REDUCERS, Reducer
from meterlake.stages.aggregate.scopes import WITHIN, Scope


def query(source: str, folds: Sequence[Fold], scope: Scope, *, wide: bool = False) -> Statement:
    """Compile all aggregations of a meter into one query.

    Args:
        source: What is read: what the scope makes of a `table`.
        folds: The aggregations; without any, measurements are counted.
        scope: Which measurements, and by what they are grouped.
        wide: Sum whatever there is, at several times the cost. Needed if DuckDB reports an
            overflow, or if `needs_wide` says so.

    Returns:
        A query whose rows `decode` reads.
    """
    made = _Query(source, folds, scope, cuts_of(folds), wide)
    parts = [made.used(), *([made.held()] if any(map(is_held, folds)) else [])]
    places = (1, 2, 3, *(6 + k for k, _ in enumerate(made.cuts)))
    if len(parts) > 1:
        places += (4,)
    order = f"\nORDER BY {', '.join(map(str, places))}"
    return Statement("\nUNION ALL\n".join(parts) + order, made.parameters())


def cuts_of(folds: Sequence[Fold]) -> list[Cut]:
    """The different segments of the folds, in the order of their columns in a row."""
    return list(dict.fromkeys(fold.cut for fold in folds if fold.cut))


@dataclass(frozen=True, slots=True)
class _Query:
    source: str
    folds: Sequence[Fold]
    scope: Scope
    cuts: Sequence[Cut]
    wide: bool

    def used(self) -> str:
        """What is folded from the measurements of the periods."""
        several = bool(self.scope.join)
        start, end = (
            ("w.period_start", "w.period_end")
            if several
            else ("CAST($start AS TIMESTAMP)", "CAST($end AS TIMESTAMP)")
        )
        selected = [
            *self._keys(start, end),
            "count(*) AS measurements",
            f"{self._large()} AS large",
            *self._values(self._reduced),
        ]
        lines = [
            "SELECT\n  " + ",\n  ".join(selected),
            f"FROM {numbered(self.source, self.cuts)} AS m{self.scope.cut(WITHIN)}",
            f"WHERE m.ts >= $start AND m.ts < $end{self.scope.where}",
            self._grouped("w" if several else None),
        ]
        return "\n".join(lines)

    def held(self) -> str:
        """The time-weighted averages, whose measurements may lie before the periods."""
        selected = [
            *self._keys("m.period_start", "m.period_end"),
            "0 AS measurements",
            "false AS large",
            *self._values(lambda n, fold: average(fold, n) if is_held(fold) else "NULL"),
        ]
        source = held(numbered(self.source, self.cuts), self.folds, self.cuts, self.scope)
        return "\n".join(
            ["SELECT\n  " + ",\n  ".join(selected), f"FROM {source} AS m", self._grouped("m")]
        )

    def parameters(self) -> dict[str, Any]:
        """The values of all parameters."""
        bounds = {"start": naive(self.scope.period.start), "end": naive(self.scope.period.end)}
        shares = {
            f"p{n}": _share(fold.aggregation.entity.percentile)
            for n, fold in enumerate(self.folds, start=1)
            if fold.aggregation.entity.percentile is not None
        }
        return {**bounds, **shares, **segment_values(self.cuts), **self.scope.parameters}

    def _keys(self, start: str, end: str) -> list[str]:
        return ["m.account_id", f"{start} AS period_start", f"{end} AS period_end"]

    def _values(self, sql: Callable[[int, Fold], str]) -> list[str]:
        numbers = [f"m.segment{k}" for k, _ in enumerate(self.cuts, start=1)]
        return numbers + [f"{sql(n, fold)} AS a{n}" for n, fold in enumerate(self.folds, start=1)]

    def _reduced(self, n: int, fold: Fold) -> str:
        if is_held(fold):
            return "NULL"
        reducer = _reducer(fold)
        sql = (reducer.wide if self.wide else None) or reducer.sql
        return sql.replace("{v}", f"m.{identifier(fold.column)}").replace("{p}", f"$p{n}")

    def _large(self) -> str:
        folds = [fold for fold in self.folds if not is_held(fold)]
        summed = sorted({fold.column for fold in folds if _reducer(fold).wide})
        return any_large([f"m.{identifier(column)}" for column in summed])

    def _grouped(self, bounds: str | None) -> str:
        """One set of groups for all segments of a kind, and one without segments if it is needed."""
        keys = "m.account_id" + (f", {bounds}.period_start, {bounds}.period_end" if bounds else "")
        if not self.cuts:
            return f"GROUP BY {keys}"
        sets = [f"({keys}, m.segment{k})" for k, _ in enumerate(self.cuts, start=1)]
        if any(fold.cut is None for fold in self.folds):
            sets.insert(0, f"({keys})")
        return f"GROUP BY GROUPING SETS ({', '.join(sets)})"


def _reducer(fold: Fold) -> Reducer:
    return REDUCERS[fold.aggregation.entity.aggregation]


def _share(percentile: Decimal) -> Decimal:
    with exact():
        return percentile.scaleb(-2)
