"""What holds for whom in a month: bills that are due, plans, pricings, and when they apply."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, tzinfo
from itertools import chain
from typing import NamedTuple

from meterlake.model.accounts import Account, AccountPlan, ChildBillingMode
from meterlake.model.billed_usage import UsageOwner, UsageWindows
from meterlake.model.charges import Charge
from meterlake.model.contracts import Contract
from meterlake.model.entity import Configuration, Record
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Period
from meterlake.model.plan_fields import plan_ids_of, plans_of
from meterlake.model.pricing import PlanTemplate, Pricing, PricingType
from meterlake.model.usage_selection import UsageSelection, select_usage
from meterlake.stages.bill.advance_lines import NO_MEMOS, AdvanceMemo
from meterlake.stages.bill.applicable_pricing import (
    ApplicablePricing,
    GroupTerms,
    PlanCatalog,
    PlanTerms,
)
from meterlake.stages.bill.bill_items import BillItems, ItemDates
from meterlake.stages.bill.credit_sources import AccountSources, SourceCatalog
from meterlake.stages.bill.currencies import Currencies
from meterlake.stages.bill.due import BillIdentity, BillingCalendar, BillingPeriod, own_time
from meterlake.stages.bill.fees_with_plans import DueFee, FeesWithPlans
from meterlake.stages.bill.hierarchies import AccountPool, Hierarchies, bills_child
from meterlake.stages.bill.identities import BillIdentities, is_asked_for
from meterlake.stages.bill.readiness import Readiness
from meterlake.stages.bill.selection import BillSelection
from meterlake.stages.bill.service_periods import PlanTime


@dataclass(frozen=True, slots=True, eq=False)
class UsagePricing:
    """When which pricings of a plan apply in a part of a period, in the order of a bill's lines.

    Account plans with the same plan, part and usage filters share it, so it is compared by
    identity.

    Attributes:
        selection: Which measurements count by the filters of a contract; all if None.
    """

    parts: tuple[tuple[ApplicablePricing, Period], ...]
    selection: UsageSelection | None = None


@dataclass(frozen=True, slots=True)
class PlanPeriod:
    """An account plan on a bill.

    Attributes:
        time: When the plan holds, and what of it the bill charges.
        period: The part of the billing period in which the plan holds, whose usage the bill charges;
            empty if the plan only begins with the bill date.
        group: The plan group that the account is on, whose plan this is; None if it is on the plan.
        pool: Whose usage is charged as one; None if it is that of the account on the plan alone.
        sharer_id: The child that is billed for its share of the usage, and for nothing else; None
            on the bill of whom the plan is billed to.
    """

    account_plan: Record[AccountPlan]
    terms: PlanTerms
    time: PlanTime
    period: Period
    usage: UsagePricing
    group: GroupTerms | None = None
    pool: AccountPool | None = None
    sharer_id: str | None = None

    @property
    def child_billing_mode(self) -> ChildBillingMode:
        """How what a pool used stands on bills."""
        return self.account_plan.entity.child_billing_mode

    @property
    def is_charged(self) -> bool:
        """Whether the usage of any time of the billing period is charged."""
        return self.period.start < self.period.end


class PricedUsage(NamedTuple):
    """A tariff for one subscription; its period is what both of them have in common.

    Attributes:
        source_periods: The parts of the period for each of which other commitments and balances may
            pay; empty if it is one.
    """

    plan_period: PlanPeriod
    applicable_pricing: ApplicablePricing
    period: Period
    source_periods: tuple[Period, ...] = ()

    @property
    def usage_id(self) -> str:
        """Names whose usage it charges for: an account or a pool."""
        pool = self.plan_period.pool
        return self.plan_period.account_plan.entity.account_id if pool is None else pool.usage_id

    @property
    def identity(self) -> tuple[str, str, str, Period]:
        """What it is, on whichever bills it stands."""
        plan_period, pricing_id = self.plan_period, self.applicable_pricing.pricing.id
        return plan_period.account_plan.id, plan_period.terms.plan.id, pricing_id, self.period

    @property
    def is_split(self) -> bool:
        """Whether what it charges is divided between the accounts of a pool."""
        plan_period = self.plan_period
        summary = plan_period.child_billing_mode is ChildBillingMode.PARENT_SUMMARY
        is_debit = self.pricing_type is PricingType.DEBIT
        return plan_period.pool is not None and is_debit and not summary

    @property
    def usage_parts(self) -> Iterator[tuple[str, "UsagePart"]]:
        """Whose usage it needs, by id, and which parts of it."""
        selection = self.plan_period.usage.selection
        for period in (self.period, *self.spans, *self.source_periods):
            yield self.usage_id, UsagePart(period, selection)
        pool, sharer_id = self.plan_period.pool, self.plan_period.sharer_id
        for member in pool.used_members(self.period) if pool and self.is_split else ():
            yield member.usage_id, UsagePart(self.period, selection)
            if sharer_id in {None, member.account.id}:
                for period in self.source_periods:
                    yield member.usage_id, UsagePart(period, selection)

    def cut_by(self, sources: AccountSources) -> "PricedUsage":
        """The same where sources may pay for parts of it."""
        if self.pricing_type is not PricingType.DEBIT:
            return self
        product_id = self.plan_period.terms.product.id
        contract_id = self.plan_period.account_plan.entity.contract_id
        periods = sources.usage_parts(product_id, contract_id, self.period)
        return self._replace(source_periods=periods) if periods else self

    @property
    def pricing_type(self) -> PricingType:
        """Whether it adds to the bill or takes away from it."""
        return self.applicable_pricing.pricing.entity.type

    @property
    def spans(self) -> tuple[Period, ...]:
        """If its bands span the plan: from the plan's start until the period's end, and its start.

        The second one is missing if the period begins with the plan.
        """
        if not self.applicable_pricing.pricing.entity.tiers_span_plan:
            return ()
        start, period = self.plan_period.time.start, self.period
        until_end = Period(start, period.end)
        return (until_end, Period(start, period.start)) if start < period.start else (until_end,)


@dataclass(frozen=True, slots=True)
class DueBill:
    """One bill of an account, with what it charges in the order of its lines.

    Attributes:
        first: The first day of what it bills.
        period: What it bills, as instants.
        ad_hoc: The single charges that stand on it.
        fees: The fees of commitments that stand on it.
        memos: What corrects lines of locked bills.
        shared: The plans of a parent of which it bills a child's share of the usage.
    """

    key: BillIdentity
    first: date
    period: Period
    plan_periods: tuple[PlanPeriod, ...] = ()
    charges: tuple[PricedUsage, ...] = ()
    ad_hoc: tuple[Record[Charge], ...] = ()
    fees: tuple[DueFee, ...] = ()
    shared: tuple[PlanPeriod, ...] = ()
    memos: tuple[AdvanceMemo, ...] = ()

    @property
    def has_arrears(self) -> bool:
        """Whether any of its plans holds before its bill date; else only what stands on it counts."""
        return any(each.time.is_held for each in (*self.plan_periods, *self.shared))


class PooledTime(NamedTuple):
    """A time in which a plan of the parent charges for an account's usage."""

    usage: UsagePricing
    period: Period


