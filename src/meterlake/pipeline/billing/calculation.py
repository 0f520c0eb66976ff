"""The bills of a run, calculated from one snapshot and one reading of the configuration.

What they depend on is read at once; terms, quantities and bills are those of one bucket of accounts
after the other, so that memory does not grow with the accounts.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import Final, NamedTuple

from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.bill_requests import BillStatus
from meterlake.model.billed_usage import BilledUsage
from meterlake.model.billing import Bill, Failure
from meterlake.model.calendar.recurring_period import PeriodSpec
from meterlake.model.entity import Configuration, Record
from meterlake.model.errors import MeterlakeError
from meterlake.model.failpoint import mark_step
from meterlake.model.period import Month, local_date
from meterlake.model.pricing import BillingFrequency
from meterlake.model.unbilled import Unpriced
from meterlake.model.version import code_version
from meterlake.pipeline.billing.advance import (
    PLANNED_KINDS,
    AdvanceChanges,
    read_advance_changes,
)
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.kept_bills import BillKeeper
from meterlake.pipeline.usage.period_usage import LakeState, usage_to_bill
from meterlake.pipeline.usage.stored_usage import BilledParts
from meterlake.pipeline.usage.usage_configuration import read_with
from meterlake.stages.bill import (
    AccountLedger,
    AccountTerms,
    BillIdentity,
    BillingCalendar,
    BillingTerms,
    BillMaker,
    BillSelection,
    ChosenBill,
    InputDigests,
    LineCredit,
    LineCredits,
    Movements,
    Provenance,
    billing_terms,
    unpriced_usage,
)
from meterlake.stages.bill.terms.advance_lines import ClosedBills
from meterlake.stages.bill.terms.overlaps import (
    BilledPlans,
    refuse_overlaps,
)
from meterlake.stages.usage.configuration import UsageConfiguration
from meterlake.stores import Stores
from meterlake.stores.custom_sql import limits_of
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.account_buckets import (
    AccountBucket,
    AccountBuckets,
    read_account_buckets,
)
from meterlake.stores.state.billing.bill_batch import billed_keys, locked_keys
from meterlake.stores.state.billing.billed_plans import billed_plans
from meterlake.stores.state.billing.calculated_bills import CalculatedBill
from meterlake.stores.state.billing.ledger import read_movements
from meterlake.stores.state.billing.line_credits import billed_credits
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.core.past import deleted_records

# Accounts whose commitments and balances are read at once.
_READ_TOGETHER: Final = 200
# Accounts whose terms, quantities and bills are in memory at once; each bucket scans the lake.
BUCKET: Final = 10_000
# Characters of an unexpected error in the reason of a failure.
_SHOWN_MAX: Final = 300
_log: Final = logging.getLogger("meterlake.worker")


@dataclass(frozen=True, slots=True)
class AccountBills:
    """The bills of one account as a run made them.

    Attributes:
        account: Whose they are.
        movements: What came into and went out of its commitments and balances, as they were read.
        credits: What people credit on lines that these may pay for, as it was read.
        made: Its bills in their order, and why there are no others.
        kept: Its stored bills if all of them would come out as they are; then none is made.
        inputs: The digest of what they were made from; None if they depend on more than it has.
    """

    account: Record[Account]
    movements: Movements
    credits: LineCredits
    made: tuple[Bill | Failure, ...] = ()
    kept: tuple[CalculatedBill, ...] = ()
    inputs: str | None = None

    @property
    def account_id(self) -> str:
        """The id of the account."""
        return self.account.id

    @property
    def refused(self) -> list[Failure]:
        """Why there are no other bills."""
        return [each for each in self.made if isinstance(each, Failure)]

    @property
    def count(self) -> int:
        """How many bills, or refusals, there are."""
        return len(self.made) + len(self.kept)


class _AccountState(NamedTuple):
    """What State has of some accounts.

    Attributes:
        movements: Of their commitments and balances, by the ids of these.
        credited: What people credit on lines, by account.
        stored: The bills that are made again, by account.
    """

    movements: Movements
    credited: Mapping[str, LineCredits]
    stored: Mapping[str, Sequence[CalculatedBill]]


@dataclass(frozen=True, slots=True)
class BillCalculation:
    """The bills of a run, before anything of them is stored.

    Attributes:
        terms: What holds in the run.
        changes: What changes of plans do to what was billed in advance.
        usage: What was used.
        billed: The bills that were made before.
        closed: The bills that stay as they are.
    """

    stores: Stores
    org_id: str
    terms: BillingTerms
    changes: AdvanceChanges
    usage: BilledUsage
    maker: BillMaker
    billed: frozenset[BillIdentity]
    closed: ClosedBills

    def made(
        self, status: BillStatus | None = None, *, isolated: bool = False
    ) -> Iterator[AccountBills]:
        """The bills of one account after the other.

        Args:
            status: What changed bills will be, if stored ones that would come out as they are need
                not be made; APPROVED has those made that are not. None: all are made.
            isolated: An unexpected error fails its account alone, instead of being raised.
        """
        make = self._make_or_fail if isolated else self.maker.make
        keeper = self._keeper(status)
        accounts = iter(self.maker.accounts)
        while some := list(islice(accounts, _READ_TOGETHER)):
            read = self._read(some, keeper)
            for account_terms in some:
                ledger = self._ledger(account_terms, read)
                stored = read.stored.get(account_terms.account.id, ())
                found = AccountBills(account_terms.account, ledger.read, ledger.credits)
                if kept := keeper.keep(account_terms, ledger, stored):
                    yield replace(found, kept=kept)
                    continue
                made = tuple(make(account_terms, ledger))
                inputs = keeper.digest_of(account_terms, ledger, made)
                yield replace(found, made=made, inputs=inputs)

    def _ledger(self, account_terms: AccountTerms, read: _AccountState) -> AccountLedger:
        sources = account_terms.sources
        own = {id_: read.movements.get(id_, []) for id_ in sources.ids} if sources else {}
        return AccountLedger(own, self.closed.has, read.credited.get(account_terms.account.id, {}))

    def _make_or_fail(
        self, account_terms: AccountTerms, ledger: AccountLedger
    ) -> Sequence[Bill | Failure]:
        try:
            return tuple(self.maker.make(account_terms, ledger))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is of one account
            return (unexpected_failure(account_terms.account, error),)

    def _keeper(self, status: BillStatus | None) -> BillKeeper:
        is_usable = status is not None and not self.terms.selection.overrides.moves_periods
        return BillKeeper(
            digests=InputDigests(self.terms, self.maker.inputs, self.closed.until)
            if is_usable
            else None,
            currencies=self.terms.currencies,
            status=status or BillStatus.PENDING,
            before=self.maker.before,
            is_closed=self.closed.has,
            with_memos=frozenset(self.changes.by_account()),
        )

    def _read(self, accounts: Sequence[AccountTerms], keeper: BillKeeper) -> _AccountState:
        paying = {each.account.id: each.sources for each in accounts if each.sources}
        ids = [id_ for each in paying.values() for id_ in each.ids]
        with self.stores.state.reading(self.org_id) as reader:
            return _AccountState(
                read_movements(reader, ids) if ids else {},
                read_line_credits(reader, paying) if ids else {},
                keeper.read_stored(reader, accounts),
            )

    def count_due(self) -> int:
        """How many bills are made at most; an account whose bills are refused counts as one."""
        terms = self.terms
        made_again = (each for each in self.billed if terms.may_make(each))
        due = {key for key in made_again if key.account_id in terms.account_terms_of}
        refused = 0
        for each in terms.account_terms_of.values():
            due |= {bill.key for bill in each.bills}
            refused += bool(each.billing_blockers)
        return len(due) + refused

    def affected(self) -> Iterator[ChosenBill]:
        """The bills until the last one of the run that changes of plans affect, but for its own."""
        terms = self.terms
        own = {bill.key for each in terms.account_terms_of.values() for bill in each.bills}
        own |= {each for each in self.billed if terms.may_make(each)}
        for each in self.changes.affected:
            if each.key.bill_date <= terms.calendar.bill_dates[1] and each.key not in own:
                yield each

    def unpriced(self) -> list[Unpriced]:
        """Usage that no bill charges for."""
        return list(unpriced_usage(self.terms, self.usage.by_meter))


def unexpected_failure(account: Record[Account], error: Exception) -> Failure:
    """Why an account has no bill if a program or a database failed in a way that nobody foresaw.

    The log has the whole error, the failure its first line.
    """
    code = account.entity.code
    _log.error("account %s cannot be billed: an unexpected error", code, exc_info=error)
    text = str(error).strip().split("\n", 1)[0][:_SHOWN_MAX]
    name = "" if isinstance(error, MeterlakeError) else type(error).__name__
    reason = ": ".join(filter(None, ("an unexpected error", name, text)))
    return Failure(account.id, code, reason)


def read_line_credits(reader: Reader, account_ids: Iterable[str]) -> Mapping[str, LineCredits]:
    """What people credit on lines of bills, by the ids of their accounts."""
    found: dict[str, dict[BillIdentity, list[LineCredit]]] = defaultdict(dict)
    for key, credited in billed_credits(reader, account_ids).items():
        found[key.account_id][identity_of(key)] = [LineCredit(*each) for each in credited]
    return found


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
    """

    stores: Stores
    org_id: str
    selection: BillSelection
    snapshot: int
    accounts: AccountBuckets
    changes: Sequence[AdvanceChanges]
    usage: UsageConfiguration
    billed: Mapping[str, Sequence[BillIdentity]]
    closed: ClosedBills

    def calculations(self) -> Iterator[BillCalculation]:
        """The bills of one bucket of accounts after the other; no bucket is kept here."""
        return map(self.calculate, range(len(self.accounts.buckets)))

    def calculate(self, number: int) -> BillCalculation:
        """The bills of a bucket of accounts, the first of which is number 0."""
        bucket, changes = self.accounts.buckets[number], self.changes[number]
        configuration = self.selection.overrides.apply(self.accounts.configuration(bucket))
        terms = billing_terms(configuration, self._within(bucket), changes.by_account())
        if self.selection.overrides.moves_periods:
            terms = refuse_overlaps(terms, self._billed_plans(terms))
        return self._calculation(terms, changes, bucket)

    def _billed_plans(self, terms: BillingTerms) -> BilledPlans:
        """The bills on which plans stand that the run may bill for a part of the same time."""
        due = [bill for each in terms.account_terms_of.values() for bill in each.bills]
        first = min((bill.first for bill in due), default=terms.calendar.days.first)
        with self.stores.state.reading(self.org_id) as reader:
            return billed_plans(reader, {bill.key.account_id for bill in due}, first)

    def count_accounts(self, first: int = 0) -> int:
        """How many accounts are in the buckets from one on: about as many bills are due there."""
        return sum(len(each.account_ids) for each in self.accounts.buckets[first:])

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
        source = LakeState(self.stores.lake(self.org_id), self.snapshot)
        limits = limits_of(self.stores.settings)
        return usage_to_bill(
            source,
            terms.configuration,
            parts,
            limits,
            self.usage,
            may_be_stored=parts.others is None,
        )

    def _within(self, bucket: AccountBucket) -> BillSelection:
        """The selection of a bucket; what accounts that there are not used belongs to no bucket."""
        if len(self.accounts.buckets) == 1:
            return self.selection
        return replace(self.selection, account_ids=frozenset(bucket.account_ids))

    def _calculation(
        self, terms: BillingTerms, changes: AdvanceChanges, bucket: AccountBucket
    ) -> BillCalculation:
        usage = self._usage(terms, billed_parts(terms))
        mark_step("bill.folded")
        billed = frozenset(key for id_ in bucket.account_ids for key in self.billed.get(id_, ()))
        made_again = {each for each in billed if terms.may_make(each)}
        maker = BillMaker(terms, usage, Provenance(self.snapshot, code_version()), made_again)
        return BillCalculation(
            stores=self.stores,
            org_id=self.org_id,
            terms=terms,
            changes=changes,
            usage=usage,
            maker=maker,
            billed=billed,
            closed=self.closed,
        )


