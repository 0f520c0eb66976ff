"""`meterlake close-month`: from the files of a month to its exports, step by step."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_FAN_OUT_OPTIONS, FanOutOptions, Options
from meterlake.model.errors import Invalid, Required

if TYPE_CHECKING:
    from meterlake.pipeline.closing.close_month import Closing

Text = Annotated[str | None, Parameter(show_default=False)]
Patterns = Annotated[
    tuple[str, ...], Parameter(negative="", show_default=False, consume_multiple=True)
]
Flag = Annotated[bool, Parameter(negative="")]
_LOOK_S: Final = 5.0
# Members of outcomes that say nothing to people.
_FOR_PROGRAMS: Final = frozenset({"digest", "job", "left", "leftOpen", "run"})
_PATHS: Final = frozenset({"manifest", "warehouse"})
# Bills that a review lists for people, the largest first.
_LISTED: Final = 20


@Parameter(name="*")
@dataclass(frozen=True)
class ExpectedFiles:
    """Which files and corrections a month has.

    Attributes:
        file: Patterns of names of the files that you expect, such as `usage-*.csv`.
        hours: How long it waits for them.
        backfill: Ids of staged backfills that it applies before it makes quantities.
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


@Parameter(name="*")
@dataclass(frozen=True)
class ClosingDecision:
    """What somebody decides about a month.

    Attributes:
        approve: Approve the bills that you saw in the run before, if they are still the same.
        leave_open: With --approve: the accounts or bills that stay pending, for --reason. The
            others are approved, and the month is closed.
        reject: Reject them for this reason: the next run begins at the first step.
        again: Make the bills and their review again, from all that has come in by now. You do it
            before you approve them, as often as you like.
        early: Close a month whose last day is not over. Its later usage is late usage.
        reopen: Open a closed month again: its bills wait for your approval, and the next run begins
            at the first step. It lists the effects that it cannot take back: bills that are locked
            or that other systems have, exported files, applied backfills, and sent messages.
        reason: Why you open it again, or leave bills open.
    """

    approve: Flag = False
    leave_open: Patterns = ()
    reject: Text = None
    again: Flag = False
    early: Flag = False
    reopen: Flag = False
    reason: Text = None


_UNDECIDED: Final = ClosingDecision()
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
    decision: ClosingDecision = _UNDECIDED,
    written: ClosingExports = _IN_THE_HOME,
    options: FanOutOptions = NO_FAN_OUT_OPTIONS,
) -> int:
    """Close a month: ingest, correct, compare, aggregate and bill; after a review export and publish.

    It stops at the review and shows you the bills and the open points: look at them, and run it
    again with --approve or --reject, or with --again for bills and a review of now. It repeats no finished step, also after a crash. A closed
    month stays closed, until you give --reopen. Without --early it refuses a month that is not
    over. The flow `close-month` does the same with Prefect.

    Example: `meterlake close-month 2026-10`

    Args:
        month: Such as 2026-10; or `last` or `current`.
    """
    from meterlake.cli.export.documents import resolve_closing_exports
    from meterlake.pipeline.closing.close_month import Closing
    from meterlake.pipeline.closing.closing_bills import begin_review_again, check_shown
    from meterlake.pipeline.closing.closing_steps import check_backfills
    from meterlake.pipeline.closing.closing_steps import close_month as go_on
    from meterlake.pipeline.closing.left_open import name_left_open
    from meterlake.pipeline.config.months import month_named

    _check_options(expected, decision)
    with options.open() as organization:
        meant = month_named(organization, month)
        author = options.permitted(organization, ("config:update", "bill"))
        closing = Closing(organization, meant, author)
        if decision.reopen:
            _reopen(closing, str(decision.reason), options)
            return 0
        if closing.is_closed:
            _reject(closing, decision)
            check_backfills(closing, expected.backfill)
        else:
            if decision.reject is None:
                closing.check_over(early=decision.early)
            if decision.approve:
                check_shown(closing)
            # A bad --to is not found behind the review.
            exports = resolve_closing_exports(closing, written.format, written.to)
            _reject(closing, decision)
            closing.open()
            _wait_for_files(closing, expected)
            if decision.again:
                begin_review_again(closing)
            named = [(each, str(decision.reason)) for each in decision.leave_open]
            go_on(
                closing,
                approve=decision.approve,
                exports=exports,
                backfills=expected.backfill,
                left_open=name_left_open(organization, meant, named),
            )
        _show(closing, decision, options)
    return 0


