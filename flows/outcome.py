"""What became of a flow's work: rows for people in an artifact and the log; failures by name."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, TypeAlias

from prefect import get_run_logger
from prefect.artifacts import create_markdown_artifact

from flows.assets import MadeAsset, record_assets
from flows.incomplete import Incomplete

Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = dict[str, list[Row]]

# Prefect keeps artifacts in its database and shows them in one piece.
ROWS_MAX: Final = 1000
_MARKDOWN: Final = re.compile(r"[\\`*_\[\]<>&#|~!]")


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What one task did.

    Attributes:
        summary: One row for the whole of it.
        tables: By the title that people see, a row for each thing that it worked on.
        problems: What could not be done, in sentences; the rest was done.
        assets: What it made.
        sources: The identities of the sources that it ingested.
        next_steps: How people can go on with it: what, and the command.
    """

    summary: Row = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    assets: list[MadeAsset] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    next_steps: list[tuple[str, str]] = field(default_factory=list)


def told(name: str, outcomes: Mapping[str, TaskOutcome]) -> list[Row]:
    """Log a run's counts and leave its artifact: tables of what was done, and what failed.

    Args:
        name: The key of the artifact; its versions are the runs.
        outcomes: What became of each organization.

    Returns:
        The rows of the first table.

    Raises:
        Incomplete: Something could not be done.
    """
    rows = [
        {"organization": org, **outcome.summary, "problems": len(outcome.problems)}
        for org, outcome in outcomes.items()
    ]
    for line in map(counts, rows):
        get_run_logger().info("%s", line)
    problems = [f"{org}: {each}" for org, outcome in outcomes.items() for each in outcome.problems]
    steps = [step for outcome in outcomes.values() for step in outcome.next_steps]
    markdown = document(rows, problems, _joined(outcomes), steps)
    create_markdown_artifact(key=name, markdown=markdown)
    for org, outcome in outcomes.items():
        record_assets(org, outcome.assets)
    if problems:
        raise Incomplete(problems)
    return rows


def told_of_all(
    name: str, outcomes: Mapping[str, TaskOutcome], broke: Sequence[BaseException]
) -> list[Row]:
    """Tell what became of the work, as `told`; then fail for the first thing that broke.

    Args:
        name: The key of the artifact.
        outcomes: What became of each organization.
        broke: What kept work from being done that whoever started the run does again.
    """
    try:
        return told(name, outcomes)
    except Incomplete:
        if broke:
            raise broke[0] from None
        raise


def counts(row: Row) -> str:
    """A row as a line of the log.

    >>> counts({"organization": "acme", "files": 1200, "job": None})
    'acme: files 1,200'
    """
    found = [f"{name} {text(value)}" for name, value in row.items() if value is not None]
    return f"{row['organization']}: {', '.join(found[1:])}"


def _joined(outcomes: Mapping[str, TaskOutcome]) -> Tables:
    """The tables of all organizations, those of the same title as one."""
    tables: Tables = {}
    for org, outcome in outcomes.items():
        for title, rows in outcome.tables.items():
            tables.setdefault(title, []).extend({"organization": org, **row} for row in rows)
    return tables


def document(
    rows: Sequence[Row],
    problems: Sequence[str],
    tables: Mapping[str, Sequence[Row]],
    next_steps: Sequence[tuple[str, str]] = (),
) -> str:
    """A run's artifact in Markdown, which both of Prefect's pages show alike."""
    parts = [table(rows)]
    if next_steps:
        # Nothing in a command ends a block that is indented.
        parts += ["## How to go on", *(f"{plain(what)}\n\n    {line}" for what, line in next_steps)]
    if problems:
        parts += ["## Could not be done", *_shortened([f"- {plain(each)}" for each in problems])]
    for title, found in tables.items():
        if found:
            parts += [f"## {plain(title)}", table(found[:ROWS_MAX]), *_more(found)]
    return "\n\n".join(parts)


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    yield "\n".join(lines[:ROWS_MAX])
    yield from _more(lines)


def _more(found: Sequence[Any]) -> Iterator[str]:
    if len(found) > ROWS_MAX:
        yield f"Only the first {ROWS_MAX:,} of {len(found):,} are shown here."


def table(rows: Sequence[Row]) -> str:
    """Rows as a table in Markdown; the texts in it are shown as they are, whatever they hold."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return "There was nothing to do."
    edges = ["---:" if _holds_numbers(rows, name) else "---" for name in names]
    cells = [[plain(text(row.get(name))) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [[*map(plain, names)], edges, *cells])


def _holds_numbers(rows: Sequence[Row], name: str) -> bool:
    found = [row[name] for row in rows if row.get(name) is not None]
    return bool(found) and all(isinstance(value, int | Decimal) for value in found)


def text(value: Any) -> str:
    """A value for people: numbers in groups of three digits, without trailing zeros.

    >>> text(1234567), text(Decimal("1234.500")), text(Decimal("1E+3")), text(None)
    ('1,234,567', '1,234.5', '1,000', '')
    """
    if isinstance(value, Decimal):
        digits = f"{value:,f}"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def plain(text: str) -> str:
    """The Markdown that shows a text as it is, on one line."""
    return _MARKDOWN.sub(r"\\\g<0>", " ".join(text.split()))
