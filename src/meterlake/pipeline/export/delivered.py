"""What an export delivered, read again where it lies: its manifest, its files, whether both fit."""

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from shutil import copyfileobj
from typing import Any, BinaryIO, Final

from meterlake.model.errors import Conflict, NotFound
from meterlake.model.work.export_request import KIND, ExportRequest
from meterlake.pipeline.export.delivery import (
    Delivered,
    kept_manifest,
    manifest_key,
    openers_of,
)
from meterlake.pipeline.export.jobs import download
from meterlake.pipeline.export.verify import compare_files, read_manifest
from meterlake.stages.export.manifest import ReadManifest, arrange_key
from meterlake.stores import Organization
from meterlake.stores.downloads import Download
from meterlake.stores.objects.base import checked_key
from meterlake.stores.state import Job, JobStatus

# More takes longer than somebody waits for an answer.
VERIFIED_BYTES_MAX: Final = 1 << 30
_BLOCK: Final = 1 << 18
_MEDIA: Final = {".json": "application/json", ".gz": "application/gzip"}


@dataclass(frozen=True, slots=True)
class DeliveredFiles:
    """The files of an export as they lie in one place.

    Attributes:
        place: What people call the place; empty for what the server keeps for the download.
        location: Where the manifest is.
        content: The manifest, byte by byte.
        manifest: The same, read.
        open: Opens the file of a key of the manifest.
    """

    place: str
    location: str
    manifest_name: str
    content: bytes
    manifest: ReadManifest
    open: Callable[[str], BinaryIO]


def read_delivered(organization: Organization, id: str, place: str | None = None) -> dict[str, Any]:
    """The manifest of a job as it lies in a place, with each of its files.

    Args:
        organization: The organization.
        id: The job.
        place: The code of a destination; the first one if None, or what the server keeps.

    Raises:
        NotFound: There is no such job or place, or the manifest is gone.
        Conflict: The job has not succeeded, or what the server kept of it is gone.
        Unavailable: A disk or a network failed.
    """
    with _delivered(organization, id, place) as found:
        manifest = found.manifest
        files = [
            {
                "name": _name(each.key),
                "key": each.key,
                "type": each.type,
                "meter": each.meter,
                "rows": each.rows,
                "bytes": each.bytes,
                "sha256": each.sha256,
            }
            for each in manifest.files
        ]
        told = {"jobId": id, "place": found.place, "format": manifest.format.value}
        counts = {"rows": manifest.rows, "bytes": manifest.bytes}
        return {**told, "manifest": found.manifest_name, "location": found.location} | {
            **counts,
            "files": files,
        }


def verify_delivered(
    organization: Organization, id: str, place: str | None = None
) -> dict[str, Any]:
    """Compare the files of a job with its manifest, as they lie in a place.

    Raises:
        NotFound: There is no such job or place, or the manifest is gone.
        Conflict: The job has not succeeded, or its files are too large for an answer.
        Unavailable: A disk or a network failed.
    """
    with _delivered(organization, id, place) as found:
        if found.manifest.bytes > VERIFIED_BYTES_MAX:
            raise Conflict(
                f"the files of the job {id} have more than {VERIFIED_BYTES_MAX:,} bytes;"
                f" run meterlake export verify {found.location}"
            )
        problems = compare_files(found.manifest, found.open)
        return {
            "jobId": id,
            "place": found.place,
            "files": len(found.manifest.files),
            "verified": not problems,
            "problems": [each.to_wire() for each in problems],
        }


def delivered_download(
    organization: Organization, id: str, name: str, place: str | None = None
) -> Download:
    """One file of a job, or its manifest, as a link gives it out.

    Raises:
        NotFound: There is no such job, place or file.
        Conflict: The job has not succeeded, or what the server kept of it is gone.
    """
    with _delivered(organization, id, place) as found:
        if name != found.manifest_name:
            _key_of(found.manifest, name, id)
        media = _MEDIA.get(f".{name.rpartition('.')[2]}", "application/octet-stream")
        return Download(name, name, media, export=f"{organization.id}/{id}/{found.place}")


