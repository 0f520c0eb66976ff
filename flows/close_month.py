"""A month from its files to its exports: each step a flow, with a review before bills count."""

import flows  # noqa: F401

# isort: split
from typing import Final, Literal

from prefect import flow

from flows.closing import (
    hand_over,
    make_quantities_and_bills,
    outcome_of_closing,
    review_bills,
    wait_for_files,
)
from flows.command import run_as_command
from flows.fan_out import label_run_of
from flows.outcome import Row, told
from flows.parameters import Home, MonthName, RunnerName, kept_open
from meterlake.cli.export.documents import resolve_closing_exports
from meterlake.pipeline.closing.close_month import Closing
from meterlake.pipeline.closing.closing_bills import check_shown
from meterlake.pipeline.closing.closing_steps import check_backfills, check_duration
from meterlake.pipeline.config.months import month_named, month_text

AUTHOR: Final = "flow"


@flow(name="close-month", flow_run_name="close {month}")
def close_month(  # noqa: PLR0913 - the form that people fill in
    *,
    home: Home = None,
    org: str | None = None,
    month: MonthName = "last",
    file: tuple[str, ...] = (),
    hours: float = 24,
    look: float = 30,
    backfill: tuple[str, ...] = (),
    approve: bool = False,
    early: bool = False,
    format: Literal["csv", "jsonl", "parquet"] = "parquet",
    to: str | None = None,
    runner: RunnerName | None = None,
) -> list[Row]:
    """Close a month: from its files to its bills, and after a review to its exports.

    Each step is a flow run of its own. What a step came to is kept in State: a run that died is
    started again with the same month, and goes on with the first step that is not done.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Code or id of the organization; the only one of the home if empty.
        month: Such as 2026-10; or `last` or `current`, by the organization's calendar.
        file: Patterns of names of the files that are expected, such as `usage-*.csv`.
        hours: How long they are waited for.
        look: Seconds between two looks.
        backfill: Ids of staged backfills that are applied before quantities are made.
        approve: Approve the bills that an earlier run, or the command, has shown.
        early: Close a month whose last day is not over. Its usage that comes later is late usage.
        format: CSV and JSON Lines are compressed with gzip.
        to: A folder, `s3://bucket/prefix` or `gs://bucket/prefix`; by default the home's exports.
        runner: threads, processes, dask, or dask://host:port; what carries the parts of each step.
    """
    for name, value in (("hours", hours), ("look", look)):
        check_duration(name, value)
    # The runs of its steps are threads of this process: they work with these stores.
    with kept_open(home, runner) as stores:
        organization = stores.find_organization(org)
        meant = month_named(organization, month)
        code = label_run_of(home, organization.id, f"close {month_text(month)}")
        closing = Closing(organization, meant, AUTHOR)
        if closing.is_closed:
            check_backfills(closing, backfill)
        else:
            closing.check_over(early=early)
            if approve:
                check_shown(closing)
            exports = resolve_closing_exports(closing, format, to)
            closing.open()
            check_backfills(closing, backfill)
            wait_for_files(closing, code, file, hours, look)
            make_quantities_and_bills(closing, home, code, backfill)
            review_bills(closing, approve=approve)
            hand_over(closing, home, code, exports)
        done = closing.complete()
    return told("close-month", {code: outcome_of_closing(str(meant), done)})


if __name__ == "__main__":
    run_as_command(close_month)