@dataclass(frozen=True, slots=True)
class AccountTerms:
    """An account with its bills, and with what it is charged for in the month itself.

    With `billing_blockers` it gets no bill: they say what of it this version does not calculate.

    Attributes:
        bills: The bills that are made with the month, by bill date. Their periods are the month,
            unless a first bill date or an interval makes others.
        plan_periods: Its plans in the month.
        charges: What has a price in the month, on whichever bill it is.
        pooled: When plans of its parent charge for its usage in the month.
        parent_blockers: Why its parent gets no bill; what would stand on it is not billed then.
        is_alone: Whether it has neither a parent nor children.
        sources: Its commitments and balances; None if it has none.
    """

    account: Record[Account]
    bills: tuple[DueBill, ...] = ()
    plan_periods: tuple[PlanPeriod, ...] = ()
    charges: tuple[PricedUsage, ...] = ()
    billing_blockers: tuple[str, ...] = ()
    pooled: tuple[PooledTime, ...] = ()
    parent_blockers: tuple[str, ...] = ()
    is_alone: bool = True
    sources: AccountSources | None = None

    def with_sources(self, sources: AccountSources) -> "AccountTerms":
        """The same with sources that may pay for what stands on the bills."""
        bills = (
            replace(bill, charges=tuple(each.cut_by(sources) for each in bill.charges))
            for bill in self.bills
        )
        return replace(self, bills=tuple(bills), sources=sources)

    @property
    def source_periods(self) -> tuple[tuple[Period, ...], ...]:
        """The parts of usage that other sources may pay for, of each charge; empty without sources."""
        if self.sources is None:
            return ()
        return tuple(each.source_periods for bill in self.bills for each in bill.charges)

    @property
    def priced_usage(self) -> tuple[UsagePricing, ...]:
        """What has a price of all that it uses in the month."""
        own = (each.usage for each in self.plan_periods)
        return (*own, *(each.usage for each in self.pooled))

    @property
    def usage_pricings(self) -> tuple[tuple[UsagePricing, ...], ...]:
        """What is charged for usage in the month, and on each of the bills that are made with it."""
        parts = (self.plan_periods, *(each.plan_periods for each in self.bills))
        return tuple(tuple(each.usage for each in part) for part in parts)


