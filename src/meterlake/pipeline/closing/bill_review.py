"""What is open before the bills of a month are approved: `meterlake bill review`."""

import shlex
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, Self

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.jobs import BillOrder
from meterlake.model.bills.late_usage import UNDECIDED, LateSourceKind, LateUsage
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unbilled import ReviewFinding, ReviewKind, Uncovered, Unpriced
from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Conflict
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month, format_instant, local_date, zone
from meterlake.model.values.plurals import counted
from meterlake.model.values.sql import quote
from meterlake.pipeline.billing.calculation.reading import read_bills
from meterlake.pipeline.billing.currencies import read_currencies
from meterlake.pipeline.billing.damaged_accounts import DamagedAccounts
from meterlake.pipeline.billing.late_usage.lists import list_all_late
from meterlake.pipeline.billing.open_points import has_jumped
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.billing.shown_bills import Approval, newest_job_of_month
from meterlake.pipeline.closing.close_month import Closing, ClosingStep
from meterlake.pipeline.closing.outdated_bills import CalculatedTotals, find_outdated
from meterlake.pipeline.closing.unpriced_estimates import UnpricedEstimates
from meterlake.pipeline.ingest.expected_files import missing_files, overdue_files
from meterlake.stages.bill import BillSelection, selections_of
from meterlake.stages.bill.pricing.currencies import Amount, Currencies
from meterlake.stages.publish.meters import measured_meters
from meterlake.stores import Organization
from meterlake.stores.lake.rejected import OpenRows, count_open
from meterlake.stores.state.billing.bills.summaries import read_month_bills
from meterlake.stores.state.billing.bills.totals import read_bill_totals
from meterlake.stores.state.billing.calculations.pins import last_transaction
from meterlake.stores.state.core.account_names import by_id, count_accounts

_ONE_DAY: Final = timedelta(days=1)
_MONTH: Final = "{month}"
# What means something between double quotes of a shell.
_SHELL_SIGNS: Final = frozenset('"$`\\!')
_KNOWN_MAX: Final = 16
# Accounts of which a month is billed within about a second.
_AT_ONCE_MAX: Final = 500
# What nobody has to look at: usage that a filter leaves out on purpose.
_INTENDED: Final = (Uncovered.FILTERED,)


@dataclass(slots=True)
class RunOutcome:
    """What billing a month came to, as far as somebody should look at it.

    Attributes:
        missing: The bills that would be made, and that there are not.
        totals: What bills come to that came out anew.
    """

    unpriced: list[Unpriced] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    missing: list[Bill] = field(default_factory=list)
    totals: CalculatedTotals = field(default_factory=CalculatedTotals)


