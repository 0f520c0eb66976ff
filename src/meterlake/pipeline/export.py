"""The verb `export`: measurements, quantities, bills and configuration as files with a manifest.

An export is a job. It pins the snapshot of the lake and reads the configuration as it was when the
job was created. Its files are written to a staging folder first, then put under names that follow
from the job, the manifest last. Whoever runs the job again after a crash continues: files that are
staged completely are put as they are, so that every attempt puts the same bytes.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from meterlake.model import wire
from meterlake.model.catalog import Aggregation, Meter
from meterlake.model.errors import Busy, Invalid, StaleVersion, Unavailable
from meterlake.model.failpoint import reached
from meterlake.model.period import Month
from meterlake.pipeline.export_staging import Staging, stage
from meterlake.pipeline.version import code_version
from meterlake.stages.export.manifest import WrittenFile
from meterlake.stages.export.names import Format, Place
from meterlake.stages.export.types import Source, exports_of
from meterlake.stores import Stores
from meterlake.stores.durable import make_folder, written
from meterlake.stores.locks import held
from meterlake.stores.objects import ObjectStore, open_objects
from meterlake.stores.state import Job, JobStatus

KIND: Final = "export"
_MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What is to be exported.

    Attributes:
        to: A folder, or an `s3://` or `gs://` URL; `exports/<organization>` of the home if None.
        month: Measurements, quantities and bills of this month only.
        types: Names of `EXPORTS`; all of the source if there is none.
    """

    source: Source
    format: Format
    to: str | None = None
    month: Month | None = None
    types: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The request as the parameters of a job."""
        return {
            "source": self.source.value,
            "format": self.format.value,
            "to": self.to,
            "month": None if self.month is None else str(self.month),
            "types": list(self.types),
        }

    @classmethod
    def from_wire(cls, parameters: Mapping[str, Any]) -> "ExportRequest":
        """The request of a job."""
        return cls(
            source=Source(parameters["source"]),
            format=Format(parameters["format"]),
            to=parameters["to"],
            month=None if parameters["month"] is None else Month.parse(parameters["month"]),
            types=tuple(parameters["types"]),
        )


@dataclass(frozen=True, slots=True)
class Exported:
    """An export that is complete; `manifest` is what the object at `manifest_url` says."""

    job_id: str
    url: str
    manifest_url: str
    manifest: dict[str, Any]

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(file["rows"] for file in self.manifest["files"])


def export(stores: Stores, org_id: str, request: ExportRequest) -> Exported:
    """Export an organization's data as files, and a manifest that is written last.

    Raises:
        Invalid: A type, the target or its credentials are not right.
        NotFound: The bucket does not exist.
        Unavailable: A disk or a network failed; `resume_export` can continue.
    """
    exports_of(request.source, request.types)
    if request.to is not None and "://" not in request.to:
        absolute = str(Path(request.to).absolute())
        request = ExportRequest.from_wire({**request.to_wire(), "to": absolute})
    _objects(stores, org_id, request)
    snapshot = stores.lake(org_id).snapshot()
    job = stores.state.jobs.start(org_id, KIND, request.to_wire(), snapshot)
    reached("export.started")
    return _ended(stores, job)


def resume_export(stores: Stores, job_id: str) -> Exported:
    """Complete an export that was interrupted; a complete one is returned as it is.

    It writes the same objects with the same bytes as the interrupted attempt would have.

    Raises:
        NotFound: There is no such job.
        Invalid: The job is no export.
        Busy: It is being worked on.
    """
    job = stores.state.jobs.get(job_id)
    if job.kind != KIND:
        raise Invalid("job", job_id, f"an export, not {job.kind}")
    if job.status is JobStatus.COMPLETE:
        return _complete(stores, job)
    return _ended(stores, stores.state.jobs.take_over(job_id))


def _ended(stores: Stores, job: Job) -> Exported:
    try:
        with _alone(_folder(stores, job)) as folder:
            exported = _run(stores, job, folder)
            job.result = {"manifest": exported.manifest_url, "rows": exported.rows}
            stores.state.jobs.finish(job)
            shutil.rmtree(folder)
    except Busy:
        raise
    except BaseException as error:
        with suppress(StaleVersion):  # another attempt has the job by now
            stores.state.jobs.finish(job, error=f"{type(error).__name__}: {error}")
        if not isinstance(error, Unavailable):
            shutil.rmtree(_folder(stores, job), ignore_errors=True)
        raise
    return exported


def _run(stores: Stores, job: Job, folder: Path) -> Exported:
    staged = folder / _MANIFEST
    if not staged.exists():
        _stage(stores, job, folder)
    document = staged.read_bytes()
    manifest: dict[str, Any] = wire.loads(document)
    objects = _objects(stores, job.org_id, ExportRequest.from_wire(job.parameters))
    for file in manifest["files"]:
        objects.put_file(file["key"], folder / Path(file["key"]).name, create_only=True)
        reached("export.file_put")
    key = _place(job).manifest_key()
    objects.put_bytes(key, document, create_only=True)
    reached("export.manifest_put")
    return Exported(job.id, objects.url(key).removesuffix(f"/{key}"), objects.url(key), manifest)


def _stage(stores: Stores, job: Job, folder: Path) -> None:
    """Write all files, and the manifest when they are there."""
    for left in folder.iterdir():
        if left.name != ".lock":
            left.unlink()
    request = ExportRequest.from_wire(job.parameters)
    assert job.snapshot is not None
    staging = Staging(
        stores=stores,
        place=_place(job),
        format=request.format,
        folder=folder,
        snapshot=job.snapshot,
        configuration=stores.state.configuration(job.org_id, job.created),
        month=request.month,
    )
    files = list(stage(staging, exports_of(request.source, request.types)))
    with written(folder / _MANIFEST) as path:
        document = wire.dumps(_manifest(staging, job, request, files))
        path.write_bytes(msgspec.json.format(document, indent=2) + b"\n")
    reached("export.staged")


def _manifest(
    staging: Staging, job: Job, request: ExportRequest, files: list[WrittenFile]
) -> dict[str, Any]:
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
        "versions": _versions(staging, request.source),
        "rows": sum(file.rows for file in files),
        "bytes": sum(file.size_bytes for file in files),
        "files": [file.to_wire() for file in files],
    }


def _versions(staging: Staging, source: Source) -> dict[str, Any]:
    """What the rows do not say themselves: of configuration, every row carries its version."""
    versions: dict[str, Any] = {"meterlake": code_version()}
    if source is Source.USAGE:
        for kind in (Meter, Aggregation):
            records = sorted(staging.configuration.all(kind), key=lambda record: record.id)
            versions[kind.__name__] = {record.id: record.version for record in records}
    return versions


def _complete(stores: Stores, job: Job) -> Exported:
    shutil.rmtree(_folder(stores, job), ignore_errors=True)
    objects = _objects(stores, job.org_id, ExportRequest.from_wire(job.parameters))
    key = _place(job).manifest_key()
    manifest: dict[str, Any] = wire.loads(objects.get(key))
    return Exported(job.id, objects.url(key).removesuffix(f"/{key}"), objects.url(key), manifest)


def _place(job: Job) -> Place:
    return Place(job.org_id, job.id, job.created)


def _objects(stores: Stores, org_id: str, request: ExportRequest) -> ObjectStore:
    code = stores.state.organization(org_id).code
    return open_objects(request.to or stores.home / "exports" / code, stores.settings)


def _folder(stores: Stores, job: Job) -> Path:
    return stores.home / "staging" / "exports" / job.id


@contextmanager
def _alone(folder: Path) -> Iterator[Path]:
    """The staging folder, for one process at a time; the system frees it when that one dies."""
    make_folder(folder)
    with held(folder / ".lock", Busy("export", f"another process writes {folder.name}")):
        yield folder
