"""What holds for whom in a month: bills that are due, plans, pricings, and when they apply."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from itertools import groupby, pairwise
from typing import NamedTuple

from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.charges import Charge
from meterlake.model.contracts import Contract
from meterlake.model.entity import Configuration, Record
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Period, uncovered_periods
from meterlake.model.plan_fields import plan_ids_of
from meterlake.model.pricing import Pricing, PricingType
from meterlake.model.usage_selection import UsageSelection, select_usage
from meterlake.stages.bill.applicable_pricing import (
    ApplicablePricing,
    GroupTerms,
    PlanCatalog,
    PlanTerms,
    PricedKey,
)
from meterlake.stages.bill.bill_items import BillItems, ItemDates
from meterlake.stages.bill.due import BillIdentity, BillingCalendar, BillingPeriod, own_time
from meterlake.stages.bill.fees_with_plans import DueFee, FeesWithPlans
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
    """

    account_plan: Record[AccountPlan]
    terms: PlanTerms
    time: PlanTime
    period: Period
    usage: UsagePricing
    group: GroupTerms | None = None

    @property
    def is_charged(self) -> bool:
        """Whether the usage of any time of the billing period is charged."""
        return self.period.start < self.period.end


class PricedUsage(NamedTuple):
    """A tariff for one subscription; its period is what both of them have in common."""

    plan_period: PlanPeriod
    applicable_pricing: ApplicablePricing
    period: Period

    @property
    def account_id(self) -> str:
        """Whom it charges."""
        return self.plan_period.account_plan.entity.account_id

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
    """

    key: BillIdentity
    first: date
    period: Period
    plan_periods: tuple[PlanPeriod, ...] = ()
    charges: tuple[PricedUsage, ...] = ()
    ad_hoc: tuple[Record[Charge], ...] = ()
    fees: tuple[DueFee, ...] = ()

    @property
    def has_arrears(self) -> bool:
        """Whether any of its plans holds before its bill date; else only what stands on it counts."""
        return any(each.time.is_held for each in self.plan_periods)


@dataclass(frozen=True, slots=True)
class AccountTerms:
    """An account with its bills, and with what it is charged for in the month itself.

    With `billing_blockers` it gets no bill: they say what of it this version does not calculate.

    Attributes:
        bills: The bills that are made with the month, by bill date. Their periods are the month,
            unless a first bill date or an interval makes others.
        plan_periods: Its plans in the month.
        charges: What has a price in the month, on whichever bill it is.
    """

    account: Record[Account]
    bills: tuple[DueBill, ...] = ()
    plan_periods: tuple[PlanPeriod, ...] = ()
    charges: tuple[PricedUsage, ...] = ()
    billing_blockers: tuple[str, ...] = ()

    @property
    def usage_pricings(self) -> tuple[tuple[UsagePricing, ...], ...]:
        """What is charged for usage in the month, and on each of the bills that are made with it."""
        parts = (self.plan_periods, *(each.plan_periods for each in self.bills))
        return tuple(tuple(each.usage for each in part) for part in parts)


class UsageWindows(NamedTuple):
    """Account ids and periods, and the ids of the aggregations whose quantities they need.

    Attributes:
        selections: For each of the parts, which measurements count; empty if all do.
    """

    parts: list[tuple[str, Period]]
    aggregation_ids: frozenset[str]
    selections: tuple[UsageSelection, ...] = ()


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
        account_terms_of: The accounts that the run is about, by id, with or without a plan.
        restricted: Whether that is less than all accounts.
        catalog: The terms of plans by period.
        priced: The ids of the aggregations that have a pricing anywhere, at any time, or are
            parts of compound ones that have.
        windows: By meter, for which other periods than the month as a whole quantities are needed.
    """

    configuration: Configuration
    organization: Record[OrganizationConfig]
    calendar: BillingCalendar
    selection: BillSelection
    catalog: PlanCatalog
    account_terms_of: dict[str, AccountTerms]
    restricted: bool
    priced: frozenset[str]
    windows: dict[str, list[UsageWindows]]

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
        for account_terms in self.account_terms_of.values():
            for charge in (each for bill in account_terms.bills for each in bill.charges):
                if charge.applicable_pricing.is_compound:
                    selection = charge.plan_period.usage.selection
                    groups = found[charge.applicable_pricing.aggregation.id, selection]
                    for period in (charge.period, *charge.spans):
                        groups[charge.account_id, period] = None
        return {key: list(groups) for key, groups in found.items()}

    @property
    def zone(self) -> tzinfo:
        """The organization's time zone."""
        return self.calendar.zone

    @property
    def period(self) -> Period:
        """The run's period as a whole, which most plans are billed for."""
        return self.calendar.period


