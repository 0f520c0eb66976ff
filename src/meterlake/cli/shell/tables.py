"""Tables and progress bars for people. The only module of the command line that draws."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import singledispatch
from typing import Any, Final, NamedTuple, Self, TextIO

from rich.cells import cell_len, chop_cells

from meterlake.cli.shell.controls import CONTROLS
from meterlake.model.values.money import plain
from meterlake.model.values.period import format_instant

_BAR_WIDTH: Final = 48
# What people copy stays in one piece: commands stand between backquotes.
_WORDS: Final = re.compile(r"`[^`]*`\S*|\S+")
# How long words are before they are broken, from the most to the least; no column of texts is
# narrower than that.
_WORDS_MAX: Final = (32, 24, 16, 12)
_TEXT_MIN: Final = _WORDS_MAX[-1]
_GAP: Final = 2
_BOLD, _RED, _GREEN, _CYAN = "1", "31", "32", "36"


class Digits(str):
    """A number that is written already, such as an amount with all its decimals."""

    __slots__ = ()


class TableColumn(NamedTuple):
    """A column of a table.

    Attributes:
        member: The member of the rows.
        heading: What stands above it.
        is_whole: Its values are never broken: ids, codes, and whatever else people copy.
        is_optional: It is shown only where there is room for it.
    """

    member: str
    heading: str
    is_whole: bool = False
    is_optional: bool = False


def terminal_width(stream: TextIO | None = None) -> int | None:
    """How wide lines of a stream may be, or of stdout; None if nothing says so, as in a pipe."""
    if (stream or sys.stdout).isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return max(shutil.get_terminal_size().columns, _TEXT_MIN)
    return None


def show(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[TableColumn],
    title: str = "",
    width: int | None = None,
    *,
    keep_empty: bool = False,
) -> None:
    """Print a table; nothing if there are no rows.

    A table that is too wide loses its optional columns, from the last one on, and breaks texts
    between words. If that does not help, its rows stand below each other, member by member.

    Args:
        rows: Objects by member.
        columns: The members to show.
        title: What stands above it.
        width: How wide it may be; as wide as it needs to be if absent.
        keep_empty: Whether a column that no row has anything in is shown.
    """
    texts = [[cell(row.get(each.member)) for each in columns] for row in rows]
    filled = [n for n, _ in enumerate(columns) if keep_empty or any(row[n] for row in texts)]
    if not filled or not rows:
        return
    drawn = [
        _DrawnColumn.of(
            columns[n], [row[n] for row in texts], [row.get(columns[n].member) for row in rows]
        )
        for n in filled
    ]
    shown, widths = _fit(drawn, width)
    lines = _stacked(drawn, width) if widths is None else _table(shown, widths)
    _print([*_wrap(title, width), *lines] if title else lines)


def show_record(record: Mapping[str, Any], title: str = "", width: int | None = None) -> None:
    """Print one object as a table of two columns."""
    lines = _members([(name, cell(value)) for name, value in record.items()], width)
    _print([*_wrap(title, width), *lines] if title else list(lines))


def wrap_sentence(text: str, width: int | None) -> str:
    """A text in lines that fit, broken between words; never within a command."""
    return "\n".join(line for each in text.split("\n") for line in _wrap(each, width))


@dataclass(frozen=True, slots=True)
class _DrawnColumn:
    """A column with its texts.

    Attributes:
        is_number: Whether it stands on the right.
        width: What it needs if nothing is broken.
        heads: What its heading needs, broken between words.
        words: What its texts need, broken between words.
        is_whole: Whether longer words may not be broken either.
    """

    heading: str
    cells: list[str]
    is_optional: bool
    is_number: bool
    width: int
    heads: int
    words: int
    is_whole: bool

    @classmethod
    def of(cls, column: TableColumn, cells: list[str], values: list[Any]) -> Self:
        """A column with the widths that it needs."""
        lines = [line for each in cells for line in each.split("\n")]
        is_number = any(
            isinstance(value, int | Decimal | Digits) and not isinstance(value, bool)
            for value in values
        )
        is_whole = column.is_whole or is_number or any(isinstance(e, date) for e in values)
        longest = max(map(cell_len, lines))
        return cls(
            heading=column.heading,
            cells=cells,
            is_optional=column.is_optional,
            is_number=is_number,
            width=max(longest, cell_len(column.heading)),
            heads=max(map(cell_len, column.heading.split()), default=0),
            words=longest
            if is_whole
            else max(cell_len(w) for c in cells for w in [*c.split(), ""]),
            is_whole=is_whole,
        )

    def least(self, most: int) -> int:
        """What it needs if words that are longer than this are broken."""
        return max(self.heads, self.words if self.is_whole else min(self.words, most))


def _fit(
    columns: Sequence[_DrawnColumn], width: int | None
) -> tuple[Sequence[_DrawnColumn], list[int] | None]:
    """The columns that are drawn, and how wide each is; None if they do not fit side by side."""
    if width is None:
        return columns, [each.width for each in columns]
    for most in _WORDS_MAX:
        shown = list(columns)
        while True:
            room = width - _GAP * (len(shown) - 1) - 1
            least = [each.least(most) for each in shown]
            if sum(least) <= room:
                return shown, _share(shown, least, room)
            last = next((each for each in reversed(shown) if each.is_optional), None)
            if last is None:
                break
            shown = [each for each in shown if each is not last]
    return columns, None


def _share(columns: Sequence[_DrawnColumn], least: Sequence[int], room: int) -> list[int]:
    """Widths of columns: narrow ones get what they need, wide ones share what is left."""
    level = max(each.width for each in columns)
    widths = [each.width for each in columns]
    while sum(widths) > room:
        level -= 1
        pairs = zip(columns, least, strict=True)
        widths = [max(lowest, min(each.width, level)) for each, lowest in pairs]
    return widths


def _table(columns: Sequence[_DrawnColumn], widths: Sequence[int]) -> Iterator[str]:
    def block(texts: Sequence[str]) -> Iterator[str]:
        # Lines are broken between words, and within words that are longer.
        folded = [
            [part for line in _wrap(text, width) for part in _break(line, width)]
            for text, width in zip(texts, widths, strict=True)
        ]
        for n in range(max(map(len, folded))):
            cells = (lines[n] if n < len(lines) else "" for lines in folded)
            yield " " + (" " * _GAP).join(map(_aligned, cells, widths, columns))

    yield from (_styled(line, _BOLD) for line in block([each.heading for each in columns]))
    yield "─" * (sum(widths) + _GAP * (len(widths) - 1) + 1)
    for row in zip(*(each.cells for each in columns), strict=True):
        yield from block(row)


def _aligned(text: str, width: int, column: _DrawnColumn) -> str:
    room = " " * (width - cell_len(text))
    return room + text if column.is_number else text + room


def _stacked(columns: Sequence[_DrawnColumn], width: int | None) -> Iterator[str]:
    for n, row in enumerate(zip(*(each.cells for each in columns), strict=True)):
        if n:
            yield ""
        yield from _members(
            [(each.heading, text) for each, text in zip(columns, row, strict=True) if text],
            width,
        )


def _members(pairs: Sequence[tuple[str, str]], width: int | None) -> Iterator[str]:
    """Names with their values; a value with a word that is too long stands below its name."""
    longest = max((cell_len(name) for name, _ in pairs), default=0)
    indent = longest + _GAP + 1
    room = None if width is None else max(width - indent, _TEXT_MIN)
    for name, text in pairs:
        fits = room is None or all(cell_len(word) <= room for word in text.split())
        lines = _wrap(text, room if fits else None)
        head = f" {name}{' ' * (longest - cell_len(name) + _GAP)}"
        if fits:
            yield head + lines[0]
            yield from (" " * indent + line for line in lines[1:])
        else:
            yield head
            yield from (f"   {line}" for line in lines)


def _break(line: str, width: int) -> Iterator[str]:
    """A word in parts of a width, if possible behind a sign that stands between its parts."""
    while cell_len(line) > width:
        part = chop_cells(line, width)[0]
        sign = max(map(part.rfind, "./-_:,"))
        part = part[: sign + 1] if sign > len(part) // 2 else part
        yield part
        line = line[len(part) :]
    yield line


def _wrap(text: str, width: int | None) -> list[str]:
    """A text in lines that are no longer than their longest word, or than a width."""
    lines = []
    for line in text.split("\n"):
        if width is None or cell_len(line) <= width:
            lines.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        current = indent
        for word in _WORDS.findall(line):
            longer = f"{current} {word}" if current.strip() else f"{indent}{word}"
            # A path that no line has room for begins where it is: terminals break it better.
            is_long = cell_len(f"{indent}{word}") > width and not word.startswith("`")
            if cell_len(longer) > width and current.strip() and not is_long:
                lines.append(current)
                longer = f"{indent}{word}"
            current = longer
        lines.append(current)
    return lines


class Bar(NamedTuple):
    """A bar of a picture.

    Attributes:
        number: How long it is.
        text: The number as people read it.
    """

    name: str
    number: Decimal
    text: str


def show_bars(bars: Sequence[Bar], title: str, width: int | None = None) -> None:
    """Print a picture: one bar per row, in proportion to its number."""
    most = max((each.number for each in bars), default=Decimal(0)) or Decimal(1)
    heads = _heads(bars)
    reach = _reach(heads, width)
    lengths = (int(max(each.number, Decimal(0)) / most * reach) for each in bars)
    drawn = zip(heads, lengths, strict=True)
    _print([title, *(f"{head}{_styled('█' * length, _CYAN)}" for head, length in drawn)])


def show_changes(bars: Sequence[Bar], title: str, width: int | None = None) -> None:
    """Print a picture: one bar per row to the left or to the right, in proportion to its number."""
    most = max((each.number.copy_abs() for each in bars), default=Decimal(0)) or Decimal(1)
    heads = _heads(bars)
    reach = _reach(heads, width) // 2
    lines = [title]
    for head, each in zip(heads, bars, strict=True):
        bar = "█" * max(int(each.number.copy_abs() / most * reach), 1)
        falls = each.number < 0
        side = _styled(bar.rjust(reach), _GREEN) if falls else " " * reach + _styled(bar, _RED)
        lines.append(f"{head}{side}")
    _print(lines)


def _heads(bars: Sequence[Bar]) -> list[str]:
    """The names and the numbers of bars, each as wide as the others."""
    names = [each.name.translate(CONTROLS) for each in bars]
    longest = max(map(cell_len, names), default=0)
    digits = max((len(each.text) for each in bars), default=0)
    return [
        f" {name}{' ' * (longest - cell_len(name))}  {each.text:>{digits}}  "
        for name, each in zip(names, bars, strict=True)
    ]


def _reach(heads: Sequence[str], width: int | None) -> int:
    room = _BAR_WIDTH if width is None else width - max(map(cell_len, heads), default=0)
    return max(min(_BAR_WIDTH, room), 2)


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
    return ", ".join(f"{name} {text}" for name, item in value.items() if (text := cell(item)))


@cell.register(list)
@cell.register(tuple)
def _(value: Iterable[object]) -> str:
    items = list(value)
    between = "; " if any(isinstance(item, dict) for item in items) else ", "
    return between.join(cell(item) for item in items)


def _styled(text: str, style: str) -> str:
    """A text in a style of terminals, if there is one that has styles."""
    has_styles = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return f"\x1b[{style}m{text}\x1b[0m" if has_styles and sys.stdout.isatty() else text


def _print(lines: Iterable[str]) -> None:
    """Print lines, and a blank one after them."""
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines) + "\n")
