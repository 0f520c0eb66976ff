"""What a number of units costs by pricing bands, and the way back."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

from tests.billing_oracle.money import exact, quotient
from tests.billing_oracle.world import Row

# Digits of units that are calculated back from an amount.
UNIT_PLACES = 10


@dataclass(frozen=True)
class Band:
    """Units above `lower`, up to the next band's lower limit."""

    lower: Fraction
    fixed: Fraction
    unit: Fraction


def read_bands(rows: Sequence[Row]) -> list[Band]:
    """Bands of the wire, sorted by their lower limits."""
    found = [
        Band(exact(row["lowerLimit"]), exact(row["fixedPrice"]), exact(row["unitPrice"]))
        for row in rows
    ]
    return sorted(found, key=lambda band: band.lower)


def price_tiered(units: Fraction, bands: Sequence[Band]) -> Fraction:
    """Each band is charged for the units inside it, and its fixed price once it is reached."""
    amount = Fraction(0)
    for number, band in enumerate(bands):
        top = bands[number + 1].lower if number + 1 < len(bands) else units
        if units > band.lower:
            amount += band.fixed + (min(units, top) - band.lower) * band.unit
    return amount


def price_volume(units: Fraction, bands: Sequence[Band]) -> Fraction:
    """The whole quantity is charged by the highest band that it reaches."""
    reached = [band for band in bands if band.lower < units]
    return reached[-1].fixed + units * reached[-1].unit if reached else Fraction(0)


def price(units: Fraction, bands: Sequence[Band], *, cumulative: bool) -> Fraction:
    """The price of units; negative units are given back at the first band's unit price."""
    if units < 0:
        return units * bands[0].unit
    return price_tiered(units, bands) if cumulative else price_volume(units, bands)


def round_units(number: Fraction, rounding: str) -> Fraction:
    """Units by an aggregation's rounding: up, down, to the nearest (halves up), or as they are."""
    if rounding == "UP":
        return Fraction(ceil(number))
    if rounding == "DOWN":
        return Fraction(floor(number))
    if rounding == "NEAREST":
        return Fraction(floor(number + Fraction(1, 2)))
    return number


def units_of(quantity: Fraction, aggregation: Row) -> Fraction:
    """The units of a quantity: divided by `quantityPerUnit`, then rounded."""
    per_unit = exact(aggregation.get("quantityPerUnit") or 1)
    return round_units(quotient(quantity, per_unit), aggregation.get("rounding") or "NONE")


def invert_tiered(amount: Fraction, bands: Sequence[Band], limit: Fraction) -> Fraction | None:
    """The most units (up to a limit) whose tiered price is at most an amount.

    None where prices fall with the units, so that there is no single answer.
    """
    if any(band.unit < 0 or band.fixed < 0 for band in bands):
        return None
    left, units = amount, Fraction(0)
    for number, band in enumerate(bands):
        top = bands[number + 1].lower if number + 1 < len(bands) else limit
        top = min(top, limit)
        if top <= band.lower:
            break
        if left < band.fixed:
            return units
        left -= band.fixed
        whole = (top - band.lower) * band.unit
        if left < whole:
            return band.lower + left / band.unit
        left, units = left - whole, top
    return units


def is_cumulative(pricing: Row) -> bool:
    return bool(pricing.get("cumulative"))


def bands_of(pricing: Row, field: str = "pricingBands") -> list[Band]:
    rows: Any = pricing.get(field)
    return read_bands(rows or ())
