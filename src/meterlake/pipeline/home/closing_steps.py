"""What the steps of closing a month do, and what they come to."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

from meterlake.model.errors import Conflict
from meterlake.model.export_request import ExportRequest
from meterlake.model.period import Month
from meterlake.model.receipt import Receipt
from meterlake.pipeline.billing.bills import approve_bills
from meterlake.pipeline.billing.jobs import bill
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.export.run import run_to_end, submit_export
from meterlake.pipeline.home.closing import Closing, ClosingStep, Rejected
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.inbox import poll_inboxes
from meterlake.pipeline.ingest.uploads import ingest_uploads, waiting
from meterlake.pipeline.publish.run import publish
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores import Stores
from meterlake.stores.files.folders import file_name
from meterlake.stores.state.billing.bill_batch import BillOutcome

# Bills of one transaction.
_BATCH: Final = 200
_NAMES: Final = "SELECT DISTINCT name FROM lake.source WHERE status = 'done'"


class NotReviewed(Conflict):
    """Bills changed after somebody looked at them."""

    text = "the bills of {0} have changed since they were reviewed; review them again"

    def __init__(self, month: str) -> None:
        super().__init__(month)


def missing_files(stores: Stores, org_id: str, patterns: Sequence[str]) -> list[str]:
    """The patterns that no file has: none that is ingested, uploaded, or lies in the drop folder.

    Args:
        stores: The home's stores.
        org_id: The organization.
        patterns: Of names, such as `usage-*.csv`; a case matters.
    """
    if not patterns:
        return []
    names = set(_known_names(stores, org_id))
    return [each for each in patterns if not any(fnmatchcase(name, each) for name in names)]


def _known_names(stores: Stores, org_id: str) -> Iterable[str]:
    with stores.lake(org_id).reader() as connection:
        yield from (name for (name,) in connection.execute(_NAMES).fetchall())
    folder = drop_folder(stores, stores.state.organization(org_id).code)
    if folder.inbox.is_dir():
        yield from map(file_name, folder.inbox.iterdir())
    yield from (each.name for each in waiting(stores, org_id))


def ingest_all(stores: Stores, org_id: str) -> dict[str, Any]:
    """Ingest what lies in the drop folder and the inboxes, and what was uploaded.

    Raises:
        Conflict: A file cannot be read; all the others are ingested.
    """
    folder = drop_folder(stores, stores.state.organization(org_id).code)
    receipts: list[Receipt] = [
        *ingest_inbox(stores, org_id, folder),
        *poll_inboxes(stores, org_id),
        *ingest_uploads(stores, org_id),
    ]
    failed = [each.delivery.name for each in receipts if each.status == "failed"]
    if failed:
        raise Conflict(f"{len(failed)} files could not be read: {', '.join(failed)}")
    names = ("received", "accepted", "repeats", "rejected")
    counts = {name: sum(getattr(each, name) for each in receipts) for name in names}
    return {"files": len(receipts), **counts}


def aggregate_quantities(stores: Stores, org_id: str, month: Month) -> dict[str, Any]:
    """Aggregate the month."""
    found = aggregate(stores, org_id, month)
    return {"quantities": len(found.rows), "snapshot": found.snapshot}


def make_bills(stores: Stores, org_id: str, month: Month, author: str) -> dict[str, Any]:
    """Make the bills of the month.

    Raises:
        Conflict: An account cannot be billed.
    """
    return _describe(_make(stores, org_id, month, author))


def approve_bills_of(closing: Closing) -> dict[str, Any]:
    """Approve the bills of the month, if they still are what the step of bills came to.

    Raises:
        NotReviewed: They are others now; whoever goes on makes them, and looks at them, again.
    """
    result = _make(closing.stores, closing.org_id, closing.month, closing.author)
    if _digest(result) != closing.outcomes()[ClosingStep.BILL]["digest"]:
        raise NotReviewed(str(closing.month))
    ids = [each.bill_id for each in result.bills if each.stored is not BillOutcome.LOCKED]
    approved = 0
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        approved += approve_bills(closing.stores, closing.org_id, closing.author, batch)
    return {"decision": "approve", "approved": approved}


def carry_out_review(closing: Closing) -> dict[str, Any]:
    """Approve what was reviewed; see `approve_bills_of`.

    Raises:
        NotReviewed: The bills have changed; the step of bills is to be done again.
    """
    try:
        return closing.carry_out(ClosingStep.REVIEW, lambda: approve_bills_of(closing))
    except NotReviewed:
        closing.forget(ClosingStep.BILL)
        raise


def reject_bills(closing: Closing, reason: str) -> None:
    """Reject the bills of the month.

    Raises:
        Rejected: Always; whoever closes the month again begins at the first step.
    """
    closing.reject(reason)
    raise Rejected(str(closing.month), reason)


def submit_closing_export(closing: Closing, step: ClosingStep, request: ExportRequest) -> str:
    """Make the job of an export of the month, once, however often this is called; its id."""
    return submit_export(
        closing.stores, closing.org_id, request, closing.author, closing.export_id(step)
    )


def export_closed(closing: Closing, step: ClosingStep, request: ExportRequest) -> dict[str, Any]:
    """Export usage or operational data of the month, once."""
    job = submit_closing_export(closing, step, request)
    done = run_to_end(closing.stores, job)
    return {"job": job, "rows": done.rows, "manifest": done.manifest_url}


def publish_closed(stores: Stores, org_id: str) -> dict[str, Any]:
    """Publish the analysts' file."""
    done = publish(stores, org_id)
    return {
        "rows": sum(done.rows.values()),
        "snapshot": done.snapshot,
        "warehouse": str(done.path),
    }


