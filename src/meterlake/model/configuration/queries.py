"""Questions about usage: what of which meters, folded and grouped how; saved under a name."""

from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol, Self

from pydantic import Field

from meterlake.model.values.entity import Entity, Value
from meterlake.model.values.fields import Id, Instant, Integer, LongText
from meterlake.model.values.period import Period

Label = Annotated[LongText, Field(min_length=1)]

# The most rows of one answer.
ROWS_MAX: Final = 20_000


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
    """One thing to group by: accounts, a field (`meterId`, `fieldCode`), or time (`frequency`).

    Units of time are those of UTC, or of the clocks of `timezone`.
    """

    group_type: DataExplorerGroupType
    meter_id: Id | None = None
    field_code: Label | None = None
    frequency: DataExplorerUsageDataFrequency | None = None
    timezone: Label | None = None


MeterIds = Annotated[tuple[Id, ...], Field(max_length=1000)]
AccountIds = Annotated[tuple[Id, ...], Field(max_length=10_000)]
DimensionFilters = Annotated[tuple[DataExplorerDimensionFilter, ...], Field(max_length=100)]
Aggregations = Annotated[tuple[DataExplorerAggregation, ...], Field(max_length=100)]
Groups = Annotated[tuple[DataExplorerGroup, ...], Field(max_length=100)]


# What names a field of a meter.
Part = DataExplorerDimensionFilter | DataExplorerAggregation | DataExplorerGroup


class Selection(Protocol):
    """What questions about usage and exports of usage have in common."""

    @property
    def meter_ids(self) -> tuple[str, ...]:
        """Which meters; all if none."""

    @property
    def account_ids(self) -> tuple[str, ...]:
        """Which accounts; all if none."""

    @property
    def dimension_filters(self) -> tuple[DataExplorerDimensionFilter, ...]:
        """Which values of fields are wanted."""

    @property
    def aggregations(self) -> tuple[DataExplorerAggregation, ...]:
        """Which fields are folded, and how."""

    @property
    def groups(self) -> tuple[DataExplorerGroup, ...]:
        """What folded fields are grouped by."""


class UsageQueryRequest(Value):
    """Which usage of a time, from `startDate` up to `endDate`."""

    start_date: Instant | None = None
    end_date: Instant | None = None
    meter_ids: MeterIds = ()
    account_ids: AccountIds = ()
    dimension_filters: DimensionFilters = ()
    aggregations: Aggregations = ()
    groups: Groups = ()
    limit: Annotated[Integer, Field(ge=1, le=ROWS_MAX)] | None = None

    @classmethod
    def of(cls, selected: Selection, start: datetime | None, end: datetime | None) -> Self:
        """What is selected, of a time."""
        return cls(
            start_date=start,
            end_date=end,
            meter_ids=selected.meter_ids,
            account_ids=selected.account_ids,
            dimension_filters=selected.dimension_filters,
            aggregations=selected.aggregations,
            groups=selected.groups,
        )


class UsageExplainRequest(UsageQueryRequest):
    """Which number of the answer to a question is explained: that of a row of the answer.

    `group` has the row, or of its members those by which the question groups. The question has one
    aggregation.
    """

    group: dict[str, Any] = Field(default_factory=dict)


class UsageQuery(UsageQueryRequest):
    """Which usage of a time, given by dates or relative to now."""

    time_period: TimePeriod | None = None


class UsageSavedQuery(Entity):
    """A question about usage that you keep, to ask it again."""

    name: Label
    usage_query: UsageQuery


_QUARTER_MONTHS: Final = 3
_LAST_HOURS: Final = timedelta(hours=12)
# Whole days, the last of which is yesterday.
_LAST_DAYS: Final = {
    TimePeriod.YESTERDAY: 1,
    TimePeriod.LAST_7_DAYS: 7,
    TimePeriod.LAST_30_DAYS: 30,
    TimePeriod.LAST_35_DAYS: 35,
    TimePeriod.LAST_90_DAYS: 90,
    TimePeriod.LAST_120_DAYS: 120,
    TimePeriod.LAST_YEAR: 365,
}
_TO_DATE: Final = {
    TimePeriod.TODAY: DataExplorerUsageDataFrequency.DAY,
    TimePeriod.WEEK_TO_DATE: DataExplorerUsageDataFrequency.WEEK,
    TimePeriod.MONTH_TO_DATE: DataExplorerUsageDataFrequency.MONTH,
    TimePeriod.YEAR_TO_DATE: None,
}
_PREVIOUS: Final = {
    TimePeriod.PREVIOUS_WEEK: DataExplorerUsageDataFrequency.WEEK,
    TimePeriod.PREVIOUS_MONTH: DataExplorerUsageDataFrequency.MONTH,
    TimePeriod.PREVIOUS_QUARTER: DataExplorerUsageDataFrequency.QUARTER,
    TimePeriod.PREVIOUS_YEAR: None,
}


def relative_period(time_period: TimePeriod, now: datetime, zone: tzinfo = UTC) -> Period:
    """The time that a relative one means at a moment, by the clocks of a zone.

    `…_TO_DATE` and TODAY end now, LAST_12_HOURS at the beginning of the hour, the others at the
    midnight before now or earlier; weeks begin on Monday, LAST_YEAR is 365 days.

    >>> str(relative_period(TimePeriod.LAST_30_DAYS, datetime(2024, 6, 15, 9, tzinfo=UTC)))
    '[2024-05-16T00:00:00Z, 2024-06-15T00:00:00Z)'

    Args:
        time_period: What is asked for.
        now: An aware instant.
        zone: Whose midnights count.
    """
    now = now.astimezone(zone)
    hour = now.replace(minute=0, second=0, microsecond=0).astimezone(UTC)
    midnight = datetime.combine(now.date(), time(), zone)
    if time_period is TimePeriod.LAST_12_HOURS:
        return Period(hour - _LAST_HOURS, hour)
    if time_period in _LAST_DAYS:
        start, end = midnight - timedelta(days=_LAST_DAYS[time_period]), midnight
    elif time_period in _TO_DATE:
        start, end = _begin(midnight, _TO_DATE[time_period]), now
    else:
        unit = _PREVIOUS[time_period]
        end = _begin(midnight, unit)
        start = _begin(end - timedelta(days=1), unit)
    return Period(start.astimezone(UTC), end.astimezone(UTC))


def _begin(midnight: datetime, unit: DataExplorerUsageDataFrequency | None) -> datetime:
    """When the unit that holds a day began; None is the year."""
    match unit:
        case None:
            return midnight.replace(month=1, day=1)
        case DataExplorerUsageDataFrequency.QUARTER:
            month = midnight.month - (midnight.month - 1) % _QUARTER_MONTHS
            return midnight.replace(month=month, day=1)
        case DataExplorerUsageDataFrequency.MONTH:
            return midnight.replace(day=1)
        case DataExplorerUsageDataFrequency.WEEK:
            return midnight - timedelta(days=midnight.weekday())
        case _:
            return midnight
