"""Finds the bills of closed periods that came to lack usage, or to have too much, and what did that.

Usage comes late by sources that are committed after a bill was made; backfills bring it, change it
and take it away. Which bills are looked at closely is a little too much rather than too little:
what each of them comes to is calculated.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Final, NamedTuple

import duckdb

from meterlake.model.bills.billing_dates import is_closed
from meterlake.model.bills.late_usage import (
    LateSource,
    LateSourceKind,
    LateUsage,
    LateUsageStatus,
    merge_sources,
)
from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.catalog.plans import Pricing
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Unavailable
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import aware, local_date, naive, zone
from meterlake.model.work.backfill import Action, BackfillSpec
from meterlake.pipeline.usage.late import billed_run
from meterlake.pipeline.usage.usage_configuration import cycles_configuration
from meterlake.stores import Organization
from meterlake.stores.lake.backfill.rows import retracted_rows, rows_by_account
from meterlake.stores.lake.backfill.sources import first_names
from meterlake.stores.lake.backfill.steps import DoneStep, steps_since
from meterlake.stores.lake.late import Closed, late, late_by_source, source_names
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.accounts.usage_accounts import read_families
from meterlake.stores.state.billing.late_usage.findings import LateFinding, looked_until
from meterlake.stores.state.billing.late_usage.late_bills import (
    LateBill,
    OldestBill,
    oldest_calculated,
    read_late_bills,
)
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.core.account_names import AccountName, by_id
from meterlake.stores.state.core.reader import DamagedRow
from meterlake.stores.state.core.tables import BILL
from meterlake.stores.state.ingest.backfills import Backfills

# Before everything that was ever measured.
_EVER: Final = datetime(1900, 1, 1)  # noqa: DTZ001 - the lake's instants are naive UTC
_ALWAYS: Final = datetime(9999, 1, 1)  # noqa: DTZ001 - the same


@dataclass(frozen=True, slots=True)
class LateSearch:
    """Which bills are looked at.

    Attributes:
        snapshot: What came to the lake after it is left out.
        closed_on: Bills until this bill date are closed, beside those that are locked.
        account_ids: Only bills of these accounts; of all if None.
        damaged: Takes, by account, the bills that cannot be read.
    """

    organization: Organization
    snapshot: int
    closed_on: date
    account_ids: Collection[str] | None = None
    damaged: dict[str, DamagedRow] = field(default_factory=dict)


class _Reach(NamedTuple):
    """What a step of a backfill may have changed; instants are naive UTC.

    Attributes:
        accounts: How many measurements it changed of which accounts; None if of any.
    """

    step: DoneStep
    start: datetime
    end: datetime
    accounts: Mapping[str, int] | None
    name: str

    def touches(self, family: Collection[str], start: datetime, end: datetime) -> bool:
        """Whether it may have changed what accounts used in a time."""
        is_theirs = self.accounts is None or any(each in self.accounts for each in family)
        return is_theirs and self.start < end and start < self.end

    def source(self, family: Collection[str]) -> LateSource:
        """The step as what brought late usage of a family of accounts."""
        counted = None
        if self.accounts is not None:
            counted = sum(self.accounts.get(each, 0) for each in family) or None
        at = self.step.done_at
        return LateSource(LateSourceKind.BACKFILL, self.step.backfill, self.name, counted, at, at)


def find_late_usage(search: LateSearch) -> list[LateFinding]:
    """Find the closed bills that something was late for since it was looked for last.

    Raises:
        Unavailable: A store failed.
    """
    stores = search.organization.stores
    with (
        stores.state.reading(search.organization.id) as reader,
        stores.lake(search.organization.id).reader() as connection,
    ):
        groups = oldest_calculated(reader, search.snapshot)
        if not groups:
            return []
        return list(_Search(search, reader, connection, groups).find())


def read_unnoted(organization: Organization) -> list[LateUsage]:
    """Late usage of bills that no run has looked at yet, open and with an id of its own.

    Raises:
        Unavailable: A store failed.
    """
    found = find_past_late_usage(organization, organization.lake.snapshot())
    with organization.reading() as reader:
        names = by_id(reader, {each.bill.account_id for each in found})
    return [_unnoted(each, names) for each in found]


def find_past_late_usage(
    organization: Organization, snapshot: int, account_ids: Collection[str] | None = None
) -> list[LateFinding]:
    """Late usage of bills of days that are over, of which no run has taken note yet.

    Raises:
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        timezone = reader.all(OrganizationConfig)[0].entity.timezone
    today = local_date(organization.now(), zone(timezone))
    return find_late_usage(LateSearch(organization, snapshot, today, account_ids))


