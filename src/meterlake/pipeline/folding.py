"""Measurements to what accounts used: one scan of the lake per meter and scope."""

from collections.abc import Callable, Iterable

import duckdb

from meterlake.model.billing import Folded
from meterlake.model.entity import Configuration
from meterlake.model.measurement import meter_table
from meterlake.stages import aggregate
from meterlake.stores import quantities
from meterlake.stores.lake import Lake

# The scopes that a meter, by id, is folded over.
Scopes = Callable[[str], Iterable[aggregate.Scope]]


def fold(
    lake: Lake, configuration: Configuration, snapshot: int, scopes: Scopes
) -> dict[str, list[Folded]]:
    """Fold every meter with all its aggregations.

    Args:
        lake: The organization's lake.
        configuration: Its meters and aggregations.
        snapshot: The snapshot to read.
        scopes: What of a meter is folded; each scope is one scan.

    Returns:
        By the id of the meter, what each account used of it.
    """
    used = {}
    with lake.reader() as connection:
        for meter, aggregations in aggregate.by_meter(configuration):
            columns = quantities.columns(connection, meter_table(meter.id), snapshot)
            if columns:
                folds = aggregate.folds(meter.entity, aggregations, columns)
                source = aggregate.table(meter.id, snapshot)
                used[meter.id] = [
                    folded
                    for scope in scopes(meter.id)
                    for folded in _folded(connection, source, folds, scope)
                ]
    return used


def _folded(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    folds: list[aggregate.Fold],
    scope: aggregate.Scope,
) -> Iterable[Folded]:
    rows = quantities.rows(connection, *aggregate.query(source, folds, scope))
    if rows is None or aggregate.needs_wide(rows):
        rows = quantities.rows(connection, *aggregate.query(source, folds, scope, wide=True))
        assert rows is not None, "wide sums do not overflow"
    return aggregate.decode(folds, rows)
