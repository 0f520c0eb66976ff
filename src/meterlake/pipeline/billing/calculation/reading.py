"""What the bills of a selection depend on, read at once."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.billed_usage import BilledUsage
from meterlake.model.bills.unbilled import Unpriced
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import Month, local_date
from meterlake.model.values.version import calculation_digest, code_version
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.calculation.account_bills import BillCalculation
from meterlake.pipeline.billing.calculation.advance import (
    PLANNED_KINDS,
    AdvanceChanges,
    read_advance_changes,
)
from meterlake.pipeline.usage.meter_rollup import MeterSource
from meterlake.pipeline.usage.period_usage import (
    UNCHANGED,
    BilledParts,
    LakeState,
    LastUsage,
    usage_to_bill,
)
from meterlake.pipeline.usage.usage_configuration import read_with
from meterlake.stages.bill import (
    BillIdentity,
    BillingTerms,
    BillMaker,
    BillSelection,
    Provenance,
    billing_terms,
    unpriced_usage,
)
from meterlake.stages.bill.periods.selection import selection_to_wire
from meterlake.stages.bill.terms.advance_lines import ClosedBills
from meterlake.stages.bill.terms.no_bill import (
    refuse_overlaps,
)
from meterlake.stages.usage.cycles import UsageConfiguration
from meterlake.stores import Organization, Stores
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.accounts.buckets import (
    AccountBucket,
    AccountBuckets,
    read_account_buckets,
)
from meterlake.stores.state.billing.bills.batch import billed_keys, damaged_bill, locked_keys
from meterlake.stores.state.billing.bills.related import billed_plans
from meterlake.stores.state.billing.calculations.pins import CalculationPins, last_transaction
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.entity_history import deleted_records
from meterlake.stores.state.core.state import new_id
from meterlake.stores.state.core.versions import count_versions

# Accounts whose terms, quantities and bills are in memory at once; each bucket scans the lake.
BUCKET: Final = 10_000


@dataclass(frozen=True, slots=True)
class BillReading:
    """What the bills of a selection depend on, but the measurements: read at once.

    Attributes:
        selection: Which bills the run makes.
        accounts: The configuration, in buckets of accounts.
        changes: What changes of plans do to what was billed in advance, by bucket.
        usage: What quantities depend on.
        billed: The bills that were made before, by account.
        closed: The bills that stay as they are.
        at: The last transaction of the organization that all of it has.
        is_stored_usage: Whether stored quantities serve, where there are some; else measurements.
        instead: By the ids of meters, what is read in the place of their tables.
        mark: What tells the configuration from that of before or after a change; None if nobody
            asked for it.
        last: Has the quantities that were read last; None if all are read.
    """

    organization: Organization
    selection: BillSelection
    snapshot: int
    accounts: AccountBuckets
    changes: Sequence[AdvanceChanges]
    usage: UsageConfiguration
    billed: Mapping[str, Sequence[BillIdentity]]
    closed: ClosedBills
    at: int
    id: str = field(default_factory=new_id)
    is_stored_usage: bool = True
    mark: int | None = None
    instead: Mapping[str, MeterSource] = field(default_factory=lambda: UNCHANGED)
    last: LastUsage | None = None

    @property
    def pins(self) -> CalculationPins:
        """What the bills are calculated from."""
        selection = wire.dumps_sorted(selection_to_wire(self.selection))
        code = code_version(), calculation_digest()
        return CalculationPins(self.id, self.at, self.snapshot, selection, *code)

    def calculations(self) -> Iterator[BillCalculation]:
        """The bills of one bucket of accounts after the other; no bucket is kept here."""
        return map(self.calculate, range(len(self.accounts.buckets)))

    def calculate(self, number: int) -> BillCalculation:
        """The bills of a bucket of accounts, the first of which is number 0."""
        bucket, changes = self.accounts.buckets[number], self.changes[number]
        configuration = self.selection.overrides.apply(self.accounts.configuration(bucket))
        selection = self.selection
        if len(self.accounts.buckets) > 1:
            # What accounts that there are not used belongs to no bucket.
            selection = replace(selection, account_ids=frozenset(bucket.account_ids))
        terms = billing_terms(configuration, selection, changes.by_account())
        if self.selection.overrides.moves_periods:
            # The bills on which plans stand that the run may bill for a part of the
            # same time.
            due = [bill for each in terms.account_terms_of.values() for bill in each.bills]
            first = min((bill.first for bill in due), default=terms.calendar.days.first)
            with self.organization.reading() as reader:
                billed = billed_plans(reader, {bill.key.account_id for bill in due}, first)
            terms = refuse_overlaps(terms, billed)
        return self._calculation(terms, changes, bucket)

    def count_accounts(self, first: int = 0) -> int:
        """How many accounts are in the buckets from one on: about as many bills are due there."""
        return sum(len(each.account_ids) for each in self.accounts.buckets[first:])

    def not_stored(self, made: Iterable[Bill | Failure]) -> Iterator[Bill]:
        """Those of the bills that were made that there are not."""
        for each in made:
            stored = self.billed.get(each.account_id, ())
            if isinstance(each, Bill) and BillIdentity.of_bill(each) not in stored:
                yield each

    def unknown_usage(self) -> list[Unpriced]:
        """What accounts used that there are not, where these belong to no bucket."""
        buckets = self.accounts.buckets
        if len(buckets) == 1 or self.selection.account_ids is not None:
            return []
        shared = self.selection.overrides.apply(Configuration(self.accounts.shared))
        nobody = replace(self.selection, account_ids=frozenset())
        terms = replace(billing_terms(shared, nobody), restricted=False)
        known = {id_ for bucket in buckets for id_ in bucket.account_ids}
        usage = self._usage(terms, replace(billed_parts(terms), others=known))
        return list(unpriced_usage(terms, usage.by_meter))

    def _usage(self, terms: BillingTerms, parts: BilledParts) -> BilledUsage:
        lake = self.organization.lake
        source = LakeState(lake, self.snapshot, self.instead, self.last)
        return usage_to_bill(
            source,
            terms.configuration,
            parts,
            self.organization.settings,
            self.usage,
            may_be_stored=parts.others is None and self.is_stored_usage,
        )

    def _calculation(
        self, terms: BillingTerms, changes: AdvanceChanges, bucket: AccountBucket
    ) -> BillCalculation:
        usage = self._usage(terms, billed_parts(terms))
        mark_step("bill.folded")
        billed = frozenset(key for id_ in bucket.account_ids for key in self.billed.get(id_, ()))
        made_again = {each for each in billed if terms.may_make(each)}
        maker = BillMaker(terms, usage, Provenance(self.snapshot, code_version()), made_again)
        return BillCalculation(
            organization=self.organization,
            terms=terms,
            changes=changes,
            usage=usage,
            maker=maker,
            billed=billed,
            closed=self.closed,
            pins=self.pins,
        )


def read_bills(
    organization: Organization,
    selection: BillSelection,
    snapshot: int,
    bucket: int | None = None,
    only: int | None = None,
) -> BillReading:
    """Find out what holds for the bills of a selection.

    Args:
        organization: The organization.
        selection: Which bills.
        snapshot: Of the lake.
        bucket: How many accounts are billed at a time, and the configuration is marked; as usual,
            and it is not, if None.
        only: The number of the one bucket that is to be calculated; all may be if None.

    Raises:
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        accounts = read_account_buckets(reader, selection.account_ids, bucket or BUCKET, only)
        changes = read_changes(reader, accounts, selection.account_ids, only)
        reading = read_due_bills(
            organization.stores, reader, selection, snapshot, (accounts, changes)
        )
        return reading if bucket is None else replace(reading, mark=count_versions(reader))


