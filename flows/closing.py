"""The steps of closing a month, each as a flow run of its own, and done once."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flows.aggregate import aggregate
from flows.backfill_decision import backfill_decision
from flows.bill import bill
from flows.check import check
from flows.deliver import deliver
from flows.export import export_job
from flows.inbox import inbox
from flows.incomplete import Incomplete
from flows.ingest import ingest
from flows.late_files import emit_late
from flows.maintain import maintain
from flows.outcome import Row, TaskOutcome, plain, text
from flows.parameters import Home
from flows.publish import publish
from flows.upload_due import upload_due
from flows.waiting import wait_for_review
from meterlake.pipeline.closing.close_month import Closing, ClosingStep, Rejected
from meterlake.pipeline.closing.closing_bills import carry_out_review, make_bills, reject_bills
from meterlake.pipeline.closing.closing_steps import submit_closing_export
from meterlake.pipeline.ingest.expected_files import missing_files


def wait_for_files(
    closing: Closing, code: str, patterns: tuple[str, ...], hours: float, look: float
) -> None:
    """Wait until every pattern has a file.

    Raises:
        Incomplete: One has none in time.
    """
    if ClosingStep.FILES in closing.outcomes():
        return
    give_up = time.monotonic() + hours * 3600
    while missing := missing_files(closing.organization, patterns):
        if time.monotonic() > give_up:
            emit_late(code, str(closing.month), missing)
            raise Incomplete([f"{code}: no file {each} came in time" for each in missing])
        time.sleep(look)
    closing.carry_out(ClosingStep.FILES, lambda: {"expected": len(patterns)})


def make_quantities_and_bills(
    closing: Closing, home: Home, code: str, backfills: tuple[str, ...] = ()
) -> None:
    """Ingest, apply backfills, compare, aggregate and bill."""
    named: Mapping[str, Any] = {"home": home, "org": (code,)}
    month = str(closing.month)

    def ingest_all() -> Row:
        return _sum([*ingest(**named), *inbox(**named), *upload_due(**named)])

    def apply_all() -> Row:
        for each in backfills:
            backfill_decision("apply", each, home=home, org=code)
        return {"applied": list(backfills)}

    def bill_all() -> Row:
        bill(**named, month=month)
        # Unchanged: only what tells them apart later is new.
        return make_bills(closing.organization, closing.month, closing.author)

    closing.carry_out(ClosingStep.INGEST, ingest_all)
    closing.carry_out(ClosingStep.BACKFILL, apply_all)
    closing.carry_out(ClosingStep.RECONCILE, lambda: _shown(check(**named)))
    closing.carry_out(ClosingStep.AGGREGATE, lambda: _shown(aggregate(**named, month=month)))
    closing.carry_out(ClosingStep.BILL, bill_all)


def review_bills(closing: Closing, *, approve: bool) -> None:
    """Wait until somebody looked at the bills.

    Args:
        closing: The closing.
        approve: Whether somebody did already, and approves them.

    Raises:
        NotShown: They are to be approved, and nobody was shown them.
        Incomplete: They are rejected.
        NotReviewed: They have changed meanwhile.
    """
    done = closing.outcomes()
    if ClosingStep.REVIEW in done:
        return
    if not approve:
        closing.note_shown()
        month = str(closing.month)
        bills = done[ClosingStep.BILL]
        shown = [f"- {plain(name)}: {plain(_told(value))}" for name, value in bills.items()]
        question = "\n".join(
            [f"The bills of {month} are made; `meterlake bill` shows them.", *shown]
        )
        review = wait_for_review(question)
        if review.decision == "reject":
            try:
                reject_bills(closing, review.reason or "without a reason")
            except Rejected as error:
                raise Incomplete([str(error)]) from None
    carry_out_review(closing)


def hand_over(closing: Closing, home: Home, code: str, exports: Mapping[ClosingStep, Any]) -> None:
    """Export, publish, hand over to other systems, and tidy the lake up."""
    for step, request in exports.items():
        closing.carry_out(step, partial(_export, closing, home, code, step, request))
    for step, follow in (
        (ClosingStep.PUBLISH, publish),
        (ClosingStep.DELIVER, deliver),
        (ClosingStep.MAINTAIN, maintain),
    ):
        closing.carry_out(step, partial(_run_step, follow, home, code))


def _export(closing: Closing, home: Home, code: str, step: ClosingStep, request: Any) -> Row:
    job = submit_closing_export(closing, step, request)
    return _shown(export_job(home=home, org=code, job=job, name=request.source.value, wait=True))


def _run_step(step: Callable[..., list[Row]], home: Home, code: str) -> Row:
    return _shown(step(home=home, org=(code,)))


def _shown(rows: list[Row]) -> Row:
    """What one organization came to, as State keeps it."""
    [row] = rows
    left_out = {"organization", "problems"}
    return {name: value for name, value in row.items() if name not in left_out}


def _sum(rows: list[Row]) -> Row:
    names = ("files", "received", "accepted", "repeats", "rejected")
    return {name: sum(row.get(name) or 0 for row in rows) for name in names}


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(each)}" for name, each in value.items())
    return text(value)


def outcome_of_closing(month: str, done: Mapping[str, Any]) -> TaskOutcome:
    """What all steps came to."""
    steps = [{"step": each.value, "outcome": _told(done.get(each))} for each in ClosingStep]
    return TaskOutcome({"month": month, "steps": len(done)}, {"Steps": steps})
