"""What became of uploaded files, as the runs of flows show it."""

from typing import Final

from flows.ingested import FILES
from flows.outcome import Row, TaskOutcome, text

COUNTS: Final = ("received", "accepted", "repeats", "rejected", "items")
# Which source the file is; people know it by its name.
SOURCE: Final = "source"


def row_of(name: str, status: str, outcome: Row) -> Row:
    """The row of a file, from what its job keeps."""
    repeats = outcome.get("repeatedRows")
    reasons = outcome.get("failureReasons") or {}
    return {
        "file": name,
        "status": status,
        "received": outcome.get("totalRows"),
        "accepted": None if repeats is None else outcome["processedRows"] - repeats,
        "repeats": repeats,
        "rejected": outcome.get("failedRows"),
        "items": outcome.get("items"),
        "reasons": ", ".join(f"{reason} {rows}" for reason, rows in sorted(reasons.items())),
        "reason": outcome.get("failureReason"),
    }


def count_text(row: Row) -> str:
    """The counts of a file in a few words."""
    return ", ".join(f"{name} {text(row[name])}" for name in COUNTS if row[name] is not None)


def add_row(outcome: TaskOutcome, row: Row) -> None:
    """Add a file to what a run came to."""
    if source := row.pop(SOURCE, None):
        outcome.sources.append(source)
    outcome.tables[FILES].append(row)
    outcome.summary["files"] += 1
    for name in COUNTS:
        outcome.summary[name] += row[name] or 0
    if row["reason"]:
        outcome.problems.append(f"{row['file']}: {row['reason']}")
