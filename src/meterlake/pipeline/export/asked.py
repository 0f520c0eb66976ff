"""From what callers of the API write of an export, once or in a schedule, to what its job does."""

from dataclasses import replace
from datetime import datetime

from meterlake.model.export_request import ExportRequest, Format, Source
from meterlake.model.exports import AdHocExport, ExportSchedule, SourceType
from meterlake.model.queries import UsageQueryRequest
from meterlake.stages.export.types import FOCUS, operational


def request_of(
    asked: AdHocExport | ExportSchedule, start: datetime | None, end: datetime | None
) -> ExportRequest:
    """What an export is to do.

    Args:
        asked: What was written of it.
        start: When the usage begins; of operational data, what changed from then on, all if None.
        end: When the usage ends.
    """
    common = ExportRequest(
        source=Source(asked.source_type.lower()),
        format=Format((asked.export_file_format or "CSV").lower()),
        destination_ids=asked.destination_ids,
        keep=True,
    )
    if asked.source_type is SourceType.OPERATIONAL:
        types = [operational(each).name for each in asked.operational_data_types]
        types += [FOCUS.name] * asked.focus
        return replace(common, types=tuple(types), changes_since=start)
    usage = UsageQueryRequest.of(asked, start, end)
    return replace(common, types=("measurements",), usage=usage)