class PriceGaps:
    """Where in a month usage has no price; worked out once for accounts of the same plans."""

    def __init__(self, month: Period) -> None:
        self.month = month
        self._known: dict[tuple[UsagePricing, ...], Mapping[PricedKey, Sequence[UsagePart]]] = {}

    def of(self, plan_periods: Iterable[PlanPeriod]) -> Mapping[PricedKey, Sequence[UsagePart]]:
        """The parts of the month without a price, of everything that has one at some time.

        Where only contracts with usage filters have a price, what passes none of them has none.
        """
        usage = tuple(each.usage for each in plan_periods)
        found = self._known.get(usage)
        if found is None:
            found = self._known[usage] = {
                key: tuple(_uncovered_parts(self.month, parts))
                for key, parts in _covered_parts(usage).items()
            }
        return found


def _covered_parts(pricings: Iterable[UsagePricing]) -> dict[PricedKey, list[UsagePart]]:
    """The periods in which there is a price, and for which measurements."""
    covered = defaultdict(list)
    for usage in pricings:
        for pricing, period in usage.parts:
            for key in pricing.charged_usage:
                covered[key].append(UsagePart(period, usage.selection))
    return covered


def _uncovered_parts(month: Period, covered: Iterable[UsagePart]) -> Iterator[UsagePart]:
    covered = list(covered)
    whole = (each.period for each in covered if each.selection is None)
    filtered = [each for each in covered if each.selection is not None]
    for gap in uncovered_periods(month, whole):
        yield from _rests(gap, filtered) if filtered else [UsagePart(gap)]


def _rests(gap: Period, filtered: Iterable[UsagePart]) -> Iterator[UsagePart]:
    """The parts of a time in each of which the same filters hold, with what passes none of them."""
    within = [
        (each.selection, period)
        for each in filtered
        if each.selection and (period := gap.intersection(each.period.start, each.period.end))
    ]
    edges = {gap.start, gap.end, *(at for _, each in within for at in (each.start, each.end))}
    held = [
        (Period(start, end), frozenset(s for s, each in within if start in each))
        for start, end in pairwise(sorted(edges))
    ]
    for selections, periods in groupby(held, key=lambda each: each[1]):
        first, *others = [period for period, _ in periods]
        rest = UsageSelection.rest_of(selections) if selections else None
        yield UsagePart(Period(first.start, others[-1].end if others else first.end), rest)


def find_windows(
    account_terms_of: Iterable[AccountTerms], month: Period
) -> dict[str, list[UsageWindows]]:
    """What bills charge, and where the month has no price, but for the month as a whole."""
    alike: dict[tuple[tuple[UsagePricing, ...], ...], list[AccountTerms]] = defaultdict(list)
    for each in account_terms_of:
        alike[each.usage_pricings].append(each)
    found: dict[tuple[str, bool], _AccountParts] = defaultdict(dict)
    gaps = PriceGaps(month)
    for same in alike.values():
        needs: dict[tuple[str, UsagePart], set[str]] = defaultdict(set)
        for meter_id, aggregation_id, part in _parts(same[0], gaps):
            needs[meter_id, part].add(aggregation_id)
        for (meter_id, part), ids in needs.items():
            by_ids = found[meter_id, part.selection is None]
            by_ids.setdefault(frozenset(ids), []).extend((each.account.id, part) for each in same)
    windows: dict[str, list[UsageWindows]] = defaultdict(list)
    for (meter_id, _), by_ids in found.items():
        windows[meter_id] += _join_windows(by_ids)
    return windows


# By the ids of the aggregations that are needed, account ids and parts of their usage.
_AccountParts = dict[frozenset[str], list[tuple[str, UsagePart]]]


def _join_windows(by_ids: _AccountParts) -> list[UsageWindows]:
    """The most frequent case by itself, and all others together: each takes a scan."""
    first, *others = sorted(by_ids, key=lambda ids: -len(by_ids[ids]))
    windows = [_window(by_ids[first], first)]
    if others:
        rest = [pair for ids in others for pair in by_ids[ids]]
        windows.append(_window(rest, frozenset().union(*others)))
    return windows


def _window(parts: list[tuple[str, UsagePart]], aggregation_ids: frozenset[str]) -> UsageWindows:
    """The window of parts of which all have a selection, or none."""
    selections = tuple(part.selection for _, part in parts if part.selection is not None)
    pairs = [(account_id, part.period) for account_id, part in parts]
    return UsageWindows(pairs, aggregation_ids, selections)


def _parts(account_terms: AccountTerms, gaps: PriceGaps) -> Iterator[tuple[str, str, UsagePart]]:
    """Meter, aggregation and time of what an account's bills need beside the whole month."""
    month = UsagePart(gaps.month)
    for (meter_id, aggregation_id, _), uncovered in gaps.of(account_terms.plan_periods).items():
        yield from ((meter_id, aggregation_id, part) for part in uncovered if part != month)
    for bill in account_terms.bills:
        for charge in bill.charges:
            pricing = charge.applicable_pricing
            for period in (charge.period, *charge.spans):
                part = UsagePart(period, charge.plan_period.usage.selection)
                if part != month:
                    for meter_id, aggregation_id, _ in pricing.charged_usage:
                        yield meter_id, aggregation_id, part


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


