"""What commands that work on all organizations of a home print."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from meterlake.cli.shell.output import Output, error_line

if TYPE_CHECKING:
    from meterlake.stores.fan_out import TaskEnd


def show_organizations(ends: "Sequence[TaskEnd]", columns: tuple[str, ...], output: Output) -> int:
    """Print a row for each organization, and what failed; the exit code."""
    done = [each for each in ends if each.error is None]
    rows = [{"organization": each.name, **each.value} for each in done]
    output.rows(rows, ("organization", *columns))
    for each in ends:
        if each.error is not None:
            error_line(type(each.error).__name__, str(each), json=output.json)
    return 1 if len(done) < len(ends) or any(row["failed"] for row in rows) else 0
