"""Parents and children: whose usage a plan charges for as one, and on whose bill its lines stand."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import cached_property
from typing import Final, NamedTuple, Self

from meterlake.model.catalog.catalog import Product
from meterlake.model.catalog.plans import PlanTemplate
from meterlake.model.customers.accounts import (
    Account,
    AccountPlan,
    ChildBillingMode,
    billed_account_id,
)
from meterlake.model.scopes.plan_fields import plans_of
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Period, first_day, uncovered_periods

# Longer than any plan holds; both ends have a calendar day in every time zone.
_ALWAYS: Final = Period(datetime(1001, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC))


class PoolMember(NamedTuple):
    """An account whose usage is charged together with that of others.

    Attributes:
        times: When it is; in order.
        usage_id: Names its own usage in these times, beside the ids of accounts.
    """

    account: Record[Account]
    times: tuple[Period, ...]
    usage_id: str

    def counts_within(self, period: Period) -> bool:
        """Whether it is a member at any time of a period."""
        return any(each.intersection(period.start, period.end) for each in self.times)

    def days(self, zone: tzinfo) -> Iterator[tuple[date, date]]:
        """The first days of its times, and the days after the last: a day counts for its end."""
        for each in self.times:
            yield first_day(each.start, zone), first_day(each.end, zone)


@dataclass(frozen=True, slots=True)
class AccountPool:
    """An account, and its children while they are on no plan of a product: they are rated as one.

    Attributes:
        usage_id: Names the usage of all together, beside the ids of accounts.
        members: The account itself, always, and then its children by code.
    """

    usage_id: str
    members: tuple[PoolMember, ...]

    @property
    def owner(self) -> Record[Account]:
        """The account whose plan charges for the pool."""
        return self.members[0].account

    def times(self) -> Iterator[tuple[str, list[tuple[str, str, Period]]]]:
        """By the ids of its usage, and of what each member used of it: whose measurements count when."""
        of_all = []
        for each in self.members:
            rows = [(each.usage_id, each.account.id, time) for time in each.times]
            of_all += [(self.usage_id, each.account.id, time) for time in each.times]
            yield each.usage_id, rows
        yield self.usage_id, of_all

    def member(self, account_id: str) -> PoolMember | None:
        """The member that an account is; None if it is none."""
        return next((each for each in self.members if each.account.id == account_id), None)

    def within(self, period: Period) -> Self | None:
        """The pool, if any child is a member at some time of a period."""
        children = self.members[1:]
        return self if any(each.counts_within(period) for each in children) else None

    def used_members(self, period: Period) -> Iterator[PoolMember]:
        """The members at some time of a period."""
        return (each for each in self.members if each.counts_within(period))


class Hierarchies:
    """Finds pools, and the plans whose lines stand on the bills of an account."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._pools: dict[tuple[str, str], AccountPool | None] = {}

    @cached_property
    def _children(self) -> dict[str, list[Record[Account]]]:
        found: dict[str, list[Record[Account]]] = {}
        for each in sorted(self.configuration.all(Account), key=lambda each: each.entity.code):
            if each.entity.parent_account_id is not None:
                found.setdefault(each.entity.parent_account_id, []).append(each)
        return found

    @cached_property
    def _parent_ids(self) -> dict[str, str]:
        return {
            child.id: parent_id
            for parent_id, children in self._children.items()
            for child in children
        }

    def has(self, account: Record[Account]) -> bool:
        """Whether an account has a parent or children."""
        return account.entity.parent_account_id is not None or account.id in self._children

    def plans_billed_to(self, account: Record[Account]) -> list[Record[AccountPlan]]:
        """The account plans whose lines stand on an account's bills: its own, and those of children."""
        own = self.plans_of(account.id)
        if account.entity.parent_account_id is not None:
            return [each for each in own if bills_child(each.entity)]
        of_children = (
            each
            for child in self._children.get(account.id, ())
            for each in self.plans_of(child.id)
            if not bills_child(each.entity)
        )
        return [*own, *of_children]

    def plans_of(self, account_id: str) -> list[Record[AccountPlan]]:
        """The account plans that an account is on itself."""
        return list(self.configuration.where(AccountPlan, "account_id", account_id))

    def billed_for(self, account_id: str) -> Iterator[tuple[Record[AccountPlan], list[str]]]:
        """The account plans that may charge for what an account uses, and who has bills of them."""
        parent_id = self._parent_ids.get(account_id)
        of_parent = () if parent_id is None else self.plans_of(parent_id)
        for each in (*self.plans_of(account_id), *of_parent):
            billed = [billed_account_id(each.entity, self.configuration)]
            if bills_child(each.entity):
                billed += [child.id for child in self._children.get(each.entity.account_id, ())]
            yield each, billed

    def pool(self, account_id: str, product_id: str) -> AccountPool | None:
        """Who is charged together by plans of a product that an account is on; None if it is alone."""
        key = (account_id, product_id)
        if key not in self._pools:
            children = self._children.get(account_id, ())
            self._pools[key] = self._find_pool(*key, children) if children else None
        return self._pools[key]

    def _find_pool(
        self, account_id: str, product_id: str, children: list[Record[Account]]
    ) -> AccountPool:
        owner: Record[Account] = self.configuration.get(Account, account_id)
        code = self.configuration.get(Product, product_id).entity.code

        def member(account: Record[Account], times: tuple[Period, ...]) -> PoolMember:
            return PoolMember(account, times, f"{account.id} in the pool of {owner.id} ({code})")

        found = [member(owner, (_ALWAYS,))]
        for child in children:
            held = [
                part
                for record in self.plans_of(child.id)
                if product_id
                in (
                    self.configuration.get(PlanTemplate, plan.plan_template_id).entity.product_id
                    for plan in plans_of(record.entity, self.configuration)
                )
                if (part := _ALWAYS.intersection(record.entity.start_date, record.entity.end_date))
            ]
            gaps = uncovered_periods(_ALWAYS, held)
            times = tuple(part for part in gaps if part.start < part.end)
            if times:
                found.append(member(child, times))
        return AccountPool(f"{owner.id} with its children ({code})", tuple(found))


def bills_child(account_plan: AccountPlan) -> bool:
    """Whether each child account has a bill of its own for what it is charged."""
    return account_plan.child_billing_mode is ChildBillingMode.CHILD
