"""What an account plan means: whose usage it bills, when, by which plans, on whose bill."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from tests.billing_oracle.periods import (
    EVER,
    LATEST,
    Clock,
    Grid,
    Schedule,
    Window,
    read_date,
    subtract,
)
from tests.billing_oracle.quantities import Member, Scope, Usage, same_segment
from tests.billing_oracle.world import (
    CannotBill,
    Row,
    World,
    children_of,
    find,
    first_set,
)

EPOCHS = {
    "DAILY": ("dayEpoch", "2022-01-01"),
    "WEEKLY": ("weekEpoch", "2022-01-04"),
    "MONTHLY": ("monthEpoch", "2022-01-01"),
    "ANNUALLY": ("yearEpoch", "2022-01-01"),
}


@dataclass(frozen=True)
class BillKey:
    """What identifies a bill. Consolidated and ad hoc bills have no interval."""

    account_id: str
    date: date
    frequency: str
    interval: int | None
    grouping_key: str | None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """One account plan with all that it refers to.

    Attributes:
        number: Its place in the order of creation.
        account: The account that has the plan.
        billed: The account on whose bill the plan's charges stand.
        plans: Its plan, or the plans of its group in the order of their links.
        active: When it charges: its own time, within the contract if the contract limits it.
        scopes: Whose usage each of its plans bills, by the id of the plan.
    """

    world: World
    number: int
    row: Row
    account: Row
    billed: Row
    plans: tuple[Row, ...]
    group: Row | None
    contract: Row | None
    schedule: Schedule
    active: Window
    scopes: Mapping[str, Scope]

    def scope_of(self, plan: Row) -> Scope:
        """Whose usage one of its plans bills."""
        return self.scopes[plan["id"]]

    @property
    def children(self) -> list[Member]:
        """The children of any of its plans."""
        return [member for scope in self.scopes.values() for member in scope.members[1:]]

    @property
    def mode(self) -> str:
        return self.row.get("childBillingMode") or "PARENT_BREAKDOWN"

    @property
    def order(self) -> tuple[Any, ...]:
        """Account plans are in the order of their start, then of their creation."""
        return (self.schedule.active.start, self.number)

    @property
    def contract_id(self) -> str | None:
        return self.row.get("contractId")

    def bill(self, when: date, account: Row | None = None) -> BillKey:
        """The bill of this plan of a date."""
        grid = self.schedule.grid
        key = grouping_key_of(self.world, self.contract_id)
        owner = (account or self.billed)["id"]
        if self.world.organization.get("consolidateBills"):
            return BillKey(owner, when, "MIXED", None, key)
        return BillKey(owner, when, grid.frequency, grid.interval, key)


def grouping_key_of(world: World, contract_id: str | None) -> str | None:
    """The contract itself if its key is exclusive, the key if it is shared, else none."""
    contract = find(world.contracts, contract_id) if contract_id else {}
    key_id = contract.get("billGroupingKeyId")
    if not key_id:
        return None
    return contract_id if find(world.grouping_keys, key_id).get("exclusive") else key_id


def currency_of(world: World, account: Row) -> str:
    """The billing currency of an account: its own, else the organization's."""
    return str(first_set(account.get("currency"), world.organization.get("currency"), "USD"))


def template_of(world: World, plan: Row) -> Row:
    return find(world.plan_templates, plan["planTemplateId"])


def product_of(world: World, plan: Row) -> Row:
    return find(world.products, template_of(world, plan)["productId"])


def setting(world: World, plan: Row, name: str) -> Any:
    """A setting of a plan: its own, else its template's."""
    return first_set(plan.get(name), template_of(world, plan).get(name))


def in_advance(world: World, flag: str, *owners: Row) -> bool:
    """The cascade of a flag: the first owner that sets it, else the organization."""
    values = [owner.get(flag) for owner in owners]
    return bool(first_set(*values, world.organization.get(flag)))


def time_of(clock: Clock, row: Row) -> Window:
    """[startDate, endDate) of an entity; without an end, for ever."""
    end = row.get("endDate")
    return Window(clock.instant(row["startDate"]), clock.instant(end) if end else LATEST)


