"""What a bill's statement of usage shows: by which dimensions, which measures, how finely."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.values.entity import Entity, Value
from meterlake.model.values.fields import Flag, Id, Text


class AggregationFrequency(StrEnum):
    """How much time one row of a statement covers."""

    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"
    QUARTER = "QUARTER"
    YEAR = "YEAR"
    WHOLE_PERIOD = "WHOLE_PERIOD"


class Dimension(Value):
    """A text field that rows are grouped by, and its values that are shown; `*` is all of them."""

    name: Annotated[Text, Field(min_length=1)]
    filter: Annotated[tuple[Text, ...], Field(min_length=1)]
    attributes: tuple[Text, ...] = ()
    meter_id: Id | None = None


class Measure(Value):
    """A number field that is aggregated; without a name, all of the meter."""

    meter_id: Id | None = None
    name: Text | None = None
    aggregations: Annotated[tuple[Reduce, ...], Field(max_length=7)] = ()


class StatementDefinition(Entity):
    """The layout of the statement of a bill."""

    aggregation_frequency: AggregationFrequency
    name: Text | None = None
    include_price_per_unit: Flag | None = None
    dimensions: tuple[Dimension, ...] = ()
    measures: tuple[Measure, ...] = ()
    generate_slim_statements: Flag | None = None
