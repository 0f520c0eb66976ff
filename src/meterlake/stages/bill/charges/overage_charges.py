"""The step of overage: what is charged of usage that commitments and balances left uncovered.

A source asks for a surcharge, or has such usage in lines of its own: then the line of usage is cut
where its sources ran dry.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from meterlake.model.bills.bill import BandUsage, LineItemType
from meterlake.model.catalog.plans import Pricing, PricingBand
from meterlake.model.values.money import ZERO, divide, exact
from meterlake.stages.bill.charges.credit_consumption import drawn_period
from meterlake.stages.bill.charges.line_draft import (
    BillDraft,
    FinishedLine,
    LineAmount,
    LineDraft,
    LineSubject,
    RoundedAmount,
)
from meterlake.stages.bill.credits.credit_sources import source_members
from meterlake.stages.bill.credits.draw_downs import CreditSource, PartKey
from meterlake.stages.bill.credits.overage import (
    Overage,
    OverageSplit,
    UsageToSplit,
    find_overage,
    split_overage,
)
from meterlake.stages.bill.pricing import rate
from meterlake.stages.bill.pricing.currencies import Amount

UNIT: Final = "overage"


def overage_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge surcharges, then cut lines of usage: what stays of them takes their place."""
    drawn = draft.drawn
    if drawn is None:
        return
    found = find_overage(drawn)
    for overage in found:
        if overage.surcharge.dividend:
            source = overage.source
            assert draft.sources is not None
            texts = draft.sources.texts(source)
            yield LineDraft(
                type=LineItemType.OVERAGE_SURCHARGE,
                description=texts.overage,
                service_period=drawn_period(drawn, overage.amounts),
                charged=LineAmount(overage.surcharge, UNIT, currency=draft.currency),
                accounting_product=draft.inputs.catalog.product(texts.overage_product_id),
                subject=LineSubject(source.id),
                members=source_members(source),
                basis=overage,
            )
    yield from _separate(draft, found)


def _separate(draft: BillDraft, found: Sequence[Overage]) -> Iterator[LineDraft]:
    """Cut the lines of which something is beyond sources, and charge that by itself.

    What is beyond several sources is one line, which names the last of them.
    """
    uncovered: dict[int, Decimal] = defaultdict(lambda: ZERO)
    sources: dict[int, CreditSource] = {}
    parts: dict[int, list[PartKey]] = defaultdict(list)
    with exact():
        for overage in found:
            for key, amount in overage.amounts.items():
                finished = draft.line(key.line)
                if overage.source.separates:
                    is_separate = True
                else:
                    charge = finished.draft.subject.usage
                    assert charge is not None
                    has_bands = bool(charge.applicable_pricing.pricing.entity.overage_pricing_bands)
                    is_separate = overage.source.reprices and has_bands
                if is_separate:
                    uncovered[key.line] += amount
                    sources[key.line] = overage.source
                    parts[key.line].append(key)
    for number, amount in sorted(uncovered.items()):
        usage = _Usage.of(draft.line(number))
        split = split_overage(usage.to_split(amount))
        own = tuple(parts[number])
        cut = CutUsage(usage.finished, split, sources[number], own, usage.is_plain)
        yield usage.beyond(draft, cut)
        draft.replace(number, usage.keep_covered(draft, cut))


class CutUsage(NamedTuple):
    """A line of usage that was cut where its sources ran dry.

    Attributes:
        before: As it stood on the bill before.
        source: The last source that ran dry.
        parts: The parts of the line that are beyond.
        is_plain: Whether its amount is the tiered price of its units.
    """

    before: FinishedLine
    split: OverageSplit
    source: CreditSource
    parts: tuple[PartKey, ...]
    is_plain: bool


