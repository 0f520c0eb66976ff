"""The verb `bill`: bills, made from one snapshot and one reading of the configuration."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from meterlake.model.access import SYSTEM
from meterlake.model.bill_requests import BillStatus
from meterlake.model.billing import Bill, Failure
from meterlake.model.calendar.day_range import DayRange
from meterlake.model.calendar.recurring_period import PeriodSpec
from meterlake.model.failpoint import mark_step
from meterlake.model.money import ZERO, exact, plain
from meterlake.model.period import Month, local_date
from meterlake.model.pricing import BillingFrequency
from meterlake.model.unbilled import NoBill, StandingBill, Unpriced
from meterlake.model.version import code_version
from meterlake.pipeline.billing.advance import AdvanceChanges, read_advance_changes
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.usage.garbage import rare_garbage_searches, spare_what_is_there
from meterlake.pipeline.usage.period_usage import LakeState, usage_to_bill
from meterlake.pipeline.usage.stored_usage import BilledParts
from meterlake.pipeline.usage.usage_configuration import read_with
from meterlake.stages.bill import (
    BillIdentity,
    BillingTerms,
    BillSelection,
    ChosenBill,
    Provenance,
    billing_terms,
    make_bills,
    unpriced_usage,
    without_bill,
)
from meterlake.stores import Stores
from meterlake.stores.custom_sql import limits_of
from meterlake.stores.state.billing import bills
from meterlake.stores.state.billing.bill_batch import BillOutcome, billed_keys, put_all
from meterlake.stores.state.billing.bills import BillContent, BillKey, LineContent
from meterlake.stores.state.core.transaction import Transaction

# Bills of one transaction: other writers of State wait for as long as it takes.
BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class Billed:
    """One account's bill after the run."""

    bill_id: str
    account_id: str
    account_code: str
    bill_date: date
    currency: str
    total: Decimal
    lines: int
    stored: BillOutcome
    status: BillStatus


@dataclass(frozen=True, slots=True)
class BillResult:
    """What a run came to.

    Attributes:
        days: The last days of the bills' periods.
        snapshot: The lake's snapshot that every bill pins.
        bills: Every bill that was made, with what became of it; a locked one that would differ
            is here with what it would be, but stands as it was.
        failures: The accounts that could not be billed; a bill that they have stands.
        unpriced: Usage that no bill charges for: without a price, or with a bill that was refused.
        without: The accounts on a plan that rightly have no bill of the run, and why.
        affected: Other bills that are to be calculated again, because plans were changed.
    """

    days: Month | DayRange
    job_id: str
    snapshot: int
    bills: list[Billed] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    unpriced: list[Unpriced] = field(default_factory=list)
    without: list[NoBill] = field(default_factory=list)
    affected: list[ChosenBill] = field(default_factory=list)

    def of(self, stored: BillOutcome) -> list[Billed]:
        """The bills of which one thing became."""
        return [each for each in self.bills if each.stored is stored]

    @property
    def totals(self) -> dict[str, Decimal]:
        """The sum of the bills by currency, without the locked ones that would differ."""
        sums: dict[str, Decimal] = defaultdict(lambda: ZERO)
        with exact():
            for each in self.bills:
                if each.stored is not BillOutcome.LOCKED:
                    sums[each.currency] += each.total
        return dict(sorted(sums.items()))


class RunWatch:
    """Who follows a run; this one looks away."""

    def begin(self, bills: int) -> None:
        """Take note of how many bills are due, before the first one is made."""

    def store(self, transaction: Transaction, bills: int) -> None:
        """Take note of some more bills, or refusals, in the transaction that stores them."""


_UNWATCHED: Final = RunWatch()


@dataclass(frozen=True, slots=True)
class BillRun:
    """Which bills are made where, and by whom.

    Attributes:
        status: What new and recalculated bills are; APPROVED approves unchanged ones, too.
        watch: Follows the run; what it raises ends the run.
    """

    stores: Stores
    org_id: str
    selection: BillSelection
    author: str = SYSTEM
    status: BillStatus = BillStatus.PENDING
    watch: RunWatch = _UNWATCHED


def make_selected_bills(run: BillRun, job_id: str, snapshot: int) -> BillResult:
    """Make the bills of a selection and store them, batch by batch.

    Raises:
        NotFound: There is no such organization.
        Unavailable: A store failed; run it again.
    """
    result = BillResult(run.selection.days, job_id, snapshot)
    with rare_garbage_searches():
        terms, made = calculate_bills(run, result)
        spare_what_is_there()
        while batch := list(islice(made, BATCH)):
            result.failures.extend(each for each in batch if isinstance(each, Failure))
            stored = list(_store_bills(run, job_id, batch))
            result.bills.extend(each for each in stored if isinstance(each, Billed))
            result.failures.extend(each for each in stored if isinstance(each, Failure))
        listed = {each.account_id for found in (result.bills, result.failures) for each in found}
        result.without.extend(without_bill(terms, listed))
    return result


def calculate_bills(
    run: BillRun, result: BillResult
) -> tuple[BillingTerms, Iterator[Bill | Failure]]:
    """What holds in a run, and its bills one by one; nothing of them is stored."""
    snapshot, selection = result.snapshot, run.selection
    with run.stores.state.reading(run.org_id) as reader:
        configuration = reader.configuration()
        changes = read_advance_changes(reader, configuration, selection.account_ids)
        configuration = selection.overrides.apply(configuration)
        terms = billing_terms(configuration, selection, changes.by_account())
        usage_configuration = read_with(reader, _usage_period(terms), configuration)
        keys = billed_keys(reader, *terms.calendar.bill_dates, selection.emptied_day)
    source = LakeState(run.stores.lake(run.org_id), snapshot)
    limits = limits_of(run.stores.settings)
    usage = usage_to_bill(source, configuration, billed_parts(terms), limits, usage_configuration)
    mark_step("bill.folded")
    result.unpriced.extend(unpriced_usage(terms, usage.by_meter, _standing(run, terms, keys)))
    provenance = Provenance(snapshot, code_version())
    billed = {each for each in map(identity_of, keys) if terms.may_make(each)}
    result.affected.extend(_affected(terms, changes, billed))
    run.watch.begin(_count_due(terms, billed))
    return terms, make_bills(terms, usage, provenance, billed)


