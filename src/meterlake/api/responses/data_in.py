"""Answers about what came in: an organization's measurements at a glance, and its sources."""

from typing import Annotated

from pydantic import Field

from meterlake.api.responses.rejected import RejectedRowWithdrawal
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Flag, Id, Instant, Integer, Text
from meterlake.stores.state.ingest.inboxes import Afterwards, ClaimStatus


class MeterStatusResponse(Value):
    """What the lake holds of one meter; without instants, nothing came yet."""

    meter: Text
    measurements: Integer
    first_ts: Instant | None = None
    last_ts: Instant | None = None
    last_received: Instant | None = None


class IngestAlertResponse(Value):
    """Something about measurements that is not as it should be, until it is again."""

    alert: Text
    message: Text
    since: Instant
    event_id: Id


class SourceTotalsResponse(Value):
    """What became of the rows of all sources: received = accepted + repeats + rejected."""

    sources: Integer
    received: Integer
    accepted: Integer
    repeats: Integer
    rejected: Integer
    incomplete: Integer
    withdrawn: Integer


class OverdueFileResponse(Value):
    """A file that is expected for a day or a month, and has not come in time."""

    name: Text
    pattern: Text
    period: Text
    due: Instant


class MeasurementsStatusResponse(Value):
    """What came in: numbers of all sources, open rejected rows, meters, alerts, overdue files."""

    totals: SourceTotalsResponse
    rejected: dict[Text, Integer]
    meters: tuple[MeterStatusResponse, ...]
    alerts: tuple[IngestAlertResponse, ...]
    left_alone: tuple[Text, ...]
    overdue_files: tuple[OverdueFileResponse, ...]


class SourceResponse(Value):
    """The receipt of one attempt at a source: received = accepted + repeats + rejected."""

    name: Text
    status: Text
    received: Integer
    accepted: Integer
    repeats: Integer
    rejected: Integer
    mended: Integer
    incomplete: Integer
    rounded: Integer | None = None
    reasons: dict[Text, Integer]
    reason: Text | None = None
    detail: Text | None = None
    identity: Text
    attempt: Integer
    delivery: Text
    received_at: Instant
    finished_at: Instant | None = None
    format: Text | None = None
    mapping: Text | None = None
    size_bytes: Integer | None = None
    retracted: tuple[RejectedRowWithdrawal, ...]


class InboxObjectResponse(Value):
    """An object that was taken from an inbox, and what became of it."""

    key: Text
    status: ClaimStatus
    received: Instant
    attempt: Integer
    accepted: Integer | None = None
    rejected: Integer | None = None
    error: Text | None = None


class InboxResponse(Value):
    """A prefix of a bucket, or a folder, whose objects are ingested as they arrive."""

    id: Id
    url: Text
    afterwards: Afterwards
    author: Text | None = None
    objects: tuple[InboxObjectResponse, ...]


class InboxRequest(Value):
    """An inbox: a prefix of a bucket, or a folder that the server allows."""

    url: Annotated[Text, Field(min_length=1, max_length=1000)] = Field(
        description="s3://bucket/prefix, gs://bucket/prefix, or the path of a folder."
    )
    afterwards: Afterwards = Field(
        Afterwards.MOVE, description="What becomes of an object after its ingest."
    )


class InboxCheckRequest(Value):
    """Where to look."""

    url: Annotated[Text, Field(min_length=1, max_length=1000)]


class ChangedInboxResponse(Value):
    """An inbox that was added, changed or removed."""

    id: Id
    url: Text
    afterwards: Afterwards


class InboxCheckResponse(Value):
    """Whether a place answers, and the first 20 objects that wait there; nothing was taken."""

    url: Text
    answers: Flag
    problem: Text | None = None
    objects: tuple[Text, ...]
    more: Flag


class SampleResponse(Value):
    """What the sample brings."""

    month: Text
    entities: Integer
    files: Integer
