"""When the exports of a schedule are due: once at its creation, then by its clock, in UTC."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from meterlake.model.calendar.cron import cron_times
from meterlake.model.configuration.exports import ExportSchedule, ScheduleType

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
