"""What holds where bills of a month are due, and the bills made of that and of what was used."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from meterlake.model.bills.bill import Bill, Failure, Line, Pins
from meterlake.model.bills.billed_usage import BilledUsage
from meterlake.model.bills.billing_dates import due_date_of_bill
from meterlake.model.catalog.counters import CounterAdjustment
from meterlake.model.configuration.organization import InvoiceDate, OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.contracts import Contract
from meterlake.model.values.entity import Configuration, Record
from meterlake.stages.bill.charges.line_draft import (
    BillDraft,
    BilledQuantityKey,
    BillInputs,
)
from meterlake.stages.bill.credits.credit_sources import (
    NO_CREDITS,
    NO_MOVEMENTS,
    AccountLedger,
    LineCredits,
    Movements,
)
from meterlake.stages.bill.credits.draw_downs import CreditSource
from meterlake.stages.bill.credits.funds import BillMoment
from meterlake.stages.bill.lines import MadeLines, has_lines_in_advance, make_lines
from meterlake.stages.bill.periods.due_periods import BillIdentity, BillingCalendar
from meterlake.stages.bill.periods.selection import BillSelection
from meterlake.stages.bill.pricing.applicable_pricing import PlanCatalog, priced_parts
from meterlake.stages.bill.pricing.currencies import CannotBill, Currencies
from meterlake.stages.bill.terms.advance_lines import NO_MEMOS, AdvanceMemo
from meterlake.stages.bill.terms.terms import AccountTerms, BillingTerms, DueBill, PlanPeriod
from meterlake.stages.bill.terms.terms_finder import TermsFinder
from meterlake.stages.bill.terms.usage_windows import find_usage_owners, find_windows


def billing_terms(
    configuration: Configuration,
    selection: BillSelection,
    memos: Mapping[str, Sequence[AdvanceMemo]] = NO_MEMOS,
) -> BillingTerms:
    """Find out what holds where bills are due.

    Args:
        configuration: All of an organization's entities.
        selection: Which bills the run makes.
        memos: By the ids of accounts, what corrects lines of locked bills.

    Raises:
        Invalid: The days are too close to an end of the calendar.
    """
    calendar, account_ids = selection.calendar(configuration), selection.account_ids
    configuration = calendar.configuration
    catalog = PlanCatalog(configuration)
    opening = _OpeningBills(calendar, catalog, selection.overrides.currency)
    terms = TermsFinder(calendar, selection, catalog, opening.has_lines, memos)
    account_terms_of = {
        account.id: terms.account_terms(account)
        for account in configuration.all(Account)
        if account_ids is None or account.id in account_ids
    }
    return BillingTerms(
        configuration=configuration,
        organization=configuration.single(OrganizationConfig),
        calendar=calendar,
        selection=selection,
        currencies=terms.currencies,
        catalog=terms.plans,
        account_terms_of=account_terms_of,
        restricted=account_ids is not None,
        priced=priced_parts(configuration),
        windows=find_windows(account_terms_of, terms.calendar.period),
        usage_owners=find_usage_owners(account_terms_of.values()),
    )


@dataclass(frozen=True, slots=True)
class _OpeningBills:
    """The bills of days on which plans begin, which are due if anything is in advance.

    Attributes:
        currency: In which all bills of the run are made; None if accounts decide.
    """

    calendar: BillingCalendar
    catalog: PlanCatalog
    currency: str | None

    def has_lines(self, account: Record[Account], bill: DueBill) -> bool:
        """Whether anything stands on a bill before any usage."""
        calendar = self.calendar
        inputs = BillInputs(
            configuration=calendar.configuration,
            catalog=self.catalog,
            zone=calendar.zone,
            snapshot=0,
            currencies=Currencies.of(calendar.configuration, calendar.organization),
            quantities={},
            missing={},
            left_out={},
        )
        own = account.entity.currency or calendar.organization.currency
        return has_lines_in_advance(bill, self.currency or own, inputs)


_NO_SOURCES: Sequence[CreditSource] = ()


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a run reads from: the lake's snapshot, and the version of meterlake."""

    snapshot: int
    code: str