def read_due_bills(
    stores: Stores,
    reader: Reader,
    selection: BillSelection,
    snapshot: int,
    accounts: tuple[AccountBuckets, Sequence[AdvanceChanges]],
) -> BillReading:
    """The same where the configuration of the accounts was read already.

    Args:
        stores: The home.
        reader: Of the organization.
        selection: Which bills.
        snapshot: Of the lake.
        accounts: The configuration in buckets, and what changes of plans do in each of them.
    """
    buckets, changes = accounts
    shared = selection.overrides.apply(Configuration(buckets.shared))
    calendar = selection.calendar(shared)
    known = billed_keys(reader, *calendar.bill_dates, selection.emptied_day)
    keys = list(_readable_keys(reader, known, selection.account_ids))
    locked = frozenset(map(identity_of, {*locked_keys(reader, keys)} & {*keys}))
    billed: dict[str, list[BillIdentity]] = defaultdict(list)
    for key in keys:
        billed[key.account_id].append(identity_of(key))
    # The organization's period whose stored quantities may serve the run.
    last_day = local_date(calendar.period.end, calendar.zone) - timedelta(days=1)
    period = (
        PeriodSpec.month(selection.days)
        if isinstance(selection.days, Month)
        else PeriodSpec.on(selection.frequency or BillingFrequency.MONTHLY, last_day)
    )
    return BillReading(
        organization=stores.organization(reader.org_id),
        selection=selection,
        snapshot=snapshot,
        accounts=buckets,
        changes=changes,
        usage=read_with(reader, period, shared, reader),
        billed=billed,
        closed=ClosedBills(locked, closed_before(reader)),
        at=last_transaction(reader),
    )


def _readable_keys(
    reader: Reader, keys: Iterable[BillKey], account_ids: Collection[str] | None
) -> Iterator[BillKey]:
    """The keys of bills; a damaged one fails the run of its account, and is nothing to others."""
    for key in keys:
        try:
            identity_of(key)
        except ValueError as error:
            if account_ids is None or key.account_id in account_ids:
                raise damaged_bill(reader, key, str(error)) from None
        else:
            yield key


def read_changes(
    reader: Reader,
    accounts: AccountBuckets,
    account_ids: Collection[str] | None,
    only: int | None = None,
) -> list[AdvanceChanges]:
    """What changes of plans do to what was billed in advance, by bucket.

    Args:
        reader: Where bills are read.
        accounts: The configuration in buckets.
        account_ids: The accounts whose bills are made; all if None.
        only: The number of the one bucket that is looked at; all are if None.
    """
    deleted = deleted_records(reader, AccountPlan)
    found = []
    for number, bucket in enumerate(accounts.buckets):
        changes = AdvanceChanges()
        if only in {None, number} and (deleted or bucket.changed_kinds & PLANNED_KINDS):
            ids = account_ids if len(accounts.buckets) == 1 else bucket.account_ids
            configuration = accounts.configuration(bucket)
            known = {each.id for each in configuration.all(Account)} if deleted else set()
            own = [each for each in deleted if each.entity.account_id in known]
            changes = read_advance_changes(reader, configuration, ids, own)
        found.append(changes)
    return found


def billed_parts(terms: BillingTerms) -> BilledParts:
    """Whose quantities the bills of a month need, and of which times."""
    accounts = terms.account_terms_of if terms.restricted else None
    return BilledParts(
        period=terms.period,
        accounts=accounts,
        windows=terms.windows,
        priced=terms.priced,
        compounds=terms.compound_windows(),
        owners=terms.usage_owners,
    )