def review_bills(organization: Organization, month: Month) -> list[ReviewFinding]:
    """What is open before the bills of a month are approved, as the organization's settings say.

    The month is billed once more without storing anything: accounts that cannot be billed and
    usage without a price are those of now, whenever somebody billed it.

    Raises:
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    review = _BillReview.open(organization, month)
    return review.findings(review.calculate())


class _Mark(NamedTuple):
    """When a month was billed: after which transaction, at which snapshot of the lake, on which day."""

    written: int
    snapshot: int
    day: date


class KnownPoints(NamedTuple):
    """What is open about the bills of a month.

    Attributes:
        at: When the month was billed for it; None if nobody did yet.
        is_current: Whether nothing was written since that bills are made of.
    """

    findings: list[ReviewFinding]
    at: datetime | None
    is_current: bool


class _KnownReview(NamedTuple):
    mark: _Mark
    at: datetime
    outcome: RunOutcome


class KnownReviews:
    """What billing months once more came to the last times: pages ask for it again and again.

    It holds as long as nothing is written that bills are made of. Few are kept: one of a large
    organization has a line for each account with usage that has no price.
    """

    def __init__(self, at_once_max: int = _AT_ONCE_MAX) -> None:
        """Know nothing yet.

        Args:
            at_once_max: A month of more accounts is billed only for who asks for that.
        """
        self._at_once_max = at_once_max
        self._lock = Lock()
        self._known: OrderedDict[tuple[Path, str, Month], _KnownReview] = OrderedDict()

    def review(self, organization: Organization, month: Month) -> KnownPoints:
        """As `review_bills`."""
        mark, known = self._find(organization, month)
        review = _BillReview.open(organization, month)
        if known is None or known.mark != mark:
            known = _KnownReview(mark, organization.now(), review.calculate())
            with self._lock:
                key = organization.stores.home, organization.id, month
                self._known[key] = known
                self._known.move_to_end(key)
                while len(self._known) > _KNOWN_MAX:
                    self._known.popitem(last=False)
        return KnownPoints(review.findings(known.outcome), known.at, is_current=True)

    def look(self, organization: Organization, month: Month) -> KnownPoints:
        """The same as far as it is known: of many accounts, the month is not billed for it.

        What billing says is then as it was the last time, here or in the newest job of the month.
        What stands in State and in the lake is as it is.
        """
        mark, known = self._find(organization, month)
        if known is not None and known.mark == mark:
            return self.review(organization, month)
        with organization.reading() as reader:
            if count_accounts(reader) <= self._at_once_max:
                return self.review(organization, month)
        if known is not None:
            findings = _BillReview.open(organization, month).findings(known.outcome)
            return KnownPoints(findings, known.at, is_current=False)
        job = newest_job_of_month(organization, month)
        found = review_approval(organization, month, Approval(job=job))
        return KnownPoints(found, None if job is None else job.finished, is_current=False)

    def _find(self, organization: Organization, month: Month) -> tuple[_Mark, _KnownReview | None]:
        with organization.reading() as reader:
            written = last_transaction(reader)
        mark = _Mark(written, organization.lake.snapshot(), organization.stores.now().date())
        with self._lock:
            key = organization.stores.home, organization.id, month
            return mark, self._known.get(key)


def review_result(
    organization: Organization, month: Month, result: BillResult
) -> list[ReviewFinding]:
    """What is open after the bills of a month were made; see `review_bills`."""
    found = RunOutcome(result.unpriced, result.failures)
    return _BillReview.open(organization, month).findings(found)


def review_approval(
    organization: Organization, month: Month, approval: Approval
) -> list[ReviewFinding]:
    """What is open about bills that were approved; nothing is billed for it.

    Accounts that failed and usage without a price are those of the job that has shown the bills.
    """
    known = {} if approval.job is None else approval.job.result
    failures = [Failure("", code, reason) for code, reason in known.get("failed", ())]
    found = _BillReview.open(organization, month).findings(RunOutcome(failures=failures))
    if count := known.get("unpriced"):
        detail = f"{count:,} of usage had no price when the bills were shown"
        command = f"meterlake bill review --month {month}"
        kind = ReviewKind.UNPRICED_USAGE
        found.append(ReviewFinding(kind=kind, subject="", detail=detail, command=command))
    return found


@dataclass(frozen=True, slots=True)
class _BillReview:
    """Looks for what is open before the bills of a month are approved.

    Attributes:
        settings: They say what counts.
        currencies: Amounts have their decimals.
    """

    organization: Organization
    month: Month
    settings: OrganizationConfig
    currencies: Currencies

    @classmethod
    def open(cls, organization: Organization, month: Month) -> Self:
        """A review with the organization's settings of now."""
        with organization.reading() as reader:
            [record] = reader.all(OrganizationConfig)
        return cls(organization, month, record.entity, read_currencies(organization))

    def findings(self, found: RunOutcome) -> list[ReviewFinding]:
        """What is open, with what billing the month came to."""
        late = list_all_late(self.organization, period=str(self.month))
        # Before its end, usage of the month makes other bills every day.
        is_over = self.organization.now() >= self.month.period(zone(self.settings.timezone)).end
        totals = found.totals if is_over else CalculatedTotals()
        late_ids = {each.bill_id for each in late}
        return [
            *self._missing_files(),
            *self._rejected_rows(),
            *self._late_usage(late),
            *find_outdated(self.organization, self.month, totals, late_ids),
            *self._jumps(),
            *self._left_open(),
            *self._run(found),
        ]

    def _run(self, found: RunOutcome) -> Iterator[ReviewFinding]:
        """What billing says that is open."""
        for failure in found.failures:
            yield ReviewFinding(
                kind=ReviewKind.FAILED_ACCOUNT,
                subject=failure.account_code,
                detail=failure.reason,
                command=_bill_of(failure.account_code, f"--month {self.month}"),
            )
        if self.settings.review_missing_bills:
            today = local_date(self.organization.now(), zone(self.settings.timezone))
            # A bill is not missing as long as people still use what it is for.
            for bill in (each for each in found.missing if each.bill_date <= today):
                yield _describe_missing(bill, self.currencies.money(bill.total, bill.currency))
        if self.settings.review_unpriced_usage:
            yield from self._unpriced(found.unpriced)

    def _unpriced(self, found: Iterable[Unpriced]) -> Iterator[ReviewFinding]:
        open_ = [each for each in found if each.reason not in _INTENDED]
        if not open_:
            return
        with self.organization.reading() as reader:
            views = {each.meter.id: each.name for each in measured_meters(reader.all(Meter))}
            estimates = UnpricedEstimates.read(reader, str(self.month), open_)
        for each in open_:
            view = views.get(each.meter_id, each.meter_code)
            what = ".".join(filter(None, (each.meter_code, each.aggregation_code)))
            finding = ReviewFinding(
                kind=ReviewKind.UNPRICED_USAGE,
                subject=each.account_code or each.account_id,
                detail=f"{counted(each.measurements, 'measurement')} of {what} without a price: {each.why}",
                command=_measurements_of(each, view),
            )
            estimate = estimates.of(each)
            if estimate is not None:
                rounded = self.currencies.round(Amount(estimate.amount), estimate.currency)
                finding = replace(finding, amount=rounded, currency=estimate.currency)
            yield finding

    # ---- billing once more ----------------------------------------------------------------------

    def calculate(self) -> RunOutcome:
        """Bill the month once more, without storing anything.

        Accounts of which State has a damaged row fail, as they do in a run.
        """
        [selection] = selections_of(BillOrder(days=self.month), self.settings)
        damaged = DamagedAccounts(self.organization)
        _, found = damaged.work_without(selection, self._calculate)
        found.failures.extend(damaged.failures.values())
        return found

    def _calculate(self, selection: BillSelection) -> RunOutcome:
        snapshot = self.organization.lake.snapshot()
        reading = read_bills(self.organization, selection, snapshot)
        found = RunOutcome()
        with self.organization.reading() as reader:
            found.totals.note_versions(read_month_bills(reader, str(self.month)))
        for calculation in reading.calculations():
            found.unpriced.extend(calculation.unpriced())
            # Those that would come out as they are stored are not made.
            for account in calculation.made(BillStatus.PENDING, isolated=True):
                found.failures.extend(account.refused)
                found.missing.extend(reading.not_stored(account.made))
                found.totals.note(account.made)
        found.unpriced.extend(reading.unknown_usage())
        return found

    # ---- what stands in State and in the lake ---------------------------------------------------

    def _missing_files(self) -> Iterator[ReviewFinding]:
        patterns = [each.replace(_MONTH, str(self.month)) for each in self.settings.review_files]
        missing = dict.fromkeys(missing_files(self.organization, patterns), "no such file has come")
        for file in overdue_files(self.organization, self.month):
            missing[file.pattern] = (
                f"{file.name} of {file.period} was due {format_instant(file.due)}"
            )
        for name, detail in missing.items():
            yield ReviewFinding(
                kind=ReviewKind.MISSING_FILE,
                subject=name,
                detail=detail,
                command="meterlake check files",
            )

    def _rejected_rows(self) -> Iterator[ReviewFinding]:
        with self.organization.lake.reader() as connection:
            counts = count_open(connection, self.month, zone(self.settings.timezone))
        if sum(each.rows for each in counts.values()) <= self.settings.review_rejected_rows:
            return
        for reason, found in counts.items():
            rows = counted(found.rows, "rejected row waits", "rejected rows wait")
            apart = _undated(found) if found.undated else ""
            yield ReviewFinding(
                kind=ReviewKind.REJECTED_ROWS,
                subject=reason,
                detail=f"{rows} to be mended{apart}",
                count=found.rows,
                command=f"meterlake rejected list --reason {reason}",
            )

    def _late_usage(self, late: Iterable[LateUsage]) -> Iterator[ReviewFinding]:
        """What came, went or changed after the bills were made, whether or not a run noted it."""
        period = str(self.month)
        for usage in late:
            if usage.status not in UNDECIDED or usage.difference == ZERO:
                continue
            yield ReviewFinding(
                kind=ReviewKind.LATE_USAGE,
                subject=usage.account_code,
                detail=self._describe_late(usage),
                command=f"meterlake late --month {period}",
                bill_id=usage.bill_id,
                amount=usage.difference,
                currency=None if usage.difference is None else usage.currency,
            )

    def _describe_late(self, usage: LateUsage) -> str:
        if usage.difference is None:
            became = usage.reason or usage.status.value
            return f"usage came after the bill was made: {became}"
        amount = self.currencies.money(usage.difference, usage.currency, sign=True)
        what = "usage that came after the bill was made comes to"
        if usage.is_correction:
            what = "memos of usage that the bill has by now are to be taken back,"
        elif all(each.kind is LateSourceKind.BACKFILL for each in usage.sources):
            done = ", and ".join(each.name for each in usage.sources)
            what = f"a backfill came after the bill was made ({done}); it comes to"
        return f"{what} {amount}: {usage.status.value}"

    def _left_open(self) -> Iterator[ReviewFinding]:
        """The bills that the approval of the month left out, as long as they wait for their own."""
        done = Closing(self.organization, self.month, SYSTEM).outcomes()
        left = done.get(ClosingStep.REVIEW, {}).get("leftOpen", ())
        reasons = {each["billId"]: each["reason"] for each in left}
        if not reasons:
            return
        with self.organization.reading() as reader:
            bills = [e for e in read_month_bills(reader, str(self.month)) if e.id in reasons]
            names = by_id(reader, {each.account_id for each in bills})
        for each in bills:
            if each.status is BillStatus.PENDING:
                account = names.get(each.account_id)
                yield ReviewFinding(
                    kind=ReviewKind.LEFT_OPEN,
                    subject=account.code if account else each.account_id,
                    detail=f"the month was approved without it: {reasons[each.id]}",
                    command=f"meterlake bill approve {each.id}",
                    bill_id=each.id,
                    amount=each.total,
                    currency=each.currency,
                )

    def _jumps(self) -> list[ReviewFinding]:
        percent = self.settings.review_total_percent
        if not percent:
            return []
        days = self.month.first + _ONE_DAY, self.month.after + _ONE_DAY
        with self.organization.reading() as reader:
            totals = read_bill_totals(reader, *days, self.settings.review_total_periods)
            jumped = [each for each in totals if has_jumped(each, percent)]
            names = by_id(reader, {each.account_id for each in jumped})
        found: list[ReviewFinding] = []
        for bill in jumped:
            code = names[bill.account_id].code if bill.account_id in names else ""
            usual, count = bill.usual, len(bill.earlier)
            before = "the bill before" if count == 1 else f"the median of {count} bills before"
            with exact():
                difference = bill.total - usual
                change = difference * 100
            way = "above" if change > ZERO else "below"
            # Of 0 it is no percentage.
            by_how_much = way if usual == ZERO else f"{abs(change / usual):,.0f} % {way}"
            far = f"{by_how_much} {before}"
            total, median = (self.currencies.money(e, bill.currency) for e in (bill.total, usual))
            found.append(
                ReviewFinding(
                    kind=ReviewKind.TOTAL_JUMPED,
                    subject=code or bill.account_id,
                    detail=f"{total} is {far}: {median}",
                    command=f"meterlake bill explain {bill.bill_id}",
                    bill_id=bill.bill_id,
                    amount=difference,
                    currency=bill.currency,
                )
            )
        return sorted(found, key=lambda each: (each.subject, each.bill_id))


