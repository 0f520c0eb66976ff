"""What the manifest of an export says: what was asked for, what was read, and what was written."""

from collections.abc import Sequence
from typing import Any

from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.values.version import code_version
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.staging import ExportStaging
from meterlake.stages.export.manifest import WrittenFile
from meterlake.stores.state import Job
from meterlake.stores.state.core.past import known_at


def manifest_of(
    staging: ExportStaging, job: Job, request: ExportRequest, files: Sequence[WrittenFile]
) -> dict[str, Any]:
    """The manifest of files that are staged, in the words of the wire."""
    period = staging.period
    return {
        "jobId": job.id,
        "orgId": job.org_id,
        "organization": staging.stores.state.organization(job.org_id).code,
        "source": request.source.value,
        "format": request.format.value,
        "created": job.created,
        "period": None if period is None else {"start": period.start, "end": period.end},
        "snapshot": staging.snapshot,
        "configurationTime": staging.at,
        "changesSince": request.changes_since,
        "spreadsheet": request.spreadsheet and request.format is Format.CSV,
        "versions": _versions(staging, request.source),
        "rows": sum(file.rows for file in files),
        "bytes": sum(file.size_bytes for file in files),
        "files": [file.to_wire() for file in files],
    }


def _versions(staging: ExportStaging, source: Source) -> dict[str, Any]:
    """What the rows do not say themselves: of configuration, every row carries its version."""
    versions: dict[str, Any] = {"meterlake": code_version()}
    if source is Source.USAGE:
        with staging.stores.state.reading(staging.place.org_id) as reader:
            for kind in (Meter, Aggregation):
                known = known_at(reader, kind, staging.at)
                found = {each.id: each.version for each in known if each.modified <= staging.at}
                versions[kind.__name__] = dict(sorted(found.items()))
    return versions
