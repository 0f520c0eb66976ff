"""Files into the lake: what lies in drop folders, or files that somebody names."""

import flows  # noqa: F401

# isort: split
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prefect import flow, get_run_logger

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, open_home
from flows.retrying import retrying
from meterlake.model.receipt import Receipt
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import DropFolder, drop_folder
from meterlake.pipeline.ingest.files import expand, ingest_files

FILES: Final = "Files"


@retrying("ingest the drop folder of {org}")
def ingest_drop_folder(home: Home, org: str) -> TaskOutcome:
    """Ingest what lies in an organization's drop folder."""
    with open_home(home) as stores:
        organization = stores.state.organization(org)
        folder = drop_folder(stores, organization.code)
        return books(ingest_inbox(stores, organization.id, folder), folder)


@retrying("ingest files of {org}")
def ingest_named_files(
    home: Home, org: str, file: tuple[Path, ...], mapping: Path | None
) -> TaskOutcome:
    """Ingest files where they lie."""
    with open_home(home) as stores:
        organization = stores.state.organization(org)
        return books(ingest_files(stores, organization, expand(file), mapping))


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


@flow(name="ingest", task_runner=a_few_at_once())
def ingest(
    *,
    home: Home = None,
    org: Organizations = (),
    file: tuple[Path, ...] = (),
    mapping: Path | None = None,
) -> list[Row]:
    """Ingest files of measurements: all that lies in the drop folders, or files that are named.

    Every row is accepted, a repeat of one that is there, or rejected for a reason. A file that
    cannot be read at all fails the run, after all the others are ingested.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty, for files the only one.
        file: Files and folders to ingest where they lie; the drop folders if empty.
        mapping: How to read the files that are named; by default the mapping in the drop folder
            that claims a file by its name.
    """
    if file:
        # The same files are meant for all organizations only if somebody named these.
        named = org or (None,)
        what = f"ingest {file[0].name if len(file) == 1 else f'{len(file):,} paths'}"
        outcomes = for_each_organization(ingest_named_files, home, named, file, mapping, what=what)
        return told("ingest", outcomes)
    what = "ingest dropped files"
    return told("ingest", for_each_organization(ingest_drop_folder, home, org, what=what))


if __name__ == "__main__":
    run_as_command(ingest)
