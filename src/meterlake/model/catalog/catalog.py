"""What is measured and how it is folded: products, meters with their fields, aggregations.

Which stages of features an organization has enabled.
"""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from meterlake.model.calculation import lookup_codes
from meterlake.model.measurements.measurement import Category
from meterlake.model.values.entity import Entity, Value
from meterlake.model.values.fields import (
    Code,
    CustomFieldMap,
    Flag,
    Id,
    Ident,
    LongText,
    Name,
    NonNegative,
    Positive,
    Text,
    Unit,
)
from meterlake.model.values.money import Rounding

# In a segment: whatever the value is.
ANY_VALUE: Final = "*"
# In a calculation: text in quotes, whose inside means nothing, and the codes of aggregations.
QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_AGGREGATION: Final = re.compile(r"(?<![\w$.])aggregation\s*\.\s*((?:[^\W\d]|\$)(?:\w|\$)*)")


class Reduce(StrEnum):
    """How the values of a field become one quantity: the contract's `Aggregation` enum, and more."""

    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"
    COUNT = "COUNT"
    LATEST = "LATEST"
    MEAN = "MEAN"
    UNIQUE = "UNIQUE"
    CUSTOM_SQL = "CUSTOM_SQL"
    # Beyond the contract.
    PERCENTILE = "PERCENTILE"
    TIME_WEIGHTED_AVERAGE = "TIME_WEIGHTED_AVERAGE"


class Product(Entity):
    """A product that a customer buys: the container of meters, aggregations and plans."""

    name: Name
    code: Code
    custom_fields: CustomFieldMap = Field(default_factory=dict)


class MeterGroup(Entity):
    """Meters that belong together when you look at usage; a group changes no number."""

    name: Name


class DataField(Value):
    """One field that every measurement of a meter carries."""

    category: Category
    code: Ident
    name: Name
    unit: Unit | None = None


class DerivedField(Value):
    """A field that is calculated from the others at ingest."""

    category: Category
    code: Ident
    name: Name
    calculation: Annotated[LongText, Field(min_length=1)]
    unit: Unit | None = None


class Meter(Entity):
    """A kind of measurement and its fields; without a product it is global."""

    # An update replaces all fields: whoever forgets them would take them away.
    required_in_requests: ClassVar[tuple[str, ...]] = ("derivedFields",)

    name: Name
    code: Code
    data_fields: Annotated[tuple[DataField, ...], Field(min_length=1, max_length=15)]
    derived_fields: Annotated[tuple[DerivedField, ...], Field(max_length=15)] = ()
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    product_id: Id | None = None
    group_id: Id | None = None

    @property
    def all_fields(self) -> tuple[DataField | DerivedField, ...]:
        """Its data fields and after them its derived fields."""
        return (*self.data_fields, *self.derived_fields)

    @property
    def lookup_tables(self) -> tuple[str, ...]:
        """The codes of the lookup tables that its calculations read, each once."""
        return lookup_codes(field.calculation for field in self.derived_fields)

    def category(self, code: str) -> Category | None:
        """The category of a data field or derived field, or None if the meter has no such field."""
        return next((field.category for field in self.all_fields if field.code == code), None)


class Aggregation(Entity):
    """The way from one field of a meter to a quantity, and to the priced units.

    `percentile`, of an aggregation PERCENTILE, is the share of the values, in percent, that are
    not larger than the quantity.
    """

    name: Name
    rounding: Rounding
    quantity_per_unit: Positive
    unit: Unit
    meter_id: Id
    target_field: Annotated[Text, Field(min_length=1, max_length=80)]
    aggregation: Reduce
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    code: Ident | None = None
    accounting_product_id: Id | None = None
    segmented_fields: Annotated[tuple[Text, ...], Field(max_length=5)] = ()
    segments: Annotated[tuple[dict[Text, Text], ...], Field(max_length=1000)] = ()
    default_value: NonNegative | None = None
    custom_sql: Annotated[Text, Field(max_length=2048)] | None = None
    percentile: Annotated[Positive, Field(le=100)] | None = None


class CompoundAggregation(Entity):
    """A calculation with the quantities of aggregations; without a product it is global."""

    name: Name
    rounding: Rounding
    quantity_per_unit: Positive
    unit: Unit
    calculation: Annotated[LongText, Field(min_length=1)]
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    code: Ident | None = None
    accounting_product_id: Id | None = None
    product_id: Id | None = None
    evaluate_null_aggregations: Flag = False

    @property
    def aggregation_codes(self) -> tuple[str, ...]:
        """The codes of the aggregations that its calculation reads, each once."""
        found = _AGGREGATION.findall(QUOTED.sub(" ", self.calculation))
        return tuple(dict.fromkeys(found))


class Features(Entity):
    """The stages, beta and preview, of which you use resources; you cannot use them before."""

    beta: Flag = False
    preview: Flag = False
