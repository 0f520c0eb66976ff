"""By how much prices of plans change, and from which day on."""

from typing import Annotated

from pydantic import Field

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Day, Integer, NonNegative, Positive, Text

_Name = Annotated[Text, Field(min_length=1, max_length=200)]


class PriceFactor(Value):
    """A factor, or a new unit price, for the prices of a plan, of an aggregation, or of one on the other.

    `aggregation` is the code of what is priced: an aggregation, a compound one, or a counter. A unit
    price is that of the band that begins above `lowerLimit`; a price of one band needs no limit.
    """

    by: Positive | None = None
    unit_price: NonNegative | None = None
    lower_limit: NonNegative | None = None
    plan: _Name | None = None
    aggregation: _Name | None = None


class PriceScale(Value):
    """How prices change: those of some plans, by a factor or by a table, from a day on.

    The row of the table that says most of a price decides, and `by` where none fits.
    """

    plans: Annotated[tuple[_Name, ...], Field(min_length=1, max_length=1000)]
    start: Annotated[Day, Field(alias="from")]
    by: Positive | None = None
    factors: Annotated[tuple[PriceFactor, ...], Field(max_length=10_000)] = ()
    decimals: Annotated[Integer, Field(ge=0, le=20)] | None = None
