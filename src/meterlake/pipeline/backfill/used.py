"""What accounts use in a run, calculated as `aggregate` does, and over changed measurements too."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from meterlake.model.billing import MeterUsage
from meterlake.model.catalog import Aggregation, CompoundAggregation
from meterlake.pipeline.backfill.priced import World
from meterlake.pipeline.usage.custom_sql import SqlUsage, aggregate_custom_sql
from meterlake.pipeline.usage.folding import MeterSource, aggregate_meters
from meterlake.pipeline.usage.quantity_rows import UsageRow
from meterlake.pipeline.usage.run_usage import RunUsage
from meterlake.pipeline.usage.usage_configuration import UsageConfiguration
from meterlake.stages.usage.aggregate import AggregationScope
from meterlake.stores.custom_sql import limits_of

# By meter, what is read in the place of its measurements.
Instead = Mapping[str, MeterSource]


class MeasurementCounts(NamedTuple):
    """What the measurements of some meters come to."""

    folded: dict[str, list[MeterUsage]]
    own: SqlUsage

    def beside(self, other: "MeasurementCounts") -> "MeasurementCounts":
        """Together with that of other meters."""
        own = SqlUsage(
            {**self.own.folded, **other.own.folded}, [*self.own.failures, *other.own.failures]
        )
        return MeasurementCounts({**self.folded, **other.folded}, own)


def measured(
    world: World, usage: RunUsage, meters: Collection[str], instead: Instead | None = None
) -> MeasurementCounts:
    """Fold the measurements of some meters."""
    if not meters:
        return MeasurementCounts({}, SqlUsage())
    lake, around, snapshot = world.lake, usage.around, world.snapshot
    limits = limits_of(world.stores.settings)

    def scopes(meter_id: str) -> Iterable[AggregationScope]:
        return usage.scopes(meter_id) if meter_id in meters else ()

    folded = aggregate_meters(lake, around, snapshot, scopes, instead)
    own = aggregate_custom_sql(lake, around, snapshot, scopes, limits, instead)
    return MeasurementCounts({id_: each for id_, each in folded.items() if id_ in meters}, own)


def before_and_after(
    world: World,
    configuration: UsageConfiguration,
    accounts: Collection[str],
    instead: Instead,
) -> tuple[list[UsageRow], list[UsageRow]]:
    """The quantities of accounts in a run as measurements are, and as they would be.

    Args:
        world: The organization and the snapshot.
        configuration: What the run reads of State.
        accounts: The accounts; with their parents.
        instead: The meters that change.

    Returns:
        Those of meters that do not change are there only if compound aggregations may read them.
    """
    around = configuration.around
    was, will = RunUsage(configuration, accounts), RunUsage(configuration, accounts)
    others: set[str] = set()
    if any(around.all(CompoundAggregation)):
        others = {each.entity.meter_id for each in around.all(Aggregation)} - instead.keys()
    rest = measured(world, was, others)
    for usage, using in ((was, None), (will, instead)):
        found = measured(world, usage, instead.keys(), using).beside(rest)
        usage.complete(found.folded, found.own)
    return storable(was.rows), storable(will.rows)


def storable(rows: Collection[UsageRow]) -> list[UsageRow]:
    """The quantities that a lake can keep."""
    return [row for row in rows if not row.quantity.overflows]
