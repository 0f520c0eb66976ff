"""Units priced by bands: which units in which band, times its price, and its fixed price."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from meterlake.model.bills.explanation import DerivationRule, ExplainedNumber
from meterlake.model.catalog.plans import PricingBand
from meterlake.stages.bill.explain.numbers import (
    cite,
    derive,
    multiply,
    omit_unknown,
    slice_units,
    total,
    with_key,
)
from meterlake.stages.bill.pricing import rate
from meterlake.stages.bill.pricing.rate import Slice


def explain_price(
    name: str,
    units: ExplainedNumber,
    bands: Sequence[PricingBand],
    cumulative: bool,
    currency: str,
    **facts: Any,
) -> ExplainedNumber:
    """What bands charge for units; exact.

    Args:
        name: What it is.
        units: What is priced.
        bands: In their order.
        cumulative: Whether every band charges for its own part.
        currency: Of the prices.
        facts: What else is known of the pricing.
    """
    assert units.value is not None
    slices = rate.slice_units(units.value, bands, cumulative=cumulative)
    shown = omit_unknown(
        {**facts, "cumulative": cumulative, "bands": [band_facts(each) for each in bands]}
    )
    if len(slices) == 1:
        found = _charge(slices[0], units, currency)
        return replace(found, name=name, facts={**found.facts, **shown})
    keyed = units if units.key else with_key(units, f"{name}/units")
    upper = {band.lower_limit: above.lower_limit for band, above in pairwise(bands)}
    charged = [
        _charge(
            each, slice_units(each, keyed, upper.get(each.band.lower_limit), is_cut=True), currency
        )
        for each in slices
    ]
    return derive(name, DerivationRule.BANDS, (keyed, *charged), currency, **shown)


def _charge(part: Slice, units: ExplainedNumber, currency: str) -> ExplainedNumber:
    band = part.band
    name = f"band from {band.lower_limit.normalize():f}"
    facts = omit_unknown({"pricingBandId": band.id})
    price = cite("unit price", band.unit_price, currency)
    if not (part.fixed and band.fixed_price):
        return multiply(name, units, price, unit=currency, **facts)
    by_units = multiply("units × price", units, price, unit=currency)
    return total(
        name, (by_units, cite("fixed price", band.fixed_price, currency)), currency, **facts
    )


def band_facts(band: PricingBand) -> dict[str, Any]:
    """A band as people read it."""
    return {
        "lowerLimit": band.lower_limit,
        "fixedPrice": band.fixed_price,
        "unitPrice": band.unit_price,
    }
