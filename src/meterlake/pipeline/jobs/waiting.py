"""The loop over the jobs of an organization that wait, as the worker runs them."""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from meterlake.model.errors import Busy, MeterlakeError, StaleVersion, Unavailable
from meterlake.pipeline.jobs.turns import Stop
from meterlake.stores import Stores
from meterlake.stores.state import Job

_log: Final = logging.getLogger("meterlake.worker")


def run_waiting(
    stores: Stores,
    jobs: Iterable[Job],
    stop: Stop,
    run: Callable[[Job], object],
    describe: Callable[[Job], str],
    note: Callable[[Job], None] = lambda _: None,
) -> None:
    """Run jobs that wait, one after the other; one that fails is logged.

    Args:
        stores: The home's stores.
        jobs: Those that wait, of one kind and one organization.
        stop: Whether to begin no other job.
        run: Runs one, here or as a flow run.
        describe: What the log calls it.
        note: Gets each job that ran, as it was before, whatever became of it.

    Raises:
        Unavailable: A store failed; what waits is run later.
    """
    for job in jobs:
        if stop():
            break
        try:
            run(job)
        except (Busy, StaleVersion):
            continue  # Another process runs it, or took it over.
        except Unavailable:
            # Of a flow run that failed, the job itself says whether it waits.
            if stores.state.jobs.get(job.id).finished is None:
                raise
        except MeterlakeError as error:
            _log.warning("%s: %s", describe(job), error)
        except Exception as error:  # noqa: BLE001 - other work of this process goes on
            _log.warning("%s failed", describe(job), exc_info=error)
            # What broke may be the connection: the next job has a new one.
            stores.lake(job.org_id).close()
        note(job)
