"""The file that analysts open: one self-contained DuckDB file per organization."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Outcome, Row, told
from flows.parameters import Home, Organizations, open_home
from flows.retrying import retrying
from meterlake.pipeline.publish import publish as publish_file


@retrying("publish {org}")
def publish_organization(home: Home, org: str) -> Outcome:
    """Publish the data of one organization."""
    with open_home(home) as stores:
        done = publish_file(stores, stores.state.organization(org).id)
    return Outcome(
        {
            "tables": len(done.rows),
            "rows": sum(done.rows.values()),
            "snapshot": done.snapshot,
            "warehouse": str(done.path),
        },
        [{"table": table, "rows": rows} for table, rows in done.rows.items()],
    )


@flow(name="publish", task_runner=a_few_at_once())
def publish(*, home: Home = None, org: Organizations = ()) -> list[Row]:
    """Publish the analysts' DuckDB file, in place of the last one.

    Whoever has the old file open keeps reading it.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
    """
    return told("publish", for_each_organization(publish_organization, home, org))


if __name__ == "__main__":
    run_as_command(publish)
