"""The one road to a quantity: nothing else aggregates measurements of the lake.

`aggregate` and every backfill take it with the scopes of a `UsageAssembler`, `bill` with the parts
of a month that bills charge for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from meterlake.model.billing import MeterUsage
from meterlake.model.catalog import Aggregation
from meterlake.model.entity import Configuration
from meterlake.model.period import Period
from meterlake.pipeline.usage.custom_sql import aggregate_custom_sql
from meterlake.pipeline.usage.meter_rollup import MeterSource, Scopes, aggregate_meters
from meterlake.stages.usage.aggregate import AggregationScope, whole, windows
from meterlake.stages.usage.assemble import UsageAssembler
from meterlake.stages.usage.configuration import UsageConfiguration
from meterlake.stages.usage.rows import SqlUsage
from meterlake.stores.custom_sql import SqlLimits, checked
from meterlake.stores.lake.lake import Lake

UNCHANGED: Mapping[str, MeterSource] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LakeState:
    """Which measurements are read.

    Attributes:
        snapshot: The snapshot of the lake.
        instead: By the ids of meters, what is read in the place of their tables.
    """

    lake: Lake
    snapshot: int
    instead: Mapping[str, MeterSource] = field(default_factory=lambda: UNCHANGED)


class MeterTotals(NamedTuple):
    """What the measurements of some meters come to.

    Attributes:
        simple: By the id of the meter, what each account used.
        custom: What the SQL of aggregations gave.
    """

    simple: dict[str, list[MeterUsage]]
    custom: SqlUsage

    def beside(self, other: "MeterTotals") -> "MeterTotals":
        """Together with that of other meters."""
        custom = SqlUsage(
            {**self.custom.by_meter, **other.custom.by_meter},
            [*self.custom.failures, *other.custom.failures],
        )
        return MeterTotals({**self.simple, **other.simple}, custom)


@dataclass(frozen=True, slots=True)
class BilledParts:
    """Of which times bills need quantities.

    Attributes:
        period: The month as a whole.
        accounts: The ids of the accounts that are billed; all if None.
        windows: By meter, the account ids and their periods other than the month.
    """

    period: Period
    accounts: Collection[str] | None
    windows: Mapping[str, Sequence[tuple[str, Period]]]

    def scopes(self, meter_id: str) -> list[AggregationScope]:
        """The month as a whole, and one more scan for all the accounts that need parts of it."""
        scopes = [whole(self.period, self.accounts)]
        parts = self.windows.get(meter_id)
        return [*scopes, windows(parts)] if parts else scopes


def assembler(
    configuration: UsageConfiguration, accounts: Collection[str] | None = None
) -> UsageAssembler:
    """What puts the quantities of a run together, of some accounts or of all."""
    return UsageAssembler(configuration, checked, accounts)


def aggregate_scopes(
    source: LakeState,
    configuration: Configuration,
    scopes: Scopes,
    limits: SqlLimits,
    meters: Collection[str] | None = None,
) -> MeterTotals:
    """Aggregate measurements with all aggregations of their meters.

    Args:
        source: Which measurements.
        configuration: The meters and aggregations.
        scopes: What of a meter is aggregated.
        limits: What the SQL of aggregations may take.
        meters: The ids of the meters; all if None.
    """
    if meters is not None and not meters:
        return MeterTotals({}, SqlUsage())

    def chosen(meter_id: str) -> Collection[AggregationScope]:
        return list(scopes(meter_id)) if meters is None or meter_id in meters else ()

    lake, snapshot, instead = source.lake, source.snapshot, source.instead
    custom = aggregate_custom_sql(lake, configuration, snapshot, chosen, limits, instead)
    simple = aggregate_meters(lake, configuration, snapshot, chosen, instead)
    if meters is not None:
        simple = {id_: found for id_, found in simple.items() if id_ in meters}
    return MeterTotals(simple, custom)


def usage_of_period(
    source: LakeState, configuration: UsageConfiguration, limits: SqlLimits
) -> UsageAssembler:
    """All quantities of all accounts in the period of a run."""
    usage = assembler(configuration)
    totals = aggregate_scopes(source, configuration.entities, usage.scopes, limits)
    usage.complete(totals.simple, totals.custom)
    return usage


def usage_to_bill(
    source: LakeState,
    configuration: Configuration,
    parts: BilledParts,
    billable: Callable[[Aggregation], bool],
) -> dict[str, list[MeterUsage]]:
    """What accounts used of each meter in a month, and in the parts of it that bills charge for.

    Args:
        source: Which measurements.
        configuration: The meters and aggregations.
        parts: Whose usage, and when.
        billable: Which aggregations a bill may have.
    """
    return aggregate_meters(
        source.lake, configuration, source.snapshot, parts.scopes, source.instead, billable
    )
