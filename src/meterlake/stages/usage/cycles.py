"""Over which periods each account's measurements of a meter are folded, and whose are pooled.

A run is about one period of the organization. Of every account it has the periods that begin in it:

* On a plan of the run's frequency they are the plan's: every so many of them
  (`billFrequencyInterval`), from the epoch of the account plan where it has one, whole, if the plan
  holds at some time of them. A plan that begins before its own epoch, or that of the account which
  is billed, has one first period from its first day to the epoch. A plan counts for the meters of its product, and for meters that
  several products share. Where a plan follows on another one of the same product, its periods
  begin after the other's last one.
* A compound aggregation has the periods that a meter of its product would have, and so have the
  meters that it reads, beside their own: without them it had nothing to be calculated from.
* What no such period covers belongs to the account's own periods, counted from its own epoch, or
  from the organization's. They are cut where a plan's begin and end.
* Where only the parent is on a plan, its periods count for its children too, and what they use is
  pooled with what it uses itself.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Final, NamedTuple

from meterlake.model.bills.billing_dates import LAST_FIRST_BILL, BillingCycle
from meterlake.model.calculation import Value
from meterlake.model.calendar.recurrence import Recurrence
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.catalog.plans import BillingFrequency, PlanTemplate
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan, ChildBillingMode
from meterlake.model.customers.recurring_period import NamedPeriod, epoch_of, recurring
from meterlake.model.scopes.plan_fields import plans_of
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Period, local_date, midnight, uncovered_periods, zone

# Stands for every product.
EVERY: Final = None
# Periods do not reach into earlier centuries.
_EARLIEST: Final = datetime(1001, 1, 1, tzinfo=UTC)
_FOREVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class UsageConfiguration:
    """What one run reads of State.

    Attributes:
        entities: The entities.
        run: The organization's period that the run is about.
        account_fields: The custom fields that accounts carry themselves, by account id, under the
            names that calculations have for them; only if a calculation names one.
    """

    entities: Configuration
    run: NamedPeriod
    account_fields: Mapping[str, Mapping[str, Value]]

    def digest(self) -> str:
        """What tells it from any other configuration: every version and custom field in it."""
        versions = {
            record.id: record.version
            for kind in self.entities.kinds()
            for record in self.entities.all(kind)
        }
        fields = {id_: dict(values) for id_, values in self.account_fields.items()}
        return sha256(wire.dumps_sorted([versions, fields]).encode()).hexdigest()


class Subscribed(NamedTuple):
    """A time in which an account is on plans of some products.

    Attributes:
        cycle: The plans' own periods; None if the run is of another frequency.
    """

    time: Period
    products: frozenset[str]
    cycle: BillingCycle | None

    def counts_for(self, product_id: str | None) -> bool:
        """Whether one of the plans is of a product, or of any at all."""
        return product_id is EVERY or product_id in self.products

    def precedes(self, other: "Subscribed") -> bool:
        """Whether the other one follows, for the same products."""
        return self.products == other.products and self.time.end <= other.time.start


class UsagePool(NamedTuple):
    """A time in which what a child uses counts for its parent."""

    parent_id: str
    child_id: str
    time: Period


@dataclass(frozen=True, slots=True)
class MeterCycles:
    """The accounts whose measurements of a meter are not just folded over the run's period.

    Attributes:
        own: By account id, the account's periods; perhaps none in this run.
        pools: Children whose usage counts for their parents, and when.
        parents: The accounts that others' usage is pooled with.
        children: The accounts whose usage is pooled.
    """

    own: Mapping[str, Sequence[Period]]
    pools: Sequence[UsagePool]
    parents: frozenset[str]
    children: frozenset[str]


class Cycles:
    """The periods of all accounts in one run."""

    def __init__(self, configuration: Configuration, run: NamedPeriod) -> None:
        """Read what decides.

        Args:
            configuration: The organization's settings, meters, aggregations, plans and what leads
                to them; of accounts and account plans at least all that have an epoch, a parent,
                children, or a plan whose interval is not 1.
            run: The organization's period.
        """
        self.configuration = configuration
        self.run = run
        self.organization = configuration.single(OrganizationConfig).entity
        self.zone = zone(self.organization.timezone)
        self.period = run.period(self.zone)
        self._subscribed: dict[str, list[Subscribed]] = {}
        self._others: list[str] | None = None
        self._cycles: dict[int, BillingCycle] = {}
        self._periods: dict[tuple[str, str | None], list[Period]] = {}
        self._touched: dict[tuple[BillingCycle, Period], list[Period]] = {}

    @cached_property
    def _epochs(self) -> dict[str, date | None]:
        return {each.id: each.entity.bill_epoch for each in self.configuration.all(Account)}

    @cached_property
    def _parents(self) -> dict[str, str]:
        accounts = self.configuration.all(Account)
        found = ((each.id, each.entity.parent_account_id) for each in accounts)
        return {id_: parent_id for id_, parent_id in found if parent_id is not None}

    @cached_property
    def _readers(self) -> Mapping[str, set[str | None]]:
        return _readers(self.configuration)

    @property
    def reach(self) -> datetime:
        """An instant that no period of any account which begins in the run ends after."""
        apart = any(self.configuration.all(Account)) or any(self._accounts_on_plans())
        if self.run.frequency is BillingFrequency.AD_HOC or not apart:
            return self.period.end
        intervals = (
            each.entity.bill_frequency_interval
            for each in self.configuration.all(PlanTemplate)
            if each.entity.bill_frequency is self.run.frequency
        )
        longest = recurring(self.run.frequency, self.run.after, max(intervals, default=1))
        # The first bill dates until which a long first period may last that begins in the
        # run.
        first_bills: list[date] = []
        for record in self.configuration.all(AccountPlan):
            first_bill = self._first_bill(record.entity)
            if first_bill is not None and record.entity.start_date < self.period.end:
                first_bills.append(min(first_bill, LAST_FIRST_BILL))
        return midnight(max([longest.day(1), *first_bills]), self.zone)

    def of_meter(self, meter: Record[Meter], among: Collection[str] | None = None) -> MeterCycles:
        """The accounts with periods of their own, and the pools of a meter.

        Args:
            meter: The meter.
            among: The accounts whose periods are asked for; all if None.
        """
        readers = {meter.entity.product_id, *self._readers.get(meter.id, ())}
        pools = tuple(self._pools(meter.entity.product_id))
        parents = {pool.child_id: pool.parent_id for pool in pools}
        apart = frozenset(parents.values())
        differing = {*self._differing(), *apart, *parents}
        own = {}
        for account_id in differing if among is None else differing.intersection(among):
            parent_id = parents.get(account_id)
            found = (self._pooled_periods(account_id, parent_id, each) for each in readers)
            periods = sorted({each for periods in found for each in periods})
            if account_id in apart or periods != [self.period]:
                own[account_id] = periods
        return MeterCycles(own, pools, apart, frozenset(parents))

    def of_compound(
        self, product_id: str | None, meters: Iterable[MeterCycles], among: Collection[str]
    ) -> dict[str, Collection[Period]]:
        """The periods of a compound aggregation, of accounts that may have others than the run's.

        They are those that a meter of its product would have.

        Args:
            product_id: Its product; `EVERY` if it is global.
            meters: The periods and pools of the meters that it reads.
            among: The accounts whose periods are asked for.
        """
        parents = {pool.child_id: pool.parent_id for each in meters for pool in each.pools}
        differing = {*self._differing(), *parents, *parents.values()}
        return {
            account_id: self._pooled_periods(account_id, parents.get(account_id), product_id)
            for account_id in differing.intersection(among)
        }

    def _pooled_periods(
        self, account_id: str, parent_id: str | None, product_id: str | None
    ) -> Collection[Period]:
        """An account's periods; with a parent, the parent's, and its own while it is on a plan."""
        own = self.periods(account_id, product_id)
        if parent_id is None:
            return own
        times = list(self._times(account_id, product_id))
        return {*self.periods(parent_id, product_id), *_periods_with(own, times)}

    def _differing(self) -> list[str]:
        """The accounts that any plan or epoch may give other periods than the organization's."""
        if self._others is None:
            usual: set[BillingCycle | None] = {None}
            if self.run.frequency is not BillingFrequency.AD_HOC:
                usual.add(self._cycle_of_interval(1))
            planned = (
                account_id
                for account_id in self._accounts_on_plans()
                if any(each.cycle not in usual for each in self._subscriptions(account_id))
            )
            self._others = [*{*(id_ for id_, epoch in self._epochs.items() if epoch), *planned}]
        return self._others

    def periods(self, account_id: str, product_id: str | None) -> list[Period]:
        """An account's periods that begin in the run, for a product or for any."""
        if self.run.frequency is BillingFrequency.AD_HOC:
            return [self.period]
        if (account_id, product_id) not in self._periods:
            self._periods[account_id, product_id] = self._beginning(account_id, product_id)
        return self._periods[account_id, product_id]

    def _beginning(self, account_id: str, product_id: str | None) -> list[Period]:
        epoch = self._epochs.get(account_id) or epoch_of(self.run.frequency, self.organization)
        own = self._touching(BillingCycle(self._cycle(epoch)), self.period)
        configuration = Period(own[0].start, max(self.period.end, own[-1].end))
        # The periods of an account's plans that touch a time.
        subscriptions = self._subscriptions(account_id)
        found = []
        for plan in subscriptions:
            if plan.cycle and plan.counts_for(product_id):
                touching = self._touching(plan.cycle, configuration)
                periods = [one for one in touching if one.intersection(*_bounds(plan.time))]
                if periods:
                    before = (self._last_end(each) for each in subscriptions if each.precedes(plan))
                    # A period that has begun ends as it would, whatever plan comes then.
                    first = max((end for end in before if end), default=None)
                    found += [each.intersection(first, None) for each in periods]
        planned = [each for each in found if each is not None]
        rest = (part for whole in own for part in uncovered_periods(whole, planned))
        return sorted({each for each in (*planned, *rest) if each.start in self.period})

    def _last_end(self, plan: Subscribed) -> datetime | None:
        """Where the last period of a plan ends; None if it has none in runs of this frequency."""
        if plan.cycle is None:
            return None
        last = max(plan.time.end - timedelta(microseconds=1), _EARLIEST)
        return plan.cycle.containing(local_date(last, self.zone)).period(self.zone).end

    def _touching(self, cycle: BillingCycle, time: Period) -> list[Period]:
        """The periods of a cycle that touch a time; at least the one in which it begins."""
        if (cycle, time) not in self._touched:
            found = cycle.containing(local_date(time.start, self.zone))
            periods = [found.period(self.zone)]
            while periods[-1].end < time.end:
                found = cycle.containing(found.after)
                periods.append(found.period(self.zone))
            self._touched[cycle, time] = periods
        return self._touched[cycle, time]

    def on_plan(
        self, product_id: str | None, periods: Callable[[str], Iterable[Period]]
    ) -> Iterator[tuple[str, Period]]:
        """Accounts in those of their periods in which they are on a plan at some time.

        Args:
            product_id: The product of the plan; `EVERY` if any counts.
            periods: Gives the periods of an account.
        """
        for account_id in self._accounts_on_plans():
            times = list(self._times(account_id, product_id))
            for period in _periods_with(periods(account_id), times) if times else ():
                yield account_id, period

    def _accounts_on_plans(self) -> dict[str, None]:
        """The accounts that are on plans at any time."""
        records = self.configuration.all(AccountPlan)
        return dict.fromkeys(record.entity.account_id for record in records)

    def _subscriptions(self, account_id: str) -> list[Subscribed]:
        if account_id not in self._subscribed:
            records = self.configuration.where(AccountPlan, "account_id", account_id)
            self._subscribed[account_id] = [
                each for record in records for each in self._of_plan(record.entity)
            ]
        return self._subscribed[account_id]

    def _of_plan(self, entity: AccountPlan) -> Iterator[Subscribed]:
        end = entity.end_date or _FOREVER
        if end <= entity.start_date:
            return
        for plan in plans_of(entity, self.configuration):
            template = self.configuration.get(PlanTemplate, plan.plan_template_id).entity
            cycle = None
            recurs = self.run.frequency is not BillingFrequency.AD_HOC
            if recurs and template.bill_frequency is self.run.frequency:
                first_bill = self._first_bill(entity)
                if first_bill is None:
                    cycle = self._cycle_of_interval(template.bill_frequency_interval)
                else:
                    recurrence = self._cycle(first_bill, template.bill_frequency_interval)
                    cycle = BillingCycle.from_first_bill(recurrence, entity.start_date, self.zone)
            time = Period(entity.start_date, end)
            yield Subscribed(time, frozenset({template.product_id}), cycle)

    def _cycle_of_interval(self, interval: int) -> BillingCycle:
        """The periods of all plans without a first bill date."""
        found = self._cycles.get(interval)
        if found is None:
            epoch = epoch_of(self.run.frequency, self.organization)
            found = self._cycles[interval] = BillingCycle(self._cycle(epoch, interval))
        return found

    def _first_bill(self, entity: AccountPlan) -> date | None:
        """The first bill date of an account plan: its own, or that of the account that is billed."""
        billed_id = entity.account_id
        parent_id = self._parents.get(billed_id)
        if parent_id is not None and entity.child_billing_mode is not ChildBillingMode.CHILD:
            billed_id = parent_id
        return entity.bill_epoch or self._epochs.get(billed_id)

    def _cycle(self, epoch: date, interval: int = 1) -> Recurrence:
        return recurring(self.run.frequency, epoch, interval)

    def _pools(self, product_id: str | None) -> Iterator[UsagePool]:
        for child in sorted(self.configuration.all(Account), key=lambda each: each.id):
            parent_id = child.entity.parent_account_id
            if parent_id is None:
                continue
            own = list(self._times(child.id, product_id))
            # Two plans of the parent may hold at once; what they share is pooled once.
            taken = own
            for time in sorted(self._times(parent_id, product_id)):
                for part in uncovered_periods(time, taken):
                    yield UsagePool(parent_id, child.id, part)
                taken = [*taken, time]

    def _times(self, account_id: str, product_id: str | None) -> Iterator[Period]:
        for each in self._subscriptions(account_id):
            if each.counts_for(product_id):
                yield each.time


def _periods_with(periods: Iterable[Period], times: Collection[Period]) -> Iterator[Period]:
    """The periods in which one of some times lies at least partly."""
    for period in periods:
        if any(period.intersection(*_bounds(time)) for time in times):
            yield period


def _bounds(period: Period) -> tuple[datetime, datetime]:
    return period.start, period.end


def _readers(configuration: Configuration) -> dict[str, set[str | None]]:
    """By meter id, the products of the compound aggregations that read the meter."""
    found: dict[str, set[str | None]] = defaultdict(set)
    for compound in configuration.all(CompoundAggregation):
        for code in compound.entity.aggregation_codes:
            aggregation = configuration.find(Aggregation, code)
            if aggregation is not None:
                found[aggregation.entity.meter_id].add(compound.entity.product_id)
    return found
