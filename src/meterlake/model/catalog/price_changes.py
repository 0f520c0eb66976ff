"""A new price in the place of one that there is: from when it holds, and its bands."""

from typing import Annotated

from pydantic import Field

from meterlake.model.catalog.pricing import PricingBand
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Id, Instant, Text

_NewBands = Annotated[tuple[PricingBand, ...], Field(min_length=1, max_length=1000)]
_Month = Annotated[Text, Field(min_length=7, max_length=7)]


class PriceChange(Value):
    """The bands that hold from an instant on, instead of those of a price."""

    start_date: Instant
    pricing_bands: _NewBands


class PriceChangePreview(Value):
    """What is asked of new bands: what they would do to bills of months."""

    pricing_bands: _NewBands
    account_ids: Annotated[tuple[Id, ...], Field(max_length=100)] = ()
    first_month: _Month
    last_month: _Month