def _unnoted(found: LateFinding, names: Mapping[str, AccountName]) -> LateUsage:
    bill = found.bill
    return LateUsage(
        id=derived_id(bill.id, f"late usage since {found.since}"),
        bill_id=bill.id,
        account_id=bill.account_id,
        account_code=names[bill.account_id].code if bill.account_id in names else "",
        period=bill.period,
        bill_date=bill.key.bill_date,
        currency=bill.currency,
        since=found.since,
        until=found.until,
        status=LateUsageStatus.OPEN,
        bill_version=bill.content_version,
        sources=found.sources,
        found=max(each.last for each in found.sources),
    )


@dataclass
class _Search:
    search: LateSearch
    reader: Reader
    connection: duckdb.DuckDBPyConnection
    groups: Sequence[OldestBill]
    families: dict[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def tables(self) -> list[str]:
        """The tables of all meters."""
        return [meter_table(each.id) for each in self.reader.all(Meter)]

    @cached_property
    def is_wide(self) -> bool:
        """Whether usage of any time before may count for a bill."""
        averages = (each.entity.aggregation for each in self.reader.all(Aggregation))
        return Reduce.TIME_WEIGHTED_AVERAGE in averages or any(
            each.entity.tiers_span_plan for each in self.reader.all(Pricing)
        )

    @cached_property
    def reaches(self) -> list[_Reach]:
        """What backfills may have changed since the oldest bill."""
        since = min(each.snapshot for each in self.groups)
        steps = steps_since(self.connection, since, self.search.snapshot)
        backfills = Backfills(self.search.organization.state, self.search.organization.id)
        found = [(step, backfills.find(step.backfill)) for step in steps]
        sources = {each.spec.source for _, each in found if each and each.spec.source}
        names = first_names(self.connection, sorted(sources)) if sources else {}
        return [
            self._reach(step, backfill.spec, backfill.summary, names)
            for step, backfill in found
            if backfill
        ]

    def _reach(
        self,
        step: DoneStep,
        spec: BackfillSpec,
        summary: Mapping[str, object],
        names: Mapping[str, str],
    ) -> _Reach:
        done = "applied" if step.action is Action.APPLY else "reverted"
        file = names.get(spec.source or "")
        what = step.mode.value if file is None else f"{step.mode.value} of {file}"
        name = f"{what}, {done}"
        if spec.window is not None:
            gone, came = (summary.get(f"measurements{each}", 0) for each in ("Gone", "Came"))
            name += f" ({gone} gone, {came} came)"
            window = naive(spec.window.start), naive(spec.window.end)
            return _Reach(step, *window, dict.fromkeys(spec.accounts, 0) or None, name)
        version = step.snapshot if step.action is Action.APPLY else step.made
        try:
            found = rows_by_account(self.connection, retracted_rows(spec), version)
        except Unavailable:
            found = {}
        if not found:
            # The snapshot is not kept any more: it may have been anything.
            return _Reach(step, _EVER, _ALWAYS, None, name)
        first = min(each.first for each in found.values())
        # The end is exclusive.
        end = max(each.last for each in found.values()) + datetime.resolution
        counts = {id_: each.measurements for id_, each in found.items()}
        return _Reach(step, first, end, counts, name)

    def find(self) -> Iterator[LateFinding]:
        configuration = cycles_configuration(self.reader)
        for group in self.groups:
            run = billed_run(configuration, group)
            start = _EVER if self.is_wide else run.start
            yield from self._find_in(group, start, run.end)

    def _find_in(self, group: OldestBill, start: datetime, end: datetime) -> Iterator[LateFinding]:
        """The late usage of the bills of one period."""
        time = Closed(0, None, None, start, end, group.snapshot)
        counted = late(self.connection, [time], self.tables)
        changed = {account_id for rows in counted.values() for _, account_id, *_ in rows}
        steps = [
            each
            for each in self.reaches
            if each.step.made > group.snapshot and each.start < end and start < each.end
        ]
        if not changed and not steps:
            return
        bills = list(self._bills(group, changed, steps))
        until = looked_until(self.reader, [each.id for each in bills])
        since = {each.id: max(each.snapshot or 0, until.get(each.id, 0)) for each in bills}
        sources = self._sources(bills, since, changed)
        for number, bill in enumerate(bills):
            family = self.families[bill.account_id]
            found = [
                *sources.get(number, ()),
                *(
                    each.source(family)
                    for each in steps
                    if each.step.made > since[bill.id] and each.touches(family, *self._time(bill))
                ),
            ]
            if found:
                merged = merge_sources((), found)
                yield LateFinding(bill, since[bill.id], self.search.snapshot, merged)

    def _bills(
        self, group: OldestBill, changed: Iterable[str], steps: Sequence[_Reach]
    ) -> Iterator[LateBill]:
        """The closed bills of a period whose accounts, or their relatives, something changed for."""
        self._add_families({*changed, *(id_ for each in steps for id_ in each.accounts or ())})
        is_any = any(each.accounts is None for each in steps)
        closed_until, chosen = closed_before(self.reader), self.search.account_ids
        of_group = (BILL.c.period == group.period, BILL.c.frequency == group.frequency)
        conditions = (*of_group, BILL.c.snapshot.is_not(None))
        for bill in read_late_bills(self.reader, *conditions, damaged=self.search.damaged):
            is_past = bill.key.bill_date <= self.search.closed_on
            closed = is_past or is_closed(bill.key.bill_date, closed_until, locked=bill.locked)
            known = is_any or bill.account_id in self.families
            if closed and known and (chosen is None or bill.account_id in chosen):
                self._add_families([bill.account_id])
                yield bill

    def _add_families(self, account_ids: Iterable[str]) -> None:
        missing = [each for each in account_ids if each not in self.families]
        self.families |= read_families(self.reader, missing)

    def _sources(
        self, bills: Sequence[LateBill], since: Mapping[str, int], changed: Collection[str]
    ) -> dict[int, list[LateSource]]:
        """The sources that brought something for bills, by the numbers of these."""
        rows = [
            Closed(number, None, account_id, *self._time(bill), since[bill.id])
            for number, bill in enumerate(bills)
            for account_id in self.families[bill.account_id]
            if account_id in changed
        ]
        counted = late_by_source(self.connection, rows, self.tables, self.search.snapshot)
        identities = {identity for found in counted.values() for _, identity, *_ in found}
        names = source_names(self.connection, sorted(identities)) if identities else {}
        sources: dict[int, list[LateSource]] = {}
        for found in counted.values():
            for number, identity, count, first, last in sorted(found):
                name = names.get(identity, identity)
                source = LateSource(
                    *(LateSourceKind.SOURCE, identity, name, count, aware(first), aware(last))
                )
                sources.setdefault(number, []).append(source)
        return sources

    def _time(self, bill: LateBill) -> tuple[datetime, datetime]:
        return _EVER if self.is_wide else naive(bill.start), naive(bill.end)
