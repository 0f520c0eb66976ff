"""Usage that no bill charges for: reported, so that it is never lost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from meterlake.model.bills.bill import MeterUsage, Quantity
from meterlake.model.bills.unbilled import Uncovered, Unpriced
from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.usage.quantity import quantity_unit
from meterlake.model.values.entity import Record
from meterlake.stages.bill.pricing.applicable_pricing import PricedKey
from meterlake.stages.bill.terms.no_bill import describe_no_periods
from meterlake.stages.bill.terms.terms import AccountTerms, BillingTerms, UsagePart
from meterlake.stages.bill.terms.usage_windows import PriceGaps

# A reason, and more about it.
_Why = tuple[Uncovered, str | None]


def unpriced_usage(
    terms: BillingTerms, folded: Mapping[str, Sequence[MeterUsage]]
) -> Iterator[Unpriced]:
    """Report what accounts used while nothing gave it a price that is billed.

    Usage of an aggregation has a price where the aggregation has one, or a compound one that reads
    it. An aggregation that is priced nowhere is there to be looked at; only a meter of which nothing
    is priced anywhere is reported, without an aggregation.

    Args:
        terms: What holds in the month.
        folded: By meter, what was used in the month and in its windows.
    """
    for meter_id, used in sorted(folded.items()):
        meter = terms.configuration.get(Meter, meter_id)
        aggregations = terms.configuration.where(Aggregation, "meter_id", meter_id)
        priced = {a.id: a for a in aggregations if a.id in terms.priced}
        report = _Report(terms, meter, priced, PriceGaps(terms.period))
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
    """

    terms: BillingTerms
    meter: Record[Meter]
    priced: Mapping[str, Record[Aggregation]]
    gaps: PriceGaps

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
                yield self._row(used, _reason(account_terms, used, key), quantity)

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


def _reason(account_terms: AccountTerms | None, used: MeterUsage, key: PricedKey) -> _Why:
    if account_terms is None:
        return Uncovered.NO_ACCOUNT, None
    if used.selection is not None:
        return Uncovered.FILTERED, "it passes the usage filters of no contract"
    period = used.period
    for each in account_terms.unbilled:
        if any(
            key in pricing.charged_usage and part.intersection(period.start, period.end)
            for pricing, part in each.usage.parts
        ):
            return Uncovered.NO_BILLING_PERIODS, describe_no_periods(each.terms)
    subscribed = any(each.intersection(period.start, period.end) for each in account_terms.held)
    return (Uncovered.NO_PRICING if subscribed else Uncovered.NO_ACCOUNT_PLAN), None
