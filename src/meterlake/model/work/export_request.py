"""What an export is asked for, and when those of a schedule are due."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from meterlake.model.calendar.recurrence import cron_times
from meterlake.model.configuration.exports import ExportSchedule, ScheduleType
from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.model.values.period import Month, Period, parse_instant
from meterlake.model.work.jobs import JobKind

# What the jobs of exports are called in State.
KIND: Final = JobKind.EXPORT
_UNITS: Final = {
    ScheduleType.MINUTE: timedelta(minutes=1),
    ScheduleType.HOUR: timedelta(hours=1),
    ScheduleType.DAY: timedelta(days=1),
}
# What an offset counts: minutes into the hour, hours into the day.
_PARTS: Final = {
    ScheduleType.HOUR: timedelta(minutes=1),
    ScheduleType.DAY: timedelta(hours=1),
}
# Leap days are eight years apart where a century has none.
_SELDOM: Final = timedelta(days=366 * 8)


class Source(StrEnum):
    """The two families of exports; one export has types of one family."""

    USAGE = "usage"
    OPERATIONAL = "operational"


class Format(StrEnum):
    """How the files of an export are written."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"

    @property
    def suffix(self) -> str:
        """The end of a file's name."""
        return ".parquet" if self is Format.PARQUET else f".{self.value}.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What is to be exported, how, and to where.

    Attributes:
        to: A folder, or an `s3://` or `gs://` URL, beside the destinations. An export that goes
            nowhere, and is not kept, goes to `exports/<organization>` of the home.
        destination_ids: Destinations of the organization.
        types: Names of `EXPORTS`; all of the source if there is none.
        month: Measurements, quantities and bills of this month of the organization only.
        usage: Which usage: from when until when, of which meters and accounts, folded or raw.
        changes_since: Entities that changed, or were deleted, from then on only.
        file_bytes: The size at which a file is followed by another one; the settings' if None.
        spreadsheet: Whether cells of CSV are made safe for programs that run formulas.
        keep: Whether the files are kept for their download, too.
    """

    source: Source
    format: Format = Format.CSV
    to: str | None = None
    destination_ids: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    month: Month | None = None
    usage: UsageQueryRequest = field(default_factory=UsageQueryRequest)
    changes_since: datetime | None = None
    file_bytes: int | None = None
    spreadsheet: bool = False
    keep: bool = False

    @property
    def period(self) -> Period | None:
        """The time of the usage, in UTC; None if it is not limited by instants."""
        start, end = self.usage.start_date, self.usage.end_date
        return None if start is None or end is None else Period(start, end)

    def to_wire(self) -> dict[str, Any]:
        """The request as the parameters of a job."""
        return {
            "source": self.source.value,
            "format": self.format.value,
            "to": self.to,
            "destinationIds": list(self.destination_ids),
            "types": list(self.types),
            "month": None if self.month is None else str(self.month),
            "usage": self.usage.model_dump(by_alias=True, exclude_none=True),
            "changesSince": self.changes_since,
            "fileBytes": self.file_bytes,
            "spreadsheet": self.spreadsheet,
            "keep": self.keep,
        }

    @classmethod
    def from_wire(cls, parameters: Mapping[str, Any]) -> "ExportRequest":
        """The request of a job; those of older versions say less."""
        since = parameters.get("changesSince")
        return cls(
            source=Source(parameters["source"]),
            format=Format(parameters["format"]),
            to=parameters.get("to"),
            destination_ids=tuple(parameters.get("destinationIds", ())),
            types=tuple(parameters["types"]),
            month=None if parameters.get("month") is None else Month.parse(parameters["month"]),
            usage=UsageQueryRequest.model_validate(parameters.get("usage", {}), by_alias=True),
            changes_since=parse_instant(since) if isinstance(since, str) else since,
            file_bytes=parameters.get("fileBytes"),
            spreadsheet=parameters.get("spreadsheet", False),
            keep=parameters.get("keep", False),
        )


def distance(schedule: ExportSchedule) -> timedelta | None:
    """The time between two runs; None where a cron expression decides."""
    if schedule.schedule_type is None:
        return None
    assert schedule.period is not None
    return schedule.period * _UNITS[schedule.schedule_type]


def first_by_clock(schedule: ExportSchedule, created: datetime) -> datetime:
    """What the regular runs are counted from: the creation, or the offset in its hour or day."""
    created = created.astimezone(UTC)
    if schedule.offset is None:
        return created
    assert schedule.schedule_type is not None
    begin = created.replace(minute=0, second=0, microsecond=0)
    if schedule.schedule_type is ScheduleType.DAY:
        begin = begin.replace(hour=0)
    return begin + schedule.offset * _PARTS[schedule.schedule_type]


def runs(
    schedule: ExportSchedule, created: datetime, after: datetime | None, until: datetime
) -> Iterator[datetime]:
    """When a schedule is due, the soonest first.

    Args:
        schedule: Its clock.
        created: When it was created; distances are counted from there whatever changes later.
        after: Only later than that; from the creation on, which is a run itself, if None.
        until: Not later than that.
    """
    if after is None:
        if created <= until:
            yield created
        after = created
    after = max(after, created)
    if schedule.cron_expression is not None:
        yield from cron_times(schedule.cron_expression, after, until)
        return
    start, step = first_by_clock(schedule, created), distance(schedule)
    assert step is not None
    due = start + ((after - start) // step + 1) * step
    while due <= until:
        yield due
        due += step


def next_run(schedule: ExportSchedule, created: datetime, now: datetime) -> datetime | None:
    """The next time at which it is due; None if it is disabled."""
    if not schedule.enabled:
        return None
    return next(runs(schedule, created, now, now + _SELDOM), None)
