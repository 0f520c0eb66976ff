"""All aggregations of a meter as one query."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from meterlake.model.billing import Query
from meterlake.model.catalog import Reduce
from meterlake.model.large_sums import any_large, large
from meterlake.model.money import exact
from meterlake.model.period import naive
from meterlake.model.sql import identifier
from meterlake.stages.usage.aggregate.cuts import SegmentFilter, numbered
from meterlake.stages.usage.aggregate.cuts import parameters as segment_values
from meterlake.stages.usage.aggregate.folds import Fold
from meterlake.stages.usage.aggregate.groups import Groups, groups_of, kind_of
from meterlake.stages.usage.aggregate.held import average, held, is_held
from meterlake.stages.usage.aggregate.reducers import REDUCERS, TIME_AND_UID, Reducer
from meterlake.stages.usage.aggregate.scopes import WITHIN, AggregationScope


def query(
    source: str, folds: Sequence[Fold], scope: AggregationScope, *, wide: bool = False
) -> Query:
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
    return Query("\nUNION ALL\n".join(parts) + order, made.parameters())


def cuts_of(folds: Sequence[Fold]) -> list[SegmentFilter]:
    """The different segments of the folds, in the order of their columns in a row."""
    return list(dict.fromkeys(fold.cut for fold in folds if fold.cut))


@dataclass(frozen=True, slots=True)
class _Query:
    source: str
    folds: Sequence[Fold]
    scope: AggregationScope
    cuts: Sequence[SegmentFilter]
    wide: bool

    def used(self) -> str:
        """What is folded from the measurements of the periods."""
        groups = groups_of(self.folds, self.cuts)
        bounds = self._bounds("m" if groups.several else "w")
        selected = [
            *_keys(bounds),
            "count(*) AS measurements",
            f"{self._large(groups)} AS large",
            *self._values(groups, lambda n, fold: self._reduced(n, fold, groups)),
        ]
        source = f"{numbered(self.source, self.cuts)} AS m{self.scope.cut(WITHIN)}"
        where = f"WHERE m.ts >= $start AND m.ts < $end{self.scope.where}"
        if groups.several:
            source = f"{groups.passing(self._once(source, where))} AS m"
        lines = [
            _select(selected),
            f"FROM {source}",
            *([] if groups.several else [where]),
            _grouped(bounds if self.scope.join else (), groups),
        ]
        return "\n".join(lines)

    def held(self) -> str:
        """The time-weighted averages, whose measurements may lie before the periods."""
        groups = groups_of([fold for fold in self.folds if is_held(fold)], self.cuts)
        bounds = ("m.period_start", "m.period_end")
        selected = [
            *_keys(bounds),
            "0 AS measurements",
            "false AS large",
            *self._values(groups, lambda n, fold: self._average(n, fold, groups)),
        ]
        source = held(numbered(self.source, self.cuts), self.folds, self.cuts, self.scope)
        if groups.several:
            source = groups.passing(source)
        return "\n".join([_select(selected), f"FROM {source} AS m", _grouped(bounds, groups)])

    def parameters(self) -> dict[str, Any]:
        """The values of all parameters."""
        bounds = {"start": naive(self.scope.period.start), "end": naive(self.scope.period.end)}
        shares = {
            f"p{n}": _share(fold.aggregation.entity.percentile)
            for n, fold in enumerate(self.folds, start=1)
            if fold.aggregation.entity.percentile is not None
        }
        return {**bounds, **shares, **segment_values(self.cuts), **self.scope.parameters}

    def _once(self, source: str, where: str) -> str:
        """What is read before it passes several times: what needs no kind is made once."""
        read = ["m.*"]
        if self.scope.join:
            read += self._bounds("w")
        if any(fold.aggregation.entity.aggregation is Reduce.LATEST for fold in self.folds):
            read.append(f"{TIME_AND_UID} AS newest")
        if summed := self._summed():
            read.append(f"{large(summed)} AS large")
        return f"(SELECT {', '.join(read)} FROM {source} {where})"

    def _bounds(self, table: str) -> tuple[str, str]:
        if not self.scope.join:
            return ("CAST($start AS TIMESTAMP)", "CAST($end AS TIMESTAMP)")
        return (f"{table}.period_start", f"{table}.period_end")

    def _values(self, groups: Groups, sql: Callable[[int, Fold], str]) -> list[str]:
        values = [f"{sql(n, fold)} AS a{n}" for n, fold in enumerate(self.folds, start=1)]
        return groups.numbers() + values

    def _value(self, fold: Fold, groups: Groups) -> str:
        return groups.own(kind_of(fold, self.cuts), f"m.{identifier(fold.column)}")

    def _reduced(self, n: int, fold: Fold, groups: Groups) -> str:
        if is_held(fold):
            return "NULL"
        reducer = _reducer(fold)
        sql = (reducer.wide if self.wide else None) or reducer.sql
        if groups.several:
            sql = sql.replace(TIME_AND_UID, "m.newest")
        return sql.replace("{v}", self._value(fold, groups)).replace("{p}", f"$p{n}")

    def _average(self, n: int, fold: Fold, groups: Groups) -> str:
        if not is_held(fold):
            return "NULL"
        until = groups.own(kind_of(fold, self.cuts), f"m.until{n}")
        return average(self._value(fold, groups), until)

    def _large(self, groups: Groups) -> str:
        summed = self._summed()
        if groups.several and summed:
            return "coalesce(bool_or(m.large), false)"
        return any_large(summed)

    def _summed(self) -> list[str]:
        folds = [fold for fold in self.folds if not is_held(fold)]
        return sorted({f"m.{identifier(fold.column)}" for fold in folds if _reducer(fold).wide})


def _select(selected: Sequence[str]) -> str:
    return "SELECT\n  " + ",\n  ".join(selected)


def _keys(bounds: tuple[str, str]) -> list[str]:
    return ["m.account_id", f"{bounds[0]} AS period_start", f"{bounds[1]} AS period_end"]


def _grouped(bounds: Sequence[str], groups: Groups) -> str:
    return f"GROUP BY {', '.join(['m.account_id', *bounds, *groups.keys()])}"


def _reducer(fold: Fold) -> Reducer:
    return REDUCERS[fold.aggregation.entity.aggregation]


def _share(percentile: Decimal) -> Decimal:
    with exact():
        return percentile.scaleb(-2)
