"""Questions about usage: what of which meters, folded and grouped how; saved under a name."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from meterlake.model.entity import Entity, Value
from meterlake.model.fields import Id, Instant, Integer, LongText

Label = Annotated[LongText, Field(min_length=1)]


class TimePeriod(StrEnum):
    """A time relative to the moment at which a query or an export runs, in UTC."""

    TODAY = "TODAY"
    YESTERDAY = "YESTERDAY"
    WEEK_TO_DATE = "WEEK_TO_DATE"
    MONTH_TO_DATE = "MONTH_TO_DATE"
    YEAR_TO_DATE = "YEAR_TO_DATE"
    PREVIOUS_WEEK = "PREVIOUS_WEEK"
    PREVIOUS_MONTH = "PREVIOUS_MONTH"
    PREVIOUS_QUARTER = "PREVIOUS_QUARTER"
    PREVIOUS_YEAR = "PREVIOUS_YEAR"
    LAST_12_HOURS = "LAST_12_HOURS"
    LAST_7_DAYS = "LAST_7_DAYS"
    LAST_30_DAYS = "LAST_30_DAYS"
    LAST_35_DAYS = "LAST_35_DAYS"
    LAST_90_DAYS = "LAST_90_DAYS"
    LAST_120_DAYS = "LAST_120_DAYS"
    LAST_YEAR = "LAST_YEAR"


class DataExplorerFieldType(StrEnum):
    """Whether a field holds texts or numbers."""

    DIMENSION = "DIMENSION"
    MEASURE = "MEASURE"


class DataExplorerAggregationFunction(StrEnum):
    """How the values of a field become one."""

    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"
    COUNT = "COUNT"
    LATEST = "LATEST"
    MEAN = "MEAN"
    UNIQUE = "UNIQUE"


class DataExplorerGroupType(StrEnum):
    """What usage is grouped by."""

    ACCOUNT = "ACCOUNT"
    DIMENSION = "DIMENSION"
    TIME = "TIME"


class DataExplorerUsageDataFrequency(StrEnum):
    """The length of a group in time."""

    DAY = "DAY"
    HOUR = "HOUR"
    WEEK = "WEEK"
    MONTH = "MONTH"
    QUARTER = "QUARTER"


class DataExplorerDimensionFilter(Value):
    """Only measurements whose field has one of some values."""

    meter_id: Id
    field_code: Label
    values: Annotated[tuple[LongText, ...], Field(min_length=1, max_length=1000)]


class DataExplorerAggregation(Value):
    """Folds one field of a meter."""

    meter_id: Id
    field_code: Label
    field_type: DataExplorerFieldType
    function: DataExplorerAggregationFunction


class DataExplorerGroup(Value):
    """One thing to group by: accounts, a field (`meterId`, `fieldCode`), or time (`frequency`)."""

    group_type: DataExplorerGroupType
    meter_id: Id | None = None
    field_code: Label | None = None
    frequency: DataExplorerUsageDataFrequency | None = None


MeterIds = Annotated[tuple[Id, ...], Field(max_length=1000)]
AccountIds = Annotated[tuple[Id, ...], Field(max_length=10_000)]
DimensionFilters = Annotated[tuple[DataExplorerDimensionFilter, ...], Field(max_length=100)]
Aggregations = Annotated[tuple[DataExplorerAggregation, ...], Field(max_length=100)]
Groups = Annotated[tuple[DataExplorerGroup, ...], Field(max_length=100)]


class UsageQuery(Value):
    """Which usage of a time, given by dates or relative to now."""

    start_date: Instant | None = None
    end_date: Instant | None = None
    time_period: TimePeriod | None = None
    meter_ids: MeterIds = ()
    account_ids: AccountIds = ()
    dimension_filters: DimensionFilters = ()
    aggregations: Aggregations = ()
    groups: Groups = ()
    limit: Annotated[Integer, Field(ge=1, le=20_000)] | None = None


class UsageSavedQuery(Entity):
    """A question about usage that is asked again."""

    name: Label
    usage_query: UsageQuery