class _Usage(NamedTuple):
    """A line of usage that is cut in two.

    Attributes:
        is_plain: Whether its amount is the tiered price of its units.
    """

    finished: FinishedLine
    pricing: Pricing
    per_unit: Decimal
    is_plain: bool

    @classmethod
    def of(cls, finished: FinishedLine) -> "_Usage":
        charge = finished.draft.subject.usage
        assert charge is not None
        pricing = charge.applicable_pricing.pricing.entity
        per_unit = charge.applicable_pricing.aggregation.entity.quantity_per_unit
        is_plain = (
            pricing.cumulative and not charge.spans and finished.draft.subject.usage_id is None
        )
        return cls(finished, pricing, per_unit, is_plain)

    def to_split(self, uncovered: Decimal) -> UsageToSplit:
        return UsageToSplit(
            units=self.finished.line.units,
            amount=self.finished.amount,
            uncovered=uncovered,
            rate=self.finished.line.conversion_rate,
            bands=self.pricing.pricing_bands,
            cumulative=self.is_plain,
            overage_bands=self.pricing.overage_pricing_bands,
        )

    def keep_covered(self, draft: BillDraft, cut: CutUsage) -> FinishedLine | None:
        """What stays of it; None if nothing does."""
        split = cut.split
        if not split.covered_amount:
            return None
        drafted, line = self.finished
        quantity, bands = self._quantity(split), self._stays(split)
        currencies = draft.inputs.currencies
        conversion = currencies.conversion(line.currency, draft.currency)
        units = split.covered_units
        return FinishedLine(
            drafted._replace(
                charged=drafted.charged._replace(quantity=quantity, units=units, bands=bands),
                basis=cut,
            ),
            line._replace(
                quantity=quantity,
                units=split.covered_units,
                bands=bands,
                subtotal=currencies.round_back(split.covered_amount, conversion),
                converted_subtotal=split.covered_amount,
            ),
        )

    def beyond(self, draft: BillDraft, cut: CutUsage) -> LineDraft:
        """What is charged of the rest: by bands of its own, or what it costs anyway."""
        split, (drafted, line) = cut.split, self.finished
        with exact():
            quantity = self.finished.line.quantity - self._quantity(split)
        rounded = None
        if split.slices is None:
            # What bands charge for the units beyond.
            bands = (
                rate.subtract_bands(self.finished.line.bands, self._stays(split))
                if self.is_plain
                else ()
            )
            conversion = draft.inputs.currencies.conversion(line.currency, draft.currency)
            amount = draft.inputs.currencies.round_back(split.overage_amount, conversion)
            rounded = RoundedAmount(amount, split.overage_amount)
        else:
            bands = self._price(split.overage_units, quantity, self.pricing.overage_pricing_bands)
            amount = rate.amount(bands)
        return drafted._replace(
            type=LineItemType.OVERAGE_USAGE,
            charged=drafted.charged._replace(
                amount=Amount(amount),
                quantity=quantity,
                units=split.overage_units,
                average_unit_price=(
                    divide(amount, split.overage_units) if split.overage_units else ZERO
                ),
                bands=bands,
                rounded=rounded,
            ),
            members={**drafted.members, **source_members(cut.source)},
            basis=cut,
        )

    def _quantity(self, split: OverageSplit) -> Decimal:
        """What stays of the quantity: it is divided like the units, or without any like the amount."""
        line = self.finished.line
        part, whole = split.covered_units, line.units
        if not whole:
            part, whole = split.covered_amount, self.finished.amount
        with exact():
            return divide(line.quantity * part, whole)

    def _stays(self, split: OverageSplit) -> tuple[BandUsage, ...]:
        """What bands charge for the units that stay; nothing where they do not say the amount."""
        if not self.is_plain:
            return ()
        return self._price(split.covered_units, self._quantity(split), self.pricing.pricing_bands)

    def _price(
        self, units: Decimal, quantity: Decimal, bands: Sequence[PricingBand]
    ) -> tuple[BandUsage, ...]:
        return rate.price_units(units, quantity, bands, self.pricing.cumulative, self.per_unit)
