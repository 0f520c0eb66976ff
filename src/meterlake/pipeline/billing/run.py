"""The verb `bill`: bills, made from one snapshot and one reading of the configuration."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, Final, Protocol

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.jobs import BILL_IDS
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unbilled import NoBill, Unpriced
from meterlake.model.bills.unchanged_bill import LeftDifference, describe_left
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.errors import NotFound
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.money import ZERO, exact, plain
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.balances.ended_balances import settle_draws
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.calculation.account_bills import (
    AccountBills,
    read_line_credits,
)
from meterlake.pipeline.billing.calculation.failures import store_in_parts
from meterlake.pipeline.billing.calculation.reading import BillReading, read_bills
from meterlake.pipeline.billing.damaged_accounts import DamagedAccounts
from meterlake.pipeline.billing.measured_files import months_of, note_measured_files
from meterlake.pipeline.usage.garbage import (
    clear_garbage,
    rare_garbage_searches,
    spare_what_is_there,
)
from meterlake.stages.bill import (
    BillOverrides,
    BillSelection,
    ChosenBill,
    fees_on_no_bill,
    select_again,
    without_bill,
)
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.accounts.buckets import PackedList
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import (
    BatchedBill,
    BillOutcome,
    CalculatedTotal,
    put_all,
)
from meterlake.stores.state.billing.bills.calculated import (
    changed_bills,
    keep_bills,
)
from meterlake.stores.state.billing.calculations.pins import CalculationPins, note_calculation
from meterlake.stores.state.billing.credits.ledger import lock_sources, read_movements
from meterlake.stores.state.billing.credits.source_events import last_posting
from meterlake.stores.state.billing.outdated_bills import outdated_bills
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey, LineContent
from meterlake.stores.state.core.reader import DamagedRow
from meterlake.stores.state.core.transaction import Transaction

# Bills of one transaction: other writers of State wait for as long as it takes.
BATCH: Final = 1000
# The bills of fewer accounts leave no garbage that is worth a search through all that there is.
_MANY_ACCOUNTS: Final = 1000


@dataclass(frozen=True, slots=True)
class Billed:
    """One account's bill after the run, as it is stored.

    Attributes:
        would_be: What it would come to; None if it is what was calculated.
        differs: What of it would be otherwise then.
    """

    bill_id: str
    account_id: str
    account_code: str
    bill_date: date
    currency: str
    total: Decimal
    lines: int
    stored: BillOutcome
    status: BillStatus
    version: int = 0
    would_be: CalculatedTotal | None = None
    differs: tuple[LeftDifference, ...] = ()

    @property
    def difference(self) -> str:
        """What would be otherwise, as people read it beside both totals."""
        has_totals = self.would_be not in {None, (self.total, self.currency)}
        return describe_left(self.differs, has_totals=has_totals)


@dataclass(frozen=True, slots=True)
class BillResult:
    """What a run came to.

    Attributes:
        days: The last days of the bills' periods.
        snapshot: The lake's snapshot that every bill pins.
        bills: Every bill that was made, as it is stored, with what became of it; one that was left
            alone, because it is locked or approved, says what it would come to.
        failures: The accounts that could not be billed; a bill that they have stands.
        unpriced: Usage that no bill charges for: without a price, or on a plan without bills.
        without: The accounts on a plan that rightly have no bill of the run, or no fee, and why.
        affected: Other bills that are to be calculated again, because plans were changed.
    """

    days: Month | DayRange
    job_id: str
    snapshot: int
    bills: PackedList[Billed] = field(default_factory=PackedList)
    failures: list[Failure] = field(default_factory=list)
    unpriced: list[Unpriced] = field(default_factory=list)
    without: PackedList[NoBill] = field(default_factory=PackedList)
    affected: list[ChosenBill] = field(default_factory=list)

    def of(self, stored: BillOutcome) -> list[Billed]:
        """The bills of which one thing became."""
        return [each for each in self.bills if each.stored is stored]

    @property
    def totals(self) -> dict[str, Decimal]:
        """The sum of the bills by currency, as they are stored."""
        sums: dict[str, Decimal] = defaultdict(lambda: ZERO)
        with exact():
            for each in self.bills:
                sums[each.currency] += each.total
        return dict(sorted(sums.items()))


class RunWatch:
    """Who follows a run; this one looks away."""

    def begin(self, bills: int, more: int = 0) -> None:
        """Take note of how many bills are due, before the first of them is made.

        Args:
            bills: Those of some accounts.
            more: How many are expected to be due later, of other accounts.
        """

    def store(self, transaction: Transaction, bills: int) -> None:
        """Write down some more bills, or refusals, in the transaction that stores them.

        It ends the run by raising Unavailable, Busy, StaleVersion or Cancelled.
        """

    def note_done(self, bills: int) -> None:
        """Take note of bills, or refusals, of which the transaction is committed."""


# Outcomes that give a bill the content of its calculation.
_WRITTEN: Final = frozenset({BillOutcome.CREATED, BillOutcome.UPDATED})
_UNWATCHED: Final = RunWatch()


class BucketFanOut(Protocol):
    """Has others make the bills of several buckets of accounts at once."""

    def bucket_size(self, run: "BillRun") -> int:
        """How many accounts a bucket has."""

    def make(self, run: "BillRun", reading: BillReading, result: BillResult) -> set[str]:
        """Make the bills of all buckets, and answer the accounts whose bills could not be stored.

        Args:
            run: The run.
            reading: What the bills depend on.
            result: What the run came to, to which they are added.
        """


@dataclass(frozen=True, slots=True)
class BillRun:
    """Which bills are made where, and by whom.

    Attributes:
        status: What new and recalculated bills are; APPROVED approves unchanged ones, too.
        keep_approved: Whether approved bills stay as they are that come out as other ones.
        watch: Follows the run, and may end it.
        is_counted: Whether its bills are counted; not if another run has counted them.
        fan_out: Makes buckets of accounts at once; one after the other is made here if None.
    """

    organization: Organization
    selection: BillSelection
    author: str = SYSTEM
    status: BillStatus = BillStatus.PENDING
    keep_approved: bool = False
    watch: RunWatch = _UNWATCHED
    is_counted: bool = True
    fan_out: BucketFanOut | None = None


def make_bills(run: BillRun, result: BillResult) -> None:
    """Make the bills of a selection and store them, batch by batch, until all are stored.

    Accounts of which State has a damaged row fail; the others are billed without them.

    Args:
        run: The run.
        result: What the run came to, to which they are added.

    Raises:
        NotFound: There is no such organization.
        Unavailable: A store failed; run it again.
        DamagedRow: A row cannot be read that belongs to no account of the selection.
    """
    damaged = DamagedAccounts(run.organization)
    while True:
        contended: set[str] = set()
        size = None if run.fan_out is None else run.fan_out.bucket_size(run)
        try:
            reading = read_bills(run.organization, run.selection, result.snapshot, size)
            buckets = range(len(reading.accounts.buckets))
            if run.fan_out is not None and len(buckets) > 1:
                contended |= run.fan_out.make(run, reading, result)
                buckets = range(0)
            for number in buckets:
                contended |= make_bucket(run, reading, number, result)
            if run.is_counted:
                result.unpriced.extend(reading.unknown_usage())
        except DamagedRow as error:
            # A run of the rest, after a damaged row was met; buckets before the damaged
            # one are done.
            rest_of = damaged.leave_out(run.selection, error)
            if rest_of is None:
                raise
            done = {each.account_id for each in result.bills}
            done |= {each.account_id for each in result.failures}
            rest = frozenset(rest_of.account_ids or ()) - done
            # Tasks of a fan-out would read the accounts of the job.
            run = replace(run, selection=replace(rest_of, account_ids=rest), fan_out=None)
            continue
        if not contended:
            break
        # Somebody else drew from the sources of these accounts meanwhile.
        selection = replace(run.selection, account_ids=frozenset(contended))
        run = replace(run, selection=selection, is_counted=False, fan_out=None)
    result.failures.extend(damaged.failures.values())


def make_bucket(run: BillRun, reading: BillReading, number: int, result: BillResult) -> set[str]:
    """Make the bills of a bucket of accounts, and answer those whose bills could not be stored.

    Args:
        run: The run.
        reading: What the bills depend on.
        number: Which bucket, from 0.
        result: What the run came to, to which they are added.
    """
    is_large = len(reading.accounts.buckets[number].account_ids) >= _MANY_ACCOUNTS
    calculation = reading.calculate(number)
    if is_large:
        spare_what_is_there()
    due = (bill.key for each in calculation.maker.accounts for bill in each.bills)
    months = months_of((key.bill_date, key.frequency.value, key.interval) for key in due)
    note_measured_files(run.organization, result.snapshot, months)
    if run.is_counted:
        result.unpriced.extend(calculation.unpriced())
        result.affected.extend(calculation.affected())
        run.watch.begin(calculation.count_due(), reading.count_accounts(number + 1))
    contended: set[str] = set()
    listed: set[str] = set()
    store = partial(_store_bills, run, result.job_id, calculation.pins)
    for batch in calculation.batches(run.status, BATCH, isolated=True):
        mark_step("bill.made")
        stored, left = store_in_parts(store, batch)
        mark_step("bill.stored")
        # The bills that were asked for, and those that changed with them.
        result.bills.extend(
            each
            for each in stored
            if isinstance(each, Billed)
            and (run.is_counted or each.stored is not BillOutcome.UNCHANGED)
        )
        result.failures.extend(each for each in stored if isinstance(each, Failure))
        listed |= {each.account_id for each in stored}
        contended |= left
    if run.is_counted:
        result.without.extend(without_bill(calculation.terms, listed | contended))
        result.without.extend(fees_on_no_bill(calculation.terms))
    # Nothing keeps the calculation: the next bucket has the memory of this one.
    del calculation
    if is_large:
        clear_garbage()
    return contended


def _recalculation(run: BillRun, selection: BillSelection) -> BillRun:
    """A run of bills that nobody asked for: nobody counts them, and nobody approves them with it."""
    return replace(run, selection=selection, is_counted=False, status=BillStatus.PENDING)


def choose_bill(reader: Reader, id: str) -> ChosenBill | None:
    """A bill that is made again; None if it was deleted since."""
    try:
        content = bills.get(reader, id).content
    except NotFound:
        return None
    overrides = BillOverrides.from_wire(content.pins.get("overrides", {}))
    return ChosenBill(identity_of(content.key), overrides)


def make_bills_again(run: BillRun, ids: Sequence[str], result: BillResult) -> None:
    """Make stored bills again that may be changed, and those that draw something else then.

    Args:
        run: Of the job; its selection is of no weight.
        ids: The bills.
        result: What the run came to, to which they are added.

    Raises:
        Unavailable: A store failed; run it again.
    """
    alone = replace(run, fan_out=None)
    with run.organization.reading() as reader:
        chosen = [each for each in (choose_bill(reader, id_) for id_ in ids) if each]
    with rare_garbage_searches():
        for selection in select_again(chosen):
            make_bills(_recalculation(alone, selection), result)
        make_outdated_bills(alone, result)


def make_outdated_bills(run: BillRun, result: BillResult) -> None:
    """Make the bills again for which something else is left than when they were made.

    Bills of their accounts that come later draw from the same commitments and balances.

    Args:
        run: That made bills of the job.
        result: What the run came to, to which they are added.
    """
    run = replace(run, fan_out=None)
    done: set[str] = set()
    while True:
        with run.organization.reading() as reader:
            found = outdated_bills(reader, result.job_id, run.selection.account_ids)
            ids = [each for each in found if each not in done]
            chosen = [each for each in (choose_bill(reader, id_) for id_ in ids) if each]
        if not chosen:
            return
        done.update(ids)
        for selection in select_again(chosen):
            make_bills(_recalculation(run, selection), result)


def _store_bills(
    run: BillRun, job_id: str, pins: CalculationPins, batch: Sequence[AccountBills]
) -> tuple[list[Billed | Failure], set[str]]:
    """Store bills with what they draw, unless what they could draw changed since it was read.

    Returns:
        What became of the bills, and the accounts of which none was stored.
    """
    with run.organization.transaction(run.author) as transaction:
        # The accounts of which something changed since it was read; now nothing does.
        unchanged = [each for account in batch for each in account.kept]
        changed = changed_bills(transaction, unchanged)
        contended = {each.key.account_id for each in unchanged if each.id in changed}
        contended |= _with_other_sources(transaction, batch)
        stored = [each for each in batch if each.account_id not in contended]
        made = [(each, found.inputs) for found in stored for each in found.made]
        bills = [(each, inputs) for each, inputs in made if isinstance(each, Bill)]
        since = last_posting(transaction)
        contents = [content_of(each, inputs, pins.id) for each, inputs in bills]
        outcomes = put_all(
            transaction, contents, run.status, job_id, keep_approved=run.keep_approved
        )
        if any(each.stored in _WRITTEN for each in outcomes):
            note_calculation(transaction, pins)
        keep_bills(transaction, [each.id for found in stored for each in found.kept], job_id)
        settle_draws(transaction, since)
        count = run.is_counted * sum(each.count for each in stored)
        run.watch.store(transaction, count)
    run.watch.note_done(count)
    failures = [each for found in stored for each in found.refused]
    billed = [_to_billed(each, outcome) for (each, _), outcome in zip(bills, outcomes, strict=True)]
    kept = [
        Billed(
            bill_id=each.id,
            account_id=each.key.account_id,
            account_code=found.account.entity.code,
            bill_date=each.key.bill_date,
            currency=each.currency,
            total=each.total,
            lines=each.lines,
            stored=BillOutcome.UNCHANGED,
            status=each.status,
            version=each.version,
        )
        for found in stored
        for each in found.kept
    ]
    return [*failures, *billed, *kept], contended


def _with_other_sources(transaction: Transaction, batch: Sequence[AccountBills]) -> set[str]:
    """The accounts whose sources, or lines to pay for, changed since they were read."""
    ids = [id_ for each in batch for id_ in each.movements]
    if not ids:
        return set()
    lock_sources(transaction, ids)
    now = read_movements(transaction, ids)
    with_sources = [each.account_id for each in batch if each.movements]
    credited = read_line_credits(transaction, with_sources)
    return {
        each.account_id
        for each in batch
        if any(now.get(id_, []) != list(found) for id_, found in each.movements.items())
        or (each.movements and credited.get(each.account_id, {}) != each.credits)
    }


def _to_billed(bill: Bill, outcome: BatchedBill) -> Billed | Failure:
    if outcome.billed_by is not None:
        reason = (
            f"has the bill {outcome.billed_by} of {bill.bill_date} already, made before"
            " consolidateBills was changed: delete that one to have its charges on a new bill"
        )
        return Failure(bill.account_id, bill.account_code, reason)
    if outcome.bill_id is None:
        reason = f"has no bill until {bill.end_date}, and the bill lock date allows none: set that to an earlier day"
        return Failure(bill.account_id, bill.account_code, reason)
    return Billed(
        bill_id=outcome.bill_id,
        account_id=bill.account_id,
        account_code=bill.account_code,
        bill_date=bill.bill_date,
        currency=outcome.currency,
        total=outcome.total,
        lines=outcome.lines,
        stored=outcome.stored,
        status=outcome.status,
        version=outcome.version,
        would_be=outcome.would_be,
        differs=outcome.differs,
    )


def content_of(
    bill: Bill, inputs: str | None = None, calculation_id: str | None = None
) -> BillContent:
    """A bill as it is stored.

    Args:
        bill: As it was made.
        inputs: The digest of what it was made from; None if nobody knows.
        calculation_id: The calculation that made it; None if nobody knows.
    """
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
        draws=bill.draws,
        inputs=inputs,
        calculation_id=calculation_id,
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
    became = Counter(each.stored for each in result.bills)
    return {
        "bills": {stored.value: became[stored] for stored in BillOutcome},
        "totals": {currency: plain(total) for currency, total in result.totals.items()},
        "failed": [[each.account_code, each.reason] for each in result.failures],
        "unpriced": len(result.unpriced),
        BILL_IDS: [each.bill_id for each in result.bills if each.would_be is None],
    }
