"""The one road to a quantity: nothing else aggregates measurements of the lake.

`aggregate` and every backfill take it with the scopes of a `UsageAssembler`, `bill` with the parts
of a month that bills charge for.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import NamedTuple

from meterlake.model.bills.bill import MeterUsage
from meterlake.model.bills.billed_usage import BilledUsage, MissingQuantity
from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.values.entity import Configuration
from meterlake.model.values.version import code_version
from meterlake.pipeline.usage.meter_rollup import (
    MeterSource,
    Scopes,
    aggregate_custom_sql,
    aggregate_meters,
)
from meterlake.pipeline.usage.stored_usage import BilledParts, StoredUsage
from meterlake.stages.usage.aggregate import AggregationScope, not_calculated
from meterlake.stages.usage.assemble import UsageAssembler, add_compounds
from meterlake.stages.usage.configuration import UsageConfiguration
from meterlake.stages.usage.rows import SqlUsage
from meterlake.stores.custom_sql import SqlLimits, check_query
from meterlake.stores.lake.lake import Lake

UNCHANGED: Mapping[str, MeterSource] = MappingProxyType({})


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


def calculated_with(configuration: UsageConfiguration) -> str:
    """What tells whether quantities would be calculated in the same way again."""
    return sha256(f"{code_version()} {configuration.digest()}".encode()).hexdigest()


def usage_to_bill(
    source: LakeState,
    configuration: Configuration,
    parts: BilledParts,
    limits: SqlLimits,
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
        limits: What the SQL of aggregations may take.
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
        return _with_custom_sql(simple, source, configuration, parts, limits)

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
    limits: SqlLimits,
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
        limits,
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
