"""`meterlake ingest` and `meterlake watch`: files into the lake."""

import shlex
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, UPLOAD, Options
from meterlake.cli.shell.output import error_line
from meterlake.cli.shell.signals import TERMINATED, between_two
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.model.measurements.receipt import Receipt


COLUMNS: Final = (
    *("name=file", "status", "?received", "accepted", "?repeats", "rejected", "reasons"),
    *("?incomplete", "?newAccounts=new accounts"),
)

ROW_COLUMNS: Final = ("row", "!reason", "field", "?meter", "detail", "?uid")
_SHOWN_ROWS: Final = 20


def register(app: App) -> None:
    """Add the commands."""
    app.command(ingest)
    app.command(template)
    app.command(watch)


def ingest(
    *paths: Annotated[Path, Parameter(name="PATH", required=True)],
    mapping: Path | None = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> int:
    """Ingest files, or all files below folders, in the order of their names.

    You give CSV, NDJSON, a JSON array or Parquet, each plain, .gz or .zst. With `meterlake rejected
    list` you see why it rejected a row.

    Example: `meterlake ingest usage.csv.gz october/`

    Args:
        paths: Files and folders.
        mapping: A mapping for files of other programs; by default the mapping in the drop folder
            that claims a file by its name.
        dry_run: Show the result of the rows, and store nothing.
    """
    from meterlake.pipeline.ingest.files import expand, ingest_files, preview_files

    with options.open() as organization:
        files = expand(paths)
        size = sum(path.stat().st_size for path in files)
        options.output.note(f"{counted(len(files), 'file')}, {counted(size, 'byte')}")
        if dry_run:
            with options.output.progress() as progress:
                previews = list(preview_files(organization, files, mapping, progress))
            return report_preview(previews, options)
        options.permitted(organization, UPLOAD)
        with options.output.progress() as progress, between_two() as stop:
            receipts = ingest_files(organization, files, mapping, progress, stop)
            found = list(emit_receipts(receipts, options))
    code = report(found, options)
    return report_stop(len(files) - len(found), options) or code


def template(
    meter: Annotated[str, Parameter(name="METER")], /, *, options: Options = NO_OPTIONS
) -> None:
    """Show a CSV file to begin with: the columns of a meter, and one row that you replace.

    Example: `meterlake template egress > usage.csv`

    Args:
        meter: The code of the meter.
    """
    from meterlake.pipeline.home.file_template import file_template

    with options.looked_at() as organization:
        text = file_template(organization, meter)
    if options.json:
        options.output.line({"meter": meter, "content": text})
    else:
        options.output.text(text.rstrip("\n"))


def watch(*, poll: float = 1.0, options: Options = NO_OPTIONS) -> int:
    """Ingest files of the drop folder until you stop it (Ctrl-C, SIGTERM).

    Example: `meterlake watch`

    Args:
        poll: Seconds between two looks.
    """
    from meterlake.pipeline.ingest.drop import watch as work
    from meterlake.pipeline.ingest.drop_folder import drop_folder, left_alone

    with (
        options.open() as organization,
        between_two(signal.SIGTERM, signal.SIGINT) as stop,
    ):
        folder = drop_folder(organization.stores, organization.code)
        folder.create()
        options.output.note(f"Watching {folder.inbox} (Ctrl-C stops)")
        for name in left_alone(folder.inbox):
            options.output.note(f"{name}: left alone, it is no file")
        for receipt in work(organization, folder, stop, poll):
            line = receipt.to_wire()
            if options.json:
                options.output.line(line)
            else:
                options.output.note(_sentence(line))
    return 0


def emit_receipts(receipts: Iterator["Receipt"], options: Options) -> Iterator[dict[str, Any]]:
    """Give receipts as what is printed, and print them at once for programs."""
    for receipt in receipts:
        line = receipt.to_wire()
        if options.json:
            options.output.line(line)
        yield line


def report_preview(previews: list["Receipt"], options: Options) -> int:
    """Show what would become of some files, with the first rows that would be rejected."""
    found = [receipt.to_wire() | {"dryRun": True} for receipt in previews]
    for line in found if options.json else ():
        options.output.line(line)
    code = report(found, options)
    for line in () if options.json else found:
        rows = [*line["rejectedSample"], *line["incompleteSample"]][:_SHOWN_ROWS]
        if rows:
            options.output.rows(rows, ROW_COLUMNS, f"The first rows with problems, {line['name']}")
    if found:
        options.output.note("Dry run: nothing was stored.")
    return code


def report(found: list[dict[str, Any]], options: Options) -> int:
    """Show what became of some files to people; the exit code."""
    if not options.json:
        options.output.rows(found, COLUMNS, empty="No files.")
    # Sentences: in a column they would have a word on each line.
    for line in () if options.json else found:
        if line["detail"]:
            reason = f"{line['reason']}: " if line["reason"] else ""
            options.output.note(f"{line['name']}: {reason}{line['detail']}")
    for line in () if options.json else found:
        if line["received"] and line["rejected"] == line["received"] and not line.get("dryRun"):
            options.output.note(f"No row of {line['name']} came in:")
            options.output.command(f"rejected list --source {shlex.quote(line['name'])}")
    failed = [line for line in found if line["status"] == "failed"]
    if failed:
        names = ", ".join(line["name"] for line in failed)
        message = f"{len(failed):,} of {counted(len(found), 'file')} could not be read: {names}"
        error_line("UnreadableSource", message, json=options.json)
    return 1 if failed else 0


def report_stop(left: int, options: Options) -> int:
    """Say that SIGTERM came before all files were ingested; the exit code, or 0 if it did not."""
    if not left:
        return 0
    message = f"stopped by SIGTERM: {counted(left, 'file is', 'files are')} left, run it again"
    error_line("Stopped", message, json=options.json)
    return TERMINATED


def _sentence(line: dict[str, Any]) -> str:
    if line["status"] == "failed":
        return f"{line['name']}: failed: {line['reason']}: {line['detail']}"
    return (
        f"{line['name']}: {line['received']:,} received = {line['accepted']:,} accepted"
        f" + {counted(line['repeats'], 'repeat')} + {line['rejected']:,} rejected{incomplete(line)}"
    )


def incomplete(line: Mapping[str, Any]) -> str:
    """The end of a sentence of counts: how many accepted measurements lack a derived value."""
    ones = counted(line["incomplete"], "accepted one", "accepted ones")
    return f", {ones} incomplete" if line["incomplete"] else ""
