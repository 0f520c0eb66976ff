"""Which kinds of work there are."""

from enum import StrEnum


class JobKind(StrEnum):
    """What a job is for: all of them are rows of one table."""

    BILL = "bill"
    EXPORT = "export"
    # The closing of a month: whoever does it takes it, step by step.
    CLOSING = "closing"
    # What somebody asks for over the API about the closing of a month.
    CLOSING_STEP = "closing_step"
    # One step of a backfill.
    BACKFILL = "backfill"
    # A file of measurements that comes through a signed URL.
    UPLOAD = "upload"
    # The data of a lookup table: a file that comes or is made, or what was done at once.
    LOOKUP = "lookup"
    # One version of one object of a bucket inbox.
    INBOX_OBJECT = "inbox_object"
    # The statement of a bill: its usage in detail, as files.
    STATEMENT = "statement"
    # Something that is handed over to another system: a notification to a webhook, a bill.
    INTEGRATION_RUN = "integration_run"
