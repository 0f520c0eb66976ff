"""`meterlake check`: whether all is as it should be."""

from typing import TYPE_CHECKING

from cyclopts import App

from meterlake.cli.ingest import incomplete
from meterlake.cli.options import NO_OPTIONS, Options
from meterlake.cli.output import error_line

if TYPE_CHECKING:
    from meterlake.stores.lake.reconciliation import Reconciliation


def register(app: App) -> None:
    """Add the commands."""
    check = App(name="check", help="Whether the books balance, and what raises an alert.")
    check.command(reconciliation, name=("reconciliation", "books"))
    check.command(alerts)
    app.command(check)


def reconciliation(*, options: Options = NO_OPTIONS) -> int:
    """Compare what the ledger says of every source with what is in the lake.

    Received = accepted + repeats + rejected, and as many measurements, known uids and rejected
    rows as the ledger says; up to 1,000 measurements of 20 sources, other ones each time, still have
    the content that they were accepted with. A difference ends the command with 1 and raises
    ingest.books.alert.

    Example: `meterlake check reconciliation`
    """
    from dataclasses import asdict

    from meterlake.pipeline.home.reconciliation import check_reconciliation

    with options.open() as (stores, organization):
        found = check_reconciliation(stores, organization.id)
    differences = [asdict(each) for each in found.differences]
    if options.json:
        options.output.line(
            {**found.totals, "measurements": found.measurements, "differences": differences}
        )
    else:
        options.output.note(_sentence(found))
        if differences:
            options.output.rows(differences, ("name", "attempt", "what", "ledger", "found"))
    if not found.balanced:
        message = f"{len(differences)} differences, the first: {found.differences[0]}"
        error_line("Unbalanced", message, json=options.json)
    return 0 if found.balanced else 1


def alerts(*, options: Options = NO_OPTIONS) -> int:
    """Tell what went wrong since the last look, and list the alerts that are open.

    Meters that receive nothing any more, too many rejected measurements, and books that did not
    balance at the last `check reconciliation`. What `meterlake serve` does every minute, for homes that
    are not served. Open alerts end the command with 1.

    Example: `meterlake check alerts`
    """
    from meterlake.pipeline.events.alerts import check_alerts
    from meterlake.pipeline.events.events import get_event
    from meterlake.pipeline.ingest.reporting import report

    with options.open() as (stores, organization):
        report(stores, organization.id)
        opened = check_alerts(stores, organization.id)
        events = [get_event(stores, organization.id, each.event_id) for each in opened]
    rows = [
        {
            "since": each.since.replace(microsecond=0),
            "alert": each.name,
            "message": event["m3terEvent"]["eventData"]["newDto"]["message"],
            "eventId": each.event_id,
        }
        for each, event in zip(opened, events, strict=True)
    ]
    if rows or options.json:
        options.output.rows(rows, ("since", "alert", "message"))
    else:
        options.output.note("No alerts.")
    return 1 if rows else 0


def _sentence(found: "Reconciliation") -> str:
    total = found.totals
    return (
        f"{total['sources']:,} sources: {total['received']:,} received ="
        f" {total['accepted']:,} accepted + {total['repeats']:,} repeats"
        f" + {total['rejected']:,} rejected{incomplete(total)};"
        f" {found.measurements:,} measurements in the lake"
    )
