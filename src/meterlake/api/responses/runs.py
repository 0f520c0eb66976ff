"""Answers about runs: the jobs of all kinds."""

from enum import StrEnum
from typing import Any

from meterlake.api.responses.bills import BillJobOutcome
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Flag, Id, Instant, Integer, Text
from meterlake.stores.state import JobStatus


class RunKindName(StrEnum):
    """What a run is for."""

    UPLOAD = "UPLOAD"
    LOOKUP = "LOOKUP"
    INBOX_OBJECT = "INBOX_OBJECT"
    BILL = "BILL"
    STATEMENT = "STATEMENT"
    BILL_LETTER = "BILL_LETTER"
    BILL_DOCUMENTS = "BILL_DOCUMENTS"
    QUANTITIES = "QUANTITIES"
    CLOSING_STEP = "CLOSING_STEP"
    EXPORT = "EXPORT"
    BACKFILL = "BACKFILL"
    INTEGRATION_RUN = "INTEGRATION_RUN"


class RunVerb(StrEnum):
    """What can be done about a run now, by whoever asks."""

    CANCEL = "cancel"
    RETRY = "retry"


class RunActResponse(Value):
    """Who cancelled a run, or ran it again, and when."""

    action: Text
    at: Instant
    by: Text
    by_name: Text | None = None


class RunResponse(Value):
    """A run: what it is about, how far it is, how it ended, and what can be done about it."""

    id: Id
    version: Integer
    kind: RunKindName
    subject: Text
    about_id: Text | None = None
    status: JobStatus
    outcome: BillJobOutcome | None = None
    attempt: Integer | None = None
    progress: dict[str, Any] | None = None
    error: Text | None = None
    message: Text | None = None
    actions: tuple[RunVerb, ...]
    cancel_requested: Flag | None = None
    flow_run_id: Id | None = None
    schedule_id: Id | None = None
    scheduled_for: Instant | None = None
    dt_created: Instant
    created_by: Text
    created_by_name: Text | None = None
    dt_started: Instant | None = None
    dt_completed: Instant | None = None
    acts: tuple[RunActResponse, ...] = ()
