"""The file that analysts open: one self-contained DuckDB file per organization."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.assets import ALL, MadeAsset
from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, RunnerName, open_home
from flows.retrying import retrying
from meterlake.pipeline.ingest.arrivals import list_months
from meterlake.pipeline.publish.report import report as write_report
from meterlake.pipeline.publish.run import publish as publish_file


@retrying("publish {org}")
def publish_organization(home: Home, org: str, parquet: bool, report: bool) -> TaskOutcome:
    """Publish the data of one organization."""
    with open_home(home) as stores:
        organization = stores.find_organization(org)
        done = publish_file(organization, parquet=parquet)
        page = write_report(organization) if report else None
        months = tuple(list_months(organization))
    return TaskOutcome(
        ({"report": str(page)} if page else {})
        | {
            "tables": len(done.rows),
            "rows": sum(done.rows.values()),
            "snapshot": done.snapshot,
            "monthsMade": done.made[0],
            "warehouse": str(done.path),
        },
        {"Published tables": [{"table": each, "rows": rows} for each, rows in done.rows.items()]},
        assets=[
            MadeAsset(
                *("published", ALL, {"snapshot": done.snapshot, "rows": dict(done.rows)}, months)
            )
        ],
    )


@flow(name="publish", task_runner=a_few_at_once())
def publish(
    *,
    home: Home = None,
    org: Organizations = (),
    parquet: bool = False,
    report: bool = False,
    runner: RunnerName | None = None,
) -> list[Row]:
    """Publish the analysts' DuckDB file, in place of the last one.

    Whoever has the old file open keeps reading it.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        parquet: Also publish a folder of Parquet files.
        report: Also write the usage report.
        runner: threads, processes, dask, or dask://host:port; what carries the organizations.
    """
    what = "publish the analysts' file"
    outcomes = for_each_organization(
        publish_organization, home, org, parquet, report, what=what, runner=runner
    )
    return told("publish", outcomes)


if __name__ == "__main__":
    run_as_command(publish)