def close_month(
    closing: Closing, *, approve: bool, exports: Mapping[ClosingStep, ExportRequest]
) -> dict[str, Any]:
    """Do what is left of a closing, without Prefect, after its files have come.

    Args:
        closing: The closing.
        approve: Whether the bills are approved; it stops before that otherwise.
        exports: What is exported, by step.

    Returns:
        What the steps that are done came to.

    Raises:
        NotReviewed: The bills changed after they were reviewed.
    """
    stores, org_id, month = closing.stores, closing.org_id, closing.month
    closing.carry_out(ClosingStep.INGEST, lambda: ingest_all(stores, org_id))
    closing.carry_out(ClosingStep.AGGREGATE, lambda: aggregate_quantities(stores, org_id, month))
    closing.carry_out(ClosingStep.BILL, lambda: make_bills(stores, org_id, month, closing.author))
    if ClosingStep.REVIEW not in closing.outcomes():
        if not approve:
            return closing.outcomes()
        carry_out_review(closing)
    for step, request in exports.items():
        closing.carry_out(step, partial(export_closed, closing, step, request))
    closing.carry_out(ClosingStep.PUBLISH, lambda: publish_closed(stores, org_id))
    return closing.complete()


def _make(stores: Stores, org_id: str, month: Month, author: str) -> BillResult:
    result = bill(stores, org_id, month, author=author)
    if result.failures:
        codes = ", ".join(each.account_code for each in result.failures)
        raise Conflict(f"{len(result.failures)} accounts could not be billed: {codes}")
    return result


def _describe(result: BillResult) -> dict[str, Any]:
    totals = {currency: f"{total:f}" for currency, total in result.totals.items()}
    return {
        "bills": len(result.bills),
        "totals": totals,
        "unpriced": len(result.unpriced),
        "snapshot": result.snapshot,
        "digest": _digest(result),
    }


def _digest(result: BillResult) -> str:
    """Tells bills apart that somebody would decide differently about."""
    lines = sorted(f"{each.bill_id} {each.total:f} {each.lines}" for each in result.bills)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
