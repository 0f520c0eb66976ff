"""Months of a backfill that are calculated at once: each is a task of a fan-out.

A task is told the backfill and the month. What it finds stands in the backfill's folder, with a note
that is written last; the run reads the note. So all who work need the folder of the lake.
"""

from collections.abc import Callable, Sequence
from typing import Any

from meterlake.model.errors import Busy, Unavailable
from meterlake.model.values import wire
from meterlake.model.work.jobs import FanOutRunner
from meterlake.pipeline.backfill.job import BackfillJob
from meterlake.stores import Organization
from meterlake.stores.fan_out import FanOutTask, TaskEnd, run_tasks
from meterlake.stores.state.ingest.backfills import Backfills


def open_job(organization: Organization, id: str, snapshot: int) -> BackfillJob:
    """A backfill that is being staged from a snapshot.

    Raises:
        NotFound: There is no such backfill.
        Busy: It is staged from another snapshot by now.
    """
    found = Backfills(organization.state, organization.id).get(id)
    if found.snapshot != snapshot:
        raise Busy(f"backfill {id!r}", "it was begun again from another snapshot; that one goes on")
    return BackfillJob(organization, found, found.author)


def read_notes(
    job: BackfillJob,
    runner: FanOutRunner,
    tasks: Sequence[FanOutTask],
    count: Callable[[dict[str, Any]], int],
) -> list[dict[str, Any] | None]:
    """Run the tasks of a backfill, and read the notes that they answer.

    Args:
        job: The backfill.
        runner: What carries them.
        tasks: Each answers the name of its note, or None.
        count: How many measurements a note is about.

    Returns:
        The notes in the order of the tasks.

    Raises:
        TasksFailed: Some failed; what the others found is kept.
        Unavailable: A store failed, or what carries the tasks; or a note is not in our folder.
    """
    notes: dict[int, dict[str, Any] | None] = {}

    def note(end: TaskEnd) -> None:
        if isinstance(end.error, Busy):
            raise end.error
        if end.error is None:
            found: dict[str, Any] | None = None
            if end.value is not None:
                try:
                    found = wire.loads((job.folder.rows / end.value).read_bytes())
                except FileNotFoundError:
                    why = "its worker wrote into another one"
                    raise Unavailable(
                        f"{job.folder.rows} ({end.name})",
                        why,
                        "give all workers the folder of the lake, and run it again",
                    ) from None
            notes[end.number] = found
            job.progress(count(found) if found else 0, len(notes), len(tasks))

    run_tasks(job.organization.stores, runner, tasks, note)
    return [notes[number] for number in range(len(tasks))]
