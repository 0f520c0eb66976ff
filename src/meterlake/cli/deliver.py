"""`meterlake export`, `publish` and `report`: data for others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from meterlake.cli.options import NO_OPTIONS, Options

if TYPE_CHECKING:
    from meterlake.cli.output import Output
    from meterlake.pipeline.export import Exported
    from meterlake.pipeline.publish import Published


def register(app: App) -> None:
    """Add the commands."""
    app.command(export)
    app.command(publish)
    app.command(report)


def export(
    source: Literal["usage", "operational"],
    /,
    *,
    format: Literal["csv", "jsonl", "parquet"],
    to: str | None = None,
    month: str | None = None,
    type: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    options: Options = NO_OPTIONS,
) -> None:
    """Write measurements and quantities, or bills and configuration, as files with a manifest.

    The manifest is written last; it names every file with its rows, SHA-256 and sums.

    Example: `meterlake export usage --format parquet --to s3://bucket/meterlake --month 2026-10`

    Args:
        source: `usage` is measurements and quantities; `operational` is everything else.
        format: CSV and JSONL are compressed with gzip.
        to: A folder, s3://bucket/prefix or gs://bucket/prefix; by default the home's exports.
        month: Only a month, such as 2026-10; everything when absent.
        type: Only this type of data; can be given several times.
    """
    from meterlake.model.period import Month
    from meterlake.pipeline.export import ExportRequest
    from meterlake.pipeline.export import export as write
    from meterlake.stages.export.names import Format
    from meterlake.stages.export.types import Source

    request = ExportRequest(
        source=Source(source),
        format=Format(format),
        to=to,
        month=Month.parse(month) if month else None,
        types=type,
    )
    with options.opened() as (stores, organization):
        exported = write(stores, organization.id, request)
    show_exported(exported, options.output)


def show_exported(exported: "Exported", output: "Output") -> None:
    """Print what an export wrote: one JSON object with the manifest, or a table of files."""
    if output.json:
        output.line(
            {"url": exported.url, "manifestUrl": exported.manifest_url, **exported.manifest}
        )
        return
    files: list[dict[str, Any]] = [
        file | {"file": str(file["key"]).rpartition("/")[2]} for file in exported.manifest["files"]
    ]
    output.rows(files, ("type", "rows", "bytes", "file"))
    output.note(f"{exported.rows:,} rows in {len(files)} files at {exported.url}")
    output.note(f"manifest {exported.manifest_url}")


def publish(
    *,
    parquet: Annotated[bool, Parameter(negative="")] = False,
    whole: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> None:
    """Write one self-contained DuckDB file for analysts, in place of the last one.

    Who has the old file open keeps reading it. Only months that have changed are made anew. Tables,
    views and columns carry comments. Also prints the line that attaches the live lake.

    Example: `meterlake publish --parquet`

    Args:
        parquet: Also write a folder of Parquet files, by table and month.
        whole: Make everything anew.
    """
    from meterlake.pipeline.publish import attach_line
    from meterlake.pipeline.publish import publish as write

    with options.opened() as (stores, organization):
        published = write(stores, organization.id, parquet=parquet, whole=whole)
        line = attach_line(stores, organization.id)
    show_published(published, line, options.output)


def show_published(published: "Published", attach: str, output: "Output") -> None:
    """Print where the file is and what is in it."""
    new, months = published.made
    if output.json:
        record = {"path": str(published.path), "snapshot": published.snapshot}
        record |= {"parquet": published.parquet and str(published.parquet)}
        made = {"months": months, "monthsMade": new}
        output.line(record | made | {"rows": published.rows, "attach": attach})
        return
    rows = [{"table": name, "rows": count} for name, count in published.rows.items()]
    output.rows(rows, ("table", "rows"))
    output.note(
        f"{published.path}, from lake snapshot {published.snapshot};"
        f" {new} of {months} months of meters made anew"
    )
    if published.parquet:
        output.note(f"Parquet files: {published.parquet}")
    output.note(f"The live lake, in any DuckDB: {attach}")


def report(
    *, month: str | None = None, out: Path | None = None, options: Options = NO_OPTIONS
) -> None:
    """Write the usage report: one HTML page that works offline.

    Usage over time and the largest accounts per meter, quantities, rejected rows, what arrived, and
    how fresh the meters are.

    Example: `meterlake report --month 2026-10 --out october.html`

    Args:
        month: Only a month, such as 2026-10, or `current` or `last`; everything when absent.
        out: The file; by default it is put beside the published file.
    """
    from meterlake.pipeline.months import month_named
    from meterlake.pipeline.report import report as write

    with options.opened() as (stores, organization):
        meant = month_named(stores, organization.id, month) if month else None
        path = write(stores, organization.id, meant, out)
    if options.json:
        options.output.line({"path": str(path), "month": meant and str(meant)})
    else:
        options.output.note(str(path))
