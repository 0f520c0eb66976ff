"""What came in during the last hours, through whatever door."""

import flows  # noqa: F401

# isort: split
from typing import Annotated

from prefect import flow
from pydantic import Field

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, open_home
from flows.retrying import retrying
from meterlake.pipeline.ingest.arrivals import came_in, last_hours


@retrying("what came in of {org}")
def summarize(home: Home, org: str, hours: int) -> TaskOutcome:
    """Count what came in of one organization."""
    with open_home(home) as stores:
        period = last_hours(stores.now(), hours)
        found = came_in(stores.find_organization(org), period)
    of_time = {"from": f"{period.start:%F %R}", "until": f"{period.end:%F %R}"}
    return TaskOutcome({**of_time, **found.totals}, {"By hour": found.hours, "Files": found.files})


@flow(name="ingest-summary", task_runner=a_few_at_once())
def ingest_summary(
    *,
    home: Home = None,
    org: Organizations = (),
    hours: Annotated[int, Field(ge=1, le=168)] = 1,
) -> list[Row]:
    """Summarize what came in: dropped files, uploads, objects of buckets, submitted batches.

    The counts are of the last whole hours, in UTC; those of each hour of the last day, also of the
    one that goes on, and the files follow.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        hours: How many whole hours.
    """
    what = f"ingest summary of {'the last hour' if hours == 1 else f'the last {hours} hours'}"
    return told("ingest-summary", for_each_organization(summarize, home, org, hours, what=what))


if __name__ == "__main__":
    run_as_command(ingest_summary)
