"""Quantities as rows of the lake, and the statements that gave them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl

from meterlake.model.bills.bill import Query
from meterlake.model.usage.quantity import COMPOUND, SIMPLE
from meterlake.model.values import wire
from meterlake.model.values.money import plain, to_lake
from meterlake.model.values.period import Period, naive
from meterlake.stages.usage.rows import UsageRow
from meterlake.stores.lake import quantities


def frames(rows: Iterable[UsageRow]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of `quantity` and of `quantity_statement`, without what says which run it is."""
    listed, statements = list(rows), _Statements()
    columns = _columns(listed, [statements.name(row) for row in listed])
    return (
        pl.DataFrame(dict(zip(quantities.SCHEMA, columns, strict=True)), schema=quantities.SCHEMA),
        pl.DataFrame(statements.rows(), schema=quantities.STATEMENT_SCHEMA, orient="row"),
    )


def _columns(rows: Sequence[UsageRow], statement_ids: list[str | None]) -> Iterator[list[Any]]:
    """The columns of SCHEMA, each at once: that is faster than row by row, for Polars three times."""
    found = [row.quantity for row in rows]
    starts_and_ends = _Bounds()
    bounds = [starts_and_ends.of(each.period) for each in found]
    yield [start for start, _ in bounds]
    yield [end for _, end in bounds]
    yield [each.account_id for each in found]
    yield [each.meter_id or None for each in found]
    yield [each.aggregation_id for each in found]
    yield [each.aggregation_version for each in found]
    yield [to_lake(each.value) for each in found]
    means = [each.mean and each.stored_mean for each in found]
    yield [mean and mean[0] for mean in means]
    yield [mean and mean[1] for mean in means]
    values = [plain(each.value) for each in found]
    yield values
    yield [
        value if each.units is each.value else plain(each.units)
        for each, value in zip(found, values, strict=True)
    ]
    yield [each.unit for each in found]
    yield [each.measurements for each in found]
    yield [segment_text(each.segment) for each in found]
    yield [COMPOUND if row.compound else SIMPLE for row in rows]
    yield [row.pooled and row.pooled.value for row in rows]
    yield statement_ids


class _Statements:
    """The different statements of rows, numbered as they come."""

    def __init__(self) -> None:
        # By identity; the statement is kept, so that its identity stays its own.
        self._known: dict[int, tuple[str, str | None, Query]] = {}

    def name(self, row: UsageRow) -> str | None:
        """What the statement of a row is called; None without one."""
        statement = row.statement
        if statement is None:
            return None
        known = self._known.get(id(statement))
        if known is None:
            known = str(len(self._known) + 1), row.quantity.meter_id or None, statement
            self._known[id(statement)] = known
        return known[0]

    def rows(self) -> list[tuple[str, str | None, str, str]]:
        """The rows of `quantity_statement`."""
        return [
            (name, meter_id, statement.sql, parameters_text(statement.parameters))
            for name, meter_id, statement in self._known.values()
        ]


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Parameters as JSON; DuckDB takes its texts for instants and numbers where these belong."""
    return wire.dumps({name: _plain(value) for name, value in parameters.items()}).decode()


def segment_text(segment: Iterable[tuple[str, str]] | None) -> str | None:
    """A segment as JSON with sorted keys."""
    return None if segment is None else wire.dumps_sorted(dict(segment))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return value


class _Bounds:
    """Start and end of periods in naive UTC; most quantities are of the same few periods."""

    def __init__(self) -> None:
        # By identity, which costs no hash; the period is kept, so that its identity stays its own.
        self._known: dict[int, tuple[Period, tuple[datetime, datetime]]] = {}

    def of(self, period: Period) -> tuple[datetime, datetime]:
        known = self._known.get(id(period))
        if known is None:
            known = period, (naive(period.start), naive(period.end))
            self._known[id(period)] = known
        return known[1]
