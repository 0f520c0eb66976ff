"""The aggregations of a meter, and what they read of its table."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.custom_sql import InvalidSql, columns_of
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.sql import identifier
from meterlake.stages.usage.aggregate.segments import SegmentFilter, column, segment_filter_of


class Rollup(NamedTuple):
    """An aggregation, the column of the meter's table that it reads, and its segments."""

    aggregation: Record[Aggregation]
    column: str
    segment_filter: SegmentFilter | None = None


def by_meter(
    configuration: Configuration,
    chosen: Callable[[Record[Aggregation]], bool] = lambda _: True,
) -> list[tuple[Record[Meter], list[Record[Aggregation]]]]:
    """Every meter with its aggregations, in an order that does not change.

    Args:
        configuration: The meters and aggregations.
        chosen: Which aggregations are wanted. Those with SQL of their own are never there: they
            are no part of the meter's query.
    """
    return [
        (
            meter,
            sorted(
                (
                    each
                    for each in configuration.where(Aggregation, "meter_id", meter.id)
                    if each.entity.aggregation is not Reduce.CUSTOM_SQL and chosen(each)
                ),
                key=lambda each: each.id,
            ),
        )
        for meter in sorted(configuration.all(Meter), key=lambda each: each.id)
    ]


def not_calculated(
    configuration: Configuration, check: Callable[[str, Collection[str]], None]
) -> list[tuple[Record[Aggregation], str]]:
    """The aggregations that are not calculated, and why.

    Their SQL was saved by a version that did not look at it.

    Args:
        configuration: The meters and aggregations.
        check: Raises InvalidSql if a query over columns is not allowed.
    """
    found = []
    for record in configuration.all(Aggregation):
        if record.entity.aggregation is Reduce.CUSTOM_SQL:
            meter = configuration.get(Meter, record.entity.meter_id).entity
            try:
                check(record.entity.custom_sql or "", columns_of(meter))
            except InvalidSql as error:
                found.append((record, f"its SQL is not allowed: {error}"))
    return found


def table(meter_id: str, snapshot: int) -> str:
    """The SQL of a meter's measurements as a snapshot of the lake has them."""
    return f"lake.{identifier(meter_table(meter_id))} AT (VERSION => {int(snapshot)})"


def rollups(
    meter: Meter, aggregations: Iterable[Record[Aggregation]], columns: Collection[str]
) -> list[Rollup]:
    """The aggregations of a meter that can have values.

    Args:
        meter: The meter.
        aggregations: Its aggregations.
        columns: The columns that its table has at the snapshot; a new field comes to it with the
            first measurements that carry it.
    """
    found = []
    for aggregation in aggregations:
        read = column(meter, aggregation.entity.target_field)
        if read in columns:
            segment_filter = segment_filter_of(aggregation.entity, meter, columns)
            found.append(Rollup(aggregation, read, segment_filter))
    return found
