"""The event of an export that failed."""

from typing import Final

from meterlake.model.resources.events import Event, data
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import format_instant
from meterlake.stores.state import Job, JobStatus, Transaction
from meterlake.stores.state.events import events

FAILURE: Final = "dataexport.job.failure"


def note_failure_event(transaction: Transaction, job: Job, _: Job) -> None:
    """Note the event of a job that failed; no other end has one."""
    if job.status is not JobStatus.FAILED:
        return
    told = {
        "jobId": job.id,
        "scheduleId": job.schedule_id,
        "date": format_instant(transaction.now),
        "message": job.error,
    }
    id_ = derived_id("export-failure", job.id, str(job.attempt))
    event = Event(FAILURE, "DataExportJob", job.id, data(told, None))
    events.write(transaction.connection, job.org_id, transaction.now, lambda: id_, event)