def delivered_blocks(organization: Organization, id: str, place: str, name: str) -> Iterator[bytes]:
    """One file of a job, or its manifest, block by block; it is open when this returns.

    Raises:
        NotFound: There is no such job, place or file.
        Conflict: What the server kept of the job is gone.
        Unavailable: A disk or a network failed.
    """
    stack = ExitStack()
    try:
        found = stack.enter_context(_delivered(organization, id, place))
        if name == found.manifest_name:
            stream: BinaryIO = io.BytesIO(found.content)
        else:
            stream = found.open(_key_of(found.manifest, name, id))
        stack.callback(stream.close)
    except BaseException:
        stack.close()
        raise

    def blocks() -> Iterator[bytes]:
        with stack:
            while block := stream.read(_BLOCK):
                yield block

    return blocks()


@contextmanager
def _delivered(organization: Organization, id: str, place: str | None) -> Iterator[DeliveredFiles]:
    """The files of a job in a place; they are closed with it."""
    job = organization.state.jobs.find(organization.id, id, KIND)
    if job.status is not JobStatus.COMPLETE:
        raise Conflict(
            f"the job {id} has no files: {job.status.description}; wait, or export again"
        )
    places = [Delivered.from_wire(each) for each in job.result.get("places", ())]
    if place == "" or (place is None and not places):
        with _kept(organization, job) as kept:
            yield kept
        return
    for number, each in enumerate(places):
        if place in {None, each.name}:
            yield _placed(organization, job, number, each)
            return
    if not places:
        raise NotFound("place", str(place), f" of the job {id}; leave it out")
    known = ", ".join(each.name for each in places)
    raise NotFound("place", str(place), f" of the job {id}; give one of {known}")


def _placed(organization: Organization, job: Job, number: int, told: Delivered) -> DeliveredFiles:
    request = ExportRequest.from_wire(job.parameters)
    target = openers_of(organization, request, job.created)[number]()
    key = arrange_key(manifest_key(job), target.order)
    location = target.objects.url(key)
    content = target.objects.get(key)

    def open_file(key: str) -> BinaryIO:
        # Others may write there: a manifest that names what is not of its job leads nowhere.
        if not key.startswith(f"orgId={organization.id}/"):
            raise NotFound("file", key, "; it is none of this organization's: export again")
        return target.objects.open(checked_key(key))

    manifest = read_manifest(content, location)
    return DeliveredFiles(told.name, location, _name(key), content, manifest, open_file)


@contextmanager
def _kept(organization: Organization, job: Job) -> Iterator[DeliveredFiles]:
    """What the server keeps for the download: one file as it is, several in a zip."""
    objects = organization.stores.objects
    kept, _ = download(organization, job.id)
    key = kept_manifest(job)
    content, name = objects.get(key), _name(manifest_key(job))
    manifest = read_manifest(content, name)
    if not kept.name.endswith(".zip"):
        yield DeliveredFiles("", name, name, content, manifest, lambda _: objects.open(kept.key))
        return
    with tempfile.TemporaryFile() as whole:
        with objects.open(kept.key) as stream:
            copyfileobj(stream, whole, _BLOCK)
        with zipfile.ZipFile(whole) as archive:
            members: Mapping[str, str] = {each: each for each in archive.namelist()}

            def open_member(key: str) -> BinaryIO:
                if (member := members.get(_name(key))) is None:
                    raise NotFound("file", key)
                return archive.open(member)  # type: ignore[return-value]

            yield DeliveredFiles("", name, name, content, manifest, open_member)


def _key_of(manifest: ReadManifest, name: str, id: str) -> str:
    for each in manifest.files:
        if _name(each.key) == name:
            return each.key
    raise NotFound("file", name, f" in the job {id}; give a name of its manifest")


def _name(key: str) -> str:
    return key.rpartition("/")[2]
