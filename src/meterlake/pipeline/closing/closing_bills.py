"""The bills of a month that is closed: made with its quantities, shown, then approved or rejected."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final, Self

from meterlake.model.bills.jobs import BillOrder
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Conflict
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month
from meterlake.model.values.plurals import counted, first_of
from meterlake.pipeline.billing.bills import approve_bills
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.billing.two_persons import refuse_own_work
from meterlake.pipeline.closing.bill_review import review_result
from meterlake.pipeline.closing.close_month import Closing, ClosingStep, Rejected
from meterlake.pipeline.closing.left_open import LeftOpen
from meterlake.pipeline.usage.aggregate import AggregateResult, aggregate
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stages.bill.pricing.remainders import decimals
from meterlake.stores import Organization
from meterlake.stores.lake import quantities
from meterlake.stores.state.billing.bills.batch import BillOutcome
from meterlake.stores.state.billing.bills.summaries import MonthBill, read_month_bills
from meterlake.stores.state.core.account_names import by_id
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

# Bills of one transaction.
_BATCH: Final = 200
# Bills that were left alone, and that the closing keeps for its review.
_LEFT_MAX: Final = 200
# Accounts that an error names.
_NAMED: Final = 3
# What bills are made from is done again with them.
_MAKING: Final = (
    *(ClosingStep.INGEST, ClosingStep.RECONCILE),
    *(ClosingStep.AGGREGATE, ClosingStep.BILL),
)


class NotReviewed(Conflict):
    """Bills or quantities changed after somebody looked at them."""

    text = "the bills of {0} have changed since they were reviewed{1}; look at them again with {2}"

    def __init__(self, month: str, those: str, remedy: str) -> None:
        super().__init__(month, those, remedy)

    @classmethod
    def of(cls, closing: Closing, accounts: Sequence[str]) -> Self:
        """Name the first accounts that have others now."""
        those = f": those of {first_of(accounts, _NAMED, ', ')}" if accounts else ""
        return cls(str(closing.month), those, closing.how_to_review)


class QuantitiesNotReviewed(NotReviewed):
    """The bills are as somebody saw them; the quantities that are exported with them are not."""

    text = (
        "quantities of {0} have changed since its bills were reviewed{1}; the bills are the same."
        " {2} makes the month ready again; approve it then"
    )


class OtherReview(Conflict):
    """What is approved is not what the closing has now."""

    text = (
        "the bills or the quantities of {0} have changed since that review; look at them again with"
        " `GET /closings/{0}`, and send the `review` that it gives"
    )


class NotShown(Conflict):
    """Nobody was shown the bills that are to be approved."""

    text = (
        "the bills of {0} were not shown yet: {1} makes them ready: run it, look at them, and"
        " approve them then"
    )

    def __init__(self, month: str, remedy: str) -> None:
        super().__init__(month, remedy)


@dataclass(frozen=True, slots=True)
class ReviewedBill:
    """A bill as a review shows it."""

    id: str
    account_code: str
    bill_date: date
    total: Decimal
    currency: str
    status: BillStatus

    def to_wire(self) -> dict[str, Any]:
        """The line of `--json`."""
        return {
            "type": "bill",
            "id": self.id,
            "account": self.account_code,
            "billDate": self.bill_date,
            "total": self.total,
            "currency": self.currency,
            "status": str(self.status),
        }


def bills_of_month(closing: Closing) -> list[ReviewedBill]:
    """The bills whose last day is in the month, the largest first."""
    with closing.organization.reading() as reader:
        stored = read_month_bills(reader, str(closing.month))
        accounts = by_id(reader, {each.account_id for each in stored})
    found = [
        ReviewedBill(
            each.id,
            accounts[each.account_id].code if each.account_id in accounts else each.account_id,
            each.bill_date,
            each.total,
            each.currency,
            each.status,
        )
        for each in stored
    ]
    return sorted(found, key=lambda each: (-each.total, each.account_code, each.bill_date))


def check_shown(closing: Closing) -> None:
    """Refuse to approve bills that nobody was shown as they are.

    Raises:
        NotShown: Nobody was.
    """
    done = closing.outcomes()
    if ClosingStep.REVIEW not in done and not closing.is_shown:
        raise NotShown(str(closing.month), closing.how_to_review)


def make_bills(organization: Organization, month: Month, author: str) -> dict[str, Any]:
    """Make the bills of the month, and the quantities of the measurements that they were made from.

    Raises:
        Conflict: An account cannot be billed.
    """
    made = _MonthBills.make(organization, month, author)
    return made.describe() | {"open": len(review_result(organization, month, made.result))}


def approve_bills_of(closing: Closing, left_open: Sequence[LeftOpen] = ()) -> dict[str, Any]:
    """Approve the bills of the month, if they still are what the step of bills came to.

    Args:
        closing: The closing.
        left_open: The bills that stay pending; the closing keeps why.

    Raises:
        NotReviewed: They, or the quantities, are others now; whoever goes on begins with what has
            come in, makes both, and looks at them, again.
    """
    organization, month = closing.organization, closing.month
    # It looks whether anything changed, which makes the approver nobody who calculated.
    made = _MonthBills.make(organization, month, SYSTEM)
    reviewed = closing.outcomes()[ClosingStep.BILL]
    if made.digest != reviewed["digest"]:
        # A closing that an earlier version began does not say which quantities it had.
        run = reviewed.get("run")
        if run is not None and made.digest_with(run) == reviewed["digest"]:
            # The codes of the accounts that have other quantities than a run; none if it is gone.
            with closing.organization.lake.reader() as connection:
                ids = quantities.changed_accounts(connection, run, str(made.quantities.run_id))
            with closing.organization.reading() as reader:
                known = by_id(reader, ids)
            changed = sorted(known[each].code if each in known else each for each in ids)
            raise QuantitiesNotReviewed.of(closing, changed)
        raise NotReviewed.of(closing, made.changed)
    found = review_result(organization, month, made.result)
    approved, reasons = 0, dict(left_open)
    meant = [each for each in made.waiting if each not in reasons]
    with organization.reading() as reader:
        refuse_own_work(reader, closing.author, meant)
    for start in range(0, len(meant), _BATCH):
        batch = meant[start : start + _BATCH]
        approved += approve_bills(organization, closing.author, batch)
    # What is exported afterwards has what the bills have, whatever comes in meanwhile.
    outcome = {"decision": "approve", "approved": approved, "open": len(found)}
    outcome["snapshot"] = made.result.snapshot
    left = [{"billId": each, "reason": reasons[each]} for each in made.waiting if each in reasons]
    return {**outcome, "leftOpen": left} if left else outcome


def carry_out_review(closing: Closing, left_open: Sequence[LeftOpen] = ()) -> dict[str, Any]:
    """Approve what was reviewed; see `approve_bills_of`.

    Raises:
        NotShown: Nobody was shown the bills.
        NotReviewed: The bills have changed; the steps that they come from are to be done again.
    """
    check_shown(closing)
    try:
        return closing.carry_out(ClosingStep.REVIEW, lambda: approve_bills_of(closing, left_open))
    except NotReviewed:
        closing.forget(*_MAKING)
        raise


def begin_review_again(closing: Closing) -> None:
    """Have bills that wait for an approval made again, from what has come in by now.

    Backfills that were applied stay so. A closing without such bills goes on where it is.
    """
    if ClosingStep.BILL in closing.outcomes():
        closing.forget(*_MAKING)


def reject_shown(closing: Closing, reason: str) -> None:
    """Reject the bills of the month, if they wait for a review.

    Raises:
        Conflict: They do not.
    """
    if closing.is_closed:
        raise Conflict(
            f"{closing.month} is closed: its bills do not wait for a review;"
            f" open it again with {closing.how_to_reopen}"
        )
    closing.reject(reason)


def reject_bills(closing: Closing, reason: str) -> None:
    """Reject the bills of the month.

    Raises:
        Rejected: Always; whoever closes the month again begins at the first step.
    """
    reject_shown(closing, reason)
    raise Rejected(str(closing.month), reason)


@dataclass(frozen=True, slots=True)
class _MonthBills:
    """The bills of a month and the quantities of its measurements, from one snapshot of the lake.

    Attributes:
        result: What making the bills came to.
        quantities: What aggregating the same measurements came to.
        stored: Those of the bills whose last day is in the month, as they are stored.
    """

    result: BillResult
    quantities: AggregateResult
    stored: list[MonthBill]
    currencies: Currencies

    @classmethod
    def make(cls, organization: Organization, month: Month, author: str) -> Self:
        """Make the bills, unless they are there and nothing has changed; so with the quantities.

        Bills that are approved or locked are left as they are, also if they would be others.

        Raises:
            Conflict: An account cannot be billed.
        """
        order = BillOrder(days=month, keep_approved=True)
        result = bill_order(organization, order, author)
        if result.failures:
            reasons = [f"{each.account_code}: {each.reason}" for each in result.failures]
            raise Conflict(
                f"{counted(len(reasons), 'account')} could not be billed:"
                f" {first_of(reasons, _NAMED)}. Mend that, and close the month again"
            )
        quantities = aggregate(organization, month, result.snapshot)
        made = {each.bill_id for each in result.bills}
        with organization.reading() as reader:
            stored = [each for each in read_month_bills(reader, str(month)) if each.id in made]
            configuration = StoredConfiguration(reader)
            config = configuration.single(OrganizationConfig).entity
            currencies = Currencies.of(configuration, config)
        return cls(result, quantities, stored, currencies)

    @property
    def waiting(self) -> list[str]:
        """The ids of those that wait for an approval, and may get one."""
        return [
            each.id
            for each in self.stored
            if each.status is BillStatus.PENDING and not each.is_locked
        ]

    @property
    def changed(self) -> list[str]:
        """The codes of the accounts whose bills became others just now."""
        new = (BillOutcome.CREATED, BillOutcome.UPDATED)
        return sorted({each.account_code for each in self.result.bills if each.stored in new})

    @property
    def digest(self) -> str:
        """Tells bills and quantities apart that somebody would decide differently about."""
        return self.digest_with(str(self.quantities.run_id))

    def digest_with(self, run: str) -> str:
        """What the digest is if the quantities are those of a run."""
        lines = [f"{each.id} {each.content_version} {each.total:f}" for each in self.stored]
        lines += [
            f"{each['id']} {each['total']} {each['wouldBe']}{each['differs']}"
            for each in self._left()
        ]
        lines.append(run)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """What it came to, as State keeps it."""
        totals: dict[str, Decimal] = defaultdict(lambda: ZERO)
        if not self.stored:
            totals[self.currencies.own] = ZERO
        with exact():
            for each in self.stored:
                totals[each.currency] += each.total
        return {
            "bills": len(self.stored),
            "totals": {code: self._write(totals[code], code) for code in sorted(totals)},
            "quantities": len(self.quantities.rows),
            "unpriced": len(self.result.unpriced),
            "snapshot": self.result.snapshot,
            "digest": self.digest,
            "run": str(self.quantities.run_id),
            **({"left": left[:_LEFT_MAX]} if (left := self._left()) else {}),
        }

    def _left(self) -> list[dict[str, Any]]:
        """The approved and locked bills that would be others now, with both totals and what differs."""
        return [
            {
                "id": each.bill_id,
                "account": each.account_code,
                "total": self.currencies.money(each.total, each.currency),
                "wouldBe": self.currencies.money(*each.would_be),
                "differs": each.difference,
            }
            for each in self.result.bills
            if each.would_be is not None
        ]

    def _write(self, total: Decimal, currency: str) -> str:
        least, _ = self.currencies.rounding(currency)
        return f"{total:.{decimals(total, least)}f}"
