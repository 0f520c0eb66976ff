"""Usage, bills and configuration as files, with a manifest that is written last."""

import flows  # noqa: F401

# isort: split
from typing import Literal

from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Outcome, Row, told
from flows.parameters import Home, MonthName, Organizations, open_home
from flows.retrying import retrying
from meterlake.pipeline.export import ExportRequest
from meterlake.pipeline.export import export as export_files
from meterlake.pipeline.months import month_named


@retrying("export of {org}")
def export_organization(home: Home, org: str, request: Row) -> Outcome:
    """Export the data of one organization; the month of the request may be named as in `bill`."""
    with open_home(home) as stores:
        org_id = stores.state.organization(org).id
        month = request["month"] and str(month_named(stores, org_id, request["month"]))
        done = export_files(stores, org_id, ExportRequest.from_wire({**request, "month": month}))
    files = done.manifest["files"]
    return Outcome(
        {"files": len(files), "rows": done.rows, "manifest": done.manifest_url},
        [{"rows": file["rows"], "file": f"{done.url}/{file['key']}"} for file in files],
    )


@flow(name="export", flow_run_name="export {source} as {format}", task_runner=a_few_at_once())
def export(
    *,
    home: Home = None,
    org: Organizations = (),
    source: Literal["usage", "operational"] = "usage",
    format: Literal["csv", "jsonl", "parquet"] = "csv",
    to: str | None = None,
    month: MonthName | None = None,
) -> list[Row]:
    """Export data as files below a destination; a manifest with sizes and sums is written last.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        source: `usage` is measurements and quantities, `operational` bills and configuration.
        format: CSV and JSON Lines are compressed with gzip.
        to: A folder, `s3://bucket/prefix` or `gs://bucket/prefix`; by default the folder
            `exports` of the home.
        month: Only a month: 2026-10, or `last` or `current` by each organization's own calendar.
    """
    request: Row = {"source": source, "format": format, "to": to, "month": month, "types": []}
    return told("export", for_each_organization(export_organization, home, org, request))


if __name__ == "__main__":
    run_as_command(export)
