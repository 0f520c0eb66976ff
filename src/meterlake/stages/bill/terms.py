"""What holds for whom in a month: bills that are due, plans, pricings, and when they apply."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, tzinfo

from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.entity import Configuration, Record
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Month, Period, uncovered_periods
from meterlake.model.pricing import Pricing
from meterlake.stages.bill.applicable_pricing import ApplicablePricing, PlanCatalog, PlanTerms
from meterlake.stages.bill.due import BillIdentity, BillingCalendar, BillingPeriod
from meterlake.stages.bill.readiness import Readiness


@dataclass(frozen=True, slots=True)
class PlanPeriod:
    """An account plan in the part of a period in which it is active.

    Attributes:
        regular: The whole regular billing periods that it is charged for.
    """

    account_plan: Record[AccountPlan]
    terms: PlanTerms
    period: Period
    regular: tuple[Period, ...]


@dataclass(frozen=True, slots=True)
class PricedUsage:
    """A tariff for one subscription; its period is what both of them have in common."""

    plan_period: PlanPeriod
    applicable_pricing: ApplicablePricing
    period: Period

    @property
    def account_id(self) -> str:
        """Whom it charges."""
        return self.plan_period.account_plan.entity.account_id


@dataclass(frozen=True, slots=True)
class DueBill:
    """One bill of an account, with what it charges in the order of its lines.

    Attributes:
        first: The first day of what it bills.
        period: What it bills, as instants.
    """

    key: BillIdentity
    first: date
    period: Period
    plan_periods: tuple[PlanPeriod, ...] = ()
    charges: tuple[PricedUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class AccountTerms:
    """An account with its bills, and with what it is charged for in the month itself.

    With `obstacles` it gets no bill: they say what of it this version does not calculate.

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


@dataclass(frozen=True, slots=True)
class BillingTerms:
    """All that the bills of a month depend on, but the measurements.

    Attributes:
        calendar: Says which bills are made with the month.
        account_terms_of: The accounts that the run is about, by id, with or without a plan.
        restricted: Whether that is less than all accounts.
        priced: The ids of the aggregations that have a pricing anywhere, at any time.
        windows: By meter, the account ids and periods, other than the month as a whole, for
            which quantities are needed.
    """

    configuration: Configuration
    organization: Record[OrganizationConfig]
    calendar: BillingCalendar
    account_terms_of: dict[str, AccountTerms]
    restricted: bool
    priced: frozenset[str]
    windows: dict[str, list[tuple[str, Period]]]

    @property
    def zone(self) -> tzinfo:
        """The organization's time zone."""
        return self.calendar.zone

    @property
    def period(self) -> Period:
        """The month in the organization's time zone."""
        return self.calendar.period


def billing_terms(
    configuration: Configuration, month: Month, account_ids: Collection[str] | None = None
) -> BillingTerms:
    """Find out what holds in a month.

    Args:
        configuration: All of an organization's entities.
        month: The month to bill.
        account_ids: The accounts to bill; all of them if None.

    Raises:
        Invalid: The month is too close to an end of the calendar.
    """
    terms = _Terms(configuration, BillingCalendar(configuration, month))
    account_terms_of = {
        account.id: terms.account_terms(account)
        for account in configuration.all(Account)
        if account_ids is None or account.id in account_ids
    }
    pricings = configuration.all(Pricing)
    return BillingTerms(
        configuration=configuration,
        organization=configuration.single(OrganizationConfig),
        calendar=terms.calendar,
        account_terms_of=account_terms_of,
        restricted=account_ids is not None,
        priced=frozenset(p.entity.aggregation_id for p in pricings if p.entity.aggregation_id),
        windows=_windows(account_terms_of.values(), terms.calendar.period),
    )


def coverage(charges: Iterable[PricedUsage]) -> dict[tuple[str, str], list[Period]]:
    """The periods in which there is a price, by the ids of meter and aggregation."""
    covered = defaultdict(list)
    for charge in charges:
        covered[
            charge.applicable_pricing.meter.id, charge.applicable_pricing.aggregation.id
        ].append(charge.period)
    return covered


