"""What became of lines billed in advance: a plan ended, was replaced or extended after its bill was locked.

A locked line stays. What it would be now, less what it is and what memos on locked bills have
corrected before, goes on the next bill of the account as a memo that refers to the line. So the
line and its memos add up to what would be charged if the plan's times had always been known.

Prices are those of the line: if they have changed since, the line is scaled by its days.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final

from meterlake.model.bills.bill import Line
from meterlake.model.bills.billing_dates import BillingCycle
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.catalog.counters import CounterAdjustment
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment, Contract
from meterlake.model.customers.recurring_period import RECURRING, recurring
from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Entity, Record
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Period, count_days
from meterlake.stages.bill.bills import billing_terms
from meterlake.stages.bill.charges.line_draft import BillInputs
from meterlake.stages.bill.credits.source_returns import return_to_sources
from meterlake.stages.bill.hierarchies import Hierarchies
from meterlake.stages.bill.lines import lines_in_advance
from meterlake.stages.bill.periods.due_periods import BillIdentity, BillingCalendar
from meterlake.stages.bill.periods.selection import BillIdentities, BillSelection
from meterlake.stages.bill.pricing.currencies import Amount, CannotBill, Currencies
from meterlake.stages.bill.terms.advance_lines import (
    AdvanceLine,
    AdvanceMemo,
    ClosedBills,
)

_ONE_DAY: Final = timedelta(days=1)
# Where the key of a line has the start of its service period.
_START: Final = 3
# What belongs to single accounts, and of which only those that are looked at are needed.
_OF_ACCOUNTS: Final[tuple[type[Entity], ...]] = (AccountPlan, CounterAdjustment)
_UNNEEDED: Final[tuple[type[Entity], ...]] = (Charge, Commitment, Balance)


def find_memos(
    configuration: Configuration,
    lines: Sequence[AdvanceLine],
    closed: ClosedBills,
) -> list[AdvanceMemo]:
    """Draft the memos of locked lines, each with the bill on which it stands.

    Args:
        configuration: All of an organization's entities.
        lines: Lines billed in advance whose plans may have changed since.
        closed: The bills on which no memo can stand any more.
    """
    if not lines:
        return []
    small = _of_accounts(configuration, {each.bill.account_id for each in lines})
    found, bills = [], _NextBills(small, closed)
    for together in _runs(lines):
        before = [record for each in together for record in each.before]
        replaced = {each.id: each for each in before}
        records = [
            replaced.get(each.id, each) for kind in small.kinds() for each in small.all(kind)
        ]
        past = Configuration(records)
        now, then = (_Advances.of(each, together) for each in (small, past))
        for line in together:
            memo = _memo(line, now, then, bills)
            if memo is not None:
                found.append(memo)
    return found


def _runs(lines: Iterable[AdvanceLine]) -> Iterator[Sequence[AdvanceLine]]:
    """The lines that one calculation makes: of one bill date, settings, and versions of entities."""
    runs: dict[tuple[date, str], list[tuple[dict[str, int], list[AdvanceLine]]]] = defaultdict(list)
    for line in lines:
        versions = {each.id: each.version for each in line.before}
        alike = runs[line.bill.bill_date, wire.dumps_sorted(line.overrides.to_wire())]
        for known, together in alike:
            if all(known.get(id_, version) == version for id_, version in versions.items()):
                known.update(versions)
                together.append(line)
                break
        else:
            alike.append((versions, [line]))
    for _, alike in sorted(runs.items()):
        yield from (together for _, together in alike)


def _of_accounts(configuration: Configuration, account_ids: Collection[str]) -> Configuration:
    """A configuration with a few accounts, their parents and children, and no others."""
    known: set[str] = set()
    for each in configuration.all(Account):
        parent_id = each.entity.parent_account_id
        if each.id in account_ids or parent_id in account_ids:
            known |= {each.id, parent_id or each.id}
    records: list[Record[Any]] = []
    for kind in configuration.kinds():
        if kind is Account:
            records += [each for each in configuration.all(Account) if each.id in known]
        elif kind in _OF_ACCOUNTS:
            records += [each for each in configuration.all(kind) if each.entity.account_id in known]  # type: ignore[attr-defined]
        elif kind not in _UNNEEDED:
            records += configuration.all(kind)
    return Configuration(records)


@dataclass(frozen=True, slots=True)
class _Advances:
    """What the bills of a date have in advance; None of an account that cannot be billed."""

    lines: Mapping[BillIdentity, Sequence[Line]]
    refused: Collection[str]
    currencies: Currencies
    zone: tzinfo

    @classmethod
    def of(cls, configuration: Configuration, wanted: Sequence[AdvanceLine]) -> "_Advances":
        selection = BillSelection(
            DayRange.of_day(wanted[0].bill.bill_date - _ONE_DAY),
            account_ids={each.bill.account_id for each in wanted},
            overrides=wanted[0].overrides,
        )
        terms = billing_terms(configuration, selection)
        organization = terms.organization.entity
        inputs = BillInputs(
            configuration=terms.configuration,
            catalog=terms.catalog,
            zone=terms.zone,
            snapshot=0,
            currencies=Currencies.of(terms.configuration, organization),
            quantities={},
            missing={},
            left_out={},
        )
        lines: dict[BillIdentity, Sequence[Line]] = {}
        refused = set()
        for account_terms in terms.account_terms_of.values():
            account = account_terms.account
            own = selection.overrides.currency or account.entity.currency or organization.currency
            try:
                lines |= {
                    bill.key: lines_in_advance(bill, own, inputs) for bill in account_terms.bills
                }
            except CannotBill:
                refused.add(account.id)
        return cls(lines, refused, inputs.currencies, terms.zone)

    def find(self, wanted: AdvanceLine) -> Line | None:
        """A line by its key; if it begins at another time now, the one of the same that overlaps it."""
        of_bill = self.lines.get(wanted.bill, ())
        service, same = wanted.service_period, _without_start(wanted.key)
        found = {each.key: each for each in of_bill if _without_start(each.key) == same}
        if wanted.key in found:
            return found[wanted.key]
        return next(
            (
                each
                for each in found.values()
                if each.service_period.intersection(service.start, service.end)
            ),
            None,
        )


def _without_start(key: str) -> tuple[str, ...]:
    parts = key.split("/")
    return (*parts[:_START], *parts[_START + 1 :])


def _memo(
    line: AdvanceLine, now: _Advances, then: _Advances, bills: "_NextBills"
) -> AdvanceMemo | None:
    """The memo of a line; None if it is right as it is, or nobody can tell."""
    if line.bill.account_id in {*now.refused, *then.refused}:
        return None
    found = now.find(line)
    with exact():
        # What is deleted counts as if it had never been.
        days, due = None, ZERO
        if not line.deleted:
            due, days = _amount(line, found, then, bills.time_of(line))
        difference = due - line.amount - line.settled
        difference += line.returned
        returns = tuple(return_to_sources(line.line_id, line.paid, difference, now.currencies))
        amount = sum((each.amount for each in returns), difference)
    if not amount and not returns:
        return None
    # The time that is charged no longer, or in addition; all of the line if it is not at its
    # end.
    service = line.service_period
    if found is None or found.service_period.start != service.start:
        changed = service
    else:
        first, last = sorted((found.service_period.end, service.end))
        changed = Period(first, last) if first < last else service
    return AdvanceMemo(
        bill=line.standing or bills.find(line),
        amount=amount,
        currency=line.currency,
        service_period=changed,
        account_plan=bills.account_plan_of(line),
        referenced_bill_id=line.bill_id,
        referenced_line_id=line.line_id,
        line=line.body,
        returns=returns,
        due=due,
        days=days,
        settled=line.settled,
        returned=line.returned,
    )


def _amount(
    line: AdvanceLine, now: Line | None, then: _Advances, time: tuple[datetime, datetime | None]
) -> tuple[Decimal, tuple[int, int] | None]:
    """What a line would be now, at its own prices, and of how many of its days if that scales it."""
    before = then.find(line)
    if before is not None and (now is None or before.converted_subtotal == line.amount):
        return ZERO if now is None else now.converted_subtotal, None
    if now is not None:
        days, all_days = now.made_from.active_days, line.active_days
    else:
        # Nothing charges it any more, whenever the plan ends: it stands for the days that it has.
        left = line.service_period.intersection(*time)
        days = count_days(left, then.zone) if left else 0
        all_days = count_days(line.service_period, then.zone)
    if days is None or not all_days:
        return line.amount, None
    with exact():
        scaled = Amount(line.amount * days, all_days)
    return then.currencies.round(scaled, line.currency), (days, all_days)


class _NextBills:
    """Finds the next bills of accounts."""

    def __init__(self, configuration: Configuration, closed: ClosedBills) -> None:
        self.configuration = configuration
        self.closed = closed
        self.identities = BillIdentities(configuration)
        self.hierarchies = Hierarchies(configuration)
        organization = configuration.single(OrganizationConfig).entity
        self._any_day = BillingCalendar(configuration, DayRange.of_day(date(2000, 1, 1)))
        self.organization = organization

    def time_of(self, line: AdvanceLine) -> tuple[datetime, datetime | None]:
        """When the account plan of a line is charged now."""
        account_plan = self.configuration.get(AccountPlan, line.account_plan_id)
        return self._any_day.time_of(account_plan.entity)

    def account_plan_of(self, line: AdvanceLine) -> Record[AccountPlan]:
        """The account plan of a line; a deleted one without its contract, if that is gone, too."""
        if line.deleted is None:
            return self.configuration.get(AccountPlan, line.account_plan_id)
        contract_id = line.deleted.entity.contract_id
        if any(each.id == contract_id for each in self.configuration.all(Contract)):
            return line.deleted
        entity = line.deleted.entity.model_copy(update={"contract_id": None})
        return replace(line.deleted, entity=entity)

    def _cycle_of(self, line: AdvanceLine, account_plan: AccountPlan) -> BillingCycle:
        """The billing periods of a line's plan, or those that its bill had if it has none any more."""
        found = None
        # The plan of a deleted account plan may be deleted, too.
        with suppress(NotFound):
            found = self._any_day.cycle_of(account_plan)
        if found is not None:
            return found
        bill = line.bill
        is_recurring = bill.frequency in RECURRING
        frequency = bill.frequency if is_recurring else BillingFrequency.MONTHLY
        interval = bill.interval if is_recurring else 1
        return BillingCycle(recurring(frequency, bill.bill_date, interval))

    def find(self, line: AdvanceLine) -> BillIdentity:
        """The first bill after that of a line which may be changed.

        If no plan of the account has a bill until its plan would have had one, it is a bill by
        itself on that day.
        """
        account_plan = self.account_plan_of(line).entity
        cycle = self._cycle_of(line, account_plan)
        day = line.bill.bill_date
        while True:
            following = cycle.containing(day).after
            # The bills of an account's plans with some days, in their order.
            days = DayRange(day, following)
            calendar = BillingCalendar(self.configuration, days)
            account = self.configuration.get(Account, line.bill.account_id)
            group = self.identities.grouping_key(account_plan.contract_id)
            found = {
                self.identities.of_plan(account.id, period, record.entity.contract_id)
                for record in self.hierarchies.plans_billed_to(account)
                if self.identities.grouping_key(record.entity.contract_id) == group
                for period in calendar.due(record.entity)
                if period.period.intersection(record.entity.start_date, record.entity.end_date)
            }
            due = sorted(found, key=lambda each: each.rank)
            if not due:
                due = [
                    self.identities.without_plan(
                        line.bill.account_id, following, account_plan.contract_id
                    )
                ]
            for key in due:
                if not self.closed.has(key):
                    return key
            day = following
