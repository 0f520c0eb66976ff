"""Tables and progress bars for people. The only module of the command line that draws."""

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import singledispatch
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meterlake.cli.controls import CONTROLS
from meterlake.model.money import plain
from meterlake.model.period import format_instant

# Where nobody's terminal limits it, a table is as wide as it needs.
_PIPED_WIDTH: Final = 400
_BAR_WIDTH: Final = 48


class Digits(str):
    """A number that is written already, such as an amount with all its decimals."""

    __slots__ = ()


def show(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, str]], title: str = ""
) -> None:
    """Print a table.

    Args:
        rows: Objects by member.
        columns: The members to show, each with its heading.
        title: What stands above it.
    """
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for member, heading in columns:
        numeric = any(_is_number(row.get(member)) for row in rows)
        table.add_column(Text(heading), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(member))) for member, _ in columns))
    _print(table)


def show_record(record: Mapping[str, Any], title: str = "") -> None:
    """Print one object as a table of two columns."""
    table = Table(title=title or None, title_justify="left", box=None, show_header=False)
    for name, value in record.items():
        table.add_row(Text(name, style="bold"), Text(cell(value), overflow="fold"))
    _print(table)


def show_bars(rows: Sequence[tuple[str, Decimal]], title: str) -> None:
    """Print a picture: one bar per row, in proportion to its number."""
    most = max((number for _, number in rows), default=Decimal(0)) or Decimal(1)
    table = Table(title=title, title_justify="left", box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="cyan")
    for name, number in rows:
        length = int(max(number, Decimal(0)) / most * _BAR_WIDTH)
        table.add_row(Text(name), f"{number:,f}", "█" * length)
    _print(table)


def show_changes(rows: Sequence[tuple[str, Decimal]], title: str) -> None:
    """Print a picture: one bar per row to the left or to the right, in proportion to its number."""
    most = max((number.copy_abs() for _, number in rows), default=Decimal(0)) or Decimal(1)
    reach = _BAR_WIDTH // 2
    table = Table(title=title, title_justify="left", box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="green", justify="right", width=reach)
    table.add_column(style="red", width=reach)
    for name, number in rows:
        bar = "█" * max(int(number.copy_abs() / most * reach), 1)
        sides = (bar, "") if number < 0 else ("", bar)
        table.add_row(Text(name.translate(CONTROLS)), f"{number:+,f}", *sides)
    _print(table)


@singledispatch
def cell(value: object) -> str:
    """A value as people read it: digits in groups, lists with commas, nothing for None."""
    return str(value).translate(CONTROLS)


@cell.register
def _(_value: None) -> str:
    return ""


@cell.register
def _(value: bool) -> str:
    return "yes" if value else "no"


@cell.register
def _(value: int) -> str:
    return f"{value:,}"


@cell.register
def _(value: Decimal) -> str:
    return f"{Decimal(plain(value)):,f}" if value.is_finite() else str(value)


@cell.register
def _(value: datetime) -> str:
    return format_instant(value) if value.tzinfo else value.isoformat(" ")


@cell.register
def _(value: dict) -> str:  # type: ignore[type-arg] # dispatch knows classes only
    return ", ".join(f"{name} {cell(item)}" for name, item in value.items())


@cell.register(list)
@cell.register(tuple)
def _(value: Iterable[object]) -> str:
    items = list(value)
    between = "; " if any(isinstance(item, dict) for item in items) else ", "
    return between.join(cell(item) for item in items)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal | Digits) and not isinstance(value, bool)


def _print(table: Table) -> None:
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    console = Console(file=io.StringIO(), width=_PIPED_WIDTH, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(table)
    lines = (line.rstrip() for line in capture.get().splitlines())
    sys.stdout.write("".join(f"{line}\n" for line in lines))
