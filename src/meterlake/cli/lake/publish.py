"""`meterlake publish` and `report`: data for others."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from meterlake.cli.shell.files import check_ending
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.cli.shell.output import Output
    from meterlake.pipeline.publish.run import Published


def register(app: App) -> None:
    """Add the commands."""
    app.command(publish)
    app.command(report)


def publish(
    *,
    parquet: Annotated[bool, Parameter(negative="")] = False,
    whole: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> None:
    """Write one self-contained DuckDB file for analysts, in place of the last one.

    If you have the old file open, you keep reading it. The command makes only changed months anew.
    Tables, views and columns carry comments. Beside the file you find live.sql, which opens the
    live lake by the same names, and sources.yml, which declares the tables to dbt. The command also
    prints the line with which you attach the live lake.

    Example: `meterlake publish --parquet`

    Args:
        parquet: Also write a folder of Parquet files, by table and month.
        whole: Make everything anew.
    """
    from meterlake.pipeline.publish.run import attach_line
    from meterlake.pipeline.publish.run import publish as write

    with options.open() as organization:
        published = write(organization, parquet=parquet, whole=whole)
        line = attach_line(organization)
    show_published(published, line, options.output)


def show_published(published: "Published", attach: str, output: "Output") -> None:
    """Print where the file is and what is in it."""
    new, months = published.made
    if output.json:
        record = {"path": str(published.path), "snapshot": published.snapshot}
        record |= {"parquet": published.parquet and str(published.parquet)}
        made = {"months": months, "monthsMade": new}
        output.line(
            record | made | {"rows": published.rows, "attach": attach, "live": str(published.live)}
        )
        return
    rows = [{"table": name, "rows": count} for name, count in published.rows.items()]
    output.rows(rows, ("table", "rows"))
    output.note(
        f"{published.path}, from lake snapshot {published.snapshot};"
        f" {new} of {counted(months, 'month')} of meters made anew"
    )
    if published.parquet:
        output.note(f"Parquet files: {published.parquet}")
    output.note("The live lake by the same names:")
    output.text(f"  duckdb -init {shlex.quote(str(published.live))}")
    output.note(f"Its tables in any session of DuckDB {published.duckdb}:")
    output.text(f"  {attach}")


def report(
    *, month: str | None = None, out: Path | None = None, options: Options = NO_OPTIONS
) -> None:
    """Write the usage report: one HTML page that works offline.

    You see usage over time and the largest accounts per meter, quantities, rejected rows, arrived
    files, and how fresh the meters are.

    Example: `meterlake report --month 2026-10 --out october.html`

    Args:
        month: Only a month, such as 2026-10, or `current` or `last`; if you leave it out,
            everything.
        out: The file; by default you find it beside the published file.
    """
    from meterlake.pipeline.config.months import month_named
    from meterlake.pipeline.publish.report import report as write

    if out is not None:
        check_ending("--out", out, "html")
    with options.open() as organization:
        meant = month_named(organization, month) if month else None
        path = write(organization, meant, out)
    if options.json:
        options.output.line({"path": str(path), "month": meant and str(meant)})
    else:
        options.output.note(str(path))