class TermsFinder:
    """Finds what holds for accounts."""

    def __init__(
        self,
        calendar: BillingCalendar,
        selection: BillSelection,
        plans: PlanCatalog,
        has_lines: Callable[[Record[Account], DueBill], bool],
    ) -> None:
        """Begin.

        Args:
            calendar: The days of the run.
            selection: Which bills the run makes.
            plans: The terms of plans.
            has_lines: Whether anything stands on an account's bill before any usage.
        """
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

    def account_terms(self, account: Record[Account]) -> AccountTerms:
        """An account with all that is charged to it."""
        records = self.configuration.where(AccountPlan, "account_id", account.id)
        due = [(each, period) for each in records for period in self.calendar.due(each.entity)]
        found = tuple(
            dict.fromkeys(
                self.readiness.billing_blockers(
                    account,
                    [
                        *((each, period.period) for each, period in due),
                        *self._not_due(records, due),
                    ],
                )
            )
        )
        if found:
            return AccountTerms(account, billing_blockers=found)
        bills = tuple(self._bills(account, records, due))
        if len(bills) == 1 and bills[0].period is self.calendar.period and len(due) == len(records):
            [bill] = bills
            return AccountTerms(account, bills, bill.plan_periods, bill.charges)
        whole = self.calendar.as_billing_period
        plan_periods = self._sort(
            each for record in records for each in self._on_bill(record, whole) if each.is_charged
        )
        return AccountTerms(account, bills, plan_periods, _charges(plan_periods))

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
        self, account: Record[Account], records: Iterable[Record[AccountPlan]], due: _Due
    ) -> Iterator[DueBill]:
        together: dict[BillIdentity, list[tuple[Record[AccountPlan], BillingPeriod]]] = defaultdict(
            list
        )
        for record, period in due:
            key = self.identities.of_plan(account.id, period, record.entity.contract_id)
            together[key].append((record, period))
        items = self._items(account, records, together)
        for key in sorted({*together, *items}):
            found = together.get(key, ())
            if is_asked_for(self.selection, key, [period for _, period in found]):
                yield self._due_bill(key, found, items.get(key))

    def _items(
        self,
        account: Record[Account],
        records: Iterable[Record[AccountPlan]],
        together: Mapping[BillIdentity, _Due],
    ) -> Mapping[BillIdentity, BillItems]:
        """What stands on bills beside what plans charge: fees with plans first, they make bills due."""
        fees: dict[BillIdentity, BillItems] = defaultdict(BillItems)
        due = [each for found in together.values() for each in found]
        for record, period, fee in self.fees_with_plans.of_account(account.id, records, due):
            key = self.identities.of_plan(account.id, period, record.entity.contract_id)
            fees[key].add(fee)

        def is_due(key: BillIdentity) -> bool:
            found = together[key]
            return any(self._is_held(*each) for each in found) or self.has_lines(
                account, self._due_bill(key, found, fees.get(key))
            )

        dated = self.item_dates.by_bill(account.id, records, together, is_due)
        return {key: _join_items(fees.get(key), dated.get(key)) for key in {*fees, *dated}}

    def _is_held(self, record: Record[AccountPlan], period: BillingPeriod) -> bool:
        return period.period.intersection(*own_time(record.entity)) is not None

    def _due_bill(self, key: BillIdentity, found: _Due, items: BillItems | None) -> DueBill:
        items = items or BillItems()
        charges, fees = tuple(items.charges), tuple(items.fees)
        if not found:
            alone = self.calendar.without_plan(key)
            return DueBill(key, alone.first, alone.period, ad_hoc=charges, fees=fees)
        first, whole = min((period.first, period.period) for _, period in found)
        plan_periods = self._sort(
            each for record, period in found for each in self._on_bill(record, period)
        )
        return DueBill(key, first, whole, plan_periods, _charges(plan_periods), charges, fees)

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
            yield PlanPeriod(record, terms, time, period, usage, group or None)

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


def _join_items(*parts: BillItems | None) -> BillItems:
    found = [each for each in parts if each is not None]
    return BillItems(
        [charge for each in found for charge in each.charges],
        [fee for each in found for fee in each.fees],
    )


def _applicable_parts(
    terms: PlanTerms, period: Period
) -> Iterator[tuple[ApplicablePricing, Period]]:
    """The pricings of a plan that apply in a period, and when they do."""
    for pricing in terms.applicable_pricings:
        part = period.intersection(pricing.period.start, pricing.period.end)
        if part is not None:
            yield pricing, pricing.period if part == pricing.period else part
