"""What a backfill changes, as the tables of a run's artifact."""

from collections.abc import Mapping
from typing import Any, Final

from flows.outcome import Row, Tables, TaskOutcome, plain, text
from meterlake.model.quantity_unit import changed_texts
from meterlake.pipeline.backfill import Backfill

_BILL: Final = ("month", "account", "status", "locked", "billed", "before", "after", "currency")
_REJECTED: Final = ("name", "row", "reason", "field", "detail")


def outcome_of(found: Backfill) -> TaskOutcome:
    """Where a backfill stands, what it changes in numbers, and the difference itself."""
    counts = {name: value for name, value in found.summary.items() if isinstance(value, int)}
    summary = {"backfill": found.id, "mode": found.spec.mode.value, "status": found.status.value}
    return TaskOutcome({**summary, **counts}, _tables(found.summary))


def question_of(row: Row) -> str:
    """What a decision is about, in Markdown; from the row of a backfill that is staged."""
    shown = [
        f"- {plain(name)}: {plain(text(value))}"
        for name, value in row.items()
        if value is not None and name != "problems"
    ]
    return "\n".join(["This is staged; the run's artifact shows quantities and bills.", *shown])


def _tables(summary: Mapping[str, Any]) -> Tables:
    return {
        "Quantities before and after": [_quantity(each) for each in summary.get("quantities", ())],
        "Bills before and after": [
            {name: each.get(name) for name in _BILL} for each in summary.get("bills", ())
        ],
        "Rejected rows of the files": [
            {name: each.get(name) for name in _REJECTED} for each in summary.get("rejected", ())
        ],
    }


def _quantity(entry: Row) -> Row:
    names = ("month", "start", "account", "meter", "aggregation", "segment")
    return {
        **{name: entry[name] for name in names if name in entry},
        **changed_texts(entry),
    }
