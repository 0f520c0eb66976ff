"""`meterlake status` and `check`: what is there, and whether all is as it should be."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from meterlake.cli.billing.late import show_late
from meterlake.cli.ingest.command import incomplete
from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.output import error_line
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.cli.shell.output import Output
    from meterlake.pipeline.home.status import StatusReport


def register(app: App) -> None:
    """Add the commands."""
    app.command(status)
    check = App(name="check", help="Check that sources and ledgers balance, and list open alerts.")
    check.command(reconciliation)
    check.command(books)
    check.command(alerts)
    check.command(files)
    app.command(check)


def files(*, options: Options = NO_OPTIONS) -> int:
    """List the files of the last two months that you expect and that have not come in time.

    You say in the organization's configuration which files come for each day or month
    (`expectedFiles`). If a file is overdue, the command ends with 1.

    Example: `meterlake check files`
    """
    from meterlake.pipeline.ingest.expected_files import overdue_files

    with options.open() as organization:
        found = [each.to_wire() for each in overdue_files(organization)]
    columns = ("name", "!period", "pattern", "due")
    options.output.rows(found, columns, empty="No expected file is overdue.")
    return int(bool(found))


def reconciliation(*, options: Options = NO_OPTIONS) -> int:
    """Compare the ledger's numbers of every source with the lake.

    Received = accepted + repeats + rejected, and the lake has as many measurements, known uids and
    rejected rows as the ledger says. Up to 1,000 measurements of 20 sources, other ones each time,
    still have their accepted content. If it finds a difference, the command ends with 1 and raises
    ingest.books.alert.

    Example: `meterlake check reconciliation`
    """
    from dataclasses import asdict

    from meterlake.pipeline.maintenance.reconciliation import check_reconciliation

    with options.open() as organization:
        found = check_reconciliation(organization)
    differences = [asdict(each) for each in found.differences]
    if options.json:
        options.output.line(
            {**found.totals, "measurements": found.measurements, "differences": differences}
        )
    else:
        total = found.totals
        sentence = (
            f"{counted(total['sources'], 'source')}: {total['received']:,} received ="
            f" {total['accepted']:,} accepted + {counted(total['repeats'], 'repeat')}"
            f" + {total['rejected']:,} rejected{incomplete(total)};"
            f" {counted(found.measurements, 'measurement')} in the lake"
        )
        options.output.note(sentence)
        options.output.rows(differences, ("name", "?attempt", "what", "ledger", "found"))
    if not found.balanced:
        message = f"{counted(len(differences), 'difference')}, the first: {found.differences[0]}"
        error_line("Unbalanced", message, json=options.json)
    return 0 if found.balanced else 1


def books(
    *,
    beancount: Annotated[Path | None, Parameter(show_default=False)] = None,
    options: Options = NO_OPTIONS,
) -> int:
    """Add up the ledger of balances and commitments, and compare it with the amounts that you see.

    All accounts add up to zero; amounts of balances, their transactions and the amounts that
    commitments spent are the sums of their postings; lines of bills that draw from a balance or a
    commitment agree with the postings. If it finds a difference, the command ends with 1.

    Example: `meterlake check books --beancount ledger.beancount`

    Args:
        beancount: A file for the ledger, in the format of beancount.
    """
    from meterlake.pipeline.billing.verification.ledger_check import check_ledger, write_beancount

    with options.open() as organization:
        found = check_ledger(organization)
        if beancount is not None:
            write_beancount(organization, beancount)
        amounts = AmountText.read(organization)
    differences = [each._asdict() for each in found.differences]
    accounts = [
        {"account": type_.value, "currency": currency, "amount": amount}
        for (type_, currency), amount in found.accounts.items()
    ]
    if options.json:
        report = {"postings": found.postings, "accounts": accounts, "differences": differences}
        options.output.line(report)
    else:
        options.output.note(
            f"{counted(found.postings, 'posting')}, {counted(len(differences), 'difference')}"
        )
        rows = [
            {"account": type_.value, "amount": amounts.money(amount, currency)}
            for (type_, currency), amount in found.accounts.items()
        ]
        options.output.rows(rows, ("account", "amount"))
        options.output.rows(differences, ("!id", "what", "ledger", "found"))
    if differences:
        message = f"{counted(len(differences), 'difference')}, the first: {differences[0]}"
        error_line("Unbalanced", message, json=options.json)
    return 1 if differences else 0


def alerts(*, options: Options = NO_OPTIONS) -> int:
    """Look for new problems since the last look, and list the open alerts.

    It finds meters that receive nothing any more, too many rejected measurements, and books that
    did not balance at the last `check reconciliation`. You need it if you do not run `meterlake
    serve`, which does the same every minute. If alerts are open, the command ends with 1.

    Example: `meterlake check alerts`
    """
    from meterlake.pipeline.events.events import get_event
    from meterlake.pipeline.home.alerts import check_alerts
    from meterlake.pipeline.ingest.reporting import report

    with options.open() as organization:
        report(organization)
        opened = check_alerts(organization)
        events = [get_event(organization, each.event_id) for each in opened]
    rows = [
        {
            "since": each.since.replace(microsecond=0),
            "alert": each.name,
            "message": event["m3terEvent"]["eventData"]["newDto"]["message"],
            "eventId": each.event_id,
        }
        for each, event in zip(opened, events, strict=True)
    ]
    options.output.rows(rows, ("alert", "message", "?since", "+!eventId"), empty="No alerts.")
    return 1 if rows else 0


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
