"""An export that failed: its job, and the event that tells of it, in one transaction."""

from typing import Final

from meterlake.model.errors import MeterlakeError
from meterlake.model.events import Event, data
from meterlake.model.ids import derived_id
from meterlake.model.period import format_instant
from meterlake.stores import Stores
from meterlake.stores.state import Job
from meterlake.stores.state.events import events
from meterlake.stores.state.jobs import finish_job

FAILURE: Final = "dataexport.job.failure"
_AUTHOR: Final = "exports"


def report_failure(stores: Stores, job: Job, error: BaseException) -> None:
    """Write down that the attempt at a job failed, and raise the event of it.

    Raises:
        StaleVersion: Another attempt took the job over.
    """
    why = str(error) if isinstance(error, MeterlakeError) else f"{type(error).__name__}: {error}"
    with stores.state.transaction(job.org_id, _AUTHOR) as transaction:
        finish_job(transaction.connection, job, transaction.now, error=why)
        told = {
            "jobId": job.id,
            "scheduleId": job.schedule_id,
            "date": format_instant(transaction.now),
            "message": why,
        }
        id_ = derived_id("export-failure", job.id, str(job.attempt))
        event = Event(FAILURE, "DataExportJob", job.id, data(told, None))
        events.write(transaction.connection, job.org_id, transaction.now, lambda: id_, event)
