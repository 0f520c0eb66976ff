"""All that the worker does for the exports of an organization, where there is no worker."""

from contextlib import suppress

from meterlake.model.errors import Unavailable
from meterlake.pipeline.export.jobs import forget_downloads
from meterlake.pipeline.export.run import EXPORT_JOBS, Exported
from meterlake.pipeline.export.schedules import submit_due
from meterlake.pipeline.jobs.waiting import JobOutcome, run_all_waiting
from meterlake.stores import Organization


def whole_round(organization: Organization) -> tuple[int, list[JobOutcome[Exported]]]:
    """All that the worker does for exports, where there is no worker, one after the other.

    Returns:
        How many jobs were due, and what became of those that waited.

    Raises:
        Unavailable: State cannot be reached.
    """
    due = submit_due(organization)
    ran = list(run_all_waiting(organization, EXPORT_JOBS))
    with suppress(Unavailable):  # The next look removes them.
        forget_downloads(organization)
    return len(due), ran
