"""What became of files that were ingested, as the runs of flows show it."""

from collections.abc import Iterable
from typing import Final

from prefect import get_run_logger

from flows.assets import MadeAsset
from flows.outcome import Row, TaskOutcome
from meterlake.model.measurements.receipt import Receipt
from meterlake.pipeline.ingest.arrivals import count_by_month
from meterlake.pipeline.ingest.drop_folder import DropFolder
from meterlake.stores import Organization

FILES: Final = "Files"


def books(receipts: Iterable[Receipt], folder: DropFolder | None = None) -> TaskOutcome:
    """The books of some files; they are in the run's log even if a later file cannot be done."""
    logger = get_run_logger()
    counts = dict.fromkeys(("received", "accepted", "repeats", "rejected"), 0)
    files: list[Row] = []
    outcome = TaskOutcome({"files": 0, **counts}, {FILES: files})
    for receipt in receipts:
        row = _row(receipt, folder)
        logger.info("%s", row)
        files.append(row)
        outcome.sources.append(receipt.identity)
        outcome.summary["files"] += 1
        for name in counts:
            outcome.summary[name] += row[name]
        if receipt.status == "failed":
            outcome.problems.append(f"{row['file']}: {receipt.reason}: {receipt.detail}")
    return outcome


def _row(receipt: Receipt, folder: DropFolder | None) -> Row:
    archive = folder and (folder.done if receipt.status == "done" else folder.failed)
    return {
        "file": receipt.delivery.name,
        "status": receipt.status,
        "received": receipt.received,
        "accepted": receipt.accepted,
        "repeats": receipt.repeats,
        "rejected": receipt.rejected,
        "reasons": ", ".join(
            f"{reason} {rows}" for reason, rows in sorted(receipt.reasons.items())
        ),
        "reason": receipt.reason and f"{receipt.reason}: {receipt.detail}",
        "report in": archive and str(archive / receipt.delivery.id),
    }


def with_measurements(organization: Organization, outcome: TaskOutcome) -> TaskOutcome:
    """Add the measurements of the files as assets, one for each month that they brought some of."""
    months = count_by_month(organization, outcome.sources)
    snapshot = organization.lake.snapshot() if months else None
    totals = {
        name: outcome.summary[name] for name in ("received", "accepted", "repeats", "rejected")
    }
    for month, rows in months.items():
        metadata = {"snapshot": snapshot, "rows": rows, "files": totals}
        outcome.assets.append(MadeAsset("measurements", month, metadata))
    return outcome