def _windows(
    account_terms_of: Iterable[AccountTerms], month: Period
) -> dict[str, list[tuple[str, Period]]]:
    """What bills charge, and where the month has no price, but for the month as a whole."""
    found: dict[str, dict[tuple[str, Period], None]] = defaultdict(dict)
    for account_terms in account_terms_of:
        for (meter_id, _), periods in coverage(account_terms.charges).items():
            for part in uncovered_periods(month, periods):
                if part != month:
                    found[meter_id][account_terms.account.id, part] = None
        for bill in account_terms.bills:
            for charge in bill.charges:
                if charge.period != month:
                    meter_id = charge.applicable_pricing.meter.id
                    found[meter_id][account_terms.account.id, charge.period] = None
    return {meter_id: list(parts) for meter_id, parts in found.items()}


class _Terms:
    """Finds what holds for accounts."""

    def __init__(self, configuration: Configuration, calendar: BillingCalendar) -> None:
        self.configuration = configuration
        self.calendar = calendar
        self.plans = PlanCatalog(configuration)
        self.readiness = Readiness(configuration)

    def account_terms(self, account: Record[Account]) -> AccountTerms:
        """An account with all that is charged to it."""
        records = self.configuration.where(AccountPlan, "account_id", account.id)
        due = [(each, self.calendar.due(each.entity)) for each in records]
        held = [(each, self._to_check(each.entity, period)) for each, period in due]
        checked = [(each, period) for each, period in held if period is not None]
        found = tuple(dict.fromkeys(self.readiness.billing_blockers(account, checked)))
        if found:
            return AccountTerms(account, billing_blockers=found)
        bills = tuple(self._bills(account.id, [(e, period) for e, period in due if period]))
        if len(bills) == 1 and all(p is None or p.period is self.calendar.period for _, p in due):
            [bill] = bills
            return AccountTerms(account, bills, bill.plan_periods, bill.charges)
        plan_periods = self._sort(self._in_month(each) for each in records)
        return AccountTerms(account, bills, plan_periods, _charges(plan_periods))

    def _to_check(self, entity: AccountPlan, due: BillingPeriod | None) -> Period | None:
        """What of an account plan has to be billable: what is due, or else what holds in the month."""
        if due is not None:
            return due.period
        month = self.calendar.period
        return month if month.intersection(entity.start_date, entity.end_date) else None

    def _bills(
        self, account_id: str, due: Iterable[tuple[Record[AccountPlan], BillingPeriod]]
    ) -> Iterator[DueBill]:
        together: dict[BillIdentity, list[tuple[Record[AccountPlan], BillingPeriod]]] = defaultdict(
            list
        )
        for record, period in due:
            key = BillIdentity(account_id, period.bill_date, period.interval)
            together[key].append((record, period))
        for key, found in sorted(together.items()):
            first, whole = min((period.first, period.period) for _, period in found)
            plan_periods = self._sort(
                self._subscription(record, period.period, period.regular)
                for record, period in found
            )
            yield DueBill(key, first, whole, plan_periods, _charges(plan_periods))

    def _in_month(self, record: Record[AccountPlan]) -> PlanPeriod | None:
        return self._subscription(record, self.calendar.period, (self.calendar.period,))

    def _subscription(
        self, record: Record[AccountPlan], whole: Period, regular: tuple[Period, ...]
    ) -> PlanPeriod | None:
        entity = record.entity
        period = whole.intersection(entity.start_date, entity.end_date)
        if period is None or entity.plan_id is None:
            return None
        # Most plans hold all month; sharing one period makes looking quantities up by it fast.
        period = whole if period == whole else period
        return PlanPeriod(record, self.plans.terms(entity.plan_id, whole), period, regular)

    def _sort(self, found: Iterable[PlanPeriod | None]) -> tuple[PlanPeriod, ...]:
        return tuple(
            sorted(
                (each for each in found if each is not None),
                key=lambda each: (each.terms.product.code, each.period, each.account_plan.id),
            )
        )


def _charges(plan_periods: Iterable[PlanPeriod]) -> tuple[PricedUsage, ...]:
    return tuple(_charged_usage(plan_periods))


def _charged_usage(plan_periods: Iterable[PlanPeriod]) -> Iterator[PricedUsage]:
    for plan_period in plan_periods:
        for applicable_pricing in plan_period.terms.applicable_pricings:
            start, end = applicable_pricing.period.start, applicable_pricing.period.end
            period = plan_period.period.intersection(start, end)
            if period is not None:
                shared = (
                    applicable_pricing.period if period == applicable_pricing.period else period
                )
                yield PricedUsage(plan_period, applicable_pricing, shared)
