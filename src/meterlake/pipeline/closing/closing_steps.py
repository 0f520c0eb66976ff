"""What the steps of closing a month do, and what they come to."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from meterlake.model.errors import Conflict, Invalid
from meterlake.model.measurements.receipt import Receipt
from meterlake.model.values.period import Month
from meterlake.model.values.plurals import counted, first_of
from meterlake.model.work.export_request import ExportRequest
from meterlake.pipeline.backfill import apply
from meterlake.pipeline.closing.close_month import Closing, ClosingStep
from meterlake.pipeline.closing.closing_bills import carry_out_review, check_shown, make_bills
from meterlake.pipeline.closing.left_open import LeftOpen
from meterlake.pipeline.export.run import run_to_end, submit_export
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.inbox import poll_inboxes
from meterlake.pipeline.ingest.uploads import ingest_uploads
from meterlake.pipeline.integrations.sender import prepare_runs, send_due_runs
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from meterlake.pipeline.publish.run import publish
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores import Organization
from meterlake.stores.lake.tables import has_snapshot

# Files, or differences, that an error shows.
_LISTED: Final = 3


def ingest_all(organization: Organization) -> dict[str, Any]:
    """Ingest what lies in the drop folder and the inboxes, and what was uploaded.

    Raises:
        Conflict: A file cannot be read; all the others are ingested.
    """
    folder = drop_folder(organization.stores, organization.code)
    receipts: list[Receipt] = [
        *ingest_inbox(organization, folder),
        *poll_inboxes(organization),
        *ingest_uploads(organization),
    ]
    failed = [each for each in receipts if each.status == "failed"]
    if failed:
        reasons = [f"{each.delivery.name}: {each.reason}: {each.detail}" for each in failed]
        raise Conflict(
            f"{counted(len(failed), 'file')} could not be read: {first_of(reasons, _LISTED)}."
            " Mend what is wrong, deliver what was mended, and close the month again"
        )
    names = ("received", "accepted", "repeats", "rejected")
    counts = {name: sum(getattr(each, name) for each in receipts) for name in names}
    return {"files": len(receipts), **counts}


def apply_backfills(organization: Organization, ids: Sequence[str], author: str) -> dict[str, Any]:
    """Apply the backfills that belong to the month; those that are applied stay so.

    Raises:
        NotFound: There is no such backfill.
        Conflict: One is not staged, or what it is about has changed since.
    """
    return {"applied": [apply(organization, id_, author).id for id_ in ids]}


def reconcile(organization: Organization) -> dict[str, Any]:
    """Compare the ledger with what is in the lake: a month with a difference is not billed.

    Raises:
        Conflict: They differ.
    """
    books = check_reconciliation(organization)
    if books.differences:
        listed = first_of(list(map(str, books.differences)), _LISTED)
        raise Conflict(
            f"{counted(len(books.differences), 'difference')} in reconciliation: {listed}."
            " Deliver what is missing again, and close the month again"
        )
    return {**books.totals, "measurements": books.measurements}


def deliver(organization: Organization) -> dict[str, Any]:
    """Hand over what is due to other systems: what fails has tries of its own."""
    events = prepare_runs(organization)
    send_due_runs(organization.stores)
    return {"events": events}


def maintain_closed(organization: Organization) -> dict[str, Any]:
    """Merge the small files that the month has left."""
    done = maintain(organization)
    return {"compacted": done.compacted_files, "snapshot": done.snapshot}


def aggregate_quantities(organization: Organization, month: Month) -> dict[str, Any]:
    """Aggregate the month."""
    found = aggregate(organization, month)
    return {"quantities": len(found.rows), "snapshot": found.snapshot}


def submit_closing_export(closing: Closing, step: ClosingStep, request: ExportRequest) -> str:
    """Make the job of an export of the month, once, however often this is called; its id.

    It reads what the approved bills were made from: what comes in later is late usage.
    """
    organization = closing.organization
    snapshot = closing.outcomes()[ClosingStep.REVIEW].get("snapshot")
    with organization.lake.reader() as connection:
        if snapshot is not None and not has_snapshot(connection, snapshot):
            snapshot = None  # The closing was left for weeks, and bills made again pin others.
    return submit_export(organization, request, closing.author, closing.export_id(step), snapshot)


def export_closed(closing: Closing, step: ClosingStep, request: ExportRequest) -> dict[str, Any]:
    """Export usage or operational data of the month, once."""
    job = submit_closing_export(closing, step, request)
    done = run_to_end(closing.organization.stores, job)
    return {"job": job, "rows": done.rows, "manifest": done.manifest_url}


def publish_closed(organization: Organization) -> dict[str, Any]:
    """Publish the analysts' file."""
    done = publish(organization)
    return {
        "rows": sum(done.rows.values()),
        "snapshot": done.snapshot,
        "warehouse": str(done.path),
    }