def make_bills(
    terms: BillingTerms,
    usage: BilledUsage,
    provenance: Provenance,
    billed: Collection[BillIdentity] = (),
    movements: Movements = NO_MOVEMENTS,
    credited: Mapping[str, LineCredits] = MappingProxyType({}),
) -> Iterator[Bill | Failure]:
    """Make the bills of a month one by one, in the order of the accounts' codes and bill dates.

    Args:
        terms: What holds in the month.
        usage: What was used in the whole month and in the windows of the terms.
        provenance: What the bills pin.
        billed: The bills that were made with the month before.
        movements: What came into and went out of commitments and balances.
        credited: What people credit on lines of bills, by account: nothing pays for that.

    Yields:
        For every account that was on a plan in the month its bills, or why there is none.
    """
    maker = BillMaker(terms, usage, provenance, billed)
    for account_terms in maker.accounts:
        on_lines = credited.get(account_terms.account.id, NO_CREDITS)
        yield from maker.make(account_terms, AccountLedger(movements, credits=on_lines))


def _failure(account_terms: AccountTerms, reason: str, before: Collection[BillIdentity]) -> Failure:
    """Why there is no new bill, and which bills of before stand instead."""
    dates = ", ".join(str(key.bill_date) for key in sorted(before))
    stands = f"; its bill of {dates} stands" if dates else ""
    return Failure(account_terms.account.id, account_terms.account.entity.code, reason + stands)


class DraftedBill(NamedTuple):
    """What a bill was made from.

    Attributes:
        movements: What had come into and gone out of its commitments and balances.
    """

    draft: BillDraft
    movements: Movements


