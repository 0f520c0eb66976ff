"""What became of a flow's work: rows for people in an artifact of the run; failures by name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from prefect.artifacts import create_markdown_artifact

Row: TypeAlias = dict[str, Any]

# Prefect keeps artifacts in its database and shows them in one piece.
ROWS_MAX: Final = 1000
_TOLD_MAX: Final = 5
_MARKDOWN: Final = re.compile(r"[\\`*_\[\]<>&#|~!]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one task did.

    Attributes:
        summary: One row for the whole of it.
        details: A row for each thing that it worked on.
        problems: What could not be done, in sentences; the rest was done.
    """

    summary: Row = field(default_factory=dict)
    details: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Incomplete(Exception):
    """Some of what was asked for could not be done; all the rest is done."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(problems)

    def __str__(self) -> str:
        problems = self.args[0]
        more = len(problems) - _TOLD_MAX
        return "; ".join(problems[:_TOLD_MAX]) + (f"; and {more} more" if more > 0 else "")


def told(name: str, outcomes: Mapping[str, Outcome]) -> list[Row]:
    """Leave a run's artifact: tables of what was done and of its details, and what failed.

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
    details = [
        {"organization": org, **row} for org, outcome in outcomes.items() for row in outcome.details
    ]
    problems = [f"{org}: {each}" for org, outcome in outcomes.items() for each in outcome.problems]
    create_markdown_artifact(key=name, markdown=document(rows, problems, details))
    if problems:
        raise Incomplete(problems)
    return rows


def document(rows: Sequence[Row], problems: Sequence[str], details: Sequence[Row]) -> str:
    """A run's artifact in Markdown, which both of Prefect's pages show alike."""
    parts = [table(rows)]
    if problems:
        listed = "\n".join(f"- {plain(each)}" for each in problems[:ROWS_MAX])
        parts += ["## Could not be done", listed]
    if details:
        parts += ["## Details", table(details[:ROWS_MAX])]
    if len(details) > ROWS_MAX or len(problems) > ROWS_MAX:
        parts.append(f"Only the first {ROWS_MAX:,} are shown here.")
    return "\n\n".join(parts)


def table(rows: Sequence[Row]) -> str:
    """Rows as a table in Markdown; the texts in it are shown as they are, whatever they hold."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return "There was nothing to do."
    edges = ["---:" if isinstance(rows[0].get(name), int) else "---" for name in names]
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [[*map(plain, names)], edges, *cells])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else plain(str(value))


def plain(text: str) -> str:
    """The Markdown that shows a text as it is, on one line."""
    return _MARKDOWN.sub(r"\\\g<0>", " ".join(text.split()))
