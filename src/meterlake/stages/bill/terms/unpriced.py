"""Usage that no bill charges for: reported, so that it is never lost."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType

from meterlake.model.billing import MeterUsage, Quantity
from meterlake.model.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.compound import CompoundScope
from meterlake.model.entity import Configuration, Record
from meterlake.model.money import plain
from meterlake.model.quantity_unit import quantity_unit
from meterlake.model.unbilled import StandingBill, Uncovered, Unpriced
from meterlake.stages.bill.terms.terms import AccountTerms, BillingTerms, UsagePart
from meterlake.stages.bill.terms.usage_windows import PriceGaps

# A reason, and more about it.
_Why = tuple[Uncovered, str | None]


# The bills of accounts whose new ones are refused, by account id.
Standing = Mapping[str, Sequence[StandingBill]]


def unpriced_usage(
    terms: BillingTerms,
    folded: Mapping[str, Sequence[MeterUsage]],
    standing: Standing = MappingProxyType({}),
) -> Iterator[Unpriced]:
    """Report what accounts used while nothing gave it a price, or their bill was refused.

    What a standing bill charges for is not reported; if it charges for another quantity, that is.

    Usage of an aggregation has a price where the aggregation has one, or a compound one that reads
    it. An aggregation that is priced nowhere is there to be looked at; only a meter of which nothing
    is priced anywhere is reported, without an aggregation.

    Args:
        terms: What holds in the month.
        folded: By meter, what was used in the month and in its windows.
        standing: The bills of the month that there are of accounts with a refused one.
    """
    readers = _readers(terms.configuration) if standing else {}
    for meter_id, used in sorted(folded.items()):
        meter = terms.configuration.get(Meter, meter_id)
        aggregations = terms.configuration.where(Aggregation, "meter_id", meter_id)
        priced = {a.id: a for a in aggregations if a.id in terms.priced}
        report = _Report(terms, meter, priced, standing, PriceGaps(terms.period), readers)
        for each in used:
            if each.account_id in terms.usage_owners:
                continue  # What its members used is there, too.
            # Of others, what the bills of the run need of them is read, and no more.
            if not terms.restricted or each.account_id in terms.account_terms_of:
                yield from report.of(each)


@dataclass(frozen=True, slots=True)
class _Report:
    """The report on one meter.

    Attributes:
        priced: Those of its aggregations that are priced anywhere, alone or as parts.
        readers: By the id of an aggregation, the compound ones that read it.
    """

    terms: BillingTerms
    meter: Record[Meter]
    priced: Mapping[str, Record[Aggregation]]
    standing: Standing
    gaps: PriceGaps
    readers: Mapping[str, Sequence[Record[CompoundAggregation]]]

    def of(self, used: MeterUsage) -> Iterator[Unpriced]:
        if not self.priced:
            if used.period == self.terms.period and used.selection is None:
                yield self._row(used, (Uncovered.METER_NOT_PRICED, None))
            return
        account_terms = self.terms.account_terms_of.get(used.account_id)
        gaps = self.gaps.of(account_terms) if account_terms else {}
        whole = (UsagePart(self.terms.period),)
        part = UsagePart(used.period, used.selection)
        for quantity in used.quantities:
            key = (self.meter.id, quantity.aggregation_id, quantity.segment)
            if part in gaps.get(key, whole) and quantity.aggregation_id in self.priced:
                yield from self._on_no_bill(used, account_terms, quantity)

    def _on_no_bill(
        self, used: MeterUsage, account_terms: AccountTerms | None, quantity: Quantity
    ) -> Iterator[Unpriced]:
        reason, detail = _reason(account_terms, used)
        if reason is Uncovered.BILL_REFUSED:
            place = (quantity.aggregation_id, used.period)
            for bill in self.standing.get(used.account_id, ()):
                charged = bill.quantities.get(place)
                if charged == quantity.value:
                    return
                detail = f"{detail}; {self._stands(bill, quantity, charged)}"
        yield self._row(used, (reason, detail), quantity)

    def _stands(self, bill: StandingBill, quantity: Quantity, charged: Decimal | None) -> str:
        what = (
            "does not charge for it" if charged is None else f"charges for {plain(charged)} of it"
        )
        for compound in self.readers.get(quantity.aggregation_id, ()):
            if charged is None and (compound.id, quantity.period) in bill.quantities:
                what = f"charges for {compound.entity.name!r}, which reads it"
        return f"its bill of {bill.bill_date} stands, and {what}"

    def _row(self, used: MeterUsage, why: _Why, quantity: Quantity | None = None) -> Unpriced:
        account_terms = self.terms.account_terms_of.get(used.account_id)
        row = Unpriced(
            account_id=used.account_id,
            account_code=account_terms.account.entity.code if account_terms else None,
            meter_id=self.meter.id,
            meter_code=self.meter.entity.code,
            period=used.period,
            measurements=used.measurements,
            reason=why[0],
            detail=why[1],
        )
        if quantity is None:
            return row
        aggregation = self.priced[quantity.aggregation_id].entity
        return replace(
            row,
            aggregation_id=quantity.aggregation_id,
            aggregation_code=aggregation.code,
            quantity=quantity.value,
            quantity_unit=quantity_unit(aggregation, self.meter.entity),
            units=quantity.units,
            unit=quantity.unit,
        )


def _readers(configuration: Configuration) -> dict[str, list[Record[CompoundAggregation]]]:
    found: dict[str, list[Record[CompoundAggregation]]] = defaultdict(list)
    for compound in configuration.all(CompoundAggregation):
        for part in CompoundScope(compound.entity, configuration).parts():
            found[part.id].append(compound)
    return found


def _reason(account_terms: AccountTerms | None, used: MeterUsage) -> _Why:
    period = used.period
    if account_terms is None:
        return Uncovered.NO_ACCOUNT, None
    if account_terms.billing_blockers:
        return Uncovered.BILL_REFUSED, "; ".join(account_terms.billing_blockers)
    if account_terms.parent_blockers:
        return Uncovered.BILL_REFUSED, "; ".join(account_terms.parent_blockers)
    if used.selection is not None:
        return Uncovered.FILTERED, "it passes the usage filters of no contract"
    held = [each.period for each in account_terms.plan_periods]
    held += [each.period for each in account_terms.pooled]
    subscribed = any(each.intersection(period.start, period.end) for each in held)
    return (Uncovered.NO_PRICING if subscribed else Uncovered.NO_ACCOUNT_PLAN), None
