"""The destinations of an organization's exports: as object stores, and whether they can be used."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from meterlake.model.configuration.exports import ExportDestination, ExportSchedule, PartitionOrder
from meterlake.model.errors import MeterlakeError, NotFound, Unavailable
from meterlake.model.work.export_request import KIND, ExportRequest, Source
from meterlake.pipeline.config.schedule_jobs import exported_types
from meterlake.stages.export.exported_columns import Export, exports_of
from meterlake.stores import Organization, Stores
from meterlake.stores.objects import ObjectStore, missing_for, open_destination
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.reader import DamagedRow
from meterlake.stores.state.jobs import JobFilters

# Readers of partitioned folders leave names alone that begin so.
_NAME: Final = "_meterlake_check"
_PAGE: Final = 100
_CONTENT: Final = b"meterlake writes, reads and removes this object to check the destination.\n"


def destination_of(
    organization: Organization, id: str, at: datetime | None = None
) -> tuple[str, ObjectStore, PartitionOrder]:
    """A destination: its code, where its objects go, and how their keys begin.

    Nothing is contacted yet.

    Args:
        organization: The organization.
        id: The destination.
        at: When the job was made whose objects go there. Names are those of then, so that no
            object is put under two; the bucket and whose credentials are used can be put right.

    Raises:
        NotFound: There is none of that id.
        Invalid: Destinations of its type are not allowed on this server.
    """
    found = _destination(organization, id, at)
    objects = open_destination(found, organization.id, organization.settings)
    return found.code, objects, found.partition_order


def exports_to(organization: Organization, id: str) -> set[Export]:
    """What the schedules of a destination export, and the jobs that have not ended."""
    with organization.reading() as reader:
        schedules = [each.entity for each in reader.all(ExportSchedule)]
    found = {
        export
        for each in schedules
        if id in each.destination_ids
        for export in exports_of(Source(each.source_type.lower()), exported_types(each))
    }
    open_ = JobFilters(statuses=(JobStatus.PENDING, JobStatus.RUNNING))
    token = None
    while True:
        jobs, token = organization.state.jobs.page(organization.id, KIND, open_, Page(_PAGE, token))
        for request in (ExportRequest.from_wire(job.parameters) for job in jobs):
            if id in request.destination_ids:
                found.update(exports_of(request.source, request.types))
        if token is None:
            return found


def check_destination(organization: Organization, id: str) -> dict[str, Any]:
    """Find out whether a destination can be written, by writing a small object.

    Returns:
        As on the wire: `writable`, and the steps that were tried with the reason of each that
        failed. An export needs only the writing. Reading back lets an export that broke off be
        continued, removing leaves no trace of the check, and `removeParts` is the clearing away
        of large objects that a killed server left half put.

    Raises:
        NotFound: There is none of that id.
    """
    found = _destination(organization, id)
    told = {"id": id, "code": found.code, "destinationType": found.destination_type.value}
    try:
        objects = open_destination(found, organization.id, organization.settings)
    except MeterlakeError as error:
        return told | {"writable": False, "steps": [_step("write", str(error))]}
    # The steps up to a writing that fails, or all of them.
    key = f"orgId={organization.id}/{_NAME}"
    steps = [_try("write", lambda: objects.put_bytes(key, _CONTENT))]
    if steps[0]["succeeded"]:
        steps += [
            _try("read", lambda: _expect(objects, key)),
            _try("remove", lambda: objects.delete(key)),
            _try("removeParts", lambda: objects.abort_uploads([key])),
        ]
    url = objects.url(_NAME).removesuffix(f"/{_NAME}")
    return told | {"url": url, "writable": steps[0]["succeeded"], "steps": steps}


def missing_here(stores: Stores, job: Job) -> str | None:
    """What this process lacks to run a job that another one could; None if nothing."""
    for id_ in ExportRequest.from_wire(job.parameters).destination_ids:
        with suppress(NotFound):  # A destination that is gone is a matter of the job.
            found = _destination(stores.organization(job.org_id), id_, job.created)
            if missing := missing_for(found, stores.settings):
                return f"{missing}, destination {found.code!r} needs it"
    return None


def unreachable_from_here(stores: Stores) -> Iterator[str]:
    """A sentence for each destination that this process cannot reach, of all organizations.

    Nothing is written there: one object is asked for that need not exist. Whether a bucket takes
    what is written, `check_destination` finds out.
    """
    for organization in stores.organizations():
        try:
            with organization.reading() as reader:
                found = [each.entity for each in reader.all(ExportDestination)]
        except DamagedRow as error:
            yield f"destinations of {organization.code} cannot be read: {error}"
            continue
        for each in found:
            reason = missing_for(each, stores.settings) or _unreachable(organization, each)
            if reason:
                yield (
                    f"destination {each.code!r} of {organization.code} cannot be reached from here:"
                    f" {reason}"
                )


def _unreachable(organization: Organization, destination: ExportDestination) -> str | None:
    try:
        # Not its head: an answer without a body does not say whether the bucket is there.
        open_destination(destination, organization.id, organization.settings).open(_NAME).close()
    except NotFound as error:
        # Only the object is not there.
        return str(error) if error.args[0] == "bucket" else None
    except MeterlakeError as error:
        return str(error)
    return None


def _destination(
    organization: Organization, id: str, at: datetime | None = None
) -> ExportDestination:
    with organization.reading() as reader:
        found = reader.get(ExportDestination, id).entity
        if at is None:
            return found
        with suppress(NotFound):  # It is younger, where clocks differ between machines.
            then = reader.as_of(ExportDestination, id, at).entity
            names = {"prefix": then.prefix, "partition_order": then.partition_order}
            return found.model_copy(update=names)
    return found


def _expect(objects: ObjectStore, key: str) -> None:
    if objects.get(key) != _CONTENT:
        raise Unavailable(
            objects.url(key),
            "what is read is not what was written",
            "keep others from writing there",
        )


def _try(name: str, work: Callable[[], object]) -> dict[str, Any]:
    try:
        work()
    except MeterlakeError as error:
        return _step(name, str(error))
    return _step(name, None)


def _step(name: str, reason: str | None) -> dict[str, Any]:
    step: dict[str, Any] = {"name": name, "succeeded": reason is None}
    return step if reason is None else step | {"reason": reason}
