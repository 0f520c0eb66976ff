"""What holds for whom in a run, as values: bills that are due, plans, pricings, and when they apply."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, tzinfo
from typing import NamedTuple

from meterlake.model.bills.billed_usage import UsageOwner, UsageWindows
from meterlake.model.catalog.plans import Pricing, PricingType
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan, ChildBillingMode
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Period
from meterlake.stages.bill.credits.credit_sources import AccountSources
from meterlake.stages.bill.hierarchies import AccountPool
from meterlake.stages.bill.periods.due_periods import BillIdentity, BillingCalendar
from meterlake.stages.bill.periods.selection import BillIdentities, BillSelection, is_asked_for
from meterlake.stages.bill.periods.service_periods import PlanTime
from meterlake.stages.bill.pricing.applicable_pricing import (
    ApplicablePricing,
    GroupTerms,
    PlanCatalog,
    PlanTerms,
)
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stages.bill.terms.advance_lines import AdvanceMemo
from meterlake.stages.bill.terms.bill_items import DueFee


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
    """A time in which a plan of the parent is that of an account's usage."""

    terms: PlanTerms
    usage: UsagePricing
    period: Period


@dataclass(frozen=True, slots=True)
class AccountTerms:
    """An account with its bills, and with what it is charged for in the month itself.

    With `billing_blockers` it gets no bill: they say which bills are in the way.

    Attributes:
        bills: The bills that are made with the month, by bill date. Their periods are the month,
            unless a first bill date or an interval makes others.
        plan_periods: Its plans in the month that have billing periods.
        charges: What has a price in the month, on whichever bill it is.
        pooled: When plans of its parent charge for its usage in the month.
        without_periods: Its plans in the month that have no billing periods: they charge nothing.
        pooled_without_periods: When such plans of its parent are those of its usage.
        is_alone: Whether it has neither a parent nor children.
        sources: Its commitments and balances; None if it has none.
    """

    account: Record[Account]
    bills: tuple[DueBill, ...] = ()
    plan_periods: tuple[PlanPeriod, ...] = ()
    charges: tuple[PricedUsage, ...] = ()
    billing_blockers: tuple[str, ...] = ()
    pooled: tuple[PooledTime, ...] = ()
    without_periods: tuple[PlanPeriod, ...] = ()
    pooled_without_periods: tuple[PooledTime, ...] = ()
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
    def unbilled(self) -> Iterator["PlanPeriod | PooledTime"]:
        """The plans of its usage in the month that charge nothing."""
        yield from self.without_periods
        yield from self.pooled_without_periods

    @property
    def held(self) -> Iterator[Period]:
        """The times in the month in which its usage is that of any plan, billed or not."""
        yield from (each.period for each in self.plan_periods)
        yield from (each.period for each in self.pooled)
        yield from (each.period for each in self.unbilled)

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
