"""The one road to a quantity: nothing else aggregates measurements of the lake.

`aggregate` and every backfill take it with the scopes of a `UsageAssembler`, `bill` with the parts
of a month that bills charge for, and reads no measurements where all of them are stored already.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

import duckdb

from meterlake.model.bills.bill import MeterUsage, Quantity
from meterlake.model.bills.billed_usage import (
    BilledUsage,
    MissingQuantity,
    UsageOwners,
    UsageWindows,
)
from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Period, naive
from meterlake.pipeline.usage.meter_rollup import (
    MeterSource,
    Scopes,
    aggregate_custom_sql,
    aggregate_meters,
)
from meterlake.pipeline.usage.usage_configuration import calculated_with
from meterlake.settings import Settings
from meterlake.stages.usage.aggregate import (
    AggregationScope,
    not_calculated,
    others,
    whole,
    windows,
)
from meterlake.stages.usage.assemble import UsageAssembler, add_compounds
from meterlake.stages.usage.cycles import Cycles, UsageConfiguration
from meterlake.stages.usage.rows import SqlUsage
from meterlake.stores.custom_sql import SqlLimits, check_query, limits_of
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.quantity_runs import (
    MeterRead,
    NotedRun,
    RunKey,
    StoredSelection,
    has_changed,
    noted_run,
    stored_rows,
)

UNCHANGED: Mapping[str, MeterSource] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BilledParts:
    """Of what bills need quantities, and of which times.

    Attributes:
        period: The month as a whole.
        accounts: The ids of the accounts that are billed; all if None.
        windows: By meter, the account ids and their periods other than the month, the ids of the
            aggregations that they are needed of, what of the usage counts (all if empty), and whose
            measurements are pooled.
        priced: The ids of the aggregations that have a price anywhere, or are parts of compound
            ones that have.
        compounds: By the id of the compound aggregation and what of the usage counts, the account
            ids and periods that bills charge for.
        owners: By the id of usage that is not that of one account, whose custom fields count.
        others: Instead of `accounts`, the ids of those that are not billed; None if these are none.
    """

    period: Period
    accounts: Collection[str] | None
    windows: Mapping[str, Sequence[UsageWindows]]
    priced: Collection[str]
    compounds: Mapping[tuple[str, UsageSelection | None], Collection[tuple[str, Period]]] = field(
        default_factory=dict
    )
    owners: UsageOwners = field(default_factory=dict)
    others: Collection[str] | None = None

    def _month(self) -> AggregationScope:
        if self.others is not None:
            return others(self.period, self.others)
        return whole(self.period, self.accounts)

    def scopes(self, meter_id: str) -> list[AggregationScope]:
        """The month as a whole, and the parts of it that accounts need."""
        return [self._month(), *self.parts(meter_id)]

    def custom_scopes(self, meter_id: str) -> list[AggregationScope]:
        """The same for aggregations with SQL of their own: only those that have a price are run."""
        return [replace(self._month(), aggregation_ids=self.priced), *self.parts(meter_id)]

    def parts(self, meter_id: str) -> list[AggregationScope]:
        """The parts of the month that accounts need, of aggregations that have a price in parts."""
        return [windows(*each) for each in self.windows.get(meter_id, ())]

    def needs(self, aggregation: Record[Aggregation]) -> bool:
        """Whether bills depend on an aggregation; of the others, measurements are counted."""
        # Whoever only holds a value has used something without having measurements.
        return _holds(aggregation) or aggregation.id in self.priced


class StoredUsage:
    """The usage of a month as `aggregate` stored it, for bills.

    Accounts with periods of their own have no quantities of the month as a whole, so these are read
    of measurements, like parts of the month. So is a meter that nothing prices: bills tell how many
    measurements each account has of it, and quantities do not know of all of them.

    Custom SQL is run again: what it could not give is not stored, and nothing stands in for it.
    """

    def __init__(self, lake: Lake, run: UsageConfiguration, parts: BilledParts) -> None:
        self.lake = lake
        self.run = run
        self.parts = parts
        self._cycles = Cycles(run.entities, run.run)
        self._noted: NotedRun | None = None
        # The aggregations that are priced, by meter.
        self._priced: dict[str, dict[str, Record[Aggregation]]] = {}
        for record in run.entities.all(Aggregation):
            if record.id in parts.priced and record.entity.aggregation is not Reduce.CUSTOM_SQL:
                self._priced.setdefault(record.entity.meter_id, {})[record.id] = record
        for meter_id, records in list(self._priced.items()):
            # Of a segmented one there are several rows; all of the meter is read of measurements.
            if any(record.entity.segments for record in records.values()):
                del self._priced[meter_id]

    def find(self, snapshot: int, configuration: str) -> bool:
        """Whether the quantities of the month are stored that a snapshot would give."""
        if self._cycles.period != self.parts.period:
            return False
        key = RunKey(self.run.run.frequency.value, self.run.run.name)
        with self.lake.reader() as connection:
            noted = noted_run(connection, key, configuration)
            if noted is None or self._has_changed(connection, noted.snapshot, snapshot):
                return False
        self._noted = noted
        return True

    def _has_changed(self, connection: duckdb.DuckDBPyConnection, first: int, last: int) -> bool:
        meters = [
            MeterRead(meter_id, any(map(_holds, records.values())))
            for meter_id, records in sorted(self._priced.items())
        ]
        return has_changed(connection, (first, last), meters, _naive(self.parts.period))

    def scopes(self, meter_id: str) -> list[AggregationScope]:
        """What is read of measurements all the same."""
        if meter_id not in self._priced:
            return [whole(self.parts.period, self.parts.accounts)]
        # The month as a whole of the accounts that have periods of their own.
        apart = [
            (account_id, self.parts.period)
            for account_id in self._own(meter_id)
            if self.parts.accounts is None or account_id in self.parts.accounts
        ]
        months = [windows(apart)] if apart else []
        return [*months, *self.parts.parts(meter_id)]

    def _own(self, meter_id: str) -> Collection[str]:
        return self._cycles.of_meter(self.run.entities.get(Meter, meter_id)).own.keys()

    def complete(self, read: Mapping[str, list[MeterUsage]]) -> dict[str, list[MeterUsage]]:
        """What is stored together with what was read of measurements."""
        found = dict(read)
        with self.lake.reader() as connection:
            for meter_id in self._priced.keys() & read.keys():
                own = [each for each in read[meter_id] if each.period == self.parts.period]
                parts = [each for each in read[meter_id] if each.period != self.parts.period]
                months = sorted(
                    [*own, *self._months(connection, meter_id)], key=lambda each: each.account_id
                )
                found[meter_id] = months + parts
        return found

    def _months(self, connection: duckdb.DuckDBPyConnection, meter_id: str) -> Iterator[MeterUsage]:
        assert self._noted is not None
        needed = {
            id_: each for id_, each in self._priced[meter_id].items() if self.parts.needs(each)
        }
        start, end = _naive(self.parts.period)
        wanted = StoredSelection(meter_id, list(needed), start, end, self.parts.accounts)
        rows = stored_rows(connection, self._noted, wanted)
        own = self._own(meter_id)
        for account_id, group in groupby(rows, key=lambda row: row[0]):
            if account_id not in own:
                listed = [_quantity(row, needed[row[1]], self.parts.period) for row in group]
                yield MeterUsage(account_id, self.parts.period, listed[0].measurements, listed)


def _quantity(row: Sequence[Any], record: Record[Aggregation], period: Period) -> Quantity:
    account_id, _, value, units, measurements = row
    number = Decimal(value)
    return Quantity(
        account_id=account_id,
        meter_id=record.entity.meter_id,
        aggregation_id=record.id,
        aggregation_version=record.version,
        period=period,
        value=number,
        units=number if units == value else Decimal(units),
        unit=record.entity.unit,
        measurements=measurements,
    )


def _holds(record: Record[Aggregation]) -> bool:
    return record.entity.aggregation is Reduce.TIME_WEIGHTED_AVERAGE


def _naive(period: Period) -> tuple[Any, Any]:
    return naive(period.start), naive(period.end)


class LastUsage:
    """The quantities that were read last: who needs the same again need not read measurements."""

    def __init__(self) -> None:
        self._key: object = None
        self._usage: BilledUsage | None = None

    def find(self, key: object, read: Callable[[], BilledUsage]) -> BilledUsage:
        """What follows from a key: as it was read last, or as it is read now."""
        if self._usage is None or self._key != key:
            # Nothing keeps the last one while the next one is read.
            self._usage = None
            self._usage, self._key = read(), key
        return self._usage


@dataclass(frozen=True, slots=True)
class LakeState:
    """Which measurements are read.

    Attributes:
        snapshot: The snapshot of the lake.
        instead: By the ids of meters, what is read in the place of their tables.
        last: Has what was read last; None if everything is read.
    """

    lake: Lake
    snapshot: int
    instead: Mapping[str, MeterSource] = field(default_factory=lambda: UNCHANGED)
    last: LastUsage | None = None


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


def assembler(
    configuration: UsageConfiguration, accounts: Collection[str] | None = None
) -> UsageAssembler:
    """What puts the quantities of a run together, of some accounts or of all."""
    return UsageAssembler(configuration, check_query, accounts)


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
    settings: Settings,
    run: UsageConfiguration,
    *,
    may_be_stored: bool = True,
) -> BilledUsage:
    """What accounts used of each meter in a month, and in the parts of it that bills charge for.

    If the quantities of the month are stored that would be calculated again, they are read, and
    measurements only for what is not among them. Compound aggregations are calculated for the
    parts that bills charge for.

    Args:
        source: Which measurements.
        configuration: All of an organization's entities.
        parts: Whose usage, and when.
        settings: Say what the SQL of aggregations may take.
        run: What the quantities of the month depend on.
        may_be_stored: Whether stored quantities serve; never those of other measurements.
    """
    stored_of = run if may_be_stored and not source.instead else None

    def read() -> BilledUsage:
        # What accounts used, of all aggregations but compound ones.
        if stored_of is None:
            stored = None
        else:
            # The stored quantities of a month, if they are those that would be calculated now.
            usage = StoredUsage(source.lake, stored_of, parts)
            stored = usage if usage.find(source.snapshot, calculated_with(stored_of)) else None
        found = aggregate_meters(
            source.lake,
            configuration,
            source.snapshot,
            parts.scopes if stored is None else stored.scopes,
            source.instead,
            parts.needs,
        )
        simple = found if stored is None else stored.complete(found)
        return _with_custom_sql(simple, source, configuration, parts, settings)

    usage = (
        read()
        if source.last is None
        else source.last.find(_key(source, configuration, parts), read)
    )
    if not parts.compounds:
        return usage
    return add_compounds(usage, configuration, run.account_fields, parts.compounds, parts.owners)


def _key(source: LakeState, configuration: Configuration, parts: BilledParts) -> object:
    """All that quantities follow from, but for those of compound aggregations.

    Stored ones are what measurements come to: whether they served makes no difference.
    """
    catalog = (configuration.all(kind) for kind in (Meter, Aggregation))
    accounts = None if parts.accounts is None else frozenset(parts.accounts)
    others = None if parts.others is None else frozenset(parts.others)
    return (
        *(source.snapshot, source.instead),
        *(sorted(records, key=lambda each: each.id) for records in catalog),
        *(parts.period, accounts, dict(parts.windows), frozenset(parts.priced), others),
    )


def _with_custom_sql(
    simple: Mapping[str, list[MeterUsage]],
    source: LakeState,
    configuration: Configuration,
    parts: BilledParts,
    settings: Settings,
) -> BilledUsage:
    """The quantities of meters together with those that custom SQL gives."""
    aggregations = configuration.all(Aggregation)
    if not any(
        (each.entity.aggregation is Reduce.CUSTOM_SQL) and parts.needs(each)
        for each in aggregations
    ):
        return BilledUsage(simple)
    custom = aggregate_custom_sql(
        source.lake,
        configuration,
        source.snapshot,
        parts.custom_scopes,
        limits_of(settings),
        source.instead,
    )
    missing = [
        MissingQuantity(
            *(each.account_id, each.aggregation_id, each.period, each.segment),
            *(each.detail, each.selection),
        )
        for each in custom.failures
    ]
    left_out = {
        record.id: f"aggregation {(record.entity.code or record.entity.name)!r}: {reason}"
        for record, reason in not_calculated(configuration, check_query)
    }
    by_meter = {
        meter_id: [*simple.get(meter_id, ()), *custom.by_meter.get(meter_id, ())]
        for meter_id in simple.keys() | custom.by_meter.keys()
    }
    return BilledUsage(by_meter, missing=missing, left_out=left_out)
