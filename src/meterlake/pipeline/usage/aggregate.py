"""The verb `aggregate`: the quantities of a period, kept in the lake."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from meterlake.model.bills.bill import Quantity
from meterlake.model.customers.recurring_period import NamedPeriod, PeriodSpec
from meterlake.model.values.period import Month, Period, naive
from meterlake.pipeline.usage.garbage import rare_garbage_searches
from meterlake.pipeline.usage.period_usage import LakeState, calculated_with, usage_of_period
from meterlake.pipeline.usage.quantity_rows import frames
from meterlake.pipeline.usage.usage_configuration import read
from meterlake.stages.usage.compound import Uncalculated
from meterlake.stages.usage.rows import SqlFailure, UsageRow
from meterlake.stores import Stores
from meterlake.stores.custom_sql import limits_of
from meterlake.stores.lake import quantities


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
    stores: Stores, org_id: str, period: Month | PeriodSpec, snapshot: int | None = None
) -> AggregateResult:
    """Aggregate a period of an organization and keep the quantities.

    Aggregating again appends nothing, unless measurements, plans or aggregations have changed.

    Args:
        stores: The home's stores.
        org_id: The organization.
        period: A calendar month means the monthly period that begins in it.
        snapshot: The lake's snapshot that is read, such as that of bills; the newest one if None.

    Raises:
        Invalid: There is no such period.
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    with rare_garbage_searches():
        calculated = calculate(stores, org_id, period, snapshot)
        run = calculated.to_store(stores.now())
        stored = quantities.append(stores.lake(org_id), calculated.key, run)
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
    def key(self) -> quantities.RunKey:
        """What the run is about."""
        return quantities.RunKey(self.run.frequency.value, self.run.name)

    def to_store(self, now: datetime) -> quantities.RunQuantities:
        """What is to be stored."""
        rows, statements = frames(self.rows)
        # Who reads them instead of measurements would not know of those that cannot be stored.
        configuration = None if self.overflows else self.configuration
        return quantities.RunQuantities(rows, self.snapshot, naive(now), statements, configuration)


def calculate(
    stores: Stores, org_id: str, period: Month | PeriodSpec, snapshot: int | None = None
) -> PeriodQuantities:
    """Calculate the quantities of a period, as `aggregate` does, and store nothing.

    Raises:
        Invalid: There is no such period.
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    lake = stores.lake(org_id)
    request = PeriodSpec.month(period) if isinstance(period, Month) else period
    configuration = read(stores.state, org_id, request)
    snapshot = lake.snapshot() if snapshot is None else snapshot
    usage = usage_of_period(LakeState(lake, snapshot), configuration, limits_of(stores.settings))
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
