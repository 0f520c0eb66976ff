"""`meterlake export`: data as files with a manifest, once or by a schedule."""

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from meterlake.cli.export import destinations as export_destinations
from meterlake.cli.export import jobs as export_jobs
from meterlake.cli.export import schedules as export_schedules
from meterlake.cli.export.options import (
    ALL,
    PLAINLY,
    FileOptions,
    Text,
    UsageOptions,
    show_exported,
)
from meterlake.cli.shell.options import (
    NO_FAN_OUT_OPTIONS,
    NO_HOME_OPTIONS,
    FanOutOptions,
    HomeOptions,
    Options,
)

if TYPE_CHECKING:
    from meterlake.cli.export.documents import ExportOptions

# Which action lets data of a source out, as over the API.
_ACTIONS: Final = {"usage": "measurements:export", "operational": "config:export"}
Manifest = Annotated[str, Parameter(name="MANIFEST", required=True)]


def register(app: App) -> None:
    """Add the commands."""
    export = App(name="export", help="Data as files with a manifest, once or by a schedule.")
    export.command(usage)
    export.command(operational)
    export.command(verify)
    for module in (export_schedules, export_jobs, export_destinations):
        module.register(export)
    app.command(export)


def usage(
    *,
    written: FileOptions = PLAINLY,
    since: Text = None,
    until: Text = None,
    period: Text = None,
    selection: UsageOptions = ALL,
    options: FanOutOptions = NO_FAN_OUT_OPTIONS,
) -> None:
    """Write measurements and quantities as files with a manifest.

    The command writes the manifest last; it names every file with its rows, SHA-256 and sums. If
    you choose among measurements by more than a month or a type, you get no quantities.

    Example: `meterlake export usage --format parquet --to s3://bucket/meterlake --month 2026-10`

    Example: `meterlake export usage --period last-7-days --aggregate egress.gb:SUM --group day`

    Args:
        since: Instead of a month: the first day or instant, in UTC.
        until: The day or instant after the last one.
        period: Instead of both: a time relative to now, such as yesterday or last-30-days.
    """
    request_options = written.export_options(
        "usage", since=since, until=until, time_period=period, selected=selection.selected()
    )
    _export(request_options, options)


def operational(
    *,
    written: FileOptions = PLAINLY,
    changes_since: Text = None,
    options: FanOutOptions = NO_FAN_OUT_OPTIONS,
) -> None:
    """Write bills and configuration as files with a manifest, one for each type.

    Example: `meterlake export operational --type bills --type accounts --to s3://bucket/meterlake`

    Example: `meterlake export operational --changes-since 2026-10-01`

    Args:
        changes_since: Only entities that you changed or deleted from this day or instant on, in
            UTC.
    """
    _export(written.export_options("operational", changes_since=changes_since), options)


def verify(manifest: Manifest, /, *, options: HomeOptions = NO_HOME_OPTIONS) -> int:
    """Compare the files of an export with its manifest: sizes, checksums, columns, rows, sums.

    Needs no home: only the manifest and the files, where the export put them or side by side.

    Example: `meterlake export verify s3://bucket/meterlake/orgId=…/type=manifest/…_manifest.json`

    Args:
        manifest: A path, or an s3:// or gs:// URL.
    """
    from meterlake.pipeline.export.verify import verify as compare

    problems = compare(options.settings(), manifest)
    if problems:
        options.output.rows([each.to_wire() for each in problems], ("file", "problem"))
        return 1
    options.output.note("All files are as the manifest says.")
    return 0


def _export(request_options: "ExportOptions", options: Options) -> None:
    from meterlake.cli.export.documents import resolve_export
    from meterlake.pipeline.export.run import export as write

    with options.open() as organization:
        request = resolve_export(organization, request_options)
        author = options.permitted(organization, (_ACTIONS[request.source], "dataexport"))
        exported = write(organization, request, author)
    show_exported(exported, options.output)