class UsagePart(NamedTuple):
    """A time, and which measurements of it; all if None."""

    period: Period
    selection: UsageSelection | None = None


@dataclass(frozen=True, slots=True)
class BillingTerms:
    """All that the bills of a run depend on, but the measurements.

    Attributes:
        calendar: Says which bills are due.
        selection: Which of them the run makes.
        currencies: Of the configuration.
        account_terms_of: The accounts that the run is about, by id, with or without a plan.
        restricted: Whether that is less than all accounts.
        catalog: The terms of plans by period.
        priced: The ids of the aggregations that have a pricing anywhere, at any time, or are
            parts of compound ones that have.
        windows: By meter, for which other periods than the month as a whole quantities are needed.
        usage_owners: Whose custom fields count for usage that is that of a pool, or a part of it.
    """

    configuration: Configuration
    organization: Record[OrganizationConfig]
    calendar: BillingCalendar
    selection: BillSelection
    currencies: Currencies
    catalog: PlanCatalog
    account_terms_of: dict[str, AccountTerms]
    restricted: bool
    priced: frozenset[str]
    windows: dict[str, list[UsageWindows]]
    usage_owners: dict[str, UsageOwner]

    def may_make(self, key: BillIdentity) -> bool:
        """Whether the run makes a bill again that was made before."""
        return BillIdentities(self.configuration).keeps(key) and is_asked_for(
            self.selection, key, ()
        )

    def compound_windows(
        self,
    ) -> dict[tuple[str, UsageSelection | None], list[tuple[str, Period]]]:
        """The accounts and periods that bills charge for.

        By the ids of compound aggregations, and by which measurements count.
        """
        if not any(each.entity.compound_aggregation_id for each in self.configuration.all(Pricing)):
            return {}
        found: dict[tuple[str, UsageSelection | None], dict[tuple[str, Period], None]] = (
            defaultdict(dict)
        )
        for charge in distinct_charges(self.account_terms_of.values()):
            if charge.applicable_pricing.is_compound:
                aggregation_id = charge.applicable_pricing.aggregation.id
                for usage_id, (period, selection) in charge.usage_parts:
                    found[aggregation_id, selection][usage_id, period] = None
        return {key: list(groups) for key, groups in found.items()}

    @property
    def zone(self) -> tzinfo:
        """The organization's time zone."""
        return self.calendar.zone

    @property
    def period(self) -> Period:
        """The run's period as a whole, which most plans are billed for."""
        return self.calendar.period


