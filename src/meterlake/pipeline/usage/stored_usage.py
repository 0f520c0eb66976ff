"""What bills need of the usage of a month, and how much of it is stored already."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from typing import Any

import duckdb

from meterlake.model.bills.bill import MeterUsage, Quantity
from meterlake.model.bills.billed_usage import UsageOwners, UsageWindows
from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Period, naive
from meterlake.stages.usage.aggregate import AggregationScope, others, whole, windows
from meterlake.stages.usage.configuration import UsageConfiguration
from meterlake.stages.usage.cycles import Cycles
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
                found[meter_id] = self._together(connection, meter_id, read[meter_id])
        return found

    def _together(
        self, connection: duckdb.DuckDBPyConnection, meter_id: str, read: list[MeterUsage]
    ) -> list[MeterUsage]:
        period = self.parts.period
        months = [each for each in read if each.period == period]
        months += self._months(connection, meter_id)
        months.sort(key=lambda each: each.account_id)
        return months + [each for each in read if each.period != period]

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
