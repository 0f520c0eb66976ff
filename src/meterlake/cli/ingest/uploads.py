"""`meterlake uploads`: files that clients sent to an upload URL."""

from typing import Any

from cyclopts import App

from meterlake.cli.ingest.command import emit_receipts, report
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.signals import TERMINATED, between_two
from meterlake.model.errors import MeterlakeError


def register(app: App) -> None:
    """Add the commands."""
    uploads = App(name="uploads", help="Files that clients sent to an upload URL.")
    uploads.command(ingest)
    app.command(uploads)


def ingest(*, options: Options = NO_OPTIONS) -> int:
    """Ingest the uploaded files that wait now, also those of lookup tables.

    `meterlake serve` does so all the time. If you run several processes, they share the work: one
    of them takes a file. The command reports an unreadable file after all the others.

    Example: `meterlake uploads ingest`
    """
    from meterlake.pipeline.ingest.uploads import ingest_uploads

    found: list[dict[str, Any]] = []
    try:
        with options.open() as (stores, organization), between_two() as stop:
            found.extend(emit_receipts(ingest_uploads(stores, organization.id, stop), options))
    except MeterlakeError:
        # One file failed; what came in from the others is told all the same.
        if found:
            report(found, options)
        raise
    code = report(found, options)
    return TERMINATED if stop() else code
