"""All aggregations of a meter as one query.

The kinds of groups of a query: one for usage as a whole, and one for each cut into segments.

Where there are several, every measurement is read once and passes once for each kind, and an
aggregation finds values in its own kind only. Grouping sets would fold every aggregation in every
kind; a query for each kind would read the table as often.

The measurements themselves, account by account, for aggregations with SQL of their own.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.bills.bill import Query
from meterlake.model.catalog.catalog import Meter, Reduce
from meterlake.model.custom_sql import columns_of, stored_columns_of
from meterlake.model.values.period import naive
from meterlake.model.values.sql import any_large, identifier, large
from meterlake.stages.usage.aggregate.reducers import REDUCERS, TIME_AND_UID, Reducer, share
from meterlake.stages.usage.aggregate.rollups import Rollup
from meterlake.stages.usage.aggregate.scopes import WITHIN, AggregationScope
from meterlake.stages.usage.aggregate.segments import SegmentFilter, number_segments
from meterlake.stages.usage.aggregate.segments import parameters as segment_values
from meterlake.stages.usage.aggregate.time_weighted import (
    average,
    held_measurements,
    is_time_weighted,
)

# The number of the kind without segments; that of a cut is its place among all.
_WHOLE = 0
# Account, start and end of the period, number of the segment: then come the columns of the table.
KEYS: Final = 4


@dataclass(frozen=True, slots=True)
class Groups:
    """The kinds of groups that folds need; made by `groups_of`.

    Attributes:
        kinds: Their numbers.
        segment_filters: How many cuts the rows of the query have numbers of segments for.
    """

    kinds: tuple[int, ...]
    segment_filters: int

    @property
    def several(self) -> bool:
        """Whether measurements pass more than once."""
        return len(self.kinds) > 1

    def passing(self, source: str) -> str:
        """The measurements once for each of several kinds.

        Args:
            source: What is read, with the numbers of segments.
        """
        listed = ", ".join(f"({kind})" for kind in self.kinds)
        numbers = " ".join(f"WHEN {kind} THEN m.segment{kind}" for kind in self.kinds if kind)
        return (
            f"(\n  SELECT m.*, g.kind, CASE g.kind {numbers} END AS number\n  FROM {source} AS m,"
            f"\n    (VALUES {listed}) AS g(kind)\n)"
        )

    def own(self, kind: int, value: str) -> str:
        """A value where the aggregation of a kind is to see it, NULL where it is not."""
        return f"CASE WHEN m.kind = {kind} THEN {value} END" if self.several else value

    def numbers(self) -> list[str]:
        """The number of the segment of each cut; NULL in groups of other kinds."""
        return [self._number(kind) for kind in range(1, self.segment_filters + 1)]

    def keys(self) -> list[str]:
        """What groups are told apart by, beside their accounts and periods."""
        if self.several:
            return ["m.kind", "m.number"]
        return [f"m.segment{kind}" for kind in self.kinds if kind]

    def _number(self, kind: int) -> str:
        if kind not in self.kinds:
            return "CAST(NULL AS INTEGER)"
        return self.own(kind, "m.number") if self.several else f"m.segment{kind}"


def kind_of(rollup: Rollup, segment_filters: Sequence[SegmentFilter]) -> int:
    """The number of the kind of groups that a fold belongs to."""
    return (
        _WHOLE
        if rollup.segment_filter is None
        else segment_filters.index(rollup.segment_filter) + 1
    )


def groups_of(rollups: Sequence[Rollup], segment_filters: Sequence[SegmentFilter]) -> Groups:
    """The groups that folds need; without any fold, those of usage as a whole."""
    kinds = {kind_of(rollup, segment_filters) for rollup in rollups} or {_WHOLE}
    return Groups(tuple(sorted(kinds)), len(segment_filters))


def query(
    source: str, rollups: Sequence[Rollup], scope: AggregationScope, *, wide: bool = False
) -> Query:
    """Compile all aggregations of a meter into one query.

    Args:
        source: What is read: what the scope makes of a `table`.
        rollups: The aggregations; without any, measurements are counted.
        scope: Which measurements, and by what they are grouped.
        wide: Sum whatever there is, at several times the cost. Needed if DuckDB reports an
            overflow, or if `needs_wide` says so.

    Returns:
        A query whose rows `decode` reads.
    """
    made = _Query(source, rollups, scope, segment_filters_of(rollups), wide)
    parts = [
        made.aggregate_sql(),
        *([made.time_weighted_sql()] if any(map(is_time_weighted, rollups)) else []),
    ]
    places = (1, 2, 3, *(6 + k for k, _ in enumerate(made.segment_filters)))
    if len(parts) > 1:
        places += (4,)
    order = f"\nORDER BY {', '.join(map(str, places))}"
    return Query("\nUNION ALL\n".join(parts) + order, made.parameters())


def segment_filters_of(rollups: Sequence[Rollup]) -> list[SegmentFilter]:
    """The different segments of the folds, in the order of their columns in a row."""
    return list(dict.fromkeys(rollup.segment_filter for rollup in rollups if rollup.segment_filter))


@dataclass(frozen=True, slots=True)
class _Query:
    source: str
    rollups: Sequence[Rollup]
    scope: AggregationScope
    segment_filters: Sequence[SegmentFilter]
    wide: bool

    def aggregate_sql(self) -> str:
        """What is folded from the measurements of the periods."""
        groups = groups_of(self.rollups, self.segment_filters)
        bounds = self._bounds("m" if groups.several else "w")
        selected = [
            *_keys(bounds),
            "count(*) AS measurements",
            f"{self._large(groups)} AS large",
            *self._values(groups, lambda n, rollup: self._reduction(n, rollup, groups)),
        ]
        source = f"{number_segments(self.source, self.segment_filters)} AS m{self.scope.restrict(WITHIN)}"
        where = f"WHERE m.ts >= $start AND m.ts < $end{self.scope.where}"
        if groups.several:
            source = f"{groups.passing(self._once(source, where))} AS m"
        lines = [
            _select(selected),
            f"FROM {source}",
            *([] if groups.several else [where]),
            _group_by(bounds if self.scope.join else (), groups),
        ]
        return "\n".join(lines)

    def time_weighted_sql(self) -> str:
        """The time-weighted averages, whose measurements may lie before the periods."""
        groups = groups_of(
            [rollup for rollup in self.rollups if is_time_weighted(rollup)], self.segment_filters
        )
        bounds = ("m.period_start", "m.period_end")
        selected = [
            *_keys(bounds),
            "0 AS measurements",
            "false AS large",
            *self._values(groups, lambda n, rollup: self._average(n, rollup, groups)),
        ]
        source = held_measurements(
            number_segments(self.source, self.segment_filters),
            self.rollups,
            self.segment_filters,
            self.scope,
        )
        if groups.several:
            source = groups.passing(source)
        return "\n".join([_select(selected), f"FROM {source} AS m", _group_by(bounds, groups)])

    def parameters(self) -> dict[str, Any]:
        """The values of all parameters."""
        bounds = {"start": naive(self.scope.period.start), "end": naive(self.scope.period.end)}
        shares = {
            f"p{n}": share(rollup.aggregation.entity.percentile)
            for n, rollup in enumerate(self.rollups, start=1)
            if rollup.aggregation.entity.percentile is not None
        }
        return {**bounds, **shares, **segment_values(self.segment_filters), **self.scope.parameters}

    def _once(self, source: str, where: str) -> str:
        """What is read before it passes several times: what needs no kind is made once."""
        read = ["m.*"]
        if self.scope.join:
            read += self._bounds("w")
        if any(rollup.aggregation.entity.aggregation is Reduce.LATEST for rollup in self.rollups):
            read.append(f"{TIME_AND_UID} AS newest")
        if summed := self._summed_columns():
            read.append(f"{large(summed)} AS large")
        return f"(SELECT {', '.join(read)} FROM {source} {where})"

    def _bounds(self, table: str) -> tuple[str, str]:
        if not self.scope.join:
            return ("CAST($start AS TIMESTAMP)", "CAST($end AS TIMESTAMP)")
        return (f"{table}.period_start", f"{table}.period_end")

    def _values(self, groups: Groups, sql: Callable[[int, Rollup], str]) -> list[str]:
        values = [f"{sql(n, rollup)} AS a{n}" for n, rollup in enumerate(self.rollups, start=1)]
        return groups.numbers() + values

    def _value(self, rollup: Rollup, groups: Groups) -> str:
        return groups.own(kind_of(rollup, self.segment_filters), f"m.{identifier(rollup.column)}")

    def _reduction(self, n: int, rollup: Rollup, groups: Groups) -> str:
        if is_time_weighted(rollup):
            return "NULL"
        reducer = _reducer(rollup)
        sql = (reducer.wide if self.wide else None) or reducer.sql
        if groups.several:
            sql = sql.replace(TIME_AND_UID, "m.newest")
        return sql.replace("{v}", self._value(rollup, groups)).replace("{p}", f"$p{n}")

    def _average(self, n: int, rollup: Rollup, groups: Groups) -> str:
        if not is_time_weighted(rollup):
            return "NULL"
        until = groups.own(kind_of(rollup, self.segment_filters), f"m.until{n}")
        return average(self._value(rollup, groups), until)

    def _large(self, groups: Groups) -> str:
        summed = self._summed_columns()
        if groups.several and summed:
            return "coalesce(bool_or(m.large), false)"
        return any_large(summed)

    def _summed_columns(self) -> list[str]:
        rollups = [rollup for rollup in self.rollups if not is_time_weighted(rollup)]
        return sorted(
            {f"m.{identifier(rollup.column)}" for rollup in rollups if _reducer(rollup).wide}
        )


def _select(selected: Sequence[str]) -> str:
    return "SELECT\n  " + ",\n  ".join(selected)


def _keys(bounds: tuple[str, str]) -> list[str]:
    return ["m.account_id", f"{bounds[0]} AS period_start", f"{bounds[1]} AS period_end"]


def _group_by(bounds: Sequence[str], groups: Groups) -> str:
    return f"GROUP BY {', '.join(['m.account_id', *bounds, *groups.keys()])}"


def _reducer(rollup: Rollup) -> Reducer:
    return REDUCERS[rollup.aggregation.entity.aggregation]


def measurements(
    source: str,
    meter: Meter,
    columns: Collection[str],
    segment_filter: SegmentFilter | None,
    scope: AggregationScope,
) -> Query:
    """Compile the query of the rows of `measurements`, whatever account and segment they are of.

    Args:
        source: What is read: what the scope makes of a `table`.
        meter: The meter.
        columns: The columns that its table has at the snapshot.
        segment_filter: The segments that the rows are told apart by.
        scope: Which measurements, and over which periods.

    Returns:
        A query whose rows are sorted by their `KEYS`, then by time and uid.
    """
    segment_filters = [segment_filter] if segment_filter else []
    bounds = ("w.period_start", "w.period_end")
    if not scope.join:
        bounds = ("CAST($start AS TIMESTAMP)", "CAST($end AS TIMESTAMP)")
    types = columns_of(meter)
    read = [
        f"{f'm.{identifier(stored)}' if stored in columns else f'CAST(NULL AS {types[name]})'}"
        f" AS {identifier(name)}"
        for name, stored in stored_columns_of(meter).items()
    ]
    keys = ["m.account_id", *bounds, "m.segment1" if segment_filter else "NULL"]
    lines = [
        "SELECT\n  " + ",\n  ".join([*(f"{key} AS k{n}" for n, key in enumerate(keys)), *read]),
        f"FROM {number_segments(source, segment_filters)} AS m{scope.restrict(WITHIN)}",
        f"WHERE m.ts >= $start AND m.ts < $end{scope.where}",
        "ORDER BY 1, 2, 3, 4, m.ts, m.uid",
    ]
    times = {"start": naive(scope.period.start), "end": naive(scope.period.end)}
    return Query("\n".join(lines), {**times, **segment_values(segment_filters), **scope.parameters})
