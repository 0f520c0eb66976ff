"""Late data: measurements that came after their period was aggregated or billed."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import duckdb
import polars as pl

from meterlake.model.catalog import Meter
from meterlake.model.entity import Record
from meterlake.model.measurement import meter_table
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Period, aware, naive
from meterlake.model.pricing import BillingFrequency
from meterlake.model.recurring_period import Asked
from meterlake.pipeline.usage_configuration import cycles_configuration
from meterlake.stages.cycles import Cycles
from meterlake.stores import Stores
from meterlake.stores import late as found_late
from meterlake.stores.state import Reader
from meterlake.stores.state.billed_periods import billed_periods
from meterlake.stores.state.skeletons import account_ids

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


def late(stores: Stores, org_id: str) -> list[Late]:
    """List the closed periods that measurements touch which came after they were closed.

    A period is closed by an aggregation or a bill that was made after its end; it stays listed
    until it is aggregated or billed again. Of bills, those that would come out the same count too.

    Raises:
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    with stores.state.reading(org_id) as reader, stores.lake(org_id).reader() as connection:
        meters = {meter_table(each.id): each for each in reader.all(Meter)}
        newest = found_late.newest_commit(connection)
        closed = _Closed(meters)
        closed.add_runs(_runs(reader, connection, newest), connection)
        closed.add_bills(reader, newest)
        rows = found_late.late(connection, closed.frame(), list(meters))
    codes: dict[str, str] = {}
    if any(rows.values()):
        codes = {id_: code for code, id_ in account_ids(stores.state, org_id).items()}
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


def _runs(reader: Reader, connection: duckdb.DuckDBPyConnection, newest: int) -> list[_Run]:
    found = [run for run in found_late.runs(connection) if run["snapshot"] < newest]
    if not found:
        return []
    configuration = cycles_configuration(reader)
    organization = configuration.single(OrganizationConfig).entity
    return [
        _Run(
            run["frequency"],
            run["period"],
            run["snapshot"],
            run["computed_at"],
            Cycles(
                configuration,
                Asked.named(BillingFrequency(run["frequency"]), run["period"]).of(organization),
            ),
        )
        for run in found
    ]


class _Closed:
    """The closed periods that anything came after."""

    def __init__(self, meters: Mapping[str, Record[Meter]]) -> None:
        self.meters = meters
        self.periods: list[Late] = []
        self._rows: list[tuple[Any, ...]] = []

    def add_runs(self, runs: Sequence[_Run], connection: duckdb.DuckDBPyConnection) -> None:
        """Add the runs in which anything may be late.

        The accounts' own periods are looked up of those only that anything came from in the time
        which the run may reach over.
        """
        reached = [
            (n, None, None, run.start, min(naive(run.cycles.reach), run.computed_at), run.snapshot)
            for n, run in enumerate(runs)
        ]
        coarse = pl.DataFrame(reached, schema=found_late.CLOSED_SCHEMA, orient="row")
        rows = found_late.late(connection, coarse, list(self.meters))
        accounts: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for table, counted in rows.items():
            for n, account_id, *_ in counted:
                accounts[n][table].add(account_id)
        for n, by_table in sorted(accounts.items()):
            self._add_run(runs[n], by_table)

    def _add_run(self, run: _Run, accounts: Mapping[str, Collection[str]]) -> None:
        number = self._number(QUANTITIES, run.frequency, run.name)
        whole = run.closed(run.cycles.period)
        none = Period(run.cycles.period.start, run.cycles.period.start)
        self._rows.append((number, None, None, *whole, run.snapshot))
        for table, asked in accounts.items():
            own = run.cycles.of_meter(self.meters[table], asked).own
            for account_id, periods in own.items():
                # An empty one is there to say that the account has not the organization's period.
                for start, end in map(run.closed, periods or [none]):
                    self._rows.append((number, table, account_id, start, end, run.snapshot))

    def add_bills(self, reader: Reader, newest: int) -> None:
        """Add the bills."""
        numbers: dict[tuple[str, str], int] = {}
        for bill in billed_periods(reader, newest):
            if bill.end > bill.made:
                continue
            name = (bill.frequency, bill.period)
            if name not in numbers:
                numbers[name] = self._number(BILLS, *name)
            start, end = naive(bill.start), naive(bill.end)
            self._rows.append((numbers[name], None, bill.account_id, start, end, bill.snapshot))

    def _number(self, closed_by: str, frequency: str, period: str) -> int:
        self.periods.append(Late(closed_by, frequency, period))
        return len(self.periods) - 1

    def frame(self) -> pl.DataFrame:
        return pl.DataFrame(self._rows, schema=found_late.CLOSED_SCHEMA, orient="row")
