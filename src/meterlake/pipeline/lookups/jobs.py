"""The jobs of lookup tables: files announced and asked for, and what became of them."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from meterlake.model.catalog.lookups import (
    LookupTableDataArchivedRequest,
    LookupTableDataDownloadJobRequest,
    LookupTableDataJobStatus,
    LookupTableDataJobType,
    LookupTableDataUploadRequest,
    LookupTableRevisionStatus,
    state_of,
)
from meterlake.model.errors import Invalid
from meterlake.model.values.problems import read
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.jobs.file_jobs import (
    expect_file,
    file_to_make,
    key,
    refuse_too_much,
    remove_files,
    signed_url,
)
from meterlake.pipeline.lookups.files import ITEMS, archive
from meterlake.pipeline.lookups.lookups import At, draft_at, revision_at
from meterlake.stores import Organization, Stores
from meterlake.stores.downloads import Download
from meterlake.stores.state import lookups as stored
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

LINK_S: Final = 3600


class Link(NamedTuple):
    """Where a file is to be had, and until when."""

    url: str
    expiry: datetime


def announce(
    organization: Organization, author: str, at: At, document: Mapping[str, Any], base_url: str
) -> Document:
    """Make a job for a file of items that will come for a draft, and the URL for it.

    Raises:
        Invalid: The document breaks a rule, the revision is no draft, or nothing can be signed.
        StaleVersion: The data is not at the version that the document names.
        TooManyJobs: As many files, or as many bytes, as may be are announced or wait.
        Unavailable: State or the home's key cannot be reached.
    """
    request = read(LookupTableDataUploadRequest, document)
    upload = expect_file(organization, author, request, JobKind.LOOKUP)
    signed = signed_url(organization.stores, upload, base_url)
    with organization.transaction(author) as transaction:
        revision = draft_at(transaction, at, document)
        refuse_too_much(transaction, organization.stores, upload.content_length)
        stored.add_job(
            transaction,
            revision.id,
            LookupTableDataJobType.UPLOAD,
            file=upload,
            data_version=request.version,
        )
    return {"jobId": upload.id, "url": signed.url, "headers": signed.headers}


def write_file(
    organization: Organization, author: str, at: At, document: Mapping[str, Any]
) -> Document:
    """Make a job that writes the items of a revision to a file.

    Raises:
        Invalid: The document breaks a rule.
        NotFound: The table has no such revision.
        TooManyJobs: As many files as may be are announced or wait.
    """
    kind = read(LookupTableDataDownloadJobRequest, document).content_type
    with organization.transaction(author) as transaction:
        revision = revision_at(transaction, at)
        refuse_too_much(transaction, organization.stores, 0)
        file = file_to_make(transaction, f"lookup-{revision.id}{kind.suffix}", kind.value)
        stored.add_job(transaction, revision.id, LookupTableDataJobType.DOWNLOAD, file=file)
    return {"jobId": file.id}


def archive_link(
    organization: Organization, at: At, document: Mapping[str, Any], base_url: str
) -> Document:
    """A link to the archived data of a revision.

    Raises:
        Invalid: The document breaks a rule, or the revision is a draft: nothing of it is archived.
        NotFound: The table has no such revision.
        Unavailable: State, the disk or the object store failed.
    """
    kind = read(LookupTableDataArchivedRequest, document).content_type
    with organization.reading() as reader:
        revision = revision_at(reader, at)
        state = state_of(revision.id, StoredConfiguration(reader))
    if state is None or state.status is LookupTableRevisionStatus.DRAFT:
        rule = "a draft has no archived data; publish the revision first"
        raise Invalid("status", LookupTableRevisionStatus.DRAFT.value, rule)
    # Usually its job was here before.
    with tempfile.TemporaryDirectory(prefix="meterlake-") as folder:
        made = archive(organization, revision, kind, Path(folder))
    download = Download(made, f"lookup-{revision.id}{kind.suffix}", kind.value)
    return _link(organization.stores, download, base_url)._asdict()


def list_jobs(organization: Organization, at: At, page: Page, base_url: str = "") -> Document:
    """One page of a revision's jobs, the newest first."""
    with organization.reading() as reader:
        revision = revision_at(reader, at)
        found, token = stored.jobs(reader, revision.id, page)
    return entities.envelope(
        [_job_document(organization.stores, job, at, base_url) for job in found], token
    )


def read_job(organization: Organization, at: At, id: str, base_url: str = "") -> Document:
    """One job of a revision.

    Raises:
        NotFound: There is none.
    """
    with organization.reading() as reader:
        job = stored.job(reader, revision_at(reader, at).id, id)
    return _job_document(organization.stores, job, at, base_url)


def delete_job(
    organization: Organization, author: str, at: At, id: str, base_url: str = ""
) -> Document:
    """Forget a job and its file; answers with what it was. One that waits will never run."""
    with organization.transaction(author) as transaction:
        revision = revision_at(transaction, at)
        job = stored.delete_job(transaction, revision.id, id)
    if job.file is not None:
        remove_files(organization.stores, [job.file])
        job = replace(job, file=replace(job.file, arrived=None))
    return _job_document(organization.stores, job, at, base_url)


def _job_document(stores: Stores, job: stored.LookupJob, at: At, base_url: str) -> Document:
    found: Document = {
        "id": job.id,
        "version": 1,
        "lookupTableId": at.table_id,
        "lookupTableRevisionId": job.revision_id,
        "destinationLookupTableRevisionId": job.destination_id,
        "jobDate": job.created,
        "type": job.type.value,
        "status": job.status.value,
    }
    file = job.file
    if file is not None:
        found |= {"version": file.job.version, "fileName": file.name or None}
        found |= {"failureReason": file.job.error, **file.job.result}
        found.pop(ITEMS, None)
        made = job.type is LookupTableDataJobType.DOWNLOAD
        there = job.file is not None and job.file.arrived is not None
        may_be_fetched = made and there and job.status is LookupTableDataJobStatus.SUCCEEDED
        if may_be_fetched:
            download = Download(key(file), file.name, file.content_type)
            link = _link(stores, download, base_url)
            found |= {"downloadUrl": link.url, "downloadUrlExpiry": link.expiry}
    return {name: value for name, value in found.items() if value is not None}


def _link(stores: Stores, download: Download, base_url: str) -> Link:
    expiry = stores.now() + timedelta(seconds=LINK_S)
    return Link(base_url + stores.downloads.path(download, LINK_S), expiry)
