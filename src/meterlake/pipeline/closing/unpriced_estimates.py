"""What usage without a price would come to, as far as the prices of a month's bills tell.

A customer whose bill has the price pays what the usage adds to what the bill has already: mostly
its plan began after the usage, and is to begin earlier. Where nobody knows the price, it is the one
that most units of the month have, without what it charges whatever is used.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple, Self

from meterlake.model.bills.unbilled import Unpriced
from meterlake.model.catalog.catalog import Aggregation, Reduce
from meterlake.model.catalog.plans import Pricing, PricingBand
from meterlake.model.errors import NotFound
from meterlake.model.values.money import ZERO, exact
from meterlake.stages.bill.pricing.rate import amount, price_units
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.totals import PricedUnits, priced_units

# Of which the quantity of two times is the sum of those of each.
_ADDITIVE: Final = (Reduce.SUM, Reduce.COUNT)


class Estimate(NamedTuple):
    """What usage would come to, not rounded yet."""

    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class UnpricedEstimates:
    """The prices of a month's bills, by which usage without one is estimated.

    Attributes:
        own: What the bills of an account have, by account and aggregation.
        usual: The price with most units, by aggregation.
        pricings: The prices, by their ids.
        additive: The ids of aggregations whose quantities add up.
    """

    own: dict[tuple[str, str], PricedUnits]
    usual: dict[str, PricedUnits]
    pricings: dict[str, Pricing]
    additive: frozenset[str]

    @classmethod
    def read(cls, reader: Reader, month: str, usage: Iterable[Unpriced]) -> Self:
        """Read the prices that some usage may have."""
        ids = {each.aggregation_id for each in usage if each.aggregation_id}
        own: dict[tuple[str, str], PricedUnits] = {}
        sums: dict[tuple[str, str], PricedUnits] = {}
        pricings: dict[str, Pricing] = {}
        for each in priced_units(reader, month, ids):
            with suppress(NotFound):
                if each.pricing_id not in pricings:
                    pricings[each.pricing_id] = reader.get(Pricing, each.pricing_id).entity
                key = each.account_id, each.aggregation_id
                own[key] = max(own.get(key, each), each, key=lambda one: one.units)
                with exact():
                    before = sums.get((each.aggregation_id, each.pricing_id))
                    units = each.units + (before.units if before else ZERO)
                sums[each.aggregation_id, each.pricing_id] = each._replace(units=units)
        usual: dict[str, PricedUnits] = {}
        for each in sums.values():
            best = usual.get(each.aggregation_id, each)
            usual[each.aggregation_id] = max(best, each, key=lambda one: one.units)
        additive = {
            record.id
            for record in reader.all(Aggregation)
            if record.entity.aggregation in _ADDITIVE
        }
        return cls(own, usual, pricings, frozenset(additive))

    def of(self, usage: Unpriced) -> Estimate | None:
        """What usage would come to; None if nothing of the month's bills tells."""
        if usage.units is None or usage.aggregation_id is None:
            return None
        own = self.own.get((usage.account_id, usage.aggregation_id))
        if own is not None:
            bands = self.pricings[own.pricing_id].pricing_bands
            with exact():
                together = own.units + usage.units
            if usage.aggregation_id not in self.additive:
                together = max(own.units, usage.units)
            with exact():
                added = self._price(own, together, bands) - self._price(own, own.units, bands)
            return Estimate(added, own.currency)
        usual = self.usual.get(usage.aggregation_id)
        if usual is None:
            return None
        bands = tuple(
            each.model_copy(update={"fixed_price": ZERO})
            for each in self.pricings[usual.pricing_id].pricing_bands
        )
        return Estimate(self._price(usual, usage.units, bands), usual.currency)

    def _price(
        self, priced: PricedUnits, units: Decimal, bands: tuple[PricingBand, ...]
    ) -> Decimal:
        cumulative = self.pricings[priced.pricing_id].cumulative
        return amount(price_units(units, units, bands, cumulative))
