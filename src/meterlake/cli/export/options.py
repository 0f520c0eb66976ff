"""What the commands of `meterlake export` share: their options, and what they print."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from meterlake.cli.shell.options import INTEGER
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.cli.export.documents import ExportOptions, Selected
    from meterlake.cli.shell.output import Output
    from meterlake.pipeline.export.run import Exported


FormatName = Literal["csv", "jsonl", "parquet"]
Text = Annotated[str | None, Parameter(show_default=False)]
Texts = Annotated[tuple[str, ...], Parameter(negative_iterable=(), show_default=False)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class UsageOptions:
    """Which usage.

    Attributes:
        meter: Codes of meters; if you leave it out, all.
        account: Codes of accounts; if you leave it out, all.
        filter: `meter.field=value`: of this meter only measurements with the value; if you give
            several values of a field, one is enough. Other meters stay whole: choose them by
            `--meter`.
        aggregate: `meter.field:FUNCTION` with SUM, MIN, MAX, COUNT, LATEST, MEAN or UNIQUE: you get
            the aggregated field instead of the measurements themselves.
        group: The groups of aggregated usage: `account`, `hour`, `day`, `week`, `month`, `quarter`,
            or `meter.field`.
    """

    meter: Texts = ()
    account: Texts = ()
    filter: Texts = ()
    aggregate: Texts = ()
    group: Texts = ()

    def selected(self) -> "Selected":
        """As the pipeline takes it."""
        from meterlake.cli.export.documents import Selected

        return Selected(**self.pipeline_options())

    def pipeline_options(self) -> dict[str, tuple[str, ...]]:
        """The same by the pipeline's names."""
        return {
            "meters": self.meter,
            "accounts": self.account,
            "filters": self.filter,
            "aggregations": self.aggregate,
            "groups": self.group,
        }


@Parameter(name="*")
@dataclass(frozen=True)
class FileOptions:
    """How files are written, and where they go.

    Attributes:
        format: The format of the files; meterlake compresses CSV and JSONL with gzip.
        to: A folder, s3://bucket/prefix or gs://bucket/prefix; by default the home's exports.
        destination: Codes or ids of destinations.
        keep: Keep the files for a day, for `meterlake export jobs download`.
        file_bytes: The size after which another file begins, at least 1024.
        spreadsheet: Write CSV whose cells no spreadsheet takes for formulas.
        type: Only this type of data; you can give it several times.
        month: Only a month, such as 2026-10, `last` or `current`, of measurements, quantities and
            bills; if you leave it out, everything.
    """

    format: FormatName = "csv"
    to: Text = None
    destination: Texts = ()
    keep: Flag = False
    file_bytes: Annotated[int | None, INTEGER, Parameter(show_default=False)] = None
    spreadsheet: Flag = False
    type: Texts = ()
    month: Text = None

    def export_options(self, source: str, **more: Any) -> "ExportOptions":
        """As the pipeline takes it."""
        from meterlake.cli.export.documents import ExportOptions

        return ExportOptions(
            source=source,
            format=self.format,
            to=self.to,
            destinations=self.destination,
            keep=self.keep,
            file_bytes=self.file_bytes,
            spreadsheet=self.spreadsheet,
            types=self.type,
            month=self.month,
            **more,
        )


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What was given of options; an empty text, also in a list, stands for nothing.

    Args:
        options: Values by name; None and () of those that were not given.
    """
    return {name: _clear_empty(value) for name, value in options.items() if value not in (None, ())}


def _clear_empty(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(each for each in value if each != "")
    return None if value == "" else value


ALL: Final = UsageOptions()
PLAINLY: Final = FileOptions()


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
    output.rows(files, ("type", "rows", "bytes", "?!file"))
    rows = counted(exported.rows, "row")
    places = "".join(f" at {destination.url}" for destination in exported.places)
    output.note(f"{rows} in {counted(len(files), 'file')}{places}")
    for destination in exported.places:
        output.note(f"manifest {destination.manifest_url}")
    if exported.download is not None:
        output.note(f"kept for a day: `meterlake export jobs download {exported.job_id}`")
