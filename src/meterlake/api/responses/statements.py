"""Answers about statement jobs."""

from enum import StrEnum

from meterlake.model.bills.statement_orders import StatementJobFilters, StatementStatus
from meterlake.model.values.envelope import Envelope
from meterlake.model.values.fields import Flag, Id, Text


class StatementJobStatus(StrEnum):
    """Where a statement job stands."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


class StatementJobResponse(Envelope):
    """The job of a statement, and links to the files that it made while its bill has them."""

    statement_job_status: StatementJobStatus | None = None
    bill_id: Id | None = None
    org_id: Id | None = None
    include_csv_format: Flag | None = None
    filters: StatementJobFilters | None = None
    presigned_json_statement_url: Text | None = None
    json_statement_status: StatementStatus | None = None
    presigned_csv_statement_url: Text | None = None
    csv_statement_status: StatementStatus | None = None
    error: Text | None = None
