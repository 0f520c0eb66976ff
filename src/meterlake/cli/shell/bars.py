"""Progress bars on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def count_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr while the body runs; it is told how many more are done."""
    with _bar(MofNCompleteColumn()) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


@contextmanager
def measurements_bar() -> Iterator[Callable[[int, int, int], None]]:
    """A progress bar on stderr while the body runs: how much of the work, how many measurements."""
    with _bar(TextColumn("{task.fields[rows]:,}")) as bar:
        task = bar.add_task("measurements", total=None, rows=0)

        def show(rows: int, done: int, total: int) -> None:
            rows += bar.tasks[task].fields["rows"]
            bar.update(task, total=total, completed=done, rows=rows)

        yield show


def _bar(count: ProgressColumn) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        count,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
