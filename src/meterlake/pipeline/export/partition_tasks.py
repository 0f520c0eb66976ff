"""Partitions of an export that are written at once: each is a task of a fan-out.

A partition is a meter, or types that are read together. A task is told the job, its attempt and the
partition. It writes into a folder of its own: whoever runs it twice is in nobody's way. The run
takes the files from there, so all who work need the home.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from meterlake.model.errors import RunnerUnavailable, StaleVersion
from meterlake.model.values.failpoint import mark_step
from meterlake.model.work.export_request import Source
from meterlake.model.work.jobs import FanOutRunner
from meterlake.pipeline.export.operational import stage_operational
from meterlake.pipeline.export.staging import ExportStaging
from meterlake.pipeline.export.usage import meters_of, stage_usage
from meterlake.pipeline.jobs.attempt import Cancelled, following
from meterlake.stages.export.exported_columns import (
    BALANCE_TRANSACTIONS,
    BILLS,
    FOCUS,
    LINES,
    MEASUREMENTS,
    Export,
    exports_of,
)
from meterlake.stages.export.manifest import WrittenFile
from meterlake.stores import Stores
from meterlake.stores.fan_out import FanOutTask, TaskEnd, run_tasks
from meterlake.stores.files.durable import disk, make_folder

# Bills have no history: their lines are read with them. So are balances and what they hold.
_TOGETHER: Final = (
    frozenset({BILLS.name, LINES.name, FOCUS.name}),
    frozenset({"balances", BALANCE_TRANSACTIONS.name}),
)
_PARTS: Final = "parts"


@dataclass(frozen=True, slots=True)
class ExportPartition:
    """What one task writes.

    Attributes:
        types: The names of the types.
        meter_id: The meter whose measurements are written; None for other types.
    """

    types: tuple[str, ...]
    meter_id: str | None = None


@dataclass(frozen=True, slots=True)
class StagedPartition:
    """What a task has written.

    Attributes:
        folder: The name of its folder.
    """

    folder: str
    files: list[WrittenFile]


def export_folder(stores: Stores, job_id: str) -> Path:
    """Where the files of an export are staged."""
    return stores.home / "staging" / "exports" / job_id


def spread_files(
    staging: ExportStaging, exports: Sequence[Export], runner: FanOutRunner
) -> list[WrittenFile]:
    """Have a runner write the files of an export; the same ones in the same order.

    Raises:
        Cancelled, StaleVersion: The job is to stop.
        TasksFailed: Some partitions failed, and are named.
        RunnerUnavailable: What carries the tasks failed; or the files are not in our folder.
        Unavailable: A store failed.
    """
    job = staging.attempt.job
    tasks = [
        FanOutTask(
            " and ".join(each.types)
            + (f" of meter {each.meter_id}" if each.meter_id else "")
            + f" in export {job.id}",
            stage_partition,
            (job.id, job.attempt, each),
        )
        for each in _partitions(staging, exports)
    ]
    found = run_tasks(staging.stores, runner, tasks, partial(_note_end, staging))
    shutil.rmtree(staging.folder / _PARTS, ignore_errors=True)
    staging.attempt.check()
    files = [file for each in found for file in each.files]
    return [file for export in exports for file in files if file.type == export.key_type]


def _partitions(staging: ExportStaging, exports: Sequence[Export]) -> Iterator[ExportPartition]:
    names = [each.name for each in exports]
    done: set[str] = set()
    for name in names:
        if name == MEASUREMENTS.name:
            yield from (ExportPartition((name,), each) for each in meters_of(staging))
        elif name not in done:
            group = next((each for each in _TOGETHER if name in each), frozenset({name}))
            done |= group
            yield ExportPartition(tuple(each for each in names if each in group))


def _note_end(staging: ExportStaging, end: TaskEnd) -> None:
    """Take the files of a partition, and hear whether the job is to stop."""
    if isinstance(end.error, (Cancelled, StaleVersion)):
        raise end.error
    staging.attempt.check()
    if not isinstance(end.value, StagedPartition):
        return
    folder = staging.folder / _PARTS / end.value.folder
    if not folder.is_dir():
        why = "its worker wrote into another one"
        raise RunnerUnavailable(
            f"{folder} ({end.name})", why, "give all workers the home, and run it again"
        )
    for file in end.value.files:
        name = Path(file.key).name
        with disk():
            (folder / name).rename(staging.folder / name)
        staging.told.add(file.rows)


def stage_partition(
    stores: Stores, job_id: str, attempt: int, partition: ExportPartition
) -> StagedPartition:
    """Write the files of a partition of an export, as a task.

    Raises:
        Cancelled: The job is to stop.
        StaleVersion: Another attempt has the job.
        Unavailable: A store failed.
    """
    folder = export_folder(stores, job_id) / _PARTS / str(uuid4())
    with following(stores.state.jobs, job_id, attempt) as followed:
        make_folder(folder)
        staging = ExportStaging.of(stores, followed, folder)
        exports = exports_of(staging.request.source, partition.types)
        if staging.request.source is Source.OPERATIONAL:
            files = list(stage_operational(staging, exports))
        else:
            [export] = exports
            files = list(stage_usage(staging, export, partition.meter_id))
    mark_step("export.partition_staged")
    return StagedPartition(folder.name, files)
