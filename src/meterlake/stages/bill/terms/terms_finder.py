"""Finds what holds for accounts: the bills that are due, and what stands on them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import NamedTuple, TypeVar

from meterlake.model.catalog.plans import PlanTemplate
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.contracts import Contract
from meterlake.model.customers.usage_selection import UsageSelection, select_usage
from meterlake.model.scopes.plan_fields import plan_ids_of, plans_of
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Period
from meterlake.stages.bill.credits.credit_sources import SourceCatalog
from meterlake.stages.bill.hierarchies import AccountPool, Hierarchies, bills_child
from meterlake.stages.bill.periods.due_periods import (
    BillIdentity,
    BillingCalendar,
    BillingPeriod,
    own_time,
)
from meterlake.stages.bill.periods.selection import BillIdentities, BillSelection, is_asked_for
from meterlake.stages.bill.periods.service_periods import PlanTime
from meterlake.stages.bill.pricing.applicable_pricing import (
    ApplicablePricing,
    PlanCatalog,
    PlanTerms,
)
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stages.bill.terms.advance_lines import NO_MEMOS, AdvanceMemo
from meterlake.stages.bill.terms.bill_items import BillItems, FeesWithPlans, ItemDates
from meterlake.stages.bill.terms.terms import (
    AccountTerms,
    DueBill,
    PlanPeriod,
    PooledTime,
    PricedUsage,
    UsagePricing,
)

# What is of a plan.
_OnPlan = TypeVar("_OnPlan", PlanPeriod, PooledTime)
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
        self.identities = BillIdentities(self.configuration)
        self.item_dates = ItemDates(calendar, self.identities)
        self.fees_with_plans = FeesWithPlans(calendar)
        self.hierarchies = Hierarchies(self.configuration)
        self.currencies = Currencies.of(self.configuration, calendar.organization)
        self.sources = SourceCatalog(self.configuration, self.currencies, calendar.zone)

    def account_terms(self, account: Record[Account]) -> AccountTerms:
        """An account with all that is charged to it, and what may pay for it."""
        # An account with all that is charged to it.
        if self.hierarchies.has(account):
            found = self._related_terms(account)
        else:
            records = self.hierarchies.plans_of(account.id)
            due = [(each, period) for each in records for period in self.calendar.due(each.entity)]
            bills = tuple(self._bills(account, records, due))
            if (
                len(bills) == 1
                and bills[0].period is self.calendar.period
                and len(due) == len(records)
            ):
                [bill] = bills
                found = AccountTerms(account, bills, bill.plan_periods, bill.charges)
            else:
                plan_periods, without_periods = _part(self._held(records))
                charges = _charges(plan_periods)
                found = AccountTerms(
                    account, bills, plan_periods, charges, without_periods=without_periods
                )
        sources = self.sources.of_account(account, in_hierarchy=self.hierarchies.has(account))
        return found if sources is None else found.with_sources(sources)

    def _related_terms(self, account: Record[Account]) -> AccountTerms:
        """An account with a parent or children, with all that is charged to it."""
        records = self.hierarchies.plans_billed_to(account)
        due = [(each, period) for each in records for period in self.calendar.due(each.entity)]
        shared = [
            (each, period)
            for each in self._plans_that_share(account)
            for period in self.calendar.due(each.entity)
        ]
        bills = tuple(self._bills(account, records, due, shared))
        own = self._held(self.hierarchies.plans_of(account.id))
        plan_periods, without_periods = _part(own)
        pooled, pooled_without_periods = _part(self._pooled_times(account))
        return AccountTerms(
            account,
            bills,
            plan_periods,
            _charges(plan_periods),
            pooled=pooled,
            without_periods=without_periods,
            pooled_without_periods=pooled_without_periods,
            is_alone=False,
        )

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
        """When plans of the parent are those of an account's usage in the run's period."""
        parent_id = account.entity.parent_account_id
        for each in self._held(self.hierarchies.plans_of(parent_id) if parent_id else ()):
            member = each.pool and each.pool.member(account.id)
            for time in member.times if member else ():
                held = each.period.intersection(time.start, time.end)
                if held is not None:
                    # What a plan charges for usage in a part of its time.
                    parts = (
                        (pricing, period.intersection(held.start, held.end))
                        for pricing, period in each.usage.parts
                    )
                    clipped = UsagePricing(
                        tuple((pricing, part) for pricing, part in parts if part),
                        each.usage.selection,
                    )
                    yield PooledTime(each.terms, clipped, held)

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
        plan_periods = self._sort(
            each
            for one in found
            for each in (
                self._on_bill(one.account_plan, one.due)
                if one.sharer_id is None
                else self._shared(one.sharer_id, one.account_plan, one.due)
            )
        )
        own = tuple(each for each in plan_periods if each.sharer_id is None)
        shared = tuple(each for each in plan_periods if each.sharer_id is not None)
        priced = _charges(plan_periods)
        return DueBill(key, first, whole, own, priced, charges, fees, shared, memos)

    def _on_bill(self, record: Record[AccountPlan], due: BillingPeriod) -> Iterator[PlanPeriod]:
        """The plan of an account plan, or those of its plan group."""
        entity, whole = record.entity, due.period
        start, end = self.calendar.time_of(entity)
        period = whole.intersection(start, end)
        # Most plans hold all the time; sharing one period makes looking quantities up by it fast.
        period = whole if period == whole else period or Period(whole.end, whole.end)
        time = self._plan_time(due, own_time(entity), (start, end))
        group = entity.plan_group_id and self.plans.group_terms(entity.plan_group_id)
        # Which measurements count under a contract; all if None.
        if entity.contract_id is None:
            selection = None
        else:
            if entity.contract_id not in self._selections:
                contract = self.configuration.get(Contract, entity.contract_id).entity
                self._selections[entity.contract_id] = select_usage(contract.usage_filters)
            selection = self._selections[entity.contract_id]
        for plan_id in plan_ids_of(entity, self.configuration):
            terms = self.plans.terms(plan_id, whole)
            since = start if terms.has_spanning_bands else None
            key = _UsageKey(terms.plan.id, whole, period, since, selection)
            usage = self._usage_pricings.get(key)
            if usage is None:
                parts = tuple(_applicable_parts(terms, key.period))
                usage = self._usage_pricings[key] = UsagePricing(parts, key.selection)
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


def _part(found: Iterable[_OnPlan]) -> tuple[tuple[_OnPlan, ...], tuple[_OnPlan, ...]]:
    """Those of plans with billing periods, and those of plans without."""
    parts: tuple[list[_OnPlan], list[_OnPlan]] = [], []
    for each in found:
        parts[not each.terms.has_periods].append(each)
    return tuple(parts[0]), tuple(parts[1])


def _charges(plan_periods: Iterable[PlanPeriod]) -> tuple[PricedUsage, ...]:
    return tuple(
        PricedUsage(plan_period, pricing, period)
        for plan_period in plan_periods
        for pricing, period in plan_period.usage.parts
    )


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
