"""Usage beyond commitments and balances: its surcharge, or lines of its own.

What decides is the last exhausted source among those that may pay for a part of a line. Beyond a
source that is not exhausted there is nothing, and an overdraft knows no overage.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from meterlake.model.bills.bill import LineItemType
from meterlake.model.catalog.plans import PricingBand
from meterlake.model.values.money import ONE, ZERO, RoundingMode, exact, round_quotient
from meterlake.stages.bill.credits.draw_downs import (
    CreditSource,
    DrawDowns,
    PartKey,
    SourceKey,
)
from meterlake.stages.bill.pricing.currencies import Amount
from meterlake.stages.bill.pricing.rate import Slice, slice_units
from meterlake.stages.bill.pricing.remainders import decimals

# Units are split to so many decimals.
UNIT_PLACES: Final = 10
_PERCENT: Final = 100


class Overage(NamedTuple):
    """What is used beyond a source.

    Attributes:
        source: The source that decides.
        amounts: What nobody pays of each part of a usage line, in the billing currency.
    """

    source: CreditSource
    amounts: Mapping[PartKey, Decimal]

    @property
    def surcharge(self) -> Amount:
        """What is charged on top, exactly; 0 if the source asks for nothing."""
        with exact():
            total = sum(self.amounts.values(), ZERO)
            return Amount(total * (self.source.surcharge or ZERO), _PERCENT)


class UsageToSplit(NamedTuple):
    """A usage line as its split needs it.

    Attributes:
        units: All that is priced; in a share of what a pool used they may be 0 or less.
        amount: The line's, in the billing currency; above 0.
        uncovered: What nobody pays of it; above 0.
        cumulative: Whether every band charges for its own part.
        overage_bands: Of units beyond; empty if those keep their price, as what is not above 0 does.
        rate: How many units of the billing currency one of the bands' is.
    """

    units: Decimal
    amount: Decimal
    uncovered: Decimal
    bands: Sequence[PricingBand]
    cumulative: bool
    overage_bands: Sequence[PricingBand] = ()
    rate: Decimal = ONE


class OverageSplit(NamedTuple):
    """A usage line in two: the line that stays, and the one of what is beyond.

    Attributes:
        covered_amount: In the billing currency, as `overage_amount` is.
        overage_amount: What was left uncovered; if there are slices, they cost what they do.
        slices: The units beyond in bands of their own, from zero; None if they keep their price.
    """

    covered_units: Decimal
    covered_amount: Decimal
    overage_units: Decimal
    overage_amount: Decimal
    slices: tuple[Slice, ...] | None


def find_overage(found: DrawDowns) -> list[Overage]:
    """What is used beyond sources, by the source that decides, in the order of sources."""
    exhausted = [each.source.key for each in found.sources if each.exhausted]
    amounts: dict[SourceKey, dict[PartKey, Decimal]] = {}
    for part in found.parts:
        rest = found.uncovered[part.key]
        # The last exhausted source of those that may pay for a part; only usage has one.
        if part.type != LineItemType.USAGE:
            deciding = None
        else:
            deciding = next((key for key in reversed(part.payers) if key in exhausted), None)
        if rest and deciding is not None:
            amounts.setdefault(deciding, {})[part.key] = rest
    return [
        Overage(each.source, amounts[each.source.key])
        for each in found.sources
        if each.source.key in amounts
    ]


def split_overage(line: UsageToSplit) -> OverageSplit:
    """Split a usage line where its sources ran dry."""
    with exact():
        covered_amount = line.amount - line.uncovered
        # How many units the covered amount pays for; none if the sources were dry before
        # the first.
        if not covered_amount:
            covered = ZERO
        elif line.cumulative and _only_rises(line.bands):
            covered = _invert(line, covered_amount)
        else:
            found = _divide_units(line.units * covered_amount, line.amount)
            # Rounding never goes beyond all units.
            covered = min(found, line.units) if line.units > 0 else max(found, line.units)
        beyond = line.units - covered
        slices = None
        if line.overage_bands and line.units > 0:
            slices = tuple(slice_units(beyond, line.overage_bands, cumulative=line.cumulative))
        return OverageSplit(covered, covered_amount, beyond, line.uncovered, slices)


def _only_rises(bands: Sequence[PricingBand]) -> bool:
    """Whether more units never cost less, so that an amount says how many they are."""
    return all(band.unit_price >= 0 and band.fixed_price >= 0 for band in bands)


def _invert(line: UsageToSplit, covered_amount: Decimal) -> Decimal:
    """Where, from the first unit on, the bands have charged the covered amount."""
    left, units = covered_amount, ZERO
    for each in slice_units(line.units, line.bands, cumulative=True):
        cost = (each.units * each.band.unit_price + each.band.fixed_price) * line.rate
        if left < cost:
            beyond_fixed = left - each.band.fixed_price * line.rate
            if beyond_fixed > 0:
                units += _divide_units(beyond_fixed, each.band.unit_price * line.rate)
            return min(units, line.units)
        left -= cost
        units += each.units
    return units


def _divide_units(dividend: Decimal, divisor: Decimal) -> Decimal:
    scale = decimals(divisor, 0)
    whole = int(divisor.scaleb(scale))
    return round_quotient(dividend.scaleb(scale), whole, UNIT_PLACES, RoundingMode.HALF_UP)