def close_month(
    closing: Closing,
    *,
    approve: bool,
    exports: Mapping[ClosingStep, ExportRequest],
    backfills: Sequence[str] = (),
    left_open: Sequence[LeftOpen] = (),
) -> dict[str, Any]:
    """Do what is left of a closing, without Prefect, after its files have come.

    Args:
        closing: The closing.
        approve: Whether the bills are approved; it stops before that otherwise.
        exports: What is exported, by step.
        backfills: The ids of staged backfills that are applied before quantities are made.
        left_open: The bills that an approval leaves out.

    Returns:
        What the steps that are done came to.

    Raises:
        NotShown: The bills are to be approved, and nobody was shown them.
        NotReviewed: The bills changed after they were reviewed.
        Conflict: A backfill comes too late: the step that applies them is done.
    """
    if approve:
        check_shown(closing)
    check_backfills(closing, backfills)
    _make_quantities_and_bills(closing, backfills)
    if ClosingStep.REVIEW not in closing.outcomes():
        if not approve:
            return closing.outcomes()
        carry_out_review(closing, left_open)
    # Export, publish, hand over to other systems, and tidy the lake up.
    organization = closing.organization
    for step, request in exports.items():
        closing.carry_out(step, partial(export_closed, closing, step, request))
    closing.carry_out(ClosingStep.PUBLISH, lambda: publish_closed(organization))
    closing.carry_out(ClosingStep.DELIVER, lambda: deliver(organization))
    closing.carry_out(ClosingStep.MAINTAIN, lambda: maintain_closed(organization))
    return closing.complete()


def _make_quantities_and_bills(closing: Closing, backfills: Sequence[str]) -> None:
    """Ingest, apply backfills, compare, aggregate and bill."""
    organization, month, author = closing.organization, closing.month, closing.author
    closing.carry_out(ClosingStep.INGEST, lambda: ingest_all(organization))
    closing.carry_out(
        ClosingStep.BACKFILL, lambda: apply_backfills(organization, backfills, author)
    )
    closing.carry_out(ClosingStep.RECONCILE, lambda: reconcile(organization))
    closing.carry_out(ClosingStep.AGGREGATE, lambda: aggregate_quantities(organization, month))
    closing.carry_out(ClosingStep.BILL, lambda: make_bills(organization, month, author))


def check_duration(name: str, value: float) -> None:
    """Refuse what is no length of time.

    Raises:
        Invalid: It is negative, infinite or not a number.
    """
    if not 0 <= value < math.inf:
        raise Invalid(name, value, "it must be 0 or more")


def check_backfills(closing: Closing, backfills: Sequence[str]) -> None:
    """Refuse backfills that would not be applied: what is billed does not have them.

    Raises:
        Conflict: The step that applies backfills is done without one of them.
    """
    done = closing.outcomes().get(ClosingStep.BACKFILL)
    late = [] if done is None else [each for each in backfills if each not in done["applied"]]
    if late:
        raise Conflict(
            f"the backfills of {closing.month} are applied already, without {', '.join(late)};"
            " reject the bills, and close the month again"
        )
