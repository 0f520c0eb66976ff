"""Rules of exports: what each variant needs, and how often a schedule may run."""

from typing import Final

from meterlake.model.cron import Cron
from meterlake.model.errors import Invalid, Required
from meterlake.model.exports import (
    DataExportDestinationType,
    ExportDestination,
    ExportSchedule,
    ScheduleType,
    SourceType,
)
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.queries import check_selection

_NEEDED: Final = {
    DataExportDestinationType.S3: {"iam_role_arn": "iamRoleArn"},
    DataExportDestinationType.GCS: {
        "project_number": "projectNumber",
        "pool_id": "poolId",
        "provider_id": "providerId",
    },
}
_SHORTEST_MINUTES: Final = 15
# The least and the greatest period of each unit: 15 minutes to 3 days.
_PERIODS: Final = {
    ScheduleType.MINUTE: (_SHORTEST_MINUTES, 3 * 24 * 60),
    ScheduleType.HOUR: (1, 3 * 24),
    ScheduleType.DAY: (1, 3),
}
# The greatest offset: minutes into the hour, hours into the day.
_OFFSETS: Final = {ScheduleType.HOUR: 59, ScheduleType.DAY: 23}


def destination_complete(new: Proposed[ExportDestination]) -> None:
    """A destination has all that its type needs."""
    for attribute, name in _NEEDED[new.entity.destination_type].items():
        if getattr(new.entity, attribute) is None:
            raise Required(name)


def source_complete(new: Proposed[ExportSchedule]) -> None:
    """An export says what it exports: kinds of entities, or usage of a time."""
    schedule = new.entity
    if schedule.source_type is SourceType.OPERATIONAL:
        if not schedule.operational_data_types:
            raise Required("operationalDataTypes")
        return
    if schedule.time_period is None:
        raise Required("timePeriod")
    check_selection(schedule, new.around)


def runs_by_one_clock(new: Proposed[ExportSchedule]) -> None:
    """A schedule runs every so often, or by a cron expression; 15 minutes apart at least."""
    schedule = new.entity
    if (schedule.schedule_type is None) is (schedule.cron_expression is None):
        given = schedule.schedule_type.value if schedule.schedule_type else None
        raise Invalid("scheduleType", given, "exactly one of scheduleType and cronExpression")
    if schedule.cron_expression is None:
        _check_period(schedule)
        return
    for name in ("period", "offset"):
        if getattr(schedule, name) is not None:
            raise Invalid(name, getattr(schedule, name), "absent beside a cronExpression")
    cron = Cron.parse("cronExpression", schedule.cron_expression)
    if cron.shortest_gap() < _SHORTEST_MINUTES:
        rule = f"not more often than every {_SHORTEST_MINUTES} minutes"
        raise Invalid("cronExpression", schedule.cron_expression, rule)


def _check_period(schedule: ExportSchedule) -> None:
    unit, period, offset = schedule.schedule_type, schedule.period, schedule.offset
    assert unit is not None
    if period is None:
        raise Required("period")
    least, most = _PERIODS[unit]
    if not least <= period <= most:
        raise Invalid("period", period, f"{least} to {most} for {unit}")
    if offset is None:
        return
    if unit not in _OFFSETS:
        raise Invalid("offset", offset, f"absent for {unit}")
    if offset > _OFFSETS[unit]:
        raise Invalid("offset", offset, f"at most {_OFFSETS[unit]} for {unit}")