def _describe_missing(bill: Bill, total: str) -> ReviewFinding:
    return ReviewFinding(
        kind=ReviewKind.MISSING_BILL,
        subject=bill.account_code,
        detail=f"no bill for {bill.last_day:%B %Y}; it would come to {total}",
        command=_bill_of(bill.account_code, f"--date {bill.bill_date}"),
        amount=bill.total,
        currency=bill.currency,
    )


def _measurements_of(usage: Unpriced, view: str) -> str:
    """The command that shows what was used; billing again might change bills."""
    start, end = map(format_instant, (usage.period.start, usage.period.end))
    # DuckDB takes a literal for a table, too: so the shell's quotes can stand around it.
    query = (
        f"SELECT * FROM {quote(view)} WHERE account_id = {quote(usage.account_id)}"
        f" AND ts >= {quote(start)} AND ts < {quote(end)} ORDER BY ts"
    )
    is_plain = _SHELL_SIGNS.isdisjoint(query)
    return f'meterlake sql "{query}"' if is_plain else f"meterlake sql {shlex.quote(query)}"


def _bill_of(account: str, when: str) -> str:
    return f"meterlake bill {when} --account {shlex.quote(account)}"


def late_files_error(missing: Sequence[str]) -> Conflict:
    """The refusal to go on with a month without the files that are expected."""
    return Conflict(
        f"no file {', '.join(missing)} came in time; deliver it, or expect it no more, and close"
        " the month again"
    )


def _undated(found: OpenRows) -> str:
    """Which rows count although they do not say of which day they are."""
    if found.undated < found.rows:
        which = counted(found.undated, "of them names no day and", "of them name no day and")
        return f", {which} came since the month began"
    which = "it names no day and" if found.rows == 1 else "they name no day and"
    return f": {which} came since the month began"