def _affected(
    terms: BillingTerms, changes: AdvanceChanges, billed: Collection[BillIdentity]
) -> Iterator[ChosenBill]:
    """The bills until the last one of a run that changes of plans affect, but for its own."""
    own = {bill.key for each in terms.account_terms_of.values() for bill in each.bills}
    own.update(billed)
    for each in changes.affected:
        if each.key.bill_date <= terms.calendar.bill_dates[1] and each.key not in own:
            yield each


def _count_due(terms: BillingTerms, billed: Collection[BillIdentity]) -> int:
    """How many bills are made at most; an account whose bills are refused counts as one."""
    due = {key for key in billed if key.account_id in terms.account_terms_of}
    refused = 0
    for each in terms.account_terms_of.values():
        due |= {bill.key for bill in each.bills}
        refused += bool(each.billing_blockers)
    return len(due) + refused


def _usage_period(terms: BillingTerms) -> PeriodSpec:
    """The organization's period whose stored quantities may serve the run."""
    last_day = local_date(terms.period.end, terms.zone) - timedelta(days=1)
    if isinstance(terms.selection.days, Month):
        return PeriodSpec.month(terms.selection.days)
    return PeriodSpec.on(terms.selection.frequency or BillingFrequency.MONTHLY, last_day)


def _standing(
    run: BillRun, terms: BillingTerms, keys: Collection[BillKey]
) -> dict[str, list[StandingBill]]:
    """The bills that accounts have whose new ones are refused."""
    refused = {each.account_id for each in keys if _is_refused(terms, each.account_id)}
    found: dict[str, list[StandingBill]] = defaultdict(list)
    if refused:
        with run.stores.state.reading(run.org_id) as reader:
            for each in bills.of_accounts(reader, terms.calendar.bill_dates, refused):
                key, lines = each.content.key, [line.body for line in each.content.lines]
                found[key.account_id].append(StandingBill.of(key.bill_date, lines))
    return found


def _is_refused(terms: BillingTerms, account_id: str) -> bool:
    account_terms = terms.account_terms_of.get(account_id)
    return account_terms is not None and bool(account_terms.billing_blockers)


def billed_parts(terms: BillingTerms) -> BilledParts:
    """Whose quantities the bills of a month need, and of which times."""
    accounts = terms.account_terms_of if terms.restricted else None
    return BilledParts(
        period=terms.period,
        accounts=accounts,
        windows=terms.windows,
        priced=terms.priced,
        compounds=terms.compound_windows(),
        owners=terms.usage_owners,
    )


def _store_bills(
    run: BillRun, job_id: str, batch: Sequence[Bill | Failure]
) -> Iterator[Billed | Failure]:
    bills = [each for each in batch if isinstance(each, Bill)]
    contents = [content_of(each) for each in bills]
    with run.stores.state.transaction(run.org_id, run.author) as transaction:
        outcomes = put_all(transaction, contents, run.status, job_id)
        run.watch.store(transaction, len(batch))
    mark_step("bill.stored")
    for each, outcome in zip(bills, outcomes, strict=True):
        if outcome.bill_id is None:
            reason = f"has no bill until {each.end_date}, and the bill lock date allows none"
            yield Failure(each.account_id, each.account_code, reason)
            continue
        yield Billed(
            bill_id=outcome.bill_id,
            account_id=each.account_id,
            account_code=each.account_code,
            bill_date=each.bill_date,
            currency=each.currency,
            total=outcome.total,
            lines=outcome.lines,
            stored=outcome.stored,
            status=outcome.status,
        )


def content_of(bill: Bill) -> BillContent:
    """A bill as it is stored."""
    key = BillKey(
        *(bill.account_id, bill.bill_date, bill.billing_frequency.value),
        *(bill.bill_frequency_interval, bill.grouping_key),
    )
    header = bill.header()
    return BillContent(
        key=key,
        period=f"{bill.last_day:%Y-%m}",
        currency=bill.currency,
        total=header["billTotal"],
        body=header,
        pins=bill.pins.to_wire(),
        lines=[
            LineContent(line.key, line.to_json(), line.made_from.to_json()) for line in bill.lines
        ],
    )


def merge_results(job_id: str, snapshot: int, results: Sequence[BillResult]) -> BillResult:
    """What the runs of a job came to together."""
    if len(results) == 1:
        return results[0]
    first = min((each.days.first for each in results), default=date.min)
    after = max((each.days.after for each in results), default=first)
    merged = BillResult(DayRange(first, after), job_id, snapshot)
    for each in results:
        merged.bills.extend(each.bills)
        merged.failures.extend(each.failures)
        merged.unpriced.extend(each.unpriced)
        merged.without.extend(each.without)
    return merged


def summary(result: BillResult) -> dict[str, Any]:
    """What a job keeps of its bills."""
    return {
        "bills": {stored.value: len(result.of(stored)) for stored in BillOutcome},
        "totals": {currency: plain(total) for currency, total in result.totals.items()},
        "failed": [[each.account_code, each.reason] for each in result.failures],
        "unpriced": len(result.unpriced),
        "billIds": [each.bill_id for each in result.bills if each.stored is not BillOutcome.LOCKED],
    }
