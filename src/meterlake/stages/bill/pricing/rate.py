"""Units and bands to exact amounts, band by band; rounding is the business of `bill`.

A band reaches over (lower limit, the next band's lower limit]. No units pay nothing, not even a
fixed price; negative units get the first band's unit price back, and no fixed price.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain, pairwise
from typing import Final, NamedTuple

from meterlake.model.bills.bill import BandUsage, Quantity
from meterlake.model.catalog.plans import Pricing, PricingBand
from meterlake.model.values.money import EXACT, ONE, ZERO, exact


class Slice(NamedTuple):
    """A part of the units and the band that it falls into."""

    band: PricingBand
    units: Decimal
    fixed: bool = True


def slice_by_bands(units: Decimal, bands: Sequence[PricingBand]) -> list[Slice]:
    """Cut units along the bands: every band that is reached charges for its own part."""
    slices = []
    for band, above in pairwise(chain(bands, [None])):
        assert band is not None
        if units <= band.lower_limit:
            break
        upper = units if above is None else min(units, above.lower_limit)
        slices.append(Slice(band, upper - band.lower_limit))
    return slices


def volume(units: Decimal, bands: Sequence[PricingBand]) -> list[Slice]:
    """Put all units into the highest band that they reach."""
    return [Slice(band, units) for band in reversed(bands) if units > band.lower_limit][:1]


# By `cumulative`. Stairstep is volume without unit prices; the custom kinds have both prices.
CUTS: Final[dict[bool, Callable[[Decimal, Sequence[PricingBand]], list[Slice]]]] = {
    True: slice_by_bands,
    False: volume,
}


def price(pricing: Pricing, quantity: Quantity, per_unit: Decimal) -> tuple[BandUsage, ...]:
    """Price a quantity.

    Args:
        pricing: Its bands ascend and begin at 0.
        quantity: Its units are what is priced; may be fractional, zero or negative.
        per_unit: The quantity that one unit stands for, to show each band's part of the quantity.

    Returns:
        What each band charges, ascending; the sum of their subtotals is the exact amount in the
        pricing's currency.
    """
    bands, cumulative = pricing.pricing_bands, pricing.cumulative
    return price_units(quantity.units, quantity.value, bands, cumulative, per_unit)


def price_units(
    units: Decimal,
    quantity: Decimal,
    bands: Sequence[PricingBand],
    cumulative: bool,
    per_unit: Decimal = ONE,
) -> tuple[BandUsage, ...]:
    """Price units by bands, and show each band's part of the quantity that they stand for."""
    if cumulative and len(bands) == 1 and units > ZERO:
        # The most usual pricing of all needs no cut, and no context of its own.
        return (_band_usage(Slice(bands[0], EXACT.add(units, ZERO)), EXACT.add(quantity, ZERO)),)
    with exact():
        slices = slice_units(units, bands, cumulative=cumulative)
        # Rounded units stand for a little more or less than the quantity: the last band has it.
        shares = [part.units * per_unit for part in slices[:-1]]
        shares += [quantity - sum(shares, ZERO)] * bool(slices)
        return tuple(_band_usage(part, share) for part, share in zip(slices, shares, strict=True))


def slice_units(units: Decimal, bands: Sequence[PricingBand], *, cumulative: bool) -> list[Slice]:
    """Say which units are priced in which band."""
    assert bands[0].lower_limit == ZERO, bands
    if units < ZERO:
        return [Slice(bands[0], units, fixed=False)]
    return CUTS[cumulative](units, bands)


def subtract_bands(
    bands: Sequence[BandUsage], before: Sequence[BandUsage]
) -> tuple[BandUsage, ...]:
    """What bands charge beyond what they charged before; those that charge the same are left out."""
    found = {band.lower_limit: band for band in before}
    found |= {band.lower_limit: band for band in bands}
    new, old = ({band.lower_limit: band for band in each} for each in (bands, before))
    with exact():
        differences = [
            _subtract(band, new.get(limit), old.get(limit)) for limit, band in sorted(found.items())
        ]
    return tuple(each for each in differences if each.units or each.quantity or each.subtotal)


def _subtract(band: BandUsage, new: BandUsage | None, old: BandUsage | None) -> BandUsage:
    unused = BandUsage(band.lower_limit, ZERO, ZERO, band.unit_price, ZERO, ZERO, ZERO)
    new, old = new or unused, old or unused
    return band._replace(
        units=new.units - old.units,
        quantity=new.quantity - old.quantity,
        fixed_price=new.fixed_price - old.fixed_price,
        unit_subtotal=new.unit_subtotal - old.unit_subtotal,
        subtotal=new.subtotal - old.subtotal,
    )


def convert_bands(bands: Sequence[BandUsage], multiplier: Decimal) -> tuple[BandUsage, ...]:
    """What bands charge in another currency: exact, so that units at their prices still add up."""
    with exact():
        return tuple(
            band._replace(
                unit_price=band.unit_price * multiplier,
                fixed_price=band.fixed_price * multiplier,
                unit_subtotal=band.unit_subtotal * multiplier,
                subtotal=band.subtotal * multiplier,
            )
            for band in bands
        )


def amount(bands: Sequence[BandUsage]) -> Decimal:
    """The exact amount that bands add up to."""
    total = ZERO
    for band in bands:
        total = EXACT.add(total, band.subtotal)
    return total


def units(bands: Sequence[BandUsage]) -> Decimal:
    """The units that bands charge for."""
    with exact():
        return sum((band.units for band in bands), ZERO)


def _band_usage(part: Slice, quantity: Decimal) -> BandUsage:
    fixed_price = part.band.fixed_price if part.fixed else ZERO
    unit_subtotal = EXACT.multiply(part.units, part.band.unit_price)
    return BandUsage(
        lower_limit=part.band.lower_limit,
        units=part.units,
        quantity=quantity,
        unit_price=part.band.unit_price,
        fixed_price=fixed_price,
        unit_subtotal=unit_subtotal,
        subtotal=EXACT.add(unit_subtotal, fixed_price),
        band_id=part.band.id,
    )
