"""What commands print: tables for people, JSON lines for programs, errors on one line; and ask."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from meterlake.cli.shell import next_steps
from meterlake.cli.shell.controls import CONTROLS
from meterlake.model.errors import MeterlakeError
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.cli.shell.tables import Bar, TableColumn
    from meterlake.pipeline.config.file_problems import ConfigurationProblem
    from meterlake.pipeline.jobs.progress import Progress
    from meterlake.stores.fan_out import TaskEnd


Row: TypeAlias = Mapping[str, Any]
Advance: TypeAlias = Callable[[int], None]


class Output:
    """Where a command's results go: tables and sentences, or one JSON object per line.

    Attributes:
        json: Whether programs read it.
        wide: Whether tables show every column, however wide they get.
    """

    def __init__(self, *, json: bool, wide: bool = False) -> None:
        self.json = json
        self.wide = wide

    def rows(
        self, rows: Iterable[Row], columns: Sequence[str], title: str = "", empty: str = ""
    ) -> None:
        """Print rows: every member of them as JSON, or some of them as a table.

        Args:
            rows: Objects with members under their wire names.
            columns: The members that the table shows, `member` or `member=Heading`. With `!` before
                it, its values are never broken, so that people can copy them; with `?`, it is
                shown where there is room for it; with `+`, only a wide table shows it.
            title: What stands above the table.
            empty: The sentence that people read if there are no rows.
        """
        if self.json:
            for row in rows:
                self.line(row)
            return
        from meterlake.cli.shell import tables

        shown = list(rows)
        tables.show(shown, list(self._columns(columns)), title, self._width())
        if not shown and empty:
            self.note(empty)

    def _columns(self, columns: Sequence[str]) -> "Iterator[TableColumn]":
        from meterlake.cli.shell.tables import TableColumn

        for each in columns:
            flags = each[: len(each) - len(each.lstrip("!?+"))]
            member, _, heading = each.removeprefix(flags).partition("=")
            if self.wide or "+" not in flags:
                yield TableColumn(member, heading or member, "!" in flags, "?" in flags)

    def _width(self) -> int | None:
        """How wide tables may be; None if they may be as wide as they need."""
        from meterlake.cli.shell.tables import terminal_width

        return None if self.wide else terminal_width()

    def record(self, record: Row, title: str = "") -> None:
        """Print one object: as JSON, or as a table of its members."""
        if self.json:
            self.line(record)
            return
        from meterlake.cli.shell import tables

        tables.show_record(record, title, self._width())

    def bars(self, bars: "Sequence[Bar]", title: str, *, changes: bool = False) -> None:
        """Print a picture for people: bars in proportion to numbers, or to changes of them."""
        from meterlake.cli.shell import tables

        draw = tables.show_changes if changes else tables.show_bars
        if not self.json:
            draw(bars, title, self._width())

    def line(self, value: Any) -> None:
        """Print one JSON line; numbers keep their digits."""
        from meterlake.model.values import wire

        sys.stdout.write(wire.dumps(value).decode() + "\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Print a sentence for people; programs do not see it.

        A command between backquotes gets the options that it needs for this home and organization.
        """
        if self.json:
            return
        from meterlake.cli.shell.tables import wrap_sentence

        told = next_steps.complete(text).translate(CONTROLS)
        sys.stdout.write(wrap_sentence(told, self._width()) + "\n")

    def command(self, words: str, before: str = "") -> None:
        """Print a command for people to copy, on a line of its own.

        Args:
            words: The command and its arguments, without the program's name.
            before: What gives it its input.
        """
        self.text(
            f"  {before} {next_steps.command(words)}"
            if before
            else f"  {next_steps.command(words)}"
        )

    def text(self, text: str) -> None:
        """Print a text for people whose lines are as they should be."""
        if not self.json:
            sys.stdout.write(text.translate(CONTROLS) + "\n")

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Advance]:
        """Show a progress bar on a terminal while the body runs; it is told how many are done."""
        if not self._shows_bars():
            yield lambda _done: None
            return
        from meterlake.cli.shell.bars import count_bar

        with count_bar(what, total) as advance:
            yield advance

    @contextmanager
    def progress(self) -> "Iterator[Progress]":
        """Show a progress bar on a terminal while the body works on measurements."""
        if not self._shows_bars():
            from meterlake.pipeline.jobs.progress import untold

            yield untold
            return
        from meterlake.cli.shell.bars import measurements_bar

        with measurements_bar() as told:
            yield told

    def _shows_bars(self) -> bool:
        return not self.json and sys.stderr.isatty()


def problem_lines(
    kind: str, message: str, problems: "Sequence[ConfigurationProblem]", *, json: bool
) -> None:
    """Print what is wrong with files to stderr: one line each, as editors and compilers know it."""
    if json:
        from meterlake.model.values import wire

        listed = [each._asdict() for each in problems]
        error = {"code": kind, "message": " ".join(message.split()), "problems": listed}
        sys.stderr.write(wire.dumps({"error": error}).decode() + "\n")
        return
    for each in problems:
        sys.stderr.write(" ".join(str(each).split()).translate(CONTROLS) + "\n")
    sys.stderr.write(f"meterlake: {counted(len(problems), 'problem')}; nothing was changed\n")


def error_line(kind: str, message: str, *, json: bool) -> None:
    """Print an error to stderr as one line, which a terminal has in lines that fit."""
    text = next_steps.complete(" ".join(message.split()))
    if json:
        from meterlake.model.values import wire

        sys.stderr.write(wire.dumps({"error": {"code": kind, "message": text}}).decode() + "\n")
    else:
        from meterlake.cli.shell.tables import terminal_width, wrap_sentence

        line = f"meterlake: {text.translate(CONTROLS)}"
        sys.stderr.write(wrap_sentence(line, terminal_width(sys.stderr)) + "\n")


def show_organizations(ends: "Sequence[TaskEnd]", columns: tuple[str, ...], output: Output) -> int:
    """Print a row for each organization, and what failed; the exit code."""
    done = [each for each in ends if each.error is None]
    rows = [{"organization": each.name, **each.value} for each in done]
    output.rows(rows, ("organization", *columns))
    for each in ends:
        if each.error is not None:
            error_line(type(each.error).__name__, str(each), json=output.json)
    return 1 if len(done) < len(ends) or any(row["failed"] for row in rows) else 0


def require_somebody(output: Output, refusal: MeterlakeError) -> None:
    """Refuse what asks a question if nobody is there who could answer it.

    Raises:
        MeterlakeError: The refusal.
    """
    if output.json or not sys.stdin.isatty():
        raise refusal


def confirm(question: str, output: Output) -> bool:
    """Ask whether something may be done; any other answer than yes is no."""
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    output.note("Nothing was changed.")
    return False
