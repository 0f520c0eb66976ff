"""Which measurements are folded, and over which periods."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from meterlake.model.bills.bill import MeterUsage
from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.values.period import Period, naive
from meterlake.stages.usage.aggregate.filters import SelectedUsage

# A measurement that lies in a period by its `ts`.
WITHIN: Final = "m.ts >= w.period_start AND m.ts < w.period_end"
# Periods of the accounts' own; the lists are parallel.
_WINDOWS: Final = """
JOIN (
  SELECT
    unnest(CAST($window_accounts AS VARCHAR[])) AS account_id,
    unnest(CAST($window_starts AS TIMESTAMP[])) AS period_start,
    unnest(CAST($window_ends AS TIMESTAMP[])) AS period_end
) AS w ON m.account_id = w.account_id AND {within}"""
# The same periods for every account.
_PERIODS: Final = """
JOIN (
  SELECT
    unnest(CAST($window_starts AS TIMESTAMP[])) AS period_start,
    unnest(CAST($window_ends AS TIMESTAMP[])) AS period_end
) AS w ON {within}"""
_RESTRICTED: Final = " AND m.account_id IN (SELECT unnest(CAST($accounts AS VARCHAR[])))"
_OTHERS: Final = " AND m.account_id NOT IN (SELECT unnest(CAST($apart AS VARCHAR[])))"
# The source, with what children use in their pooled times under the account of their parent.
_POOLED: Final = """(
  SELECT r.* REPLACE (coalesce(p.parent_id, r.account_id) AS account_id)
  FROM (FROM {source}) AS r
  LEFT JOIN (
    SELECT
      unnest(CAST($pool_children AS VARCHAR[])) AS child_id,
      unnest(CAST($pool_parents AS VARCHAR[])) AS parent_id,
      unnest(CAST($pool_starts AS TIMESTAMP[])) AS pool_start,
      unnest(CAST($pool_ends AS TIMESTAMP[])) AS pool_end
  ) AS p ON r.account_id = p.child_id AND r.ts >= p.pool_start AND r.ts < p.pool_end
)"""


@dataclass(frozen=True, slots=True)
class AggregationScope:
    """Which measurements are folded, and over which periods; made by the functions below.

    Attributes:
        period: The time that holds all of them.
        join: The periods `w` that the measurements `m` are cut by, if they are `{within}` them;
            the one period if empty.
        where: A further condition.
        parameters: The parameters of all.
        over: What stands between the measurements and the table `{source}`.
        aggregation_ids: What they are folded with; all aggregations if None.
        selected: What of the accounts' usage counts; all if None.
    """

    period: Period
    join: str = ""
    where: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    over: str = "{source}"
    aggregation_ids: Collection[str] | None = None
    selected: SelectedUsage | None = None

    def wrap(self, source: str) -> str:
        """A table with what stands between it and the measurements."""
        return self.over.replace("{source}", source)

    def reading(self, source: str, meter: Meter, columns: Collection[str]) -> str:
        """What is read of a meter's table that has some columns."""
        read = self.wrap(source)
        return read if self.selected is None else self.selected.reading(read, meter, columns)

    def restore(self, found: Iterable[MeterUsage]) -> Iterable[MeterUsage]:
        """What the measurements came to, as that of the accounts whose they are."""
        return found if self.selected is None else map(self.selected.restore, found)

    def account_of(self, name: str) -> tuple[str, UsageSelection | None]:
        """The account of measurements, and what of its usage counts."""
        return (name, None) if self.selected is None else self.selected.find(name)

    def folds(self, aggregation_id: str) -> bool:
        """Whether measurements are folded with an aggregation."""
        return self.aggregation_ids is None or aggregation_id in self.aggregation_ids

    def restrict(self, within: str) -> str:
        """The join with the periods, on a condition over measurements `m` and periods `w`."""
        return self.join.replace("{within}", within)


def whole(period: Period, account_ids: Collection[str] | None = None) -> AggregationScope:
    """One period as a whole, for every account or for some."""
    if account_ids is None:
        return AggregationScope(period)
    return AggregationScope(period, where=_RESTRICTED, parameters={"accounts": sorted(account_ids)})


def others(period: Period, apart: Collection[str]) -> AggregationScope:
    """One period as a whole, for every account but some."""
    return AggregationScope(period, where=_OTHERS, parameters={"apart": sorted(apart)})


def windows(
    asked: Sequence[tuple[str, Period]],
    aggregation_ids: Collection[str] | None = None,
    selections: Sequence[UsageSelection] = (),
    pools: Sequence[tuple[str, str, Period]] = (),
) -> AggregationScope:
    """Accounts over periods of their own, in one scan; different pairs of account id and period.

    Args:
        asked: The pairs.
        aggregation_ids: What measurements are aggregated with; all aggregations if None.
        selections: What of the usage counts for each of the pairs, which may repeat then; all if
            empty.
        pools: Whose measurements count as those of the asked ones, as in `pooled_windows`.
    """
    if pools:
        found = windows(asked, aggregation_ids, selections)
        times = _pool_parameters(pools)
        return replace(found, over=_POOLED, parameters={**found.parameters, **times})
    if selections:
        selected = SelectedUsage(
            (account_id, selection)
            for (account_id, _), selection in zip(asked, selections, strict=True)
        )
        named = [
            (selected.name(account_id, selection), period)
            for (account_id, period), selection in zip(asked, selections, strict=True)
        ]
        scope = windows(named, aggregation_ids)
        parameters = {**scope.parameters, **selected.parameters()}
        return replace(scope, parameters=parameters, selected=selected)
    own_windows = each([period for _, period in asked])
    accounts = [account_id for account_id, _ in asked]
    return replace(
        own_windows,
        join=_WINDOWS,
        parameters={**own_windows.parameters, "window_accounts": accounts},
        aggregation_ids=aggregation_ids,
    )


def pooled_windows(
    asked: Sequence[tuple[str, Period]], pools: Sequence[tuple[str, str, Period]]
) -> AggregationScope:
    """Like `windows`, with what other accounts use counted as the asked ones' own.

    Args:
        asked: Account ids and their periods.
        pools: Parent, child, and a time in which the child's measurements are the parent's.
            A measurement may count for several.
    """
    return windows(asked, pools=pools)


def _pool_parameters(pools: Sequence[tuple[str, str, Period]]) -> dict[str, Any]:
    parents, children, times = zip(*pools, strict=True)
    return {
        "pool_parents": list(parents),
        "pool_children": list(children),
        "pool_starts": [naive(time.start) for time in times],
        "pool_ends": [naive(time.end) for time in times],
    }


def each(periods: Sequence[Period]) -> AggregationScope:
    """Every account over each of several periods, such as the days of a month."""
    starts = [period.start for period in periods]
    ends = [period.end for period in periods]
    return AggregationScope(
        Period(min(starts), max(ends)),
        join=_PERIODS,
        parameters={
            "window_starts": [naive(start) for start in starts],
            "window_ends": [naive(end) for end in ends],
        },
    )
