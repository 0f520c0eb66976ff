"""The verb `aggregate`: the quantities of a period, kept in the lake."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl

from meterlake.model.bills.bill import Quantity, Query
from meterlake.model.customers.recurring_period import NamedPeriod, PeriodSpec
from meterlake.model.usage.quantity import COMPOUND, SIMPLE
from meterlake.model.values import wire
from meterlake.model.values.money import plain, to_lake
from meterlake.model.values.period import Month, Period, naive
from meterlake.pipeline.usage.garbage import rare_garbage_searches
from meterlake.pipeline.usage.period_usage import LakeState, usage_of_period
from meterlake.pipeline.usage.usage_configuration import calculated_with, read
from meterlake.stages.usage.compound import Uncalculated
from meterlake.stages.usage.rows import SqlFailure, UsageRow
from meterlake.stores import Organization
from meterlake.stores.custom_sql import limits_of
from meterlake.stores.lake import quantities
from meterlake.stores.lake.quantity_runs import RunKey


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """What aggregating a period came to.

    Attributes:
        run: The organization's period; accounts may have periods of their own that begin in it.
        period: The same as instants.
        snapshot: The lake's snapshot that was read.
        run_id: The run that holds the quantities; None if there are none and never were.
        appended: Whether the run is new; else the newest one had the same quantities already.
        rows: All quantities that could be stored.
        overflows: Quantities with more integer digits than the lake keeps; they are not stored.
        unmatched: What segmented aggregations yield for usage that matches none of their segments.
        left_out: The aggregations, simple and compound, that are not calculated, and why.
        failures: The quantities of compound aggregations, and of those with SQL of their own, that
            single accounts lack.
    """

    run: NamedPeriod
    period: Period
    snapshot: int
    run_id: str | None
    appended: bool
    rows: list[UsageRow]
    overflows: list[Quantity]
    unmatched: list[Quantity] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    failures: list[Uncalculated | SqlFailure] = field(default_factory=list)

    @property
    def quantities(self) -> list[Quantity]:
        """All quantities that could be stored, without what is beside them in a row."""
        return [row.quantity for row in self.rows]

    @property
    def counts(self) -> dict[str, int]:
        """How many quantities there are, by aggregation id."""
        return dict(Counter(each.aggregation_id for each in self.quantities))


def aggregate(
    organization: Organization, period: Month | PeriodSpec, snapshot: int | None = None
) -> AggregateResult:
    """Aggregate a period of an organization and keep the quantities.

    Aggregating again appends nothing, unless measurements, plans or aggregations have changed.

    Args:
        organization: The organization.
        period: A calendar month means the monthly period that begins in it.
        snapshot: The lake's snapshot that is read, such as that of bills; the newest one if None.

    Raises:
        Invalid: There is no such period.
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    with rare_garbage_searches():
        calculated = calculate(organization, period, snapshot)
        run = calculated.to_store(organization.now())
        stored = quantities.append(organization.lake, calculated.key, run)
    return AggregateResult(
        run=calculated.run,
        period=calculated.period,
        snapshot=calculated.snapshot,
        run_id=stored.id,
        appended=stored.appended,
        rows=calculated.rows,
        overflows=calculated.overflows,
        unmatched=calculated.unmatched,
        left_out=calculated.left_out,
        failures=calculated.failures,
    )


@dataclass(frozen=True, slots=True)
class PeriodQuantities:
    """The quantities of a period, not stored yet; the attributes are those of `AggregateResult`.

    Attributes:
        configuration: What tells the configuration that they were calculated with.
    """

    run: NamedPeriod
    period: Period
    snapshot: int
    configuration: str
    rows: list[UsageRow]
    overflows: list[Quantity]
    unmatched: list[Quantity]
    left_out: list[tuple[str, str]]
    failures: list[Uncalculated | SqlFailure]

    @property
    def key(self) -> RunKey:
        """What the run is about."""
        return RunKey(self.run.frequency.value, self.run.name)

    def to_store(self, now: datetime) -> quantities.RunQuantities:
        """What is to be stored."""
        rows, statements = frames(self.rows)
        # Who reads them instead of measurements would not know of those that cannot be stored.
        configuration = None if self.overflows else self.configuration
        return quantities.RunQuantities(rows, self.snapshot, naive(now), statements, configuration)


def calculate(
    organization: Organization, period: Month | PeriodSpec, snapshot: int | None = None
) -> PeriodQuantities:
    """Calculate the quantities of a period, as `aggregate` does, and store nothing.

    Raises:
        Invalid: There is no such period.
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    lake = organization.lake
    request = PeriodSpec.month(period) if isinstance(period, Month) else period
    configuration = read(organization.state, organization.id, request)
    snapshot = lake.snapshot() if snapshot is None else snapshot
    usage = usage_of_period(
        LakeState(lake, snapshot), configuration, limits_of(organization.settings)
    )
    rows = usage.rows
    overflows = [each.quantity for each in rows if each.quantity.overflows]
    if overflows:
        rows = [each for each in rows if not each.quantity.overflows]
    return PeriodQuantities(
        run=configuration.run,
        period=usage.cycles.period,
        snapshot=snapshot,
        configuration=calculated_with(configuration),
        rows=rows,
        overflows=overflows,
        unmatched=usage.unmatched,
        left_out=usage.left_out,
        failures=usage.failures,
    )


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