def distinct_charges(account_terms_of: Iterable[AccountTerms]) -> Iterator[PricedUsage]:
    """The charges of all bills; those of a pool once, however many accounts are billed a share."""
    seen = set()
    bills = (bill for each in account_terms_of for bill in each.bills)
    for charge in (each for bill in bills for each in bill.charges):
        if charge.plan_period.pool is not None:
            sharer_id = charge.plan_period.sharer_id if charge.source_periods else None
            key = (*charge.identity, charge.source_periods, sharer_id)
            if key in seen:
                continue
            seen.add(key)
        yield charge


# A start and an end, if there is one.
_Time = tuple[datetime, datetime | None]


class _UsageKey(NamedTuple):
    """What account plans have in common that share what is charged for their usage.

    Attributes:
        since: When the plan began, where bands span it: quantities since then are needed.
    """

    plan_id: str
    whole: Period
    period: Period
    since: datetime | None
    selection: UsageSelection | None


# Account plans with a billing period of each.
_Due = Sequence[tuple[Record[AccountPlan], BillingPeriod]]


class _OnBill(NamedTuple):
    """An account plan with the billing period that a bill of it is about.

    Attributes:
        sharer_id: The child that is billed for its share; None if the plan is billed to the account.
    """

    account_plan: Record[AccountPlan]
    due: BillingPeriod
    sharer_id: str | None = None


