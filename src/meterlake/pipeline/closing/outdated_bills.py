"""Bills that are not calculated from what holds now, and what they would come to."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.unbilled import ReviewFinding, ReviewKind
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.currencies import read_currencies
from meterlake.stages.bill import BillIdentity
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills.batch import CalculatedTotal
from meterlake.stores.state.billing.bills.summaries import MonthBill, read_month_bills
from meterlake.stores.state.billing.memos.memos import memo_lines
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.account_names import by_id
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader


@dataclass(slots=True)
class CalculatedTotals:
    """What bills of a month come to that came out anew, without the lines that people put on them.

    Attributes:
        versions: Of the contents of the stored bills at that time.
        found: What those come to now that are not known to stay as they are.
    """

    versions: dict[BillKey, int] = field(default_factory=dict)
    found: dict[BillKey, CalculatedTotal] = field(default_factory=dict)

    def note_versions(self, bills: Iterable[MonthBill]) -> None:
        """Note which contents are stored while the month is billed once more."""
        self.versions = {each.key: each.content_version for each in bills}

    def note(self, made: Iterable[Bill | Failure]) -> None:
        """Note what bills come to that were made once more, and of which there are stored ones."""
        for each in made:
            if isinstance(each, Bill):
                key = BillKey(*BillIdentity.of_bill(each))
                if key in self.versions:
                    self.found[key] = CalculatedTotal(each.total, each.currency)

    def difference(self, bill: MonthBill, by_people: Decimal) -> Decimal | None:
        """By how much a bill would change; None if nobody knows, since it was not made anew.

        Args:
            bill: As it is stored by now.
            by_people: What the lines come to that people put on it.
        """
        now = self.found.get(bill.key)
        known = self.versions.get(bill.key) == bill.content_version
        if now is None or not known or now.currency != bill.currency:
            return None
        with exact():
            return now.total + by_people - bill.total


def find_outdated(
    organization: Organization, month: Month, totals: CalculatedTotals, late: Collection[str]
) -> Iterator[ReviewFinding]:
    """The bills of a month that may change and are not calculated from what holds now.

    State knows of it where balances and commitments changed. Prices, plans and settings show where
    the month was billed once more.

    Args:
        organization: The organization.
        month: The month.
        totals: What its bills come to now, as far as they were made anew.
        late: The ids of bills with late usage, of which others tell.
    """
    with organization.reading() as reader:
        suspects = [
            each
            for each in read_month_bills(reader, str(month))
            if not each.is_locked and (each.is_outdated or each.key in totals.found)
        ]
        if not suspects:
            return
        by_people = _sums_of_memos(reader, [each.id for each in suspects])
        names = by_id(reader, {each.account_id for each in suspects})
    codes = {id_: each.code for id_, each in names.items()}
    currencies = read_currencies(organization)
    for bill in sorted(suspects, key=lambda each: (codes.get(each.account_id, ""), each.id)):
        difference = totals.difference(bill, by_people.get(bill.id, ZERO))
        if bill.is_outdated or (difference and bill.id not in late):
            code = codes.get(bill.account_id, bill.account_id)
            yield _describe(bill, code, difference, currencies)


def _sums_of_memos(reader: Reader, ids: Collection[str]) -> dict[str, Decimal]:
    """What the lines come to that people put on bills."""
    found = {}
    with exact():
        for some in chunks_of(ids):
            for id_, memos in memo_lines(reader, some).items():
                found[id_] = sum((each.amount for each in memos), ZERO)
    return found


def _describe(
    bill: MonthBill, code: str, difference: Decimal | None, currencies: Currencies
) -> ReviewFinding:
    changed = (
        "balances or commitments of the customer"
        if bill.is_outdated
        else "prices, plans or settings"
    )
    told = f"{changed} changed after this {bill.status.value.lower()} bill was calculated"
    if difference is not None:
        with exact():
            totals = bill.total, bill.total + difference
        before, after = (currencies.money(each, bill.currency) for each in totals)
        now = f"comes to {after}, not {before}" if difference else f"still comes to {after}"
        told = f"{told}: it {now}"
    return ReviewFinding(
        kind=ReviewKind.OUTDATED_BILL,
        subject=code,
        detail=told,
        command=f"meterlake bill diff {bill.id} --against now",
        bill_id=bill.id,
        amount=difference,
        currency=None if difference is None else bill.currency,
    )
