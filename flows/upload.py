"""One uploaded file into the lake."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.command import run_as_command
from flows.fan_out import label_run_of
from flows.ingest import books
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, open_home
from flows.retrying import retrying
from meterlake.pipeline.ingest.uploads import run_upload


@retrying("ingest {name}")
def ingest_upload(home: Home, org: str, job: str, name: str) -> TaskOutcome:
    """Run an upload job."""
    del name  # It names the run.
    with open_home(home) as stores:
        receipt = run_upload(stores, stores.state.organization(org).id, job)
        return books([receipt] if receipt else [])


@flow(name="upload", flow_run_name="upload {name}")
def upload(*, home: Home = None, org: str, job: str, name: str = "file") -> list[Row]:
    """Ingest the file of an upload job, if it is there and nobody else does.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Code or id of the organization.
        job: The id of the job.
        name: How the run is named; the file's name.
    """
    code = label_run_of(home, org, f"upload {name}")
    return told("upload", {code: ingest_upload(home, code, job, name)})


if __name__ == "__main__":
    run_as_command(upload)
