"""Jobs that somebody no longer wants."""

from collections.abc import Callable
from contextlib import suppress

from meterlake.model.access import SYSTEM
from meterlake.model.errors import MeterlakeError
from meterlake.stores import Stores
from meterlake.stores.state import Job, JobStatus, Transaction

NoteEvent = Callable[[Transaction, Job, Job], None]


def cancel_job(
    stores: Stores,
    org_id: str,
    id: str,
    kind: str,
    run: Callable[[Stores, str], object],
    note_event: NoteEvent | None = None,
) -> None:
    """End a job that waits or whose executor is dead, or have the one who works on it stop.

    Args:
        stores: The home's stores.
        org_id: The organization.
        id: The job.
        kind: What kind of job it has to be.
        run: Runs a job of the kind: it ends one whose executor is dead.
        note_event: Notes the event of a job that was ended while it waited, as it is and was.

    Raises:
        NotFound: The organization has no such job.
        Conflict: It has ended.
    """
    before = stores.state.jobs.find(org_id, id, kind)
    job = stores.state.jobs.cancel(org_id, id, kind)
    if job.status is JobStatus.CANCELLED:
        if note_event is not None:
            with stores.state.transaction(org_id, job.author or SYSTEM) as transaction:
                note_event(transaction, job, before)
    elif job.lease_until is None or job.lease_until <= stores.now():
        # Nobody else hears of it. If this fails, whoever takes the job ends it.
        with suppress(MeterlakeError):
            run(stores, id)
