"""Late data: measurements that came after their period was aggregated or billed."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import duckdb

from meterlake.model.catalog.catalog import Meter
from meterlake.model.catalog.plans import BillingFrequency, PlanTemplate
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.recurring_period import (
    RECURRING,
    PeriodSpec,
    containing,
    epoch_of,
    recurring,
)
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Month, Period, aware, midnight, naive
from meterlake.pipeline.usage.usage_configuration import cycles_configuration
from meterlake.stages.bill import BillingCalendar
from meterlake.stages.usage.cycles import Cycles
from meterlake.stores import Organization
from meterlake.stores.lake import late as found_late
from meterlake.stores.lake.late import Closed
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.late_usage.findings import settled_until
from meterlake.stores.state.billing.late_usage.late_bills import (
    OldestBill,
    billed_periods,
    oldest_bills,
)
from meterlake.stores.state.core.auto_accounts import account_ids

QUANTITIES: Final = "quantities"
BILLS: Final = "bills"


@dataclass(slots=True)
class Late:
    """A closed period that late measurements touch.

    Attributes:
        closed_by: `quantities` or `bills`: what does not know of them.
        period: The name of the period.
        meters: The codes of their meters.
        accounts: The codes of their accounts; of bills only those that have one.
        first_received: When the first of them came, aware UTC.
    """

    closed_by: str
    frequency: str
    period: str
    meters: set[str] = field(default_factory=set)
    accounts: set[str] = field(default_factory=set)
    measurements: int = 0
    first_received: datetime | None = None
    last_received: datetime | None = None

    def add(self, meter: str, account: str, row: tuple[int, datetime, datetime]) -> None:
        """Count measurements of an account of a meter."""
        measurements, first, last = row
        self.meters.add(meter)
        self.accounts.add(account)
        self.measurements += measurements
        self.first_received = min(self.first_received or aware(first), aware(first))
        self.last_received = max(self.last_received or aware(last), aware(last))

    def to_wire(self) -> dict[str, Any]:
        """The line of `--json`."""
        return {
            "closedBy": self.closed_by,
            "frequency": self.frequency,
            "period": self.period,
            "meters": sorted(self.meters),
            "accounts": sorted(self.accounts),
            "measurements": self.measurements,
            "firstReceived": self.first_received,
            "lastReceived": self.last_received,
        }


def late(organization: Organization) -> list[Late]:
    """List the closed periods that measurements touch which came after they were closed.

    A period is closed by an aggregation or a bill that was made after its end; it stays listed
    until it is aggregated or billed again. Of bills, those that would come out the same count too.

    Raises:
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    with organization.reading() as reader, organization.lake.reader() as connection:
        meters = {meter_table(each.id): each for each in reader.all(Meter)}
        newest = found_late.newest_commit(connection)
        closed = _Closed(meters)
        runs = [run for run in found_late.runs(connection) if run["snapshot"] < newest]
        billed = oldest_bills(reader, newest)
        if runs or billed:
            configuration = cycles_configuration(reader)
            last_runs: list[_Run] = []
            for each in runs:
                frequency, name = each["frequency"], each["period"]
                cycles = _cycles(configuration, frequency, name)
                last_runs.append(
                    _Run(frequency, name, each["snapshot"], each["computed_at"], cycles)
                )
            closed.add_runs(last_runs, connection)
            closed.add_bills(
                [billed_run(configuration, each) for each in billed], reader, connection
            )
        rows = found_late.late(connection, closed.rows, list(meters))
    codes: dict[str, str] = {}
    if any(rows.values()):
        codes = {
            id_: code for code, id_ in account_ids(organization.state, organization.id).items()
        }
    for table, counted in rows.items():
        for number, account_id, *row in counted:
            account = codes.get(account_id, account_id)
            closed.periods[number].add(meters[table].entity.code, account, tuple(row))
    return [each for each in closed.periods if each.measurements]


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that anything came after; instants are naive UTC."""

    frequency: str
    name: str
    snapshot: int
    computed_at: datetime
    cycles: Cycles

    @property
    def start(self) -> datetime:
        return naive(self.cycles.period.start)

    def closed(self, period: Period) -> tuple[datetime, datetime]:
        """A period of the run; an empty one if it was still open."""
        start, end = naive(period.start), naive(period.end)
        return start, end if end <= self.computed_at else start


@dataclass(frozen=True, slots=True)
class BilledRun:
    """The bills of a period that anything came after; instants are naive UTC.

    Attributes:
        start: No bill's period begins before it, as plans are now.
        end: No bill's period ends after it.
    """

    oldest: OldestBill
    start: datetime
    end: datetime


def billed_run(configuration: Configuration, oldest: OldestBill) -> BilledRun:
    """The time over which the bills of a period reach."""
    # Bills of every frequency are named by the month in which they end.
    cycles = _cycles(configuration, BillingFrequency.MONTHLY, oldest.period)
    month = Month.parse(oldest.period)
    calendar = BillingCalendar(configuration, month)
    # When the first of the organization's periods begin that end in a month.
    longest: list[datetime] = []
    for template in calendar.configuration.all(PlanTemplate):
        frequency = template.entity.bill_frequency
        if frequency in RECURRING and oldest.frequency in {frequency, BillingFrequency.MIXED}:
            epoch = epoch_of(frequency, calendar.organization)
            interval = template.entity.bill_frequency_interval
            found = containing(recurring(frequency, epoch, interval), month.first)
            longest.append(midnight(found.first, calendar.zone))
    # When periods of plans with a first bill date begin whose bills end in a month.
    of_plans = (
        due.period.start
        for record in calendar.configuration.all(AccountPlan)
        for due in calendar.due(record.entity)
    )
    starts = (*longest, *of_plans)
    return BilledRun(oldest, naive(min([cycles.period.start, *starts])), naive(cycles.reach))


def _cycles(configuration: Configuration, frequency: str, name: str) -> Cycles:
    organization = configuration.single(OrganizationConfig).entity
    return Cycles(
        configuration, PeriodSpec.named(BillingFrequency(frequency), name).of(organization)
    )


class _Closed:
    """The closed periods that anything came after."""

    def __init__(self, meters: Mapping[str, Record[Meter]]) -> None:
        self.meters = meters
        self.periods: list[Late] = []
        self.rows: list[Closed] = []

    def add_runs(self, runs: Sequence[_Run], connection: duckdb.DuckDBPyConnection) -> None:
        """Add the runs in which anything may be late.

        The accounts' own periods are looked up of those only that anything came from in the time
        which the run may reach over.
        """
        reached = [
            (run.start, min(naive(run.cycles.reach), run.computed_at), run.snapshot) for run in runs
        ]
        for n, by_table in self._changed_times(reached, connection):
            self._add_run(runs[n], by_table)

    def _changed_times(
        self,
        reached: Sequence[tuple[datetime, datetime, int]],
        connection: duckdb.DuckDBPyConnection,
    ) -> list[tuple[int, Mapping[str, Collection[str]]]]:
        """Of times from start to end, those in which anything came after a snapshot.

        Returns:
            The number of the time, and by table the accounts of what came.
        """
        coarse = [Closed(n, None, None, *each) for n, each in enumerate(reached)]
        accounts: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for table, counted in found_late.late(connection, coarse, list(self.meters)).items():
            for n, account_id, *_ in counted:
                accounts[n][table].add(account_id)
        return sorted(accounts.items())

    def _add_run(self, run: _Run, accounts: Mapping[str, Collection[str]]) -> None:
        number = self._number(QUANTITIES, run.frequency, run.name)
        whole = run.closed(run.cycles.period)
        none = Period(run.cycles.period.start, run.cycles.period.start)
        self.rows.append(Closed(number, None, None, *whole, run.snapshot))
        for table, asked in accounts.items():
            own = run.cycles.of_meter(self.meters[table], asked).own
            for account_id, periods in own.items():
                # An empty one is there to say that the account has not the organization's period.
                for start, end in map(run.closed, periods or [none]):
                    self.rows.append(Closed(number, table, account_id, start, end, run.snapshot))

    def add_bills(
        self,
        periods: Sequence[BilledRun],
        reader: Reader,
        connection: duckdb.DuckDBPyConnection,
    ) -> None:
        """Add the bills of the accounts that anything came from since a period's oldest bill."""
        reached = [(each.start, each.end, each.oldest.snapshot) for each in periods]
        for n, by_table in self._changed_times(reached, connection):
            name, frequency, _ = periods[n].oldest
            number = self._number(BILLS, frequency, name)
            account_ids = {account_id for found in by_table.values() for account_id in found}
            bills = list(billed_periods(reader, name, frequency, account_ids))
            settled = settled_until(reader, [each.bill_id for each in bills])
            for bill in bills:
                if bill.end <= bill.made:
                    start, end = naive(bill.start), naive(bill.end)
                    snapshot = max(bill.snapshot, settled.get(bill.bill_id, 0))
                    self.rows.append(Closed(number, None, bill.account_id, start, end, snapshot))

    def _number(self, closed_by: str, frequency: str, period: str) -> int:
        self.periods.append(Late(closed_by, frequency, period))
        return len(self.periods) - 1
