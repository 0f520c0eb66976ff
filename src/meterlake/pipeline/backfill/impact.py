"""The runs, and the months of bills, whose numbers a change of stored measurements may alter."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from meterlake.model.catalog.catalog import Aggregation, Reduce
from meterlake.model.catalog.plans import BillingFrequency, PlanTemplate
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.recurring_period import RECURRING, NamedPeriod, PeriodSpec
from meterlake.model.errors import Invalid
from meterlake.model.values.entity import Configuration
from meterlake.model.values.period import Month, Period, local_date, zone
from meterlake.pipeline.backfill.priced import World
from meterlake.pipeline.backfill.runs import known_runs, longest, months_between, order
from meterlake.pipeline.usage.usage_configuration import cycles_configuration
from meterlake.stages.usage.cycles import Cycles
from meterlake.stores.lake.backfill.changes import (
    MeterChange,
    accounts_before,
    accounts_within,
    changed_rows,
    starts_of,
)

_A_DAY: Final = timedelta(days=1)
_A_MONTH: Final = timedelta(days=31)
_MICROSECOND: Final = timedelta(microseconds=1)

Accounts = Mapping[Month, Sequence[str]]


class AffectedRun(NamedTuple):
    """A run, and the accounts whose quantities in it may come out otherwise."""

    run: NamedPeriod
    accounts: frozenset[str]

    @property
    def asked(self) -> PeriodSpec:
        """How to ask for the run."""
        return PeriodSpec.named(self.run.frequency, self.run.name)


def affected_months(world: World, changes: Sequence[MeterChange]) -> Accounts:
    """The calendar months with measurements that go or come, and the accounts in each."""
    timezone, rows = _timezone(world.configuration), changed_rows(changes)
    found: dict[Month, Sequence[str]] = {}
    if rows is None:
        return found
    with world.lake.reader() as connection:
        starts = starts_of(connection, rows, "month")
        for month in sorted({month for start in starts for month in _local(start, timezone)}):
            accounts = accounts_within(connection, rows, month.period(timezone))
            if accounts:
                found[month] = accounts
    return found


def affected_runs(world: World, changes: Sequence[MeterChange]) -> Iterator[AffectedRun]:
    """The runs that changes touch.

    These are months, what there are plans for, and what was aggregated before. Of values that are
    carried on there are months up to the current one, and of other runs those that there are.
    """
    rows = changed_rows(changes)
    meters = {
        each.entity.meter_id
        for each in world.configuration.all(Aggregation)
        if each.entity.aggregation is Reduce.TIME_WEIGHTED_AVERAGE
    }
    time_weighted = changed_rows([each for each in changes if each.meter_id in meters])
    if rows is None:
        return
    with world.organization.reading() as reader:
        configuration = cycles_configuration(reader)
    with world.lake.reader() as connection:
        days = [day for start in starts_of(connection, rows, "day") for day in _days(world, start)]
        if not days:
            return
        # How many runs earlier a period can begin that reaches into a run.
        back = (
            {each: longest(configuration, each) + 1 for each in RECURRING}
            if any(configuration.all(Account))
            else {}
        )
        runs = {
            *_direct(world, days, back),
            *_known_runs(world, days, back, time_weighted=time_weighted is not None),
        }
        if time_weighted is not None:
            organization = world.configuration.single(OrganizationConfig).entity
            today = local_date(world.organization.now(), _timezone(world.configuration))
            with suppress(Invalid):
                runs.update(months_between(organization, min(days), today))
        for run in sorted(runs, key=order):
            cycles = Cycles(configuration, run)
            if cycles.reach <= cycles.period.start:
                continue
            reach = Period(cycles.period.start, cycles.reach)
            found = accounts_within(connection, rows, reach)
            if time_weighted is not None:
                found += accounts_before(connection, time_weighted, reach.end)
            if found:
                yield AffectedRun(run, with_parents(configuration, found))


def with_parents(configuration: Configuration, account_ids: Sequence[str]) -> frozenset[str]:
    """Accounts with their parents: what a child uses may be pooled with theirs."""
    chosen = frozenset(account_ids)
    parents = (
        each.entity.parent_account_id for each in configuration.all(Account) if each.id in chosen
    )
    return chosen | {parent for parent in parents if parent is not None}


def _timezone(configuration: Configuration) -> tzinfo:
    return zone(configuration.single(OrganizationConfig).entity.timezone)


def _local(start: datetime, timezone: tzinfo) -> Iterator[Month]:
    """The months of a time zone that share instants with a month of UTC."""
    first = start.replace(tzinfo=UTC)
    # West of Greenwich it begins in the month before, east of it ends in the next one.
    yield Month(start.year, start.month)
    for instant in (first, first + _A_MONTH):
        day = local_date(instant, timezone)
        yield Month(day.year, day.month)


def _days(world: World, start: datetime) -> Iterator[date]:
    """The days of the organization that share instants with a day of UTC."""
    timezone, first = _timezone(world.configuration), start.replace(tzinfo=UTC)
    # Runs end before the calendar does.
    with suppress(OverflowError):
        day = local_date(first, timezone)
        last = local_date(first + _A_DAY - _MICROSECOND, timezone)
        while day <= last:
            yield day
            day += _A_DAY


def _direct(
    world: World, days: Sequence[date], back: Mapping[BillingFrequency, int]
) -> Iterator[NamedPeriod]:
    """The runs with days of the change, of months and of what there are plans for."""
    organization = world.configuration.single(OrganizationConfig).entity
    templates = world.configuration.all(PlanTemplate)
    used = {BillingFrequency.MONTHLY, *(each.entity.bill_frequency for each in templates)}
    for frequency in used.intersection(RECURRING):
        for day in days:
            # There are no runs close to an end of the calendar.
            with suppress(Invalid):
                run = PeriodSpec.on(frequency, day).of(organization)
                yield run
                for _ in range(back.get(frequency, 0)):
                    run = PeriodSpec.on(frequency, run.first - _A_DAY).of(organization)
                    yield run


def _known_runs(
    world: World, days: Sequence[date], back: Mapping[BillingFrequency, int], *, time_weighted: bool
) -> Iterator[NamedPeriod]:
    """The runs that there are and that days may be in, or values held since."""
    organization = world.configuration.single(OrganizationConfig).entity
    for run in known_runs(world.lake, organization):
        span = (run.after - run.first) * (back.get(run.frequency, 0) + 1)
        if (time_weighted or run.first <= max(days)) and run.first + span > min(days):
            yield run
