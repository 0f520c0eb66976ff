"""The bills of a month from what holds in it and what was used in it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from meterlake.model.billing import Bill, Failure, Folded, Line, Pins
from meterlake.model.entity import Record
from meterlake.model.organization import InvoiceDate
from meterlake.stages.bill.currencies import Currencies, Unbillable
from meterlake.stages.bill.lines import Lines, Price, Quantities
from meterlake.stages.bill.terms import Customer, Draft

Usage = Mapping[str, Sequence[Folded]]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a run reads from: the lake's snapshot, and the version of meterlake."""

    snapshot: int
    code: str


def make_bills(
    draft: Draft,
    usage: Usage,
    price: Price,
    provenance: Provenance,
    billed: Collection[str] = (),
) -> Iterator[Bill | Failure]:
    """Make the bills of a month one by one, in the order of the accounts' codes.

    Args:
        draft: What holds in the month.
        usage: By meter, what was used in the whole month and in the draft's windows.
        price: Prices a quantity.
        provenance: What the bills pin.
        billed: The ids of the accounts that have a bill for the month already; they get one in
            any case, so that what is no longer charged does not stay on it.

    Yields:
        For every account that was on a plan in the month its bill, or why there is none.
    """
    lines = Lines(
        month=draft.period,
        zone=draft.zone,
        snapshot=provenance.snapshot,
        currencies=Currencies.of(draft.configuration, draft.organization.entity),
        quantities=_by_place(usage),
        price=price,
    )
    maker = _Maker(draft, lines, provenance)
    for customer in sorted(draft.customers.values(), key=lambda each: each.account.entity.code):
        if customer.subscriptions or customer.obstacles or customer.account.id in billed:
            made = maker.make(customer)
            empty = isinstance(made, Bill) and not made.lines
            if customer.account.id in billed or not (empty and maker.suppresses_empty):
                yield made


def _by_place(usage: Usage) -> Quantities:
    return {
        (each.account_id, each.aggregation_id, each.period): each
        for folded in usage.values()
        for used in folded
        for each in used.quantities
    }


class _Maker:
    """Makes one bill after the other."""

    def __init__(self, draft: Draft, lines: Lines, provenance: Provenance) -> None:
        self.draft = draft
        self.lines = lines
        self.provenance = provenance
        self.organization = draft.organization.entity
        self.suppresses_empty = self.organization.suppressed_empty_bills

    def make(self, customer: Customer) -> Bill | Failure:
        if customer.obstacles:
            account, reason = customer.account, "; ".join(customer.obstacles)
            return Failure(account.id, account.entity.code, reason)
        try:
            return self._bill(customer)
        except Unbillable as reason:
            return Failure(customer.account.id, customer.account.entity.code, str(reason))

    def _bill(self, customer: Customer) -> Bill:
        account, month = customer.account.entity, self.draft.month
        currency = account.currency or self.organization.currency
        lines = self.lines.of(customer, currency)
        days = account.days_before_bill_due or self.organization.days_before_bill_due
        return Bill(
            account_id=customer.account.id,
            account_code=account.code,
            period=self.draft.period,
            start_date=month.first,
            end_date=month.after,
            bill_date=month.after,
            due_date=month.after + timedelta(days=days),
            external_invoice_date=self._invoice_date(),
            timezone=self.organization.timezone,
            currency=currency,
            pins=Pins(
                snapshot=self.provenance.snapshot,
                versions=self._versions(customer, lines, currency),
                code=self.provenance.code,
            ),
            lines=lines,
            conversions={
                (line.currency, currency): line.conversion_rate
                for line in lines
                if line.currency != currency
            },
            purchase_order_number=account.purchase_order_number,
        )

    def _invoice_date(self) -> date:
        after = self.draft.month.after
        if self.organization.external_invoice_date == InvoiceDate.LAST_DAY_OF_ARREARS:
            return after - timedelta(days=1)
        return after

    def _versions(self, customer: Customer, lines: Sequence[Line], currency: str) -> dict[str, int]:
        used = self._used(customer, lines, currency)
        versions = {record.id: record.version for record in used}
        for subscription in customer.subscriptions:
            versions |= subscription.terms.versions
        return versions

    def _used(
        self, customer: Customer, lines: Sequence[Line], currency: str
    ) -> Iterator[Record[Any]]:
        yield self.draft.organization
        yield customer.account
        for subscription in customer.subscriptions:
            yield subscription.account_plan
        for code in {currency, *(line.currency for line in lines)}:
            record = self.lines.currencies.records.get(code)
            if record is not None:
                yield record
