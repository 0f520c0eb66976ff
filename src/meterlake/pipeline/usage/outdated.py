"""What stored quantities would be now, where measurements or the configuration changed since."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Reduce
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.values.entity import Configuration
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import naive
from meterlake.pipeline.usage.usage_configuration import calculated_with, read
from meterlake.stages.usage.cycles import UsageConfiguration
from meterlake.stores import Organization
from meterlake.stores.custom_sql import limits_of
from meterlake.stores.lake.quantity_runs import MeterRead, RunKey, has_changed, noted_run

_IDENTITY: Final = ("account_id", "aggregation_id", "period_start", "period_end", "segment")


@dataclass(frozen=True, slots=True)
class QuantityNow:
    """What a quantity would be now.

    Attributes:
        measurements: How many it would be made of.
        had: How many it was made of.
    """

    quantity: Decimal
    units: Decimal
    measurements: int
    had: int

    def to_wire(self) -> dict[str, Any]:
        """The member `now` of an explained quantity."""
        return {
            "quantity": self.quantity,
            "units": self.units,
            "measurementCount": self.measurements,
            "measurementsCame": max(self.measurements - self.had, 0),
            "measurementsGone": max(self.had - self.measurements, 0),
        }


def identity_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a stored quantity is a quantity of."""
    return tuple(row[name] for name in _IDENTITY)


def outdated_quantities(
    organization: Organization, rows: Sequence[Mapping[str, Any]]
) -> dict[tuple[Any, ...], QuantityNow]:
    """Calculate quantities again where that may give others: of one account, in one run.

    Nothing is stored, and only the measurements of that account are read, unless an aggregation
    has SQL of its own.

    Args:
        organization: Whose.
        rows: Those of the lake's table `quantity`, all of the same run and account.

    Returns:
        What differs, by its identity.

    Raises:
        Unavailable: A store failed.
    """
    first, lake = rows[0], organization.lake
    key = RunKey(first["frequency"], first["period"])
    request = PeriodSpec.named(BillingFrequency(key.frequency), key.period)
    configuration = read(organization.state, organization.id, request)
    meters, snapshot = _meters(configuration.entities, rows), lake.snapshot()
    time = min(row["period_start"] for row in rows), max(row["period_end"] for row in rows)
    with lake.reader() as connection:
        noted = noted_run(connection, key, calculated_with(configuration))
        reads = [MeterRead(id_, earlier=True) for id_ in meters]
        if noted and not has_changed(connection, (noted.snapshot, snapshot), reads, time):
            return {}
    now = _calculate(organization, configuration, snapshot, meters, rows)
    counted = _counted(configuration.entities)
    for row in rows:
        # What is missing comes to nothing where measurements are counted. SQL or a calculation
        # that gave no number may have failed: then nobody can tell.
        if row["aggregation_id"] in counted:
            now.setdefault(identity_of(row), (ZERO, ZERO, 0))
    return {identity_of(row): found for row in rows if (found := _difference(row, now))}


def _calculate(
    organization: Organization,
    configuration: UsageConfiguration,
    snapshot: int,
    meters: Collection[str],
    rows: Sequence[Mapping[str, Any]],
) -> dict[tuple[Any, ...], tuple[Decimal, Decimal, int]]:
    """Quantity, units and number of measurements of what rows are about."""
    # Its imports take long, and of most quantities nothing changed.
    from meterlake.pipeline.usage.aggregate import segment_text  # noqa: PLC0415 - not needed above
    from meterlake.pipeline.usage.period_usage import (  # noqa: PLC0415 - not needed above
        LakeState,
        aggregate_scopes,
        assembler,
    )

    source = LakeState(organization.lake, snapshot)
    usage = assembler(configuration, {row["account_id"] for row in rows})
    limits = limits_of(organization.settings)
    totals = aggregate_scopes(source, configuration.entities, usage.scopes, limits, meters)
    usage.complete(totals.simple, totals.custom)
    found = {}
    for each in (row.quantity for row in usage.rows):
        period = naive(each.period.start), naive(each.period.end)
        identity = (each.account_id, each.aggregation_id, *period, segment_text(each.segment))
        found[identity] = (each.value, each.units, each.measurements)
    return found


def _meters(entities: Configuration, rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """The meters whose measurements quantities are made of."""
    ids = {row["aggregation_id"] for row in rows}
    codes = {
        code
        for each in entities.all(CompoundAggregation)
        if each.id in ids
        for code in each.entity.aggregation_codes
    }
    return {
        each.entity.meter_id
        for each in entities.all(Aggregation)
        if each.id in ids or each.entity.code in codes
    }


def _counted(entities: Configuration) -> set[str]:
    """The aggregations that fold measurements themselves, without SQL of their own."""
    found = entities.all(Aggregation)
    return {each.id for each in found if each.entity.aggregation is not Reduce.CUSTOM_SQL}


def _difference(
    row: Mapping[str, Any], now: Mapping[tuple[Any, ...], tuple[Decimal, Decimal, int]]
) -> QuantityNow | None:
    if identity_of(row) not in now:
        return None
    quantity, units, measurements = now[identity_of(row)]
    had = row["measurements"] or 0
    same = (quantity, units) == (Decimal(row["quantity"]), Decimal(row["units"]))
    return None if same and measurements == had else QuantityNow(quantity, units, measurements, had)
