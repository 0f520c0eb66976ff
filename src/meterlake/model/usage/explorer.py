"""Questions of the first Data Explorer: by codes instead of ids, about usage, bills, commitments."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from meterlake.model.bills.bill import LineItemType
from meterlake.model.catalog.catalog import Reduce
from meterlake.model.configuration.queries import Label
from meterlake.model.configuration.statements import AggregationFrequency
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Code, Instant, Integer, Text

# A filter that every value passes.
EVERY: Final = "*"
# The name of the dimension that the accounts are.
ACCOUNT: Final = "account"
PRODUCT: Final = "product name"


class AccountAttribute(StrEnum):
    """What is shown of an account besides its code."""

    ID = "id"
    CODE = "code"
    NAME = "name"


class DimensionQuery(Value):
    """A dimension to split by, and which of its values are wanted: `*` is every one."""

    name: Label
    filter: Annotated[tuple[Text, ...], Field(min_length=1, max_length=1000)]
    attributes: Annotated[tuple[Text, ...], Field(max_length=10)] = ()

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """The wanted values; None for every one."""
        return None if EVERY in self.filter else self.filter


class DataFieldMeasureQuery(Value):
    """A numeric field by its code, and how it is folded."""

    name: Label
    aggregations: Annotated[tuple[Reduce, ...], Field(min_length=1, max_length=7)]


Dimensions = Annotated[tuple[DimensionQuery, ...], Field(max_length=100)]
MeterCodes = Annotated[tuple[Code, ...], Field(max_length=100)]


class QueryUsageDataRequest(Value):
    """A series of folded fields; without meter codes, of every meter that has one of them."""

    meter_codes: MeterCodes
    start_date: Instant
    end_date: Instant
    aggregation_frequency: AggregationFrequency
    measures: Annotated[tuple[DataFieldMeasureQuery, ...], Field(min_length=1, max_length=30)]
    dimensions: Dimensions = ()
    limit: Annotated[Integer, Field(ge=1, le=5000)] = 5000


class QueryMeterDimensionsRequest(Value):
    """The values that a dimension of a meter has in a time."""

    meter_code: Code
    dimension_name: Label
    start_date: Instant
    end_date: Instant
    attributes: tuple[AccountAttribute, ...] = ()
    limit: Annotated[Integer, Field(ge=1, le=10_000)] = 10_000


class QueryDimensionValuesRequest(Value):
    """The values that a dimension has in a time over several meters; all of them without codes."""

    meter_codes: MeterCodes = ()
    dimension_name: Label
    start_date: Instant
    end_date: Instant
    attributes: tuple[AccountAttribute, ...] = ()
    limit: Annotated[Integer, Field(ge=1, le=10_000)] = 10_000


class QueryMetersRequest(Value):
    """The meters that have measurements in a time."""

    start_date: Instant
    end_date: Instant


class QueryBillDataRequest(Value):
    """Lines of bills by the date of the bill; dimensions are `account` and `product name`.

    A `version` changes nothing: what is asked is stored nowhere.
    """

    start_date: Instant
    end_date: Instant
    line_item_types: Annotated[tuple[LineItemType, ...], Field(min_length=1, max_length=100)]
    dimensions: Dimensions = ()
    version: Integer | None = None
    limit: Annotated[Integer, Field(ge=1, le=2000)] = 2000


class QueryCommitmentsRequest(Value):
    """Commitments of a time; the only dimension is `account`."""

    start_date: Instant
    end_date: Instant
    dimensions: Dimensions = ()
    limit: Annotated[Integer, Field(ge=1, le=2000)] = 2000
