"""The verb `bill`: the bills of a month, made from one snapshot and one reading of the configuration."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from meterlake.model.access import SYSTEM
from meterlake.model.accounts import Account
from meterlake.model.availability import not_available
from meterlake.model.billing import Bill, Failure
from meterlake.model.calendar.recurring_period import PeriodSpec
from meterlake.model.entity import Configuration
from meterlake.model.errors import NotFound
from meterlake.model.failpoint import mark_step
from meterlake.model.money import ZERO, exact, plain
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Month
from meterlake.model.pricing import BillingFrequency
from meterlake.model.problems import refuse
from meterlake.model.unbilled import NoBill, StandingBill, Unpriced
from meterlake.model.version import code_version
from meterlake.pipeline.usage.garbage import rare_garbage_searches, spare_what_is_there
from meterlake.pipeline.usage.period_usage import LakeState, usage_to_bill
from meterlake.pipeline.usage.stored_usage import BilledParts
from meterlake.pipeline.usage.usage_configuration import read_with
from meterlake.stages.bill import (
    BillIdentity,
    BillingTerms,
    Provenance,
    billing_terms,
    make_bills,
    rate,
    unpriced_usage,
    without_bill,
)
from meterlake.stores import Stores
from meterlake.stores.state.billing import bills
from meterlake.stores.state.billing.bill_batch import BillOutcome, billed_keys, put_all
from meterlake.stores.state.billing.bills import BillContent, BillKey, BillStatus, LineContent

KIND: Final = "bill"
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
    """What billing a month came to.

    Attributes:
        snapshot: The lake's snapshot that every bill pins.
        bills: Every bill that was made, with what became of it; a locked one that would differ
            is here with what it would be, but stands as it was.
        failures: The accounts that could not be billed; a bill that they have stands.
        unpriced: Usage that no bill charges for: without a price, or with a bill that was refused.
        without: The accounts on a plan that rightly have no bill of the month, and why.
    """

    month: Month
    job_id: str
    snapshot: int
    bills: list[Billed] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    unpriced: list[Unpriced] = field(default_factory=list)
    without: list[NoBill] = field(default_factory=list)

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


def bill(
    stores: Stores,
    org_id: str,
    month: Month,
    *,
    approve: bool = False,
    accounts: Sequence[str] | None = None,
    author: str = SYSTEM,
) -> BillResult:
    """Bill a month of an organization.

    Billing again changes nothing, unless something that is on a bill has changed; then the bill
    is at its next version and PENDING. Locked bills are left alone; on or before the lock date of
    the organization every bill is, and an account that has none gets none.

    Args:
        stores: The home.
        org_id: The organization.
        month: In the organization's time zone.
        approve: Whether the bills are APPROVED right away.
        accounts: The codes of the accounts to bill; all of them if None.
        author: Who does it.

    Raises:
        NotFound: There is no such organization or account.
        Unavailable: A store failed; run it again.
    """
    snapshot = stores.lake(org_id).snapshot()
    parameters = {"month": str(month), "approve": approve, "accounts": accounts}
    with (
        stores.state.jobs.running(org_id, KIND, parameters, snapshot) as job,
        rare_garbage_searches(),
    ):
        result = BillResult(month, job.id, snapshot)
        status = BillStatus.APPROVED if approve else BillStatus.PENDING
        run = _Run(stores, org_id, month, author, status)
        terms, made = _make_bills(run, result, accounts)
        spare_what_is_there()
        while batch := list(islice(made, BATCH)):
            bills = [each for each in batch if isinstance(each, Bill)]
            result.failures.extend(each for each in batch if isinstance(each, Failure))
            stored = list(_store_bills(run, bills))
            result.bills.extend(each for each in stored if isinstance(each, Billed))
            result.failures.extend(each for each in stored if isinstance(each, Failure))
        listed = {each.account_id for found in (result.bills, result.failures) for each in found}
        result.without.extend(without_bill(terms, listed))
        job.result.update(_summary(result))
    return result


@dataclass(frozen=True, slots=True)
class _Run:
    stores: Stores
    org_id: str
    month: Month
    author: str
    status: BillStatus


def _make_bills(
    run: _Run, result: BillResult, codes: Sequence[str] | None
) -> tuple[BillingTerms, Iterator[Bill | Failure]]:
    month, snapshot = result.month, result.snapshot
    with run.stores.state.reading(run.org_id) as reader:
        configuration = reader.configuration()
        refuse(list(not_available(configuration.single(OrganizationConfig).entity)))
        usage_configuration = read_with(reader, PeriodSpec.month(month), configuration)
        keys = billed_keys(reader, str(month), BillingFrequency.MONTHLY.value)
    terms = billing_terms(configuration, month, _account_ids(configuration, codes))
    source = LakeState(run.stores.lake(run.org_id), snapshot)
    usage = usage_to_bill(source, configuration, billed_parts(terms), usage_configuration)
    mark_step("bill.folded")
    result.unpriced.extend(unpriced_usage(terms, usage, _standing(run, terms, keys)))
    provenance = Provenance(snapshot, code_version())
    billed = {BillIdentity(each.account_id, each.bill_date, each.interval) for each in keys}
    return terms, make_bills(terms, usage, rate.price, provenance, billed)


def _standing(
    run: _Run, terms: BillingTerms, keys: Collection[BillKey]
) -> dict[str, list[StandingBill]]:
    """The bills that accounts have whose new ones are refused."""
    refused = {each.account_id for each in keys if _is_refused(terms, each.account_id)}
    found: dict[str, list[StandingBill]] = defaultdict(list)
    if refused:
        with run.stores.state.reading(run.org_id) as reader:
            for each in bills.of_accounts(reader, str(run.month), refused):
                key, lines = each.content.key, [line.body for line in each.content.lines]
                found[key.account_id].append(StandingBill.of(key.bill_date, lines))
    return found


def _is_refused(terms: BillingTerms, account_id: str) -> bool:
    account_terms = terms.account_terms_of.get(account_id)
    return account_terms is not None and bool(account_terms.billing_blockers)


def billed_parts(terms: BillingTerms) -> BilledParts:
    """Whose quantities the bills of a month need, and of which times."""
    accounts = terms.account_terms_of if terms.restricted else None
    return BilledParts(terms.period, accounts, terms.windows, terms.priced)


def _account_ids(configuration: Configuration, codes: Sequence[str] | None) -> set[str] | None:
    if codes is None:
        return None
    found = {code: configuration.find(Account, code) for code in codes}
    for code, record in found.items():
        if record is None:
            raise NotFound("account", code)
    return {record.id for record in found.values() if record is not None}


def _store_bills(run: _Run, bills: Sequence[Bill]) -> Iterator[Billed | Failure]:
    contents = [_content(each, run.month) for each in bills]
    with run.stores.state.transaction(run.org_id, run.author) as transaction:
        outcomes = put_all(transaction, contents, run.status)
    mark_step("bill.stored")
    for each, content, outcome in zip(bills, contents, outcomes, strict=True):
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
            total=content.total,
            lines=len(each.lines),
            stored=outcome.stored,
            status=outcome.status,
        )


def _content(bill: Bill, month: Month) -> BillContent:
    key = BillKey(
        bill.account_id, bill.bill_date, bill.billing_frequency.value, bill.bill_frequency_interval
    )
    header = bill.header()
    return BillContent(
        key=key,
        period=str(month),
        currency=bill.currency,
        total=header["billTotal"],
        body=header,
        pins=bill.pins.to_wire(),
        lines=[
            LineContent(line.key, line.to_wire(), line.made_from.to_wire()) for line in bill.lines
        ],
    )


def _summary(result: BillResult) -> dict[str, Any]:
    return {
        "bills": {stored.value: len(result.of(stored)) for stored in BillOutcome},
        "totals": {currency: plain(total) for currency, total in result.totals.items()},
        "failed": [[each.account_code, each.reason] for each in result.failures],
        "unpriced": len(result.unpriced),
    }