class TermsFinder:
    """Finds what holds for accounts."""

    def __init__(
        self,
        calendar: BillingCalendar,
        selection: BillSelection,
        plans: PlanCatalog,
        has_lines: Callable[[Record[Account], DueBill], bool],
        memos: Mapping[str, Sequence[AdvanceMemo]] = NO_MEMOS,
    ) -> None:
        """Begin.

        Args:
            calendar: The days of the run.
            selection: Which bills the run makes.
            plans: The terms of plans.
            has_lines: Whether anything stands on an account's bill before any usage.
            memos: By the ids of accounts, what corrects lines of locked bills.
        """
        self.memos = memos
        self.configuration = calendar.configuration
        self.selection = selection
        self.calendar = calendar
        self.plans = plans
        self.has_lines = has_lines
        self._usage_pricings: dict[_UsageKey, UsagePricing] = {}
        self._selections: dict[str, UsageSelection | None] = {}
        self._plan_times: dict[tuple[int, _Time, _Time], PlanTime] = {}
        self.readiness = Readiness(self.configuration)
        self.identities = BillIdentities(self.configuration)
        self.item_dates = ItemDates(calendar, self.identities)
        self.fees_with_plans = FeesWithPlans(calendar)
        self.hierarchies = Hierarchies(self.configuration)
        self.currencies = Currencies.of(self.configuration, calendar.organization)
        self.sources = SourceCatalog(self.configuration, self.currencies, calendar.zone)
        self._parent_blockers: dict[str, tuple[str, ...]] = {}

    def account_terms(self, account: Record[Account]) -> AccountTerms:
        """An account with all that is charged to it, and what may pay for it."""
        found = self._charged(account)
        sources = self.sources.of_account(account, in_hierarchy=self.hierarchies.has(account))
        return found if sources is None else found.with_sources(sources)

    def _charged(self, account: Record[Account]) -> AccountTerms:
        """An account with all that is charged to it."""
        if self.hierarchies.has(account):
            return self._related_terms(account)
        records = self.hierarchies.plans_of(account.id)
        due = [(each, period) for each in records for period in self.calendar.due(each.entity)]
        found = self._blockers(account, records, due)
        if found:
            return AccountTerms(account, billing_blockers=found)
        bills = tuple(self._bills(account, records, due))
        if len(bills) == 1 and bills[0].period is self.calendar.period and len(due) == len(records):
            [bill] = bills
            return AccountTerms(account, bills, bill.plan_periods, bill.charges)
        plan_periods = self._held(records)
        return AccountTerms(account, bills, plan_periods, _charges(plan_periods))

    def _related_terms(self, account: Record[Account]) -> AccountTerms:
        """An account with a parent or children, with all that is charged to it."""
        records = self.hierarchies.plans_billed_to(account)
        due = [(each, period) for each in records for period in self.calendar.due(each.entity)]
        shared = [
            (each, period)
            for each in self._plans_that_share(account)
            for period in self.calendar.due(each.entity)
        ]
        found = self._blockers(account, records, [*due, *shared])
        if found:
            return AccountTerms(account, billing_blockers=found, is_alone=False)
        bills = tuple(self._bills(account, records, due, shared))
        blocked_parent = self._blockers_of_parent(account)
        own = self.hierarchies.plans_of(account.id)
        plan_periods = self._held(
            each for each in own if not blocked_parent or bills_child(each.entity)
        )
        return AccountTerms(
            account,
            bills,
            plan_periods,
            _charges(plan_periods),
            pooled=() if blocked_parent else tuple(self._pooled_times(account)),
            parent_blockers=blocked_parent,
            is_alone=False,
        )

    def _blockers(
        self,
        account: Record[Account],
        records: Iterable[Record[AccountPlan]],
        due: Sequence[tuple[Record[AccountPlan], BillingPeriod]],
    ) -> tuple[str, ...]:
        """Why an account cannot be billed."""
        held = [*((each, period.period) for each, period in due), *self._not_due(records, due)]
        return tuple(dict.fromkeys(self.readiness.billing_blockers(account, held)))

    def _blockers_of_parent(self, account: Record[Account]) -> tuple[str, ...]:
        parent_id = account.entity.parent_account_id
        if parent_id is None:
            return ()
        found = self._parent_blockers.get(parent_id)
        if found is None:
            parent: Record[Account] = self.configuration.get(Account, parent_id)
            records = self.hierarchies.plans_billed_to(parent)
            due = [(each, period) for each in records for period in self.calendar.due(each.entity)]
            reasons = self._blockers(parent, records, due)
            found = tuple(f"parent {parent.entity.code!r}: {each}" for each in reasons)
            self._parent_blockers[parent_id] = found
        return found

    def _held(self, records: Iterable[Record[AccountPlan]]) -> tuple[PlanPeriod, ...]:
        """The plans of account plans in the run's period."""
        whole = self.calendar.as_billing_period
        return self._sort(
            each for record in records for each in self._on_bill(record, whole) if each.is_charged
        )

    def _plans_that_share(self, account: Record[Account]) -> list[Record[AccountPlan]]:
        """The plans of the parent that bill children for their shares, this account at some time."""
        parent_id = account.entity.parent_account_id
        return [
            each
            for each in (self.hierarchies.plans_of(parent_id) if parent_id else ())
            if bills_child(each.entity)
            and any(pool.member(account.id) for pool in self._pools_of(each))
        ]

    def _pools_of(self, record: Record[AccountPlan]) -> Iterator[AccountPool]:
        for plan in plans_of(record.entity, self.configuration):
            product_id = self.configuration.get(
                PlanTemplate, plan.plan_template_id
            ).entity.product_id
            pool = self.hierarchies.pool(record.entity.account_id, product_id)
            if pool is not None:
                yield pool

    def _pooled_times(self, account: Record[Account]) -> Iterator[PooledTime]:
        """When plans of the parent charge for an account's usage in the run's period."""
        parent_id = account.entity.parent_account_id
        for each in self._held(self.hierarchies.plans_of(parent_id) if parent_id else ()):
            member = each.pool and each.pool.member(account.id)
            for time in member.times if member else ():
                held = each.period.intersection(time.start, time.end)
                if held is not None:
                    yield PooledTime(_clip(each.usage, held), held)

    def _not_due(
        self,
        records: Iterable[Record[AccountPlan]],
        due: Iterable[tuple[Record[AccountPlan], BillingPeriod]],
    ) -> Iterator[tuple[Record[AccountPlan], Period]]:
        """The account plans that hold in the run's period, but have no bill."""
        with_bill = {record.id for record, _ in due}
        whole = self.calendar.period
        for record in records:
            held = whole.intersection(*self.calendar.time_of(record.entity))
            if held and record.id not in with_bill:
                yield record, whole

    def _bills(
        self,
        account: Record[Account],
        records: Iterable[Record[AccountPlan]],
        due: _Due,
        shared: _Due = (),
    ) -> Iterator[DueBill]:
        together: dict[BillIdentity, list[_OnBill]] = defaultdict(list)
        for record, period in due:
            key = self.identities.of_plan(account.id, period, record.entity.contract_id)
            together[key].append(_OnBill(record, period))
        for record, period in shared:
            if any(self._shared(account.id, record, period)):
                key = self.identities.of_plan(account.id, period, record.entity.contract_id)
                together[key].append(_OnBill(record, period, account.id))
        items = self._items(account, records, together)
        for key in sorted({*together, *items}):
            found = together.get(key, ())
            if is_asked_for(self.selection, key, [each.due for each in found]):
                yield self._due_bill(key, found, items.get(key))

    def _items(
        self,
        account: Record[Account],
        records: Iterable[Record[AccountPlan]],
        together: Mapping[BillIdentity, Sequence[_OnBill]],
    ) -> Mapping[BillIdentity, BillItems]:
        """What stands on bills beside what plans charge: fees with plans first, they make bills due."""
        fees: dict[BillIdentity, BillItems] = defaultdict(BillItems)
        due = [
            (each.account_plan, each.due)
            for found in together.values()
            for each in found
            if each.sharer_id is None
        ]
        for record, period, fee in self.fees_with_plans.of_account(account.id, records, due):
            key = self.identities.of_plan(account.id, period, record.entity.contract_id)
            fees[key].add(fee)

        def is_due(key: BillIdentity) -> bool:
            found = together[key]
            return any(map(self._is_held, found)) or self.has_lines(
                account, self._due_bill(key, found, fees.get(key))
            )

        dated_with = [*records, *self._plans_that_share(account)]
        dated = self.item_dates.by_bill(account.id, dated_with, together, is_due)
        memos: dict[BillIdentity, BillItems] = defaultdict(BillItems)
        for memo in self.memos.get(account.id, ()):
            if memo.bill in together or self.item_dates.is_made(memo.bill.bill_date):
                memos[memo.bill].add(memo)
        parts = (fees, dated, memos)
        return {key: _join_items(*(each.get(key) for each in parts)) for key in chain(*parts)}

    def _is_held(self, on_bill: _OnBill) -> bool:
        time = own_time(on_bill.account_plan.entity)
        return on_bill.due.period.intersection(*time) is not None

    def _shared(
        self, account_id: str, record: Record[AccountPlan], due: BillingPeriod
    ) -> Iterator[PlanPeriod]:
        """The plans of an account plan of the parent of which a child is billed a share."""
        held = due.period.intersection(*own_time(record.entity))
        for each in self._on_bill(record, due) if held else ():
            member = each.pool and each.pool.member(account_id)
            if held and member and member.counts_within(held):
                yield replace(each, sharer_id=account_id)

    def _due_bill(
        self, key: BillIdentity, found: Sequence[_OnBill], items: BillItems | None
    ) -> DueBill:
        items = items or BillItems()
        charges, fees, memos = tuple(items.charges), tuple(items.fees), tuple(items.memos)
        if not found:
            alone = self.calendar.without_plan(key)
            first, whole = alone.first, alone.period
            return DueBill(key, first, whole, ad_hoc=charges, fees=fees, memos=memos)
        first, whole = min((each.due.first, each.due.period) for each in found)
        plan_periods = self._sort(each for one in found for each in self._plan_periods(one))
        own = tuple(each for each in plan_periods if each.sharer_id is None)
        shared = tuple(each for each in plan_periods if each.sharer_id is not None)
        priced = _charges(plan_periods)
        return DueBill(key, first, whole, own, priced, charges, fees, shared, memos)

    def _plan_periods(self, on_bill: _OnBill) -> Iterator[PlanPeriod]:
        if on_bill.sharer_id is None:
            return self._on_bill(on_bill.account_plan, on_bill.due)
        return self._shared(on_bill.sharer_id, on_bill.account_plan, on_bill.due)

    def _on_bill(self, record: Record[AccountPlan], due: BillingPeriod) -> Iterator[PlanPeriod]:
        """The plan of an account plan, or those of its plan group."""
        entity, whole = record.entity, due.period
        start, end = self.calendar.time_of(entity)
        period = whole.intersection(start, end)
        # Most plans hold all the time; sharing one period makes looking quantities up by it fast.
        period = whole if period == whole else period or Period(whole.end, whole.end)
        time = self._plan_time(due, own_time(entity), (start, end))
        group = entity.plan_group_id and self.plans.group_terms(entity.plan_group_id)
        selection = self._selection(entity.contract_id)
        for plan_id in plan_ids_of(entity, self.configuration):
            terms = self.plans.terms(plan_id, whole)
            since = start if terms.has_spanning_bands else None
            usage = self._usage_pricing(
                _UsageKey(terms.plan.id, whole, period, since, selection), terms
            )
            pool = self._pool(record, terms, due)
            yield PlanPeriod(record, terms, time, period, usage, group or None, pool)

    def _pool(
        self, record: Record[AccountPlan], terms: PlanTerms, due: BillingPeriod
    ) -> AccountPool | None:
        """Who is charged together on a bill: by bands since the plan's start, and in advance."""
        found = self.hierarchies.pool(record.entity.account_id, terms.product.id)
        if found is None:
            return None
        following = self.calendar.regular(due.recurrence, due.numbers.stop)
        return found.within(Period(min(record.entity.start_date, due.period.start), following.end))

    def _plan_time(self, due: BillingPeriod, own: _Time, charged: _Time) -> PlanTime:
        # Account plans of the same times share it. Most billing periods are the same object.
        key = (id(due), own, charged)
        found = self._plan_times.get(key)
        if found is None:
            found = self._plan_times[key] = PlanTime(self.calendar, due, own, *charged)
        return found

    def _usage_pricing(self, key: _UsageKey, terms: PlanTerms) -> UsagePricing:
        found = self._usage_pricings.get(key)
        if found is None:
            parts = tuple(_applicable_parts(terms, key.period))
            found = self._usage_pricings[key] = UsagePricing(parts, key.selection)
        return found

    def _selection(self, contract_id: str | None) -> UsageSelection | None:
        """Which measurements count under a contract; all if None."""
        if contract_id is None:
            return None
        if contract_id not in self._selections:
            contract = self.configuration.get(Contract, contract_id).entity
            self._selections[contract_id] = select_usage(contract.usage_filters)
        return self._selections[contract_id]

    def _sort(self, found: Iterable[PlanPeriod]) -> tuple[PlanPeriod, ...]:
        return tuple(
            sorted(
                found,
                key=lambda each: (
                    each.terms.product.code,
                    each.account_plan.entity.start_date,
                    each.account_plan.created,
                    each.account_plan.id,
                    each.terms.plan.entity.code,
                ),
            )
        )


def _charges(plan_periods: Iterable[PlanPeriod]) -> tuple[PricedUsage, ...]:
    return tuple(
        PricedUsage(plan_period, pricing, period)
        for plan_period in plan_periods
        for pricing, period in plan_period.usage.parts
    )


def _clip(usage: UsagePricing, time: Period) -> UsagePricing:
    """What a plan charges for usage in a part of its time."""
    parts = (
        (pricing, period.intersection(time.start, time.end)) for pricing, period in usage.parts
    )
    return UsagePricing(tuple((pricing, part) for pricing, part in parts if part), usage.selection)


def _join_items(*parts: BillItems | None) -> BillItems:
    found = [each for each in parts if each is not None]
    return BillItems(
        [charge for each in found for charge in each.charges],
        [fee for each in found for fee in each.fees],
        [memo for each in found for memo in each.memos],
    )


def _applicable_parts(
    terms: PlanTerms, period: Period
) -> Iterator[tuple[ApplicablePricing, Period]]:
    """The pricings of a plan that apply in a period, and when they do."""
    for pricing in terms.applicable_pricings:
        part = period.intersection(pricing.period.start, pricing.period.end)
        if part is not None:
            yield pricing, pricing.period if part == pricing.period else part
