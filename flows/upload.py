"""Uploaded files into the lake."""

import flows  # noqa: F401

# isort: split
from typing import Any, Final

from prefect import State, flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed

from flows.command import run_as_command
from flows.fan_out import label_run_of
from flows.ingested import FILES, with_measurements
from flows.labels import label_run
from flows.outcome import Row, TaskOutcome, told_of_all
from flows.parameters import Home, kept_open, open_home
from flows.turn import is_over
from flows.uploaded import COUNTS, SOURCE, add_row, count_text, row_of
from meterlake.model.errors import Busy, StaleVersion
from meterlake.pipeline.ingest.uploads import as_it_stands, run_each_upload, run_upload
from meterlake.stores import Stores

_ELSEWHERE: Final = "another process does it"


# Not tried again here: the job is due again, and the other files do not wait for it.
@task(task_run_name="ingest {name}", cache_policy=NO_CACHE)
def run_job(home: Home, org: str, job: str, name: str) -> State[Row]:
    """Run the job of one file; the state of its run has the counts."""
    del name  # It names the run.
    with open_home(home) as stores:
        organization = stores.find_organization(org)
        try:
            receipt = run_upload(organization, job)
        except (Busy, StaleVersion):
            return Completed(message=_ELSEWHERE, data={})
        ended = as_it_stands(organization, job)
    if ended.job.finished is None:
        return Completed(message=_ELSEWHERE, data={})
    row = row_of(ended.name, ended.status.value, ended.job.result)
    get_run_logger().info("%s", row)
    if receipt is not None:
        row[SOURCE] = receipt.identity
    if row["reason"]:
        return Failed(message=row["reason"], data=row)
    return Completed(message=count_text(row), data=row)


def ingest_waiting(
    home: Home, stores: Stores, org: str
) -> tuple[TaskOutcome, list[BaseException], int]:
    """Ingest the files of an organization that wait; what came of them, what broke, how many."""
    outcome = TaskOutcome({"files": 0, **dict.fromkeys(COUNTS, 0)}, {FILES: []})
    broke: list[BaseException] = []
    tried = 0
    # Without tags, for which Prefect would ask its server about limits before every task.
    organization = stores.find_organization(org)

    def run(job: str, name: str) -> None:
        state = run_job(home, org, job, name, return_state=True)
        _note(outcome, broke, name, state.result(raise_on_failure=False))

    for _ in run_each_upload(organization, run, is_over):
        tried += 1
    return with_measurements(organization, outcome), broke, tried


@flow(name="upload", flow_run_name="upload {name}")
def upload(*, home: Home = None, org: str, name: str = "files") -> list[Row]:
    """Ingest the uploaded files of an organization that wait, also those of lookup tables.

    Each file is a task. Files that come meanwhile are taken in too. One that cannot be read fails
    the run, after all the others are ingested.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Code or id of the organization.
        name: How the run is named: the file's name, or how many there are.
    """
    with kept_open(home) as stores:
        code = label_run_of(home, org, f"upload {name}")
        outcome, broke, tried = ingest_waiting(home, stores, code)
        if tried > 1:
            label_run(f"upload {tried:,} files", [code])
    return told_of_all("upload", {code: outcome}, broke)


def _note(outcome: TaskOutcome, broke: list[BaseException], name: str, result: Any) -> None:
    if isinstance(result, BaseException):
        outcome.problems.append(f"{name}: {type(result).__name__}: {result}")
        broke.append(result)
    elif result:
        add_row(outcome, result)


if __name__ == "__main__":
    run_as_command(upload)
