"""`meterlake close-month`: from the files of a month to its exports, step by step."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.configuration import AUTHOR
from meterlake.cli.options import NO_FAN_OUT_OPTIONS, FanOutOptions, Options
from meterlake.model.errors import Conflict, Invalid

if TYPE_CHECKING:
    from meterlake.model.export_request import ExportRequest
    from meterlake.pipeline.home.closing import Closing, ClosingStep

Text = Annotated[str | None, Parameter(show_default=False)]
Patterns = Annotated[
    tuple[str, ...], Parameter(negative="", show_default=False, consume_multiple=True)
]
_LOOK_S: Final = 5.0


@Parameter(name="*")
@dataclass(frozen=True)
class ExpectedFiles:
    """Which files and corrections a month has.

    Attributes:
        file: Patterns of names of the files that are expected, such as `usage-*.csv`.
        hours: How long they are waited for.
        backfill: Ids of staged backfills that are applied before quantities are made.
    """

    file: Patterns = ()
    hours: float = 0
    backfill: Patterns = ()


@Parameter(name="*")
@dataclass(frozen=True)
class ClosingExports:
    """Where the exports of a month go.

    Attributes:
        format: Of the exports.
        to: A folder or a bucket; by default the home's exports.
    """

    format: Literal["csv", "jsonl", "parquet"] = "parquet"
    to: Text = None


_NONE_EXPECTED: Final = ExpectedFiles()
_IN_THE_HOME: Final = ClosingExports()


def register(app: App) -> None:
    """Add the command."""
    app.command(close_month)


def close_month(
    month: Annotated[str, Parameter(name="MONTH")],
    /,
    *,
    expected: ExpectedFiles = _NONE_EXPECTED,
    approve: Annotated[bool, Parameter(negative="")] = False,
    reject: Text = None,
    written: ClosingExports = _IN_THE_HOME,
    options: FanOutOptions = NO_FAN_OUT_OPTIONS,
) -> int:
    """Close a month: ingest, correct, compare, aggregate and bill; after a review export and publish.

    It stops before the review: look at the bills, and run it again with --approve or --reject. A
    step that is done is not repeated, also after a crash; a month that is closed stays so. The
    flow `close-month` does the same with Prefect.

    Example: `meterlake close-month 2026-10 --approve`

    Args:
        month: Such as 2026-10; or `last` or `current`.
        approve: Approve the bills, if they are what was shown; after --reject look at them anew.
        reject: Reject them for this reason: the next run begins at the first step.
    """
    from meterlake.cli.export_documents import resolve_closing_exports
    from meterlake.pipeline.config.months import month_named
    from meterlake.pipeline.home.closing import Closing

    _check_options(expected, reject, approve=approve)
    with options.open() as (stores, organization):
        meant = month_named(stores, organization.id, month)
        closing = Closing(stores, organization.id, meant, AUTHOR)
        if not closing.is_closed:
            # A bad --to is not found behind the review.
            exports = resolve_closing_exports(closing, written.format, written.to)
            closing.open()
            _decide(closing, reject)
            _wait_for_files(closing, expected)
            _go_on(closing, expected.backfill, approve=approve, exports=exports)
        _show(closing, options)
    return 0


def _check_options(expected: ExpectedFiles, reject: str | None, *, approve: bool) -> None:
    from meterlake.pipeline.home.closing_steps import check_duration

    if approve and reject is not None:
        raise Invalid("--reject", reject, "absent beside --approve")
    if reject is not None and not reject.strip():
        raise Invalid("--reject", reject, "a reason")
    check_duration("--hours", expected.hours)


def _decide(closing: "Closing", reject: str | None) -> None:
    from meterlake.pipeline.home.closing import ClosingStep
    from meterlake.pipeline.home.closing_steps import reject_bills

    if reject is None:
        return
    done = closing.outcomes()
    if ClosingStep.BILL not in done or ClosingStep.REVIEW in done:
        raise Conflict(f"the bills of {closing.month} do not wait for a review")
    reject_bills(closing, reject)


def _wait_for_files(closing: "Closing", expected: ExpectedFiles) -> None:
    from meterlake.pipeline.home.closing import ClosingStep
    from meterlake.pipeline.home.expected_files import missing_files

    if ClosingStep.FILES in closing.outcomes():
        return
    give_up = time.monotonic() + expected.hours * 3600
    while missing := missing_files(closing.stores, closing.org_id, expected.file):
        if time.monotonic() >= give_up:
            raise Conflict(f"no file {', '.join(missing)} came in time")
        time.sleep(_LOOK_S)
    closing.carry_out(ClosingStep.FILES, lambda: {"expected": len(expected.file)})


def _go_on(
    closing: "Closing",
    backfills: tuple[str, ...],
    *,
    approve: bool,
    exports: dict["ClosingStep", "ExportRequest"],
) -> None:
    from meterlake.pipeline.home.closing_steps import close_month as go_on

    go_on(closing, approve=approve, exports=exports, backfills=backfills)


def _show(closing: "Closing", options: Options) -> None:
    from meterlake.pipeline.home.closing import ClosingStep

    done = closing.outcomes()
    # A month that an earlier version closed has no other steps any more.
    steps = [step for step in ClosingStep if step in done or not closing.is_closed]
    rows = [_row(step, done.get(step)) for step in steps]
    if options.json:
        for row in rows:
            options.output.line(row)
        return
    shown = [{**row, "outcome": _words(row["outcome"])} for row in rows]
    options.output.rows(shown, ("step", "status", "outcome"))
    if closing.is_closed:
        options.output.note(f"{closing.month} is closed.")
    else:
        again = f"meterlake close-month {closing.month}"
        options.output.note(f"Look at the bills, then: {again} --approve, or --reject REASON")


def _row(step: str, outcome: Any) -> dict[str, Any]:
    return {"step": str(step), "status": "waits" if outcome is None else "done", "outcome": outcome}


def _words(outcome: Any) -> str:
    if isinstance(outcome, dict):
        return ", ".join(f"{name} {_words(each)}" for name, each in outcome.items())
    return "" if outcome is None else str(outcome)
