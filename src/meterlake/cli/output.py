"""What commands print: tables for people, JSON lines for programs, errors on one line."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from meterlake.cli.controls import CONTROLS

if TYPE_CHECKING:
    from meterlake.pipeline.config.file_problems import ConfigurationProblem
    from meterlake.pipeline.jobs.progress import Progress

Row: TypeAlias = Mapping[str, Any]
Advance: TypeAlias = Callable[[int], None]


class Output:
    """Where a command's results go: one table or one JSON object per line."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    def rows(self, rows: Iterable[Row], columns: Sequence[str], title: str = "") -> None:
        """Print rows: every member of them as JSON, or some of them as a table.

        Args:
            rows: Objects with members under their wire names.
            columns: The members that the table shows, `member` or `member=Heading`.
            title: What stands above the table.
        """
        if self.json:
            for row in rows:
                self.line(row)
            return
        from meterlake.cli import tables

        pairs = [(member, heading or member) for member, _, heading in _split_columns(columns)]
        tables.show(list(rows), pairs, title)

    def record(self, record: Row, title: str = "") -> None:
        """Print one object: as JSON, or as a table of its members."""
        if self.json:
            self.line(record)
            return
        from meterlake.cli import tables

        tables.show_record(record, title)

    def line(self, value: Any) -> None:
        """Print one JSON line; numbers keep their digits."""
        from meterlake.model import wire

        sys.stdout.write(wire.dumps(value).decode() + "\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Print a sentence for people; programs do not see it."""
        if not self.json:
            sys.stdout.write(text.translate(CONTROLS) + "\n")

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Advance]:
        """Show a progress bar on a terminal while the body runs; it is told how many are done."""
        if not self._shows_bars():
            yield lambda _done: None
            return
        from meterlake.cli.bars import count_bar

        with count_bar(what, total) as advance:
            yield advance

    @contextmanager
    def progress(self) -> "Iterator[Progress]":
        """Show a progress bar on a terminal while the body works on measurements."""
        if not self._shows_bars():
            from meterlake.pipeline.jobs.progress import untold

            yield untold
            return
        from meterlake.cli.bars import measurements_bar

        with measurements_bar() as told:
            yield told

    def _shows_bars(self) -> bool:
        return not self.json and sys.stderr.isatty()


def _split_columns(columns: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    return (column.partition("=") for column in columns)


def problem_lines(
    kind: str, message: str, problems: "Sequence[ConfigurationProblem]", *, json: bool
) -> None:
    """Print what is wrong with files to stderr: one line each, as editors and compilers know it."""
    if json:
        from meterlake.model import wire

        listed = [each._asdict() for each in problems]
        error = {"code": kind, "message": " ".join(message.split()), "problems": listed}
        sys.stderr.write(wire.dumps({"error": error}).decode() + "\n")
        return
    for each in problems:
        sys.stderr.write(" ".join(str(each).split()).translate(CONTROLS) + "\n")
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    sys.stderr.write(f"meterlake: {count}; nothing was changed\n")


def error_line(kind: str, message: str, *, json: bool) -> None:
    """Print an error to stderr as exactly one line."""
    text = " ".join(message.split())
    if json:
        from meterlake.model import wire

        sys.stderr.write(wire.dumps({"error": {"code": kind, "message": text}}).decode() + "\n")
    else:
        sys.stderr.write(f"meterlake: {text.translate(CONTROLS)}\n")
