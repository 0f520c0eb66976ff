"""The files of statements in the object store: written before anybody hears of them."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from itertools import chain
from typing import Final

from meterlake.model.bills.statements import KIND, StatementContent, StatementFormat, StatementOrder
from meterlake.model.errors import MeterlakeError
from meterlake.stages.decode.csv_lines import csv_lines
from meterlake.stages.export.statement_document import (
    statement_header,
    statement_rows,
    write_statement,
)
from meterlake.stores import Organization, Stores
from meterlake.stores.downloads import Download
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.billing.statements.files import StatementFile, statement_keys
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import JobFilters

_MEDIA_TYPES: Final = {
    StatementFormat.JSON: "application/json",
    StatementFormat.CSV: "text/csv",
}
# More jobs than one look removes files beside.
_MANY: Final = 10_000
_OPEN: Final = JobFilters(statuses=(JobStatus.PENDING, JobStatus.RUNNING))


def write_format(content: StatementContent, format: StatementFormat) -> bytes:
    """A statement in a format."""
    if format is StatementFormat.JSON:
        return write_statement(content)
    rows = chain((statement_header(),), statement_rows(content))
    return "".join(csv_lines(rows)).encode()


def put_files(
    stores: Stores, job: Job, content: StatementContent, calculated: datetime
) -> list[StatementFile]:
    """Write the files of an attempt, under a key of its own.

    Args:
        stores: The home.
        job: The job as the attempt has it.
        content: What they show.
        calculated: When the bill was calculated that they show.

    Raises:
        Unavailable: The object store failed.
    """
    order = StatementOrder.from_wire(job.parameters)
    return [_put(stores, job, order, each, content, calculated) for each in order.formats]


def _put(
    stores: Stores,
    job: Job,
    order: StatementOrder,
    format: StatementFormat,
    content: StatementContent,
    calculated: datetime,
) -> StatementFile:
    data = write_format(content, format)
    key = f"{_folder(job.org_id)}{order.bill_id}/{job.id}-{job.attempt}.{format}"
    stores.objects.put_bytes(key, data)
    return StatementFile(
        bill_id=order.bill_id,
        format=format,
        job_id=job.id,
        key=key,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        calculated=calculated,
        made=stores.now(),
        filtered=bool(order.meter_ids),
    )


def _folder(org_id: str) -> str:
    return f"statements/{org_id}/"


def remove_files(stores: Stores, keys: Iterable[str]) -> None:
    """Remove files that no bill has any more; what cannot be removed now is removed later."""
    for key in keys:
        with suppress(MeterlakeError):
            stores.objects.delete(key)


def file_download(file: StatementFile) -> Download:
    """A file as a link gives it."""
    name = f"statement-{file.bill_id}.{file.format}"
    return Download(file.key, name, _MEDIA_TYPES[file.format])


def read_file(stores: Stores, file: StatementFile) -> bytes:
    """The bytes of a file.

    Raises:
        NotFound: It is gone.
        Unavailable: The object store failed.
    """
    with stores.objects.open(file.key) as stream:
        return stream.read()


def forget_files(organization: Organization) -> int:
    """Remove files that no bill has, and that no unfinished job may write; how many.

    They are left by processes that died, and by bills that were deleted.

    Raises:
        Unavailable: A store failed.
    """
    # In this order: a file that comes meanwhile is not among those that were found.
    found = [info.key for info in organization.stores.objects.list(_folder(organization.id))]
    if not found:
        return 0
    jobs, more = organization.state.jobs.page(organization.id, KIND, _OPEN, Page(_MANY))
    if more is not None:
        return 0  # The next look removes them.
    unfinished = {job.id for job in jobs}
    with organization.reading() as reader:
        known = set(statement_keys(reader))
    # A file is called by the job that wrote it, and a number.
    lost = [
        key
        for key in found
        if key not in known and key.rpartition("/")[2].rpartition("-")[0] not in unfinished
    ]
    for key in lost:
        organization.stores.objects.delete(key)
    return len(lost)
