"""Which runs a window touches, and which measurements each of them reads."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.catalog.plans import BillingFrequency, PlanTemplate
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.recurring_period import RECURRING, NamedPeriod, PeriodSpec
from meterlake.model.values.entity import Configuration
from meterlake.model.values.period import Period, local_date, zone
from meterlake.pipeline.backfill.job import BackfillJob
from meterlake.pipeline.usage.period_usage import assembler
from meterlake.pipeline.usage.usage_configuration import read
from meterlake.stages.usage.assemble import UsageAssembler
from meterlake.stores.lake.backfill.rows import RowSelection, rows_within
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.quantity_runs import runs_that_reach, runs_with_quantities

_MICROSECOND: Final = timedelta(microseconds=1)
_A_MONTH: Final = timedelta(days=31)
# How many days a period has at least.
_SHORTEST: Final = {
    BillingFrequency.DAILY: 1,
    BillingFrequency.WEEKLY: 7,
    BillingFrequency.MONTHLY: 28,
    BillingFrequency.ANNUALLY: 365,
}

# By meter, the first instant that a run reads, None without one, and the one after the last.
Bounds = Mapping[str, tuple[datetime | None, datetime]]


def affected_runs(
    job: BackfillJob, configuration: Configuration, window: Period
) -> list[PeriodSpec]:
    """The months of a window, and what was aggregated before that has periods in it.

    Accounts may have periods of their own: those that begin in a run may end long after it.
    """
    organization = configuration.single(OrganizationConfig).entity
    timezone = zone(organization.timezone)
    first = local_date(window.start, timezone)
    last = local_date(window.end - _MICROSECOND, timezone)
    found = set(months_between(organization, first, last))
    # One that found nothing left nothing to know it by: months are looked at all the same.
    count = longest(configuration, BillingFrequency.MONTHLY) + 1
    earlier = set(months_between(organization, first - count * _A_MONTH, first)) - found
    with job.lake.reader() as connection:
        rows = runs_that_reach(connection, window)
    for frequency, name, reaches in rows:
        run = PeriodSpec.named(BillingFrequency(frequency), name).of(organization)
        period = run.period(timezone)
        if reaches or (period.start < window.end and window.start < period.end):
            found.add(run)
        elif period.end <= window.start:
            earlier.add(run)
    found |= {run for run in _newest(configuration, earlier) if _reaches(job, run, window)}
    return [_period_spec(run) for run in sorted(found, key=order)]


def months_between(
    organization: OrganizationConfig, first: date, last: date
) -> Iterator[NamedPeriod]:
    """The monthly runs from the one that has a day to the one that has another."""
    while first <= last:
        run = PeriodSpec.on(BillingFrequency.MONTHLY, first).of(organization)
        yield run
        first = run.after


def _newest(
    configuration: Configuration, earlier: Collection[NamedPeriod]
) -> Iterator[NamedPeriod]:
    for frequency in RECURRING:
        runs = sorted((run for run in earlier if run.frequency is frequency), reverse=True)
        # A period is no longer than its interval, so older runs do not reach the window.
        yield from runs[: longest(configuration, frequency) + 1]


def _reaches(job: BackfillJob, run: NamedPeriod, window: Period) -> bool:
    usage = assembler(read(job.organization.state, job.organization.id, _period_spec(run)))
    return any(end > window.start for _, end in bounds(usage).values())


def _period_spec(run: NamedPeriod) -> PeriodSpec:
    return PeriodSpec.named(run.frequency, run.name)


def known_runs(lake: Lake, organization: OrganizationConfig) -> list[NamedPeriod]:
    """All runs that there are."""
    with lake.reader() as connection:
        rows = runs_with_quantities(connection)
    return [
        PeriodSpec.named(BillingFrequency(frequency), name).of(organization)
        for frequency, name in rows
    ]


def longest(configuration: Configuration, frequency: BillingFrequency) -> int:
    """The most periods of a frequency that one period of a plan has."""
    intervals = (
        each.entity.bill_frequency_interval
        for each in configuration.all(PlanTemplate)
        if each.entity.bill_frequency is frequency
    )
    return max([1, *intervals, *_before_first_bills(configuration, frequency)])


def _before_first_bills(configuration: Configuration, frequency: BillingFrequency) -> Iterator[int]:
    """How many periods a plan may last until its first bill date, or a few more."""
    accounts = {each.id: each.entity for each in configuration.all(Account)}
    epochs = {id_: each.bill_epoch for id_, each in accounts.items() if each.bill_epoch}
    parents = {id_: each.parent_account_id for id_, each in accounts.items()}
    for record in configuration.all(AccountPlan):
        entity = record.entity
        found = (epochs.get(entity.account_id), epochs.get(parents.get(entity.account_id) or ""))
        for first_bill in (entity.bill_epoch, *found):
            if first_bill is not None:
                yield (first_bill - entity.start_date.date()).days // _SHORTEST[frequency] + 1


def order(run: NamedPeriod) -> tuple[bool, str, str]:
    """Months first, then the others by frequency and name."""
    return run.frequency is not BillingFrequency.MONTHLY, run.frequency, run.name


def bounds(usage: UsageAssembler) -> dict[str, tuple[datetime | None, datetime]]:
    """Between which instants a run reads the measurements of each meter that has aggregations."""
    aggregations = usage.entities.all(Aggregation)
    aggregated = {each.entity.meter_id for each in aggregations}
    # A value holds until the next one, however long ago it was measured.
    time_weighted = {
        each.entity.meter_id
        for each in aggregations
        if each.entity.aggregation is Reduce.TIME_WEIGHTED_AVERAGE
    }
    found: dict[str, tuple[datetime | None, datetime]] = {}
    for meter in usage.entities.all(Meter):
        if meter.id in aggregated:
            periods = [scope.period for scope in usage.scopes(meter.id)]
            first = None if meter.id in time_weighted else min(each.start for each in periods)
            found[meter.id] = first, max(each.end for each in periods)
    return found


def selections(found: Bounds, accounts: Sequence[str] = ()) -> Iterator[RowSelection]:
    """The measurements between the bounds; one selection for the meters that have the same.

    Args:
        found: The bounds.
        accounts: Whose measurements; all if empty.
    """
    for start, end in dict.fromkeys(found.values()):
        meters = tuple(sorted(id_ for id_, each in found.items() if each == (start, end)))
        yield rows_within(start, end, accounts, meters)
