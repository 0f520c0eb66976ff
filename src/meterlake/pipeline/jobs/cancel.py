"""Jobs that somebody no longer wants."""

from contextlib import suppress
from typing import Any

from meterlake.model.configuration.access import SYSTEM
from meterlake.model.errors import MeterlakeError
from meterlake.pipeline.jobs.job_spec import JobSpec
from meterlake.pipeline.jobs.run_job import run_job
from meterlake.stores import Stores
from meterlake.stores.state import JobStatus


def cancel_job(stores: Stores, org_id: str, id: str, spec: JobSpec[Any]) -> None:
    """End a job that waits or whose executor is dead, or have the one who works on it stop.

    Args:
        stores: The home's stores.
        org_id: The organization.
        id: The job.
        spec: What kind of job it has to be.

    Raises:
        NotFound: The organization has no such job.
        Conflict: It has ended.
    """
    before = stores.state.jobs.find(org_id, id, spec.kind)
    job = stores.state.jobs.cancel(org_id, id, spec.kind)
    if job.status is JobStatus.CANCELLED:
        with stores.state.transaction(org_id, job.author or SYSTEM) as transaction:
            spec.note_event(transaction, job, before)
    elif job.lease_until is None or job.lease_until <= stores.now():
        # Nobody else hears of it. If this fails, whoever takes the job ends it.
        with suppress(MeterlakeError):
            run_job(stores, spec, id)
