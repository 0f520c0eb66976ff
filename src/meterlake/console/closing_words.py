"""The closing of a month as a checklist: each step in plain words, who did it, and who is next."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from meterlake.model.values.period import Month


class StepWords(NamedTuple):
    """A step of the closing as people read it.

    Attributes:
        title: What is done.
        text: What that means.
        next: Who does it, or sets it going.
    """

    title: str
    text: str
    next: str = "the worker"


_PERSON: Final = "a person who may approve bills"
_STEPS: Final = {
    "files": StepWords(
        "Wait for files",
        "The files that the month needs have come.",
        "a person who makes the month ready for review",
    ),
    "ingest": StepWords("Bring in usage", "What lies in inboxes and uploads is read."),
    "backfill": StepWords("Apply corrections", "Staged backfills of the month are applied."),
    "reconcile": StepWords(
        "Check that no row is lost",
        "Each row that came is accepted, a repeat, or rejected with a reason.",
    ),
    "aggregate": StepWords("Add up usage", "Usage becomes the quantities that prices are for."),
    "bill": StepWords("Make the bills", "Quantities and prices become bills, which are pending."),
    "review": StepWords("Review and approve", "A person looks at the bills.", _PERSON),
    "export-usage": StepWords("Export usage", "The usage of the month is kept as files."),
    "export-operational": StepWords(
        "Export bills and customers", "Bills, customers and prices are kept as files."
    ),
    "publish": StepWords("Publish for analysts", "The analysts' database has the month."),
    "deliver": StepWords(
        "Hand over to other systems", "Connected systems, such as bookkeeping, get their bills."
    ),
    "maintain": StepWords("Tidy up the storage", "Small files are merged; no number changes."),
}
# What of an outcome is worth a word; the rest is for programs.
_FACTS: Final = {
    "expected": "expected",
    "files": "files",
    "received": "rows came",
    "accepted": "accepted",
    "repeats": "repeats",
    "rejected": "rejected",
    "measurements": "measurements",
    "quantities": "quantities",
    "bills": "bills",
    "approved": "bills approved",
    "leftOpen": "left open",
    "open": "open points",
    "rows": "rows",
    "events": "handed over",
}


# The ledger is compared as a whole: rows of all months, mended ones too.
_OF_ALL: Final = ("reconcile", "rejected")
_IN_ALL: Final = "rejected so far, in all months"


class ChecklistStep(NamedTuple):
    """A step of the checklist.

    Attributes:
        state: `done`, `next` or `later`.
        facts: What it came to: how many of what.
    """

    words: StepWords
    state: str
    author: str | None = None
    at: str | None = None
    facts: tuple[tuple[Any, str], ...] = ()


def checklist(closing: Mapping[str, Any]) -> list[ChecklistStep]:
    """All steps of a closing, done or not, in their order."""
    done = done_steps(closing["steps"])
    remaining = [_STEPS.get(each, StepWords(each, "")) for each in closing["remaining"]]
    return done + [
        ChecklistStep(words, "later" if number else "next")
        for number, words in enumerate(remaining)
    ]


def done_steps(steps: list[dict[str, Any]]) -> list[ChecklistStep]:
    """Steps that are done, with who did them and what they came to."""
    return [
        ChecklistStep(
            _STEPS.get(each["step"], StepWords(each["step"], "")),
            "done",
            each.get("author"),
            each.get("at"),
            tuple(
                (
                    len(found) if isinstance(found, list) else found,
                    _IN_ALL if (each["step"], name) == _OF_ALL else label,
                )
                for name, label in _FACTS.items()
                if (found := each["outcome"].get(name)) is not None
            ),
        )
        for each in steps
    ]


def with_buttons(text: str, month: Month) -> str:
    """What the API says, with the names of buttons in the place of its operations."""
    buttons = {"review": "Make the month ready for review", "reopen": "Open the month again"}
    for verb, label in buttons.items():
        text = text.replace(f"`POST /closings/{month}/{verb}`", f"“{label}”")
    return text.replace(" with `early`", "").replace(" with a `reason`", "")