def rows_of_plan(
    clock: Clock, plan: Row, rows: Sequence[Row], metrics: tuple[str, ...]
) -> list[tuple[Row, list[Window]]]:
    """Pricings that apply to a plan, each with the times at which it does.

    Own pricing of a plan hides its template's for the same metric, segment, type and time only.
    """
    own = [row for row in rows if row.get("planId") == plan["id"]]
    found = [(row, [time_of(clock, row)]) for row in own]
    for row in rows:
        if row.get("planTemplateId") != plan["planTemplateId"]:
            continue
        windows = [time_of(clock, row)]
        for other in own:
            alike = all(other.get(name) == row.get(name) for name in metrics)
            alike = alike and (other.get("type") or "DEBIT") == (row.get("type") or "DEBIT")
            if alike and same_segment(other.get("segment"), row.get("segment")):
                windows = subtract(windows, time_of(clock, other))
        found.append((row, windows))
    return found


@dataclass(frozen=True)
class Book:
    """The world with its clock, its usage and the terms of all account plans."""

    world: World
    clock: Clock

    @cached_property
    def usage(self) -> Usage:
        return Usage(self.world, self.clock)

    @cached_property
    def terms(self) -> list[Terms]:
        """The terms of all account plans with billing periods that hold at any time, in their order."""
        rows = enumerate(self.world.account_plans)
        found = [self._terms(number, row) for number, row in rows if self._has_periods(row)]
        held = [terms for terms in found if not terms.schedule.active.is_empty]
        return sorted(held, key=lambda terms: terms.order)

    def _plans(self, row: Row) -> tuple[Row, ...]:
        if row.get("planId"):
            return (find(self.world.plans, row["planId"]),)
        links = self.world.plan_group_links
        return tuple(
            find(self.world.plans, link["planId"])
            for link in links
            if link["planGroupId"] == row["planGroupId"]
        )

    def _has_periods(self, row: Row) -> bool:
        """Whether the plans of an account plan are billed by periods; else they charge nothing."""
        templates = [template_of(self.world, plan) for plan in self._plans(row)]
        return any(template["billFrequency"] in EPOCHS for template in templates)

    def _grid(self, row: Row, billed: Row, plans: Sequence[Row]) -> tuple[Grid, date | None]:
        """The regular periods, and the first bill date if a `billEpoch` gives one."""
        templates = [template_of(self.world, plan) for plan in plans]
        kinds = {(t["billFrequency"], t.get("billFrequencyInterval") or 1) for t in templates}
        if len(kinds) != 1:
            raise CannotBill("all plans of a plan group have one frequency and interval")
        frequency, interval = kinds.pop()
        own = first_set(row.get("billEpoch"), billed.get("billEpoch"))
        field, default = EPOCHS[frequency]
        epoch = own or self.world.organization.get(field) or default
        return Grid(frequency, interval, read_date(epoch)), read_date(own) if own else None

    def _billed(self, account: Row, mode: str) -> Row:
        """The parent, for a child's plan whose lines stand on the parent's bill; else the account."""
        parent = account.get("parentAccountId")
        return account if not parent or mode == "CHILD" else find(self.world.accounts, parent)

    def _members(self, account: Row, plan: Row) -> tuple[Member, ...]:
        """The account itself and its children at the times when they have no plan of the plan's product."""
        product = product_of(self.world, plan)["id"]
        found = [Member(account, (EVER,))]
        for child in children_of(self.world, account["id"]):
            windows = [EVER]
            for row in self.world.account_plans:
                products = [product_of(self.world, each)["id"] for each in self._plans(row)]
                if row["accountId"] == child["id"] and product in products:
                    windows = subtract(windows, time_of(self.clock, row))
            found.append(Member(child, tuple(windows)))
        return tuple(found)

    def _terms(self, number: int, row: Row) -> Terms:
        world, clock = self.world, self.clock
        account = find(world.accounts, row["accountId"])
        billed = self._billed(account, row.get("childBillingMode") or "PARENT_BREAKDOWN")
        plans = self._plans(row)
        grid, epoch = self._grid(row, billed, plans)
        contract = find(world.contracts, row["contractId"]) if row.get("contractId") else None
        own_time = time_of(clock, row)
        limited = contract and contract.get("applyContractPeriodLimits")
        filters = tuple((contract or {}).get("usageFilters") or ())
        early = epoch is not None and clock.local_day(own_time.start) < epoch
        return Terms(
            world=world,
            number=number,
            row=row,
            account=account,
            billed=billed,
            plans=plans,
            group=find(world.plan_groups, row["planGroupId"]) if row.get("planGroupId") else None,
            contract=contract,
            schedule=Schedule(clock, grid, epoch if early else None, own_time),
            active=own_time & time_of(clock, contract) if limited and contract else own_time,
            scopes={plan["id"]: Scope(self._members(account, plan), filters) for plan in plans},
        )
