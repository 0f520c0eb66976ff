"""Answers about the jobs of exports."""

from enum import StrEnum
from typing import Any

from meterlake.model.configuration.exports import DataExportDestinationType, SourceType
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Id, Instant, Integer, Text
from meterlake.model.work.export_request import Format


class Status(StrEnum):
    """Where the job of an export stands; one that was cancelled has FAILED."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class ExportOutcome(StrEnum):
    """How the job of an export ended; one that failed and one that was cancelled have one `status`."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class AdHocResponse(Value):
    """The job of an export that was asked for."""

    job_id: Id | None = None


class JobResponse(Value):
    """The job of an export: how far it is, how it ended, and where its files are."""

    id: Id
    version: Integer | None = None
    source_type: SourceType | None = None
    schedule_id: Id | None = None
    status: Status | None = None
    outcome: ExportOutcome | None = None
    date_created: Instant | None = None
    created_by: Text | None = None
    export_file_format: Text | None = None
    month: Text | None = None
    start_date: Instant | None = None
    end_date: Instant | None = None
    meter_ids: tuple[Text, ...] | None = None
    account_ids: tuple[Text, ...] | None = None
    data_types: tuple[Text, ...] | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    scheduled_for: Instant | None = None
    error: Text | None = None
    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None


class GenerateExportDownloadUrlResponse(Value):
    """Where the file of a job is to be had without a token, until `expirationTime`."""

    url: Text | None = None
    expiration_time: Instant | None = None


class DeliveredFileResponse(Value):
    """One file of an export, as its manifest has it."""

    name: Text
    key: Text
    type: Text
    meter: Text | None = None
    rows: Integer
    bytes: Integer
    sha256: Text


class ExportManifestResponse(Value):
    """What an export wrote, as its manifest says where it lies."""

    job_id: Id
    place: Text
    format: Format
    manifest: Text
    location: Text
    rows: Integer
    bytes: Integer
    files: tuple[DeliveredFileResponse, ...]


class ExportProblemResponse(Value):
    """What of an export is not as its manifest says; `file` is a key, or `manifest`."""

    file: Text
    problem: Text


class ExportVerificationResponse(Value):
    """Whether the files of an export are as its manifest says."""

    job_id: Id
    place: Text
    files: Integer
    verified: bool
    problems: tuple[ExportProblemResponse, ...]


class CheckStep(StrEnum):
    """What is tried with a small object: only `write` is needed."""

    WRITE = "write"
    READ = "read"
    REMOVE = "remove"
    REMOVE_PARTS = "removeParts"


class ExportDestinationCheckStep(Value):
    """One step of a check, and why it failed."""

    name: CheckStep
    succeeded: bool
    reason: Text | None = None


class ExportDestinationCheckResponse(Value):
    """Whether a destination can be written, and why not."""

    id: Id
    code: Text
    destination_type: DataExportDestinationType
    url: Text | None = None
    writable: bool
    steps: tuple[ExportDestinationCheckStep, ...]
