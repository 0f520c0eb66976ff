"""`meterlake status`: look at what is there."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from cyclopts import App

from meterlake.cli.billing.late import show_late
from meterlake.cli.ingest.command import incomplete
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.cli.shell.output import Output
    from meterlake.pipeline.home.status import StatusReport


def register(app: App) -> None:
    """Add the command."""
    app.command(status)


def status(*, options: Options = NO_OPTIONS) -> None:
    """Show the contents of the lake, how fresh they are, and the last work.

    Example: `meterlake status`
    """
    from meterlake.pipeline.home.status import status as look

    with options.looked_at() as organization:
        found = look(organization)
    if options.json:
        options.output.line(found.to_wire())
    else:
        _show(found, options.output)


def _withdrawn(totals: dict[str, int]) -> str:
    """The end of a sentence of counts: how many measurements backfills withdrew."""
    count = totals["withdrawn"]
    return f"; {counted(count, 'measurement')} withdrawn by backfills" if count else ""


def _show(found: "StatusReport", output: "Output") -> None:
    organization = found.organization
    output.note(f"{organization.name} ({organization.code}), lake snapshot {found.snapshot}")
    meters = [_to_seconds(meter.to_wire()) for meter in found.meters]
    output.rows(
        meters,
        ("!meter", "measurements", "?firstTs=first", "lastTs=last", "?lastReceived=received"),
        "Measurements",
    )
    total = found.totals
    output.note(
        f"{counted(total['sources'], 'file')}: {total['received']:,} received = {total['accepted']:,}"
        f" accepted + {counted(total['repeats'], 'repeat')} + {total['rejected']:,} rejected"
        f"{incomplete(total)}{_withdrawn(total)}\n"
    )
    if found.left_alone:
        output.note(f"Not taken from the drop folder, no files: {', '.join(found.left_alone)}\n")
    if found.rejected:
        rows = [{"reason": reason, "rows": rows} for reason, rows in found.rejected.items()]
        output.rows(rows, ("reason", "rows"), "Rejected at present")
    if found.alerts:
        output.rows(map(_to_seconds, found.alerts), ("since", "alert", "!subject"), "Open alerts")
    for sentence in found.without_effect:
        output.note(f"organizationConfig: {sentence}")
    if found.late:
        show_late(found.late, output)
    counts = (
        *("name", "status", "?received", "accepted", "?repeats", "rejected"),
        *("?finished", "+!identity"),
    )
    output.rows(map(_to_seconds, found.sources), counts, "Last files")
    if found.jobs:
        jobs = map(_to_seconds, found.jobs)
        columns = ("kind", "status", "parameters", "error", "?created", "+!id")
        output.rows(jobs, columns, "Last jobs")


def _to_seconds(row: dict[str, Any]) -> dict[str, Any]:
    """The row without the fractions of its instants: nobody reads them."""
    return {
        name: value.replace(microsecond=0) if isinstance(value, datetime) else value
        for name, value in row.items()
    }
