"""Bodies and answers about measurements and the rows of lookup tables, for the served document.

What is submitted is not read into these classes but straight into structs, see `api.submit`.
"""

from typing import Annotated, Any

from pydantic import Field

from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.catalog.lookups import (
    LookupTableDataJobStatus,
    LookupTableDataJobType,
    LookupTableRevisionStatus,
)
from meterlake.model.measurements.measurement import BATCH_MAX, UID_MAX
from meterlake.model.measurements.receipt import UploadStatus
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import (
    Code,
    CustomValue,
    Flag,
    Id,
    Instant,
    Integer,
    Number,
    Text,
)

Texts = dict[Text, Text]
Numbers = dict[Text, Number]


class MeasurementRequest(Value):
    """One measurement; account and meter by their codes."""

    uid: Annotated[Text, Field(min_length=1, max_length=UID_MAX)] | None = None
    meter: Code
    account: Code
    ts: Instant
    ets: Instant | None = None
    who: Texts | None = None
    where: Texts | None = None
    what: Texts | None = None
    other: Texts | None = None
    metadata: Texts | None = None
    measure: Numbers | None = None
    cost: Numbers | None = None
    income: Numbers | None = None


class SubmitMeasurementsRequest(Value):
    """A batch of measurements."""

    measurements: Annotated[
        tuple[MeasurementRequest, ...], Field(min_length=1, max_length=BATCH_MAX)
    ]


class SubmitMeasurementsResponse(Value):
    """What became of the batch."""

    result: Text | None = None


class UrlUploadResponse(Value):
    """Where a file is to be put, and the headers to send with it."""

    job_id: Id | None = None
    url: Text | None = None
    headers: Texts | None = None


class UrlDownloadResponse(Value):
    """Where the file of a job is to be had for a while, without a token."""

    job_id: Id | None = None
    url: Text | None = None
    headers: Texts | None = None


class UploadJobResponse(Value):
    """The job of an uploaded file."""

    id: Id | None = None
    version: Integer | None = None
    file_name: Text | None = None
    content_type: Text | None = None
    content_length: Integer | None = None
    status: UploadStatus | None = None
    dt_created: Instant | None = None
    created_by: Text | None = None
    upload_date: Text | None = None
    dt_finished: Instant | None = None
    total_rows: Integer | None = None
    processed_rows: Integer | None = None
    repeated_rows: Integer | None = None
    failed_rows: Integer | None = None
    failure_reasons: dict[Text, Integer] | None = None
    failure_reason: Text | None = None
    sha256: Text | None = None


class GenerateDownloadUrlResponse(Value):
    """Where a file is to be had for a while, without a token."""

    url: Text | None = None


class LookupTableRevisionStatusRequest(Value):
    """Publishes or archives a revision."""

    status: LookupTableRevisionStatus | None = None
    version: Integer | None = None


class LookupTableRevisionDataRequest(Value):
    """All rows of a revision."""

    items: Annotated[tuple[dict[str, CustomValue], ...], Field(max_length=2000)]
    version: Integer | None = None


class LookupTableRevisionDataResponse(Value):
    """Rows of a revision."""

    items: Annotated[tuple[dict[str, Any], ...], Field(max_length=2000)]
    version: Integer | None = None
    created_by: Text | None = None
    dt_created: Instant | None = None
    last_modified_by: Text | None = None
    dt_last_modified: Instant | None = None


class LookupTableRevisionDataItemUpsertRequest(Value):
    """One row of a revision."""

    item: dict[str, CustomValue]
    version: Integer | None = None


class LookupTableRevisionDataItemDeleteRequest(Value):
    """The version of the data that a row is deleted from."""

    version: Integer | None = None


class LookupTableRevisionDataDeleteResponse(Value):
    """What became of the rows."""

    result: Text | None = None


class LookupTableRevisionCopyRequest(Value):
    """The revision to copy into; a new draft if there is none."""

    revision_id: Id | None = None


class LookupTableRevisionCopyResponse(Value):
    """The revision that the rows were copied into."""

    job_id: Id | None = None
    revision_id: Id | None = None


class LookupTableDataUploadResponse(Value):
    """Where a file is to be put, and the headers to send with it."""

    job_id: Id | None = None
    url: Text | None = None
    headers: dict[Text, Text] | None = None


class LookupTableDataDownloadJobResponse(Value):
    """The job that writes a file."""

    job_id: Id | None = None


class LookupTableDataArchivedResponse(Value):
    """Where the archived rows are to be had for a while, without a token."""

    url: Text | None = None
    expiry: Instant | None = None


class LookupTableRevisionDataJobResponse(Value):
    """A job on the rows of a revision."""

    id: Id
    version: Integer | None = None
    file_name: Text | None = None
    lookup_table_id: Id | None = None
    lookup_table_revision_id: Id | None = None
    destination_lookup_table_revision_id: Id | None = None
    job_date: Text | None = None
    type: LookupTableDataJobType | None = None
    status: LookupTableDataJobStatus | None = None
    failure_reason: Text | None = None
    download_url: Text | None = None
    download_url_expiry: Text | None = None


class AggregationTrialRequest(Value):
    """An aggregation as it would be saved, the month, and the codes of accounts; all if none."""

    aggregation: Aggregation
    month: Text
    accounts: Annotated[tuple[Code, ...], Field(max_length=1000)] = ()


class TriedQuantity(Value):
    """What the aggregation gives for an account, or why it gives nothing."""

    account_id: Id
    account: Text
    segment: dict[str, Text] | None = None
    unmatched: Flag | None = None
    measurements: Integer | None = None
    value: Number | None = None
    units: Number | None = None
    error: Text | None = None


class AggregationTrialResponse(Value):
    """What the aggregation gives, account by account; the first thousand rows."""

    data: tuple[TriedQuantity, ...]
    more: Flag
