"""What accounts use in a run, calculated as `aggregate` does, and over changed measurements too."""

from collections.abc import Collection, Mapping

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.pipeline.backfill.priced import World
from meterlake.pipeline.usage.meter_rollup import MeterSource
from meterlake.pipeline.usage.period_usage import (
    UNCHANGED,
    LakeState,
    MeterTotals,
    aggregate_scopes,
    assembler,
)
from meterlake.stages.usage.assemble import UsageAssembler
from meterlake.stages.usage.cycles import UsageConfiguration
from meterlake.stages.usage.rows import UsageRow
from meterlake.stores.custom_sql import limits_of

# By meter, what is read in the place of its measurements.
Instead = Mapping[str, MeterSource]


def total_usage(
    world: World, usage: UsageAssembler, meters: Collection[str], instead: Instead = UNCHANGED
) -> MeterTotals:
    """What the measurements of some meters come to."""
    limits = limits_of(world.organization.settings)
    source = LakeState(world.lake, world.snapshot, instead)
    return aggregate_scopes(source, usage.entities, usage.scopes, limits, meters)


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
    entities = configuration.entities
    was, will = assembler(configuration, accounts), assembler(configuration, accounts)
    others: set[str] = set()
    if any(entities.all(CompoundAggregation)):
        others = {each.entity.meter_id for each in entities.all(Aggregation)} - instead.keys()
    rest = total_usage(world, was, others)
    for usage, using in ((was, UNCHANGED), (will, instead)):
        found = total_usage(world, usage, instead.keys(), using).beside(rest)
        usage.complete(found.simple, found.custom)
    return storable(was.rows), storable(will.rows)


def storable(rows: Collection[UsageRow]) -> list[UsageRow]:
    """The quantities that a lake can keep."""
    return [row for row in rows if not row.quantity.overflows]
