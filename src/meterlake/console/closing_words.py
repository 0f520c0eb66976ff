"""The closing of a month as a checklist: each step in plain words, who did it, and who is next."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from meterlake.model.values.period import Month


class StepWords(NamedTuple):
    """A step of the closing as people read it.

    Attributes:
        title: What is done.
        text: What that means.
        next: Who does it, or sets it going.
        counts: What the numbers count that it came to.
    """

    title: str
    text: str
    next: str = "the worker"
    counts: str = ""


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
        counts="All rows of all months that ever came. Rejected ones that were mended since are among"
        " them; those that still wait stand under “What you should look at”.",
    ),
    "aggregate": StepWords(
        "Add up usage",
        "Usage becomes the quantities that prices are for.",
        counts="One quantity for each customer and each thing that is counted in the month. Bills have"
        " more lines of usage where a plan or a price changed within the month.",
    ),
    "bill": StepWords(
        "Make the bills",
        "Quantities and prices become bills, which are pending.",
        counts="All bills of the month. Those that were approved or locked already stayed as they were.",
    ),
    "review": StepWords("Review and approve", "A person looks at the bills.", _PERSON),
    "export-usage": StepWords(
        "Export usage",
        "The usage of the month is kept as files.",
        counts="One row for each measurement of the month, and one for each of its quantities.",
    ),
    "export-operational": StepWords(
        "Export bills and customers",
        "Bills, customers and prices are kept as files.",
        counts="One row for each bill, line, customer, plan, price and so on, of all months.",
    ),
    "publish": StepWords(
        "Publish for analysts",
        "The analysts' database has the month.",
        counts="The rows of all tables of that database: measurements, bills, lines and so on, of all"
        " months.",
    ),
    "deliver": StepWords(
        "Hand over to other systems",
        "Connected systems, such as bookkeeping, get their bills.",
        counts="Changes, such as an approval, that connected systems are told of.",
    ),
    "maintain": StepWords("Tidy up the storage", "Small files are merged; no number changes."),
}
# What of an outcome is worth a word; the rest is for programs.
_FACTS: Final = {
    "expected": ("expected file came", "expected files came"),
    "files": ("file", "files"),
    "received": ("row came", "rows came"),
    "accepted": ("accepted", "accepted"),
    "repeats": ("repeat", "repeats"),
    "rejected": ("rejected", "rejected"),
    "measurements": ("measurement", "measurements"),
    "quantities": ("quantity", "quantities"),
    "bills": ("bill", "bills"),
    "approved": ("bill approved", "bills approved"),
    "leftOpen": ("left open", "left open"),
    "open": ("open point", "open points"),
    "rows": ("row", "rows"),
    "events": ("handed over", "handed over"),
}
# In the place of a 0 that says nothing.
_NOTHING: Final = {"expected": "no files are expected", "approved": "none had to be approved"}


# The ledger is compared as a whole: rows of all months, mended ones too.
_OF_ALL: Final = ("reconcile", "rejected")
_IN_ALL: Final = "rejected so far, in all months"


class ChecklistStep(NamedTuple):
    """A step of the checklist.

    Attributes:
        state: `done`, `next` or `later`.
        facts: What it came to: how many of what; the words alone where the number is None.
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
            tuple(_facts(each["step"], each["outcome"])),
        )
        for each in steps
    ]


def _facts(step: str, outcome: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """What a step came to, in the order in which one reads it."""
    for name, (one, several) in _FACTS.items():
        found = outcome.get(name)
        if found is None:
            continue
        count = len(found) if isinstance(found, list) else found
        if not count and name in _NOTHING:
            yield None, _NOTHING[name]
        elif (step, name) == _OF_ALL:
            yield count, _IN_ALL
        else:
            yield count, one if count == 1 else several


def with_buttons(text: str, month: Month) -> str:
    """What the API says, with the names of buttons in the place of its operations."""
    buttons = {"review": "Make the month ready for review", "reopen": "Open the month again"}
    for verb, label in buttons.items():
        text = text.replace(f"`POST /closings/{month}/{verb}`", f"“{label}”")
    return text.replace(" with `early`", "").replace(" with a `reason`", "")
