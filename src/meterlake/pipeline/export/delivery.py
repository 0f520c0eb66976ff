"""Putting what an export staged to where it is wanted, or keeping it for its download.

If it fails, an event says so.
"""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from meterlake.model.configuration.exports import PartitionOrder
from meterlake.model.errors import MeterlakeError, NotFound
from meterlake.model.resources.events import Event, data
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import format_instant
from meterlake.model.work.export_request import ExportRequest
from meterlake.pipeline.export.destinations import destination_of
from meterlake.pipeline.jobs.attempt import Attempt, Patience
from meterlake.stages.export.manifest import ObjectPrefix, arrange_key
from meterlake.stores import Organization, Stores
from meterlake.stores.files.durable import write_durably
from meterlake.stores.objects import ObjectStore, open_objects
from meterlake.stores.state import Job, JobStatus, Transaction
from meterlake.stores.state.events import events

# Members of a zip carry a time; that of the files would change from attempt to attempt.
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_BLOCK: Final = 1 << 20
FAILURE: Final = "dataexport.job.failure"


@dataclass(frozen=True, slots=True)
class Target:
    """A place that an export goes to.

    Attributes:
        name: What people call it: the destination's code, or its URL.
        order: How its keys begin.
    """

    name: str
    objects: ObjectStore
    order: PartitionOrder = PartitionOrder.TIME_FIRST


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where the objects of an export are."""

    name: str
    url: str
    manifest_url: str

    def to_wire(self) -> dict[str, Any]:
        """As the job remembers it."""
        return {"name": self.name, "url": self.url, "manifest": self.manifest_url}

    @classmethod
    def from_wire(cls, told: dict[str, Any]) -> "Delivered":
        """As the job remembered it."""
        return cls(told["name"], told["url"], told["manifest"])


def targets_of(
    organization: Organization, request: ExportRequest, at: datetime | None = None
) -> tuple[Target, ...]:
    """The places that an export goes to, each once. Nothing is contacted yet.

    Args:
        organization: The organization.
        request: What is exported.
        at: When its job was made, if there is one: see `destination_of`.

    Raises:
        Invalid: A URL or the credentials are not right.
        NotFound: There is no such destination.
    """
    return tuple(opened() for opened in openers_of(organization, request, at))


def openers_of(
    organization: Organization, request: ExportRequest, at: datetime | None = None
) -> tuple[Callable[[], Target], ...]:
    """The same, each still to be opened: of several, one may be gone by now.

    What is called raises as `targets_of` says.
    """
    to, ids = request.to, dict.fromkeys(request.destination_ids)
    found = [partial(_destination, organization, id_, at) for id_ in ids]
    return tuple(found) if to is None else (partial(_folder, organization.stores, to), *found)


def _folder(stores: Stores, url: str) -> Target:
    return Target(url, open_objects(url, stores.settings))


def _destination(organization: Organization, id: str, at: datetime | None) -> Target:
    name, objects, order = destination_of(organization, id, at)
    return Target(name, objects, order)


def deliver(
    stores: Stores, attempt: Attempt, target: Target, manifest: dict[str, Any], folder: Path
) -> Delivered:
    """Put all files of an export, and then its manifest; what is there already stays.

    Args:
        stores: The home's stores.
        attempt: Hears how far it is.
        target: Where to.
        manifest: What is staged.
        folder: Where it is staged.

    Raises:
        Unavailable: It could not be put, also not after some tries.
        Altered: A staged file is not what it was.
        ObjectExists: There is something else under one of the names.
        Cancelled: The job is to stop; the manifest was not put.
    """
    objects, moved = target.objects, for_order(manifest, target.order)
    key = arrange_key(manifest_key(attempt.job), target.order)
    again = attempt.job.attempt > 1
    if again:
        clear_parts(attempt, target, manifest)
    attempt.tell(**{_delivered_member(target): 0})
    for number, file in enumerate(moved["files"], start=1):
        staged = folder / Path(file["key"]).name
        for trial in export_patience(stores, attempt):
            with trial:
                objects.put_file(
                    file["key"],
                    staged,
                    create_only=True,
                    look_first=again,
                    sha256=file["sha256"],
                )
        attempt.tell(**{_delivered_member(target): number})
        mark_step("export.file_put")
    clear_parts(attempt, target, manifest)
    attempt.go_on()
    document = encode_manifest(moved)
    for trial in export_patience(stores, attempt):
        with trial:
            objects.put_bytes(key, document, create_only=True)
    mark_step("export.manifest_put")
    return Delivered(target.name, objects.url(key).removesuffix(f"/{key}"), objects.url(key))


def clear_parts(attempt: Attempt, target: Target, manifest: dict[str, Any]) -> None:
    """Throw away half-put objects of attempts that were killed, or cut off while they did so.

    Who may not look for them exports all the same: the bucket's own rules remove them some day.
    """
    keys = [file["key"] for file in for_order(manifest, target.order)["files"]]
    keys.append(arrange_key(manifest_key(attempt.job), target.order))
    left = None
    try:
        target.objects.abort_uploads(keys)
    except NotFound:
        pass  # Without a bucket there are none.
    except MeterlakeError as error:
        left = str(error)
    attempt.tell(**{f"parts left {target.name}": left})


def may_be_delivered(attempt: Attempt, target: Target) -> bool:
    """Whether anything of the job may have been put there, by this attempt or by one before it."""
    return attempt.job.attempt > 1 or _delivered_member(target) in attempt.job.progress


def _delivered_member(target: Target) -> str:
    """The member of the progress that counts the files which are there."""
    return f"delivered {target.name}"


def export_patience(stores: Stores, attempt: Attempt) -> Patience:
    """How often an export waits for a world that fails, as the settings say."""
    settings = stores.settings
    return Patience(attempt, settings.export_attempts, settings.export_retry_seconds)


def manifest_key(job: Job) -> str:
    """The key of a job's manifest where the time comes first."""
    return ObjectPrefix(job.org_id, job.id, job.created).manifest_key()


