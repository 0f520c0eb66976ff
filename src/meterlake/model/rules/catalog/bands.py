"""Rules of price bands, and of where pricings of every kind stand."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from meterlake.model.catalog.pricing import PricingBand
from meterlake.model.errors import Invalid
from meterlake.model.rules.choice import exactly_one
from meterlake.model.rules.proposed import Proposed


def one_plan_or_template(new: Proposed[Any]) -> None:
    """A pricing belongs to a plan or to a template."""
    exactly_one(new.entity, "planId", "planTemplateId")


def bands_rise(new: Proposed[Any]) -> None:
    """Bands begin at 0 and rise, so that no quantity is without a price or has two."""
    check_bands("pricingBands", new.entity.pricing_bands)


def check_bands(name: str, bands: Sequence[PricingBand]) -> None:
    """Refuse bands that do not begin at 0 or do not rise.

    Raises:
        Invalid: They are such.
    """
    lowers = [band.lower_limit for band in bands]
    if lowers[0] != 0:
        raise Invalid(f"{name}[0].lowerLimit", lowers[0], "the first band must begin at 0")
    for index, (lower, upper) in enumerate(pairwise(lowers), start=1):
        if upper <= lower:
            raise Invalid(f"{name}[{index}].lowerLimit", upper, f"it must be more than {lower}")
