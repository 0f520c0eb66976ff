"""Rules of questions about usage, whoever asks them: a saved query or an export."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.queries import (
    DataExplorerAggregation,
    DataExplorerAggregationFunction,
    DataExplorerDimensionFilter,
    DataExplorerFieldType,
    DataExplorerGroup,
    DataExplorerGroupType,
    Part,
    Selection,
    UsageSavedQuery,
)
from meterlake.model.errors import Invalid, Required
from meterlake.model.measurements.measurement import Category
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.spans import wire_text
from meterlake.model.values.entity import Configuration
from meterlake.model.values.period import Period, zone

_DIMENSION: Final = DataExplorerFieldType.DIMENSION
_MEASURE: Final = DataExplorerFieldType.MEASURE
_UNIQUE: Final = DataExplorerAggregationFunction.UNIQUE
_OF_TEXTS: Final = frozenset({DataExplorerAggregationFunction.COUNT, _UNIQUE})


def saved_query_fits(new: Proposed[UsageSavedQuery]) -> None:
    """The query's time is given in one way, and its fields exist."""
    query = new.entity.usage_query
    dates = [query.start_date, query.end_date]
    if query.time_period is not None and any(dates):
        rule = "startDate and endDate give the time already; leave it out, or leave them out"
        raise Invalid("usageQuery.timePeriod", query.time_period.value, rule)
    if query.time_period is None:
        check_dates(query.start_date, query.end_date, "usageQuery.")
    check_question(query, new.configuration, "usageQuery.")


def check_dates(start: datetime | None, end: datetime | None, location: str = "") -> Period:
    """Both dates are there, the end after the start.

    Raises:
        Invalid: One is missing, or they are the wrong way round.
    """
    if start is None or end is None:
        raise Required(f"{location}{'startDate' if start is None else 'endDate'}")
    if end <= start:
        raise Invalid(
            f"{location}endDate", wire_text(end), f"it must be after startDate {wire_text(start)}"
        )
    return Period(start, end)


def check_question(query: Selection, configuration: Configuration, location: str = "") -> None:
    """What is asked fits the meters that it is asked of; these exist.

    Raises:
        Invalid: Something does not fit.
    """
    _check_selection(query, configuration, location)
    grouping = [each for each in query.groups if each.group_type is DataExplorerGroupType.DIMENSION]
    parts: dict[str, Sequence[Part]] = {
        "dimensionFilters": query.dimension_filters,
        "aggregations": query.aggregations,
        "groups": grouping,
    }
    for name in parts if query.meter_ids else ():
        for part in parts[name]:
            if part.meter_id not in query.meter_ids:
                raise Invalid(
                    f"{location}{name}.meterId", part.meter_id, "it must be one of meterIds"
                )
    aggregated = {each.meter_id for each in query.aggregations}
    for group in grouping:
        if group.meter_id not in aggregated:
            rule = "it must be the meter of one of the aggregations"
            raise Invalid(f"{location}groups.meterId", group.meter_id, rule)


def _check_selection(selection: Selection, configuration: Configuration, location: str) -> None:
    """Fields exist and hold what is asked of them; groups group what is folded."""
    for index, each in enumerate(selection.dimension_filters):
        here = f"{location}dimensionFilters[{index}]"
        category = _check_field(each, _DIMENSION, configuration, here)
        if not category.segmenting:
            rule = f"a {category} field cannot filter; choose a field of another category"
            raise Invalid(f"{here}.fieldCode", each.field_code, rule)
    for index, aggregation in enumerate(selection.aggregations):
        here = f"{location}aggregations[{index}]"
        _check_field(aggregation, aggregation.field_type, configuration, here)
        function = aggregation.function
        if aggregation.field_type is _DIMENSION and function not in _OF_TEXTS:
            raise Invalid(
                f"{here}.function",
                function.value,
                "a DIMENSION has only COUNT and UNIQUE; choose one of them",
            )
        if aggregation.field_type is _MEASURE and function is _UNIQUE:
            raise Invalid(
                f"{here}.function",
                function.value,
                "a MEASURE has no UNIQUE; choose another function",
            )
    if selection.groups and not selection.aggregations:
        raise Required(f"{location}aggregations")
    for index, group in enumerate(selection.groups):
        _check_group(group, configuration, f"{location}groups[{index}]")


def _check_group(group: DataExplorerGroup, configuration: Configuration, location: str) -> None:
    if group.group_type is DataExplorerGroupType.TIME and group.frequency is None:
        raise Required(f"{location}.frequency")
    if group.timezone is not None:
        try:
            zone(group.timezone)
        except Invalid:
            rule = "it must be a tz database name or an offset such as UTC+1:00"
            raise Invalid(f"{location}.timezone", group.timezone, rule) from None
    if group.group_type is not DataExplorerGroupType.DIMENSION:
        return
    if group.meter_id is None or group.field_code is None:
        raise Required(f"{location}.{'meterId' if group.meter_id is None else 'fieldCode'}")
    _check_code(group.meter_id, group.field_code, _DIMENSION, configuration, location)


def _check_field(
    field: DataExplorerDimensionFilter | DataExplorerAggregation,
    expected: DataExplorerFieldType,
    configuration: Configuration,
    location: str,
) -> Category:
    return _check_code(field.meter_id, field.field_code, expected, configuration, location)


def _check_code(
    meter_id: str,
    code: str,
    expected: DataExplorerFieldType,
    configuration: Configuration,
    location: str,
) -> Category:
    meter = configuration.get(Meter, meter_id).entity
    category = meter.category(code)
    if category is None:
        raise Invalid(f"{location}.fieldCode", code, f"it must be a field of meter {meter.code!r}")
    if category.numeric is (expected is _DIMENSION):
        kind = "texts" if expected is _DIMENSION else "numbers"
        rule = f"it must be a field of {kind} for a {expected}; it is a {category} field"
        raise Invalid(f"{location}.fieldCode", code, rule)
    return category