def _check_options(expected: ExpectedFiles, decision: ClosingDecision) -> None:
    from meterlake.pipeline.closing.closing_steps import check_duration

    _refuse_together(decision)
    for name, reason in (("--reject", decision.reject), ("--reason", decision.reason)):
        if reason is not None and not reason.strip():
            raise Invalid(name, reason, "give a reason")
    if decision.leave_open and not decision.approve:
        first = decision.leave_open[0]
        raise Invalid("--leave-open", first, "it is only for --approve; give that, too")
    needs_reason = decision.reopen or bool(decision.leave_open)
    if needs_reason and decision.reason is None:
        raise Required("--reason")
    if decision.reason is not None and not needs_reason:
        raise Invalid(
            "--reason",
            decision.reason,
            "it is only for --reopen and --leave-open; leave it out, or give one of them, too",
        )
    check_duration("--hours", expected.hours)


def _refuse_together(decision: ClosingDecision) -> None:
    """Refuse options of which each asks for something else."""
    values = {
        "--approve": decision.approve,
        "--reject": decision.reject,
        "--again": decision.again,
        "--early": decision.early,
    }
    given = [name for name, value in values.items() if value not in (False, None)]
    if decision.reopen and given:
        raise Invalid(given[0], values[given[0]], "leave it out when you give --reopen")
    first, *others = [name for name in given if name != "--early"] or [""]
    if others:
        raise Invalid(others[0], values[others[0]], f"leave it out when you give {first}")


def _reject(closing: "Closing", decision: ClosingDecision) -> None:
    from meterlake.pipeline.closing.closing_bills import reject_bills

    if decision.reject is not None:
        reject_bills(closing, decision.reject)


