"""Rules of questions about usage, whoever asks them: a saved query or an export."""

from typing import Final, Protocol

from meterlake.model.catalog import Meter
from meterlake.model.entity import Configuration
from meterlake.model.errors import Invalid, Required
from meterlake.model.measurement import Category
from meterlake.model.queries import (
    DataExplorerAggregation,
    DataExplorerAggregationFunction,
    DataExplorerDimensionFilter,
    DataExplorerFieldType,
    DataExplorerGroup,
    DataExplorerGroupType,
    UsageSavedQuery,
)
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.spans import shown

_DIMENSION: Final = DataExplorerFieldType.DIMENSION
_MEASURE: Final = DataExplorerFieldType.MEASURE
_UNIQUE: Final = DataExplorerAggregationFunction.UNIQUE
_OF_TEXTS: Final = frozenset({DataExplorerAggregationFunction.COUNT, _UNIQUE})


class Selection(Protocol):
    """What a saved query and an export of usage have in common."""

    @property
    def dimension_filters(self) -> tuple[DataExplorerDimensionFilter, ...]:
        """Which values of fields are wanted."""

    @property
    def aggregations(self) -> tuple[DataExplorerAggregation, ...]:
        """Which fields are folded, and how."""

    @property
    def groups(self) -> tuple[DataExplorerGroup, ...]:
        """What folded fields are grouped by."""


def saved_query_fits(new: Proposed[UsageSavedQuery]) -> None:
    """The query's time is given in one way, and its fields exist."""
    query = new.entity.usage_query
    dates = [query.start_date, query.end_date]
    if query.time_period is not None and any(dates):
        rule = "absent where there is a startDate or an endDate"
        raise Invalid("usageQuery.timePeriod", query.time_period.value, rule)
    if query.time_period is None and not all(dates):
        missing = "startDate" if query.start_date is None else "endDate"
        raise Required(f"usageQuery.{missing}")
    if query.start_date and query.end_date and query.end_date <= query.start_date:
        rule = f"after startDate {shown(query.start_date)}"
        raise Invalid("usageQuery.endDate", shown(query.end_date), rule)
    check_selection(query, new.around, "usageQuery.")


def check_selection(selection: Selection, around: Configuration, place: str = "") -> None:
    """Fields exist and hold what is asked of them; groups group what is folded.

    Raises:
        Invalid: Something does not fit.
    """
    for index, each in enumerate(selection.dimension_filters):
        _check_field(each, _DIMENSION, around, f"{place}dimensionFilters[{index}]")
    for index, aggregation in enumerate(selection.aggregations):
        here = f"{place}aggregations[{index}]"
        _check_field(aggregation, aggregation.field_type, around, here)
        _check_function(aggregation, here)
    if selection.groups and not selection.aggregations:
        raise Required(f"{place}aggregations")
    for index, group in enumerate(selection.groups):
        _check_group(group, around, f"{place}groups[{index}]")


def _check_function(aggregation: DataExplorerAggregation, place: str) -> None:
    function = aggregation.function
    if aggregation.field_type is _DIMENSION and function not in _OF_TEXTS:
        raise Invalid(f"{place}.function", function.value, "COUNT or UNIQUE of a DIMENSION")
    if aggregation.field_type is _MEASURE and function is _UNIQUE:
        raise Invalid(f"{place}.function", function.value, "any but UNIQUE of a MEASURE")


def _check_group(group: DataExplorerGroup, around: Configuration, place: str) -> None:
    if group.group_type is DataExplorerGroupType.TIME and group.frequency is None:
        raise Required(f"{place}.frequency")
    if group.group_type is not DataExplorerGroupType.DIMENSION:
        return
    if group.meter_id is None or group.field_code is None:
        raise Required(f"{place}.{'meterId' if group.meter_id is None else 'fieldCode'}")
    _check_code(group.meter_id, group.field_code, _DIMENSION, around, place)


def _check_field(
    field: DataExplorerDimensionFilter | DataExplorerAggregation,
    wanted: DataExplorerFieldType,
    around: Configuration,
    place: str,
) -> None:
    _check_code(field.meter_id, field.field_code, wanted, around, place)


def _check_code(
    meter_id: str, code: str, wanted: DataExplorerFieldType, around: Configuration, place: str
) -> None:
    meter = around.get(Meter, meter_id).entity
    category = _category(meter, code)
    if category is None:
        raise Invalid(f"{place}.fieldCode", code, f"a field of meter {meter.code!r}")
    if category.numeric is (wanted is _DIMENSION):
        held = "texts" if wanted is _DIMENSION else "numbers"
        rule = f"a field of {held} for a {wanted}; it is a {category} field"
        raise Invalid(f"{place}.fieldCode", code, rule)


def _category(meter: Meter, code: str) -> Category | None:
    derived = {field.code: field.category for field in meter.derived_fields}
    return meter.category(code) or derived.get(code)
