"""Rules of exports: what each variant needs, and how often a schedule may run."""

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from meterlake.model.calendar.recurrence import parse_cron, shortest_gap
from meterlake.model.configuration.exports import (
    AdHocExport,
    DataExportDestinationType,
    ExportDestination,
    ExportSchedule,
    ScheduleType,
    SourceType,
    of_other_sources,
    of_other_types,
)
from meterlake.model.errors import Invalid, Required
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.queries import check_dates, check_question
from meterlake.model.rules.references import existing
from meterlake.model.rules.spans import wire_text
from meterlake.model.values.entity import Configuration, Value

_NEEDED: Final = {
    DataExportDestinationType.S3: {"iam_role_arn": "iamRoleArn"},
    DataExportDestinationType.GCS: {
        "project_number": "projectNumber",
        "pool_id": "poolId",
        "provider_id": "providerId",
    },
    DataExportDestinationType.LOCAL: {},
}
# Of 900 bytes of a key, names below the prefix need less than 400.
_PREFIX_BYTES_MAX: Final = 500
_UNPRINTED: Final = re.compile(r"[\x00-\x1f\x7f\\]")
# Of folders and of every cloud's buckets.
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHORTEST_MINUTES: Final = 15
# The least and the greatest period of each unit: 15 minutes to 3 days.
_PERIODS: Final = {
    ScheduleType.MINUTE: (_SHORTEST_MINUTES, 3 * 24 * 60),
    ScheduleType.HOUR: (1, 3 * 24),
    ScheduleType.DAY: (1, 3),
}
# The greatest offset: minutes into the hour, hours into the day.
_OFFSETS: Final = {ScheduleType.HOUR: 59, ScheduleType.DAY: 23}


def needed_of(type: DataExportDestinationType) -> tuple[str, ...]:
    """What a destination of a type must have beside name and bucket, by the wire's names."""
    return tuple(_NEEDED[type].values())


def destination_complete(new: Proposed[ExportDestination]) -> None:
    """A destination has all that its type needs, and names that lead nowhere else."""
    destination, type_ = new.entity, new.entity.destination_type
    for attribute, name in _NEEDED[type_].items():
        if getattr(destination, attribute) is None:
            raise Required(name)
    _check_absent(destination, of_other_types(type_), f"destinationType is {type_}")
    if not _BUCKET.fullmatch(destination.bucket_name):
        rule = (
            "it must be made of letters, digits, '.', '_' and '-', the first one a letter or digit"
        )
        raise Invalid("bucketName", destination.bucket_name, rule)
    # What the names of objects begin with is a path that goes down.
    prefix = (destination.prefix or "").strip("/")
    parts = prefix.split("/") if prefix else []
    if any(part in {"", ".", ".."} for part in parts):
        raise Invalid(
            "prefix", prefix, "it must be parts between single slashes, none of them . or .."
        )
    if _UNPRINTED.search(prefix):
        raise Invalid(
            "prefix", prefix, "it must be text without control characters and backslashes"
        )
    if len(prefix.encode()) > _PREFIX_BYTES_MAX:
        raise Invalid("prefix", prefix, f"it must have at most {_PREFIX_BYTES_MAX} bytes")


def _check_source(export: ExportSchedule | AdHocExport) -> None:
    """Usage or operational data, never both."""
    source = export.source_type
    _check_absent(export, of_other_sources(source), f"sourceType is {source}")


def _check_absent(export: Value, foreign: Collection[str], where: str) -> None:
    for attribute, field in type(export).model_fields.items():
        name, value = str(field.alias), getattr(export, attribute)
        if name in foreign and value:
            raise Invalid(name, value, f"it has no meaning where {where}; leave it out")


def _check_types(export: ExportSchedule | AdHocExport) -> None:
    if not export.operational_data_types and not export.focus:
        raise Required("operationalDataTypes")


def source_complete(new: Proposed[ExportSchedule]) -> None:
    """An export says what it exports: kinds of entities, or usage of a time."""
    schedule = new.entity
    _check_source(schedule)
    if schedule.source_type is SourceType.OPERATIONAL:
        _check_types(schedule)
        return
    if schedule.time_period is None:
        raise Required("timePeriod")
    check_question(schedule, new.configuration)


def check_ad_hoc(export: AdHocExport, configuration: Configuration, now: datetime) -> None:
    """An export that is asked for once says what it exports, of a time that is not still to come.

    Raises:
        Invalid: It does not.
    """
    _check_source(export)
    for number, id_ in enumerate(export.destination_ids):
        existing(ExportDestination, f"destinationIds[{number}]", id_, configuration)
    if export.source_type is SourceType.OPERATIONAL:
        _check_types(export)
        if export.end_date is not None:
            rule = "leave it out where sourceType is OPERATIONAL: a row is what an entity is now"
            raise Invalid("endDate", wire_text(export.end_date), rule)
        if export.start_date is not None and export.start_date > now:
            raise Invalid("startDate", wire_text(export.start_date), "it must be now or earlier")
    else:
        period = check_dates(export.start_date, export.end_date)
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        tomorrow = midnight + timedelta(days=1)
        if period.end > tomorrow:
            raise Invalid(
                "endDate", wire_text(period.end), f"it must be {wire_text(tomorrow)} or earlier"
            )
        check_question(export, configuration)


def runs_by_one_clock(new: Proposed[ExportSchedule]) -> None:
    """A schedule runs every so often, or by a cron expression; 15 minutes apart at least."""
    schedule = new.entity
    if (schedule.schedule_type is None) is (schedule.cron_expression is None):
        given = schedule.schedule_type.value if schedule.schedule_type else None
        raise Invalid("scheduleType", given, "give exactly one of scheduleType and cronExpression")
    if schedule.cron_expression is None:
        _check_period(schedule)
        return
    for name in ("period", "offset"):
        if getattr(schedule, name) is not None:
            raise Invalid(
                name, getattr(schedule, name), "the cronExpression says when; leave it out"
            )
    cron = parse_cron("cronExpression", schedule.cron_expression)
    if shortest_gap(cron) < _SHORTEST_MINUTES:
        rule = f"its runs are too close; let there be {_SHORTEST_MINUTES} minutes between them at least"
        raise Invalid("cronExpression", schedule.cron_expression, rule)


def _check_period(schedule: ExportSchedule) -> None:
    unit, period, offset = schedule.schedule_type, schedule.period, schedule.offset
    assert unit is not None
    if period is None:
        raise Required("period")
    least, most = _PERIODS[unit]
    if not least <= period <= most:
        raise Invalid("period", period, f"it must be {least} to {most} for {unit}")
    if offset is None:
        return
    if unit not in _OFFSETS:
        raise Invalid("offset", offset, f"leave it out for {unit}")
    if offset > _OFFSETS[unit]:
        raise Invalid("offset", offset, f"it must be at most {_OFFSETS[unit]} for {unit}")
