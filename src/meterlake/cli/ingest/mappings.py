"""`meterlake mapping`: whether a mapping fits the meters, and the files that it is for."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from meterlake.cli.ingest.command import report_preview
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.output import error_line


def register(app: App) -> None:
    """Add the commands."""
    mapping = App(name="mapping", help="Mappings: read files of other programs as measurements.")
    mapping.command(check)
    app.command(mapping)


def check(
    file: Annotated[Path, Parameter(name="FILE")],
    /,
    *paths: Annotated[Path, Parameter(name="PATH")],
    options: Options = NO_OPTIONS,
) -> int:
    """Check a mapping against the meters and against your files, and store nothing.

    Each rule needs an existing meter, fields that the meter has, and a column for each of them. If
    you give files, you see the result of their rows. If it finds problems, the command ends with 1.

    Example: `meterlake mapping check flights.yaml flights.csv.gz`

    Args:
        file: The mapping.
        paths: Files of measurements to try it on.
    """
    from meterlake.pipeline.ingest.files import (
        expand,
        load_mapping,
        mapping_problems,
        preview_files,
    )

    with options.open() as (stores, organization):
        problems = mapping_problems(stores, organization.id, load_mapping(file))
        found = list(preview_files(stores, organization, expand(paths), file))
    options.output.rows([{"problem": each} for each in problems], ("problem",))
    if problems:
        error_line("UnreadableMapping", f"{file.name}: {problems[0]}", json=options.json)
    elif not options.json:
        options.output.note(f"{file.name}: every rule has its meter and fields.")
    return report_preview(found, options) or int(bool(problems))