def _reopen(closing: "Closing", reason: str, options: Options) -> None:
    """Open a month again, and say what that took back and what it could not."""
    from meterlake.pipeline.closing.reopening import reopen_month

    done = reopen_month(closing, reason)
    if options.json:
        options.output.line(done.to_wire())
        return
    options.output.note(f"{done.month} is open again. The next run begins at the first step.")
    took_back = [f"the approval of bills: {done.pending_bills:,} of the month wait for one again"]
    stays = [
        *_only(done.locked_bills, f"{_count(done.locked_bills, 'bill')}, locked for ever"),
        *_only(done.sent_bills, f"{_count(done.sent_bills, 'bill')} that other systems have"),
        *(f"the backfill {each}, applied" for each in done.backfills),
        *(f"the exported files of {each}" for each in done.manifests),
        "the published file, until the next one",
        "messages that were sent, and all measurements",
    ]
    for title, lines in (("Taken back", took_back), ("Stays as it is", stays)):
        options.output.note(f"\n{title}:")
        for line in lines:
            options.output.note(f"  - {line}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _only(number: int, text: str) -> list[str]:
    return [text] if number else []


def _wait_for_files(closing: "Closing", expected: ExpectedFiles) -> None:
    from meterlake.pipeline.closing.bill_review import late_files_error
    from meterlake.pipeline.closing.close_month import ClosingStep
    from meterlake.pipeline.ingest.expected_files import missing_files

    if ClosingStep.FILES in closing.outcomes():
        return
    give_up = time.monotonic() + expected.hours * 3600
    while missing := missing_files(closing.organization, expected.file):
        if time.monotonic() >= give_up:
            raise late_files_error(missing)
        time.sleep(_LOOK_S)
    closing.carry_out(ClosingStep.FILES, lambda: {"expected": len(expected.file)})


def _show(closing: "Closing", decision: ClosingDecision, options: Options) -> None:
    from meterlake.pipeline.closing.close_month import ClosingStep

    done = closing.outcomes()
    # A month that an earlier version closed has no other steps any more.
    steps = [step for step in ClosingStep if step in done or not closing.is_closed]
    rows = [
        {
            "step": str(step),
            "status": "waits" if done.get(step) is None else "done",
            "outcome": done.get(step),
        }
        for step in steps
    ]
    if options.json:
        for row in rows:
            options.output.line(row)
    else:
        shown = [{**row, "outcome": _words(row["outcome"])} for row in rows]
        options.output.rows(shown, ("step", "status", "outcome"))
        for step, outcome in done.items():
            for name in _PATHS & outcome.keys():
                # Whole, on a line of its own, so that people can copy it.
                options.output.note(f"{step}, {name}:")
                options.output.text(f"  {outcome[name]}")
    for each in closing.reopenings:
        options.output.note(f"Opened again by {each['author']}, {each['at']}: {each['reason']}")
    if closing.is_closed:
        options.output.note(f"{closing.month} is closed.")
        for each in done.get(ClosingStep.REVIEW, {}).get("leftOpen", ()):
            options.output.note(f"Without this bill, which waits for you: {each['reason']}")
            options.output.command(f"bill approve {each['billId']}")
    else:
        _show_review(closing, options)
        again = f"close-month {closing.month}{' --early' if decision.early else ''}"
        options.output.note("Look at the bills, then approve or reject them:")
        options.output.command(f"bill review --month {closing.month}")
        options.output.command(f"{again} --approve")
        options.output.command(f"{again} --reject REASON")
        options.output.note("If something has changed since they were made, make them again first:")
        options.output.command(f"{again} --again")


def _show_review(closing: "Closing", options: Options) -> None:
    """Show the bills and what is open about them: from now on somebody may approve them."""
    from meterlake.cli.billing.review import show_review
    from meterlake.cli.shell.amounts import AmountText
    from meterlake.pipeline.closing.bill_review import review_bills
    from meterlake.pipeline.closing.closing_bills import bills_of_month

    bills = bills_of_month(closing)
    found = review_bills(closing.organization, closing.month)
    if options.json:
        for each in bills:
            options.output.line(each.to_wire())
    elif bills:
        amounts = AmountText.read(closing.organization)
        rows = [
            each.to_wire() | {"total": amounts.money(each.total, each.currency)}
            for each in bills[:_LISTED]
        ]
        more = f", the {_LISTED} largest of {len(bills):,}" if bills[_LISTED:] else ""
        columns = ("!account", "billDate=bill date", "total", "status")
        options.output.rows(rows, columns, f"Bills of {closing.month}{more}")
    _show_left(closing, options)
    show_review(found, options.output)
    closing.note_shown()


def _show_left(closing: "Closing", options: Options) -> None:
    """Show approved and locked bills that would be others: closing the month leaves them alone."""
    from meterlake.pipeline.closing.close_month import ClosingStep

    left = closing.outcomes()[ClosingStep.BILL].get("left", ())
    rows = [{"type": "left", **each} for each in left]
    title = "Approved or locked bills that would be others now, and stay as they are"
    if rows:
        columns = (*("!account", "total", "wouldBe=would be", "differs=what differs", "+!id"),)
        options.output.rows(rows, columns, title)
        options.output.note("To change those that are approved, before they are shown again:")
        options.output.command(f"bill --month {closing.month} --change-approved")


def _words(outcome: Any) -> str:
    if isinstance(outcome, dict):
        shown = {name: each for name, each in outcome.items() if name not in _FOR_PROGRAMS | _PATHS}
        return ", ".join(f"{name} {_words(each)}" for name, each in shown.items())
    return "" if outcome is None else str(outcome)
