"""Measurements to what accounts used: one scan of the lake per meter and scope.

Only `period_usage` calls it, which is the one road to a quantity.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import duckdb

from meterlake.model.bills.bill import MeterUsage
from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.entity import Configuration, Record
from meterlake.stages.usage import aggregate
from meterlake.stores.lake import quantities
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.tables import columns_at

# The scopes that a meter, by id, is aggregated over.
Scopes = Callable[[str], Iterable[aggregate.AggregationScope]]


class MeterSource(NamedTuple):
    """What is read in the place of a meter's table: SQL of a relation, and its columns."""

    sql: str
    columns: Collection[str]


def aggregate_meters(
    lake: Lake,
    configuration: Configuration,
    snapshot: int,
    scopes: Scopes,
    instead: Mapping[str, MeterSource] | None = None,
    chosen: Callable[[Record[Aggregation]], bool] = lambda _: True,
) -> dict[str, list[MeterUsage]]:
    """Aggregate every meter with all its aggregations, but for those with SQL of their own.

    Args:
        lake: The organization's lake.
        configuration: Its meters and aggregations.
        snapshot: The snapshot to read.
        scopes: What of a meter is aggregated; each scope is one scan.
        instead: By the ids of meters, what is read in the place of their tables.
        chosen: Which aggregations are wanted.

    Returns:
        By the id of the meter, what each account used of it.
    """
    used = {}
    with lake.reader() as connection:
        for meter, aggregations in aggregate.by_meter(configuration, chosen):
            source, columns = (instead or {}).get(meter.id) or MeterSource(
                aggregate.table(meter.id, snapshot),
                columns_at(connection, meter_table(meter.id), snapshot),
            )
            if columns:
                rollups = aggregate.rollups(meter.entity, aggregations, columns)
                used[meter.id] = [
                    each
                    for scope in scopes(meter.id)
                    for each in _aggregate(
                        connection, scope.reading(source, meter.entity, columns), rollups, scope
                    )
                ]
    return used


def _aggregate(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    rollups: list[aggregate.Rollup],
    scope: aggregate.AggregationScope,
) -> Iterable[MeterUsage]:
    rollups = [each for each in rollups if scope.folds(each.aggregation.id)]
    statement = aggregate.query(source, rollups, scope)
    rows = quantities.rows(connection, *statement)
    if rows is None or aggregate.needs_wide(rows):
        statement = aggregate.query(source, rollups, scope, wide=True)
        rows = quantities.rows(connection, *statement)
        assert rows is not None, "wide sums do not overflow"
    return scope.restore(aggregate.decode(rollups, rows, statement))