def for_order(manifest: dict[str, Any], order: PartitionOrder) -> dict[str, Any]:
    """A manifest with the keys of a place."""
    files = [file | {"key": arrange_key(file["key"], order)} for file in manifest["files"]]
    return manifest | {"files": files}


def encode_manifest(manifest: dict[str, Any]) -> bytes:
    """A manifest as the bytes of its object."""
    return msgspec.json.format(wire.dumps(manifest), indent=2) + b"\n"


def keep_for_download(stores: Stores, job: Job, manifest: dict[str, Any], folder: Path) -> str:
    """Keep an export for its download: its only file as it is, several in one zip.

    Returns:
        The key in the home's object store; its last part is the name for whoever saves it.
    """
    files = manifest["files"]
    stores.objects.put_bytes(kept_manifest(job), encode_manifest(manifest))
    if len(files) == 1:
        name = Path(files[0]["key"]).name
        key = f"{kept_prefix(job)}{name}"
        stores.objects.put_file(key, folder / name, sha256=files[0]["sha256"])
        return key
    name = f"{job.id}.zip"
    path = folder / name
    with (
        write_durably(path) as temporary,
        # The members are compressed already.
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
    ):
        for file in manifest["files"]:
            member_name = Path(file["key"]).name
            member = zipfile.ZipInfo(member_name, _EPOCH)
            with (
                (folder / member_name).open("rb") as source,
                archive.open(member, "w", force_zip64=True) as target,
            ):
                while block := source.read(_BLOCK):
                    target.write(block)
        archive.writestr(zipfile.ZipInfo("manifest.json", _EPOCH), encode_manifest(manifest))
    stores.objects.put_file(f"{kept_prefix(job)}{name}", path)
    path.unlink()
    return f"{kept_prefix(job)}{name}"


def kept_manifest(job: Job) -> str:
    """The key of the manifest beside what is kept of a job, in the home's object store."""
    return f"{kept_prefix(job)}manifest.json"


def kept_prefix(job: Job) -> str:
    """What the keys of what is kept of a job begin with, in the home's object store."""
    return f"exports/{job.org_id}/{job.id}/"


def note_failure_event(transaction: Transaction, job: Job, _: Job) -> None:
    """Note the event of a job that failed; no other end has one."""
    if job.status is not JobStatus.FAILED:
        return
    told = {
        "jobId": job.id,
        "scheduleId": job.schedule_id,
        "date": format_instant(transaction.now),
        "message": job.error,
    }
    id_ = derived_id("export-failure", job.id, str(job.attempt))
    event = Event(FAILURE, "DataExportJob", job.id, data(told, None))
    events.write(transaction.connection, job.org_id, transaction.now, lambda: id_, event)
