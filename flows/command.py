"""A flow as a command: its parameters are the options, its outcome is printed."""

import sys
from collections.abc import Iterable, Mapping
from functools import wraps
from typing import Any, Final

from cyclopts import App, Parameter
from prefect import Flow
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.incomplete import Incomplete
from flows.outcome import Row, text
from meterlake.model.errors import MeterlakeError

# Of what is not read on a terminal.
_WIDTH: Final = 160


def run_as_command(flow: Flow[Any, list[Row]]) -> None:
    """Run a flow with the parameters of the command line, print its outcome, and exit.

    The exit code is 0, or 1 when something could not be done.
    """

    @wraps(flow.fn)
    def command(*arguments: Any, **parameters: Any) -> list[Row]:
        rows: list[Row] = flow(*arguments, **parameters)
        return rows

    app = App(
        name=f"flows/{flow.name}.py",
        version_flags=(),
        default_parameter=Parameter(negative_iterable=(), show_default=lambda value: value or None),
        result_action="return_value",
    )
    app.default(command)
    try:
        show(app() or ())  # None after --help
    except (Incomplete, MeterlakeError) as error:
        sys.exit(f"{flow.name}: {' '.join(str(error).split())}")


def show(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as a table; a single one with each of its members on a line."""
    rows = list(rows)
    if len(rows) == 1:
        _show_record(rows[0])
    else:
        width = None if sys.stdout.isatty() else _WIDTH
        table = Table(box=None, pad_edge=False)
        names = list(dict.fromkeys(name for row in rows for name in row))
        for name in names:
            numbers = all(isinstance(row.get(name), int | None) for row in rows)
            table.add_column(name, justify="right" if numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(text(row.get(name))) for name in names))
        Console(highlight=False, width=width).print(table)


def _show_record(row: Mapping[str, Any]) -> None:
    width = max(map(len, row))
    # Not wrapped, so that a path can be copied.
    for name, value in row.items():
        sys.stdout.write(f"{name:{width}}  {text(value)}\n")
    sys.stdout.flush()