def read_bills(
    stores: Stores, org_id: str, selection: BillSelection, snapshot: int, bucket: int | None = None
) -> BillReading:
    """Find out what holds for the bills of a selection.

    Args:
        stores: The home.
        org_id: The organization.
        selection: Which bills.
        snapshot: Of the lake.
        bucket: How many accounts are billed at a time; as usual if None.

    Raises:
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    with stores.state.reading(org_id) as reader:
        accounts = read_account_buckets(reader, selection.account_ids, bucket or BUCKET)
        deleted = deleted_records(reader, AccountPlan)
        changes = [
            _read_changes(reader, accounts, each, selection, deleted) for each in accounts.buckets
        ]
        shared = selection.overrides.apply(Configuration(accounts.shared))
        calendar = selection.calendar(shared)
        usage = read_with(reader, _usage_period(calendar, selection), shared, reader)
        keys = billed_keys(reader, *calendar.bill_dates, selection.emptied_day)
        locked = frozenset(map(identity_of, locked_keys(reader, keys)))
        closed = ClosedBills(locked, closed_before(reader))
    billed: dict[str, list[BillIdentity]] = defaultdict(list)
    for key in keys:
        billed[key.account_id].append(identity_of(key))
    return BillReading(
        stores=stores,
        org_id=org_id,
        selection=selection,
        snapshot=snapshot,
        accounts=accounts,
        changes=changes,
        usage=usage,
        billed=billed,
        closed=closed,
    )


def _read_changes(
    reader: Reader,
    accounts: AccountBuckets,
    bucket: AccountBucket,
    selection: BillSelection,
    deleted: Collection[Record[AccountPlan]],
) -> AdvanceChanges:
    """What changes of the plans of a bucket do to what was billed in advance."""
    if not deleted and not bucket.changed_kinds & PLANNED_KINDS:
        return AdvanceChanges()
    ids = selection.account_ids if len(accounts.buckets) == 1 else bucket.account_ids
    configuration = accounts.configuration(bucket)
    known = {each.id for each in configuration.all(Account)} if deleted else set()
    own = [each for each in deleted if each.entity.account_id in known]
    return read_advance_changes(reader, configuration, ids, own)


def _usage_period(calendar: BillingCalendar, selection: BillSelection) -> PeriodSpec:
    """The organization's period whose stored quantities may serve the run."""
    last_day = local_date(calendar.period.end, calendar.zone) - timedelta(days=1)
    if isinstance(selection.days, Month):
        return PeriodSpec.month(selection.days)
    return PeriodSpec.on(selection.frequency or BillingFrequency.MONTHLY, last_day)


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