class BillMaker:
    """Makes the bills of one account after the other.

    Attributes:
        accounts: In the order of their codes.
        before: By the ids of accounts, the bills that were made before.
        drafts: What the bills were made from, by bill, for who explains them; None if nobody does.
    """

    def __init__(
        self,
        terms: BillingTerms,
        usage: BilledUsage,
        provenance: Provenance,
        billed: Collection[BillIdentity] = (),
    ) -> None:
        """Begin.

        Args:
            terms: What holds in the month.
            usage: What was used in the whole month and in the windows of the terms.
            provenance: What the bills pin.
            billed: The bills that were made with the month before; they are made in any case, so
                that what is no longer charged does not stay on them.
        """
        self.terms = terms
        simple = (
            each for found in usage.by_meter.values() for used in found for each in used.quantities
        )
        quantities = {
            BilledQuantityKey(
                each.account_id, each.aggregation_id, each.period, each.segment, each.selection
            ): each
            for each in chain(simple, usage.compounds)
        }
        self.inputs = BillInputs(
            configuration=terms.configuration,
            catalog=terms.catalog,
            zone=terms.zone,
            snapshot=provenance.snapshot,
            currencies=terms.currencies,
            quantities=quantities,
            missing={
                BilledQuantityKey(
                    *(each.account_id, each.aggregation_id, each.period, each.segment),
                    each.selection,
                ): each.detail
                for each in usage.missing
            },
            left_out=usage.left_out,
        )
        self.provenance = provenance
        self.organization = terms.organization.entity
        self.suppresses_empty = self.organization.suppressed_empty_bills
        self.pinned_overrides = terms.selection.overrides.to_wire()
        self.accounts = sorted(
            terms.account_terms_of.values(), key=lambda each: each.account.entity.code
        )
        self.before: dict[str, list[BillIdentity]] = defaultdict(list)
        for key in billed:
            self.before[key.account_id].append(key)
        self.drafts: dict[BillIdentity, DraftedBill] | None = None

    def make(self, account_terms: AccountTerms, ledger: AccountLedger) -> Iterator[Bill | Failure]:
        """The bills of an account in their order, each after what those before it draw.

        Args:
            account_terms: What holds for the account.
            ledger: Of its commitments and balances; it follows the draws of the bills.

        Yields:
            Also those that were made before and that no plan makes now.
        """
        before = self.before.get(account_terms.account.id, ())
        if account_terms.billing_blockers:
            yield _failure(account_terms, "; ".join(account_terms.billing_blockers), before)
            return
        bills = {each.key: each for each in account_terms.bills}
        for key in before:
            if key not in bills:
                alone = self.terms.calendar.without_plan(key)
                bills[key] = DueBill(key, alone.first, alone.period)
        for key in sorted(bills, key=lambda each: each.rank):
            try:
                draft = self._draft(account_terms, bills[key], ledger)
                bill = self._bill(account_terms, draft, make_lines(draft))
            except CannotBill as reason:
                yield _failure(account_terms, str(reason), {key}.intersection(before))
                continue
            if self.drafts is not None:
                movements = {id_: tuple(each) for id_, each in ledger.movements.items()}
                self.drafts[key] = DraftedBill(draft, movements)
            ledger.note_draws(key, bill.draws)
            is_omitted = self.suppresses_empty or not bills[key].has_arrears
            if key in before or bill.lines or bill.draws or not is_omitted:
                yield bill

    def _draft(self, account_terms: AccountTerms, due: DueBill, ledger: AccountLedger) -> BillDraft:
        currency = (
            self.terms.selection.overrides.currency
            or account_terms.account.entity.currency
            or self.organization.currency
        )
        sources, left = account_terms.sources, _NO_SOURCES
        if sources is not None:
            moment = BillMoment(due.key.rank, self.terms.zone)
            left = sources.on_bill(ledger.movements, moment, self.inputs.currencies, currency)
        credited = ledger.credits.get(due.key, ())
        return BillDraft(due, currency, self.inputs, sources, left, credited)

    def _bill(self, account_terms: AccountTerms, draft: BillDraft, made: MadeLines) -> Bill:
        due, currency, (lines, draws) = draft.bill, draft.currency, made
        account, bill_date = account_terms.account.entity, due.key.bill_date
        overrides = self.terms.selection.overrides
        returns = [each for memo in due.memos for each in memo.returns]
        is_day_before = self.organization.external_invoice_date == InvoiceDate.LAST_DAY_OF_ARREARS
        invoice_date = bill_date - timedelta(days=1) if is_day_before else bill_date
        return Bill(
            account_id=account_terms.account.id,
            account_code=account.code,
            period=due.period,
            start_date=due.first,
            end_date=bill_date,
            bill_date=bill_date,
            due_date=overrides.due_date or due_date_of_bill(bill_date, account, self.organization),
            external_invoice_date=overrides.external_invoice_date or invoice_date,
            timezone=self.organization.timezone,
            currency=currency,
            pins=Pins(
                snapshot=self.provenance.snapshot,
                versions=self._versions(account_terms, due, lines, currency),
                code=self.provenance.code,
                overrides=self.pinned_overrides,
                returns=[each.to_wire() for each in returns],
            ),
            lines=lines,
            draws=(*draws, *(each.consumption for each in returns)),
            conversions={
                (line.currency, currency): line.conversion_rate
                for line in lines
                if line.currency != currency
            },
            purchase_order_number=account.purchase_order_number,
            billing_frequency=due.key.frequency,
            bill_frequency_interval=due.key.interval,
            grouping_key=due.key.grouping_key,
        )

    def _versions(
        self, account_terms: AccountTerms, due: DueBill, lines: Sequence[Line], currency: str
    ) -> dict[str, int]:
        used = self._used_records(account_terms, due, lines, currency)
        versions = {record.id: record.version for record in used}
        in_advance = {
            line.made_from.account_plan_id
            for line in lines
            if line.service_period.end > due.period.end
        }
        for plan_period in (*due.plan_periods, *due.shared):
            versions |= plan_period.terms.versions
            if plan_period.account_plan.id in in_advance:
                # What a plan charges in the period that begins with the bill.
                _, following = plan_period.time.begun
                for service in following:
                    terms = self.inputs.catalog.terms(plan_period.terms.plan.id, service.whole)
                    versions |= terms.versions
        return versions

    def _used_records(
        self, account_terms: AccountTerms, due: DueBill, lines: Sequence[Line], currency: str
    ) -> Iterator[Record[Any]]:
        account, sources = account_terms.account, account_terms.sources
        yield self.terms.organization
        accounts = {account.id: account}
        for plan_period in (*due.plan_periods, *due.shared):
            accounts |= {each.id: each for each in self._charged_accounts(plan_period)}
            yield plan_period.account_plan
            contract_id = plan_period.account_plan.entity.contract_id
            if contract_id is not None:
                yield self.terms.configuration.get(Contract, contract_id)
            if plan_period.group is not None:
                yield plan_period.group.group
        yield from due.ad_hoc
        yield from (each.commitment for each in due.fees)
        yield from (each.account_plan for each in due.memos)
        if sources is not None:
            yield from sources.records.values()
        for each in accounts.values():
            yield each
            yield from self.terms.configuration.where(CounterAdjustment, "account_id", each.id)
        for code in {currency, *(line.currency for line in lines)}:
            record = self.inputs.currencies.records.get(code)
            if record is not None:
                yield record

    def _charged_accounts(self, plan_period: PlanPeriod) -> Iterator[Record[Account]]:
        """The account on a plan, and the children that are charged together with it."""
        yield self.terms.configuration.get(Account, plan_period.account_plan.entity.account_id)
        for each in plan_period.pool.members if plan_period.pool else ():
            yield each.account
