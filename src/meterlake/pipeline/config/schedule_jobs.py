"""The jobs of export schedules: made with the schedule, and for each run that is due.

Configuration makes the first job of a schedule in the transaction that creates it; the rounds of
exports make the others.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from meterlake.model.catalog.catalog import Features
from meterlake.model.configuration.exports import AdHocExport, ExportSchedule, SourceType
from meterlake.model.configuration.queries import UsageQueryRequest, relative_period
from meterlake.model.values.entity import Record
from meterlake.model.work.export_request import KIND, ExportRequest, Format, Source
from meterlake.stages.export.exported_columns import FOCUS, MEASUREMENTS, operational
from meterlake.stores.state import Job, Reader, Transaction
from meterlake.stores.state.jobs import submit


def submit_first(transaction: Transaction, schedule: Record[Any]) -> None:
    """Make the job that a schedule has at its creation, unless it is disabled, or exports are."""
    if schedule.entity.enabled and exports_enabled(transaction):
        submit_run(transaction, schedule, schedule.created)


def exports_enabled(reader: Reader) -> bool:
    """Whether the organization has switched exports on, which are in preview.

    While they are off, nobody sees over the API what would go out, or can stop it.
    """
    return any(each.entity.preview for each in reader.all(Features))


def submit_run(
    transaction: Transaction, schedule: Record[ExportSchedule], due: datetime | None
) -> str:
    """Make the job of a run of a schedule; its id.

    Args:
        transaction: Makes it.
        schedule: The schedule.
        due: When the run is due; None for one beside the regular ones.
    """
    now = transaction.now
    job = Job(
        id=transaction.new_id(),
        org_id=transaction.org_id,
        kind=KIND,
        parameters=_request_of(schedule.entity, due or now).to_wire(),
        created=now,
        author=transaction.author,
        schedule_id=schedule.id,
        due=due,
    )
    submit(transaction.connection, job)
    return job.id


def export_request(
    export: AdHocExport | ExportSchedule, start: datetime | None, end: datetime | None
) -> ExportRequest:
    """What an export is to do.

    Args:
        export: What was written of it.
        start: When the usage begins; of operational data, what changed from then on, all if None.
        end: When the usage ends.
    """
    common = ExportRequest(
        source=Source(export.source_type.lower()),
        format=Format((export.export_file_format or "CSV").lower()),
        destination_ids=export.destination_ids,
        keep=True,
    )
    common = replace(common, types=exported_types(export))
    if export.source_type is SourceType.OPERATIONAL:
        return replace(common, changes_since=start)
    return replace(common, usage=UsageQueryRequest.of(export, start, end))


def exported_types(export: AdHocExport | ExportSchedule) -> tuple[str, ...]:
    """The names of what is exported."""
    if export.source_type is SourceType.USAGE:
        return (MEASUREMENTS.name,)
    types = [operational(each).name for each in export.operational_data_types]
    return (*types, FOCUS.name) if export.focus else tuple(types)


def _request_of(schedule: ExportSchedule, due: datetime) -> ExportRequest:
    """What a schedule exports in the run that is due at an instant."""
    if schedule.source_type is SourceType.OPERATIONAL:
        return export_request(schedule, None, None)
    assert schedule.time_period is not None
    period = relative_period(schedule.time_period, due)
    return export_request(schedule, period.start, period.end)
