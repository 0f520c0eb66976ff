"""What an export wrote, as a command prints it."""

from typing import TYPE_CHECKING, Any

from meterlake.model.values.counted import counted

if TYPE_CHECKING:
    from meterlake.cli.shell.output import Output
    from meterlake.pipeline.export.run import Exported


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
    output.note(f"{rows} in {counted(len(files), 'file')}{_at(exported)}")
    for destination in exported.places:
        output.note(f"manifest {destination.manifest_url}")
    if exported.download is not None:
        output.note(f"kept for a day: `meterlake export jobs download {exported.job_id}`")


def _at(exported: "Exported") -> str:
    return "".join(f" at {destination.url}" for destination in exported.places)
