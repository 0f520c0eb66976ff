"""What holds for whom in a month: plans, pricings and the periods in which they apply."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import tzinfo

from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.entity import Configuration, Record
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Month, Period, uncovered, zone
from meterlake.model.pricing import Pricing
from meterlake.stages.bill.readiness import obstacles
from meterlake.stages.bill.tariffs import PlanCatalog, PlanTerms, Tariff


@dataclass(frozen=True, slots=True)
class Subscription:
    """An account plan in the part of the month in which it is active."""

    account_plan: Record[AccountPlan]
    terms: PlanTerms
    period: Period


@dataclass(frozen=True, slots=True)
class Charge:
    """A tariff for one subscription; its period is what both of them and the month have in common."""

    subscription: Subscription
    tariff: Tariff
    period: Period

    @property
    def account_id(self) -> str:
        """Whom it charges."""
        return self.subscription.account_plan.entity.account_id


@dataclass(frozen=True, slots=True)
class Customer:
    """An account with what it is charged for in the month, in the order of its bill.

    With `obstacles` it gets no bill: they say what of it this version does not calculate.
    """

    account: Record[Account]
    subscriptions: tuple[Subscription, ...]
    charges: tuple[Charge, ...]
    obstacles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """All that the bills of a month depend on, but the measurements.

    Attributes:
        period: The month in the organization's time zone.
        customers: The accounts that the run is about, by id, with or without a plan.
        restricted: Whether that is less than all accounts.
        priced: The ids of the aggregations that have a pricing anywhere, at any time.
        windows: By meter, the account ids and periods, other than the month as a whole, for
            which quantities are needed.
    """

    configuration: Configuration
    organization: Record[OrganizationConfig]
    month: Month
    zone: tzinfo
    period: Period
    customers: dict[str, Customer]
    restricted: bool
    priced: frozenset[str]
    windows: dict[str, list[tuple[str, Period]]]


def draft(
    configuration: Configuration, month: Month, account_ids: Collection[str] | None = None
) -> Draft:
    """Find out what holds in a month.

    Args:
        configuration: All of an organization's entities.
        month: The month to bill.
        account_ids: The accounts to bill; all of them if None.
    """
    organization = configuration.single(OrganizationConfig)
    tz = zone(organization.entity.timezone)
    period = month.period(tz)
    plans = PlanCatalog(configuration, period)
    customers = {
        account.id: _customer(account, plans)
        for account in configuration.all(Account)
        if account_ids is None or account.id in account_ids
    }
    pricings = configuration.all(Pricing)
    return Draft(
        configuration=configuration,
        organization=organization,
        month=month,
        zone=tz,
        period=period,
        customers=customers,
        restricted=account_ids is not None,
        priced=frozenset(p.entity.aggregation_id for p in pricings if p.entity.aggregation_id),
        windows=_windows(customers.values(), period),
    )


def coverage(charges: Iterable[Charge]) -> dict[tuple[str, str], list[Period]]:
    """The periods in which there is a price, by the ids of meter and aggregation."""
    covered = defaultdict(list)
    for charge in charges:
        covered[charge.tariff.meter.id, charge.tariff.aggregation.id].append(charge.period)
    return covered


def _windows(customers: Iterable[Customer], month: Period) -> dict[str, list[tuple[str, Period]]]:
    """Where the month is cut, both the parts with a price and those without are folded."""
    found: dict[str, dict[tuple[str, Period], None]] = defaultdict(dict)
    for customer in customers:
        for (meter_id, _), periods in coverage(customer.charges).items():
            for part in (*periods, *uncovered(month, periods)):
                if part != month:
                    found[meter_id][customer.account.id, part] = None
    return {meter_id: list(parts) for meter_id, parts in found.items()}


def _customer(account: Record[Account], plans: PlanCatalog) -> Customer:
    found_obstacles = tuple(dict.fromkeys(obstacles(account, plans.month, plans.configuration)))
    if found_obstacles:
        return Customer(account, (), (), found_obstacles)
    account_plans = plans.configuration.where(AccountPlan, "account_id", account.id)
    found = (_subscription(account_plan, plans) for account_plan in account_plans)
    subscriptions = sorted(
        (each for each in found if each is not None),
        key=lambda each: (each.terms.product.code, each.period, each.account_plan.id),
    )
    charges = (charge for each in subscriptions for charge in _charges(each))
    return Customer(account, tuple(subscriptions), tuple(charges))


def _subscription(account_plan: Record[AccountPlan], plans: PlanCatalog) -> Subscription | None:
    entity = account_plan.entity
    period = plans.month.intersection(entity.start_date, entity.end_date)
    if period is None or entity.plan_id is None:
        return None
    # Most plans hold all month; sharing one period makes looking quantities up by it fast.
    period = plans.month if period == plans.month else period
    return Subscription(account_plan, plans.terms(entity.plan_id), period)


def _charges(subscription: Subscription) -> Iterator[Charge]:
    for tariff in subscription.terms.tariffs:
        start, end = tariff.period.start, tariff.period.end
        period = subscription.period.intersection(start, end)
        if period is not None:
            shared = tariff.period if period == tariff.period else period
            yield Charge(subscription, tariff, shared)
