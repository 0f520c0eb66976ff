"""`meterlake bill send`: bills to their customers by e-mail."""

from typing import Annotated, Final

from cyclopts import App, Parameter

from meterlake.cli.billing.bills import ID_DIGITS
from meterlake.cli.billing.changes import BillNames
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.output import error_line

_COLUMNS: Final = ("!bill", "!to", "status", "?error", "+!id")


def register(app: App) -> None:
    """Add the command."""
    app.command(send)


def send(
    *bills: BillNames,
    to: Annotated[str | None, Parameter(show_default=False)] = None,
    again: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> int:
    """Send the documents of approved bills by e-mail.

    The worker sends them; it tries again while the mail server does not take them. A bill that was
    sent is not sent again unless you say so. If one bill is refused, you see why, the others are
    sent, and the command ends with 1. Set METERLAKE_SMTP_URL and METERLAKE_SMTP_FROM first.

    Example: `meterlake bill send acme/2026-10 INV-17`

    Args:
        bills: The bills, each by its id or the first eight digits of it, by its invoice number, or
            as ACCOUNT/MONTH.
        to: The address; the e-mail address of each bill's account by default.
        again: Whether bills that were sent are sent once more.
    """
    from meterlake.model.bills.requests import SendBillRequest
    from meterlake.model.errors import MeterlakeError, Required
    from meterlake.model.values.problems import read
    from meterlake.pipeline.billing.named_bills import find_bills
    from meterlake.pipeline.documents.letters import check_mail_server, send_bill

    if not bills:
        raise Required("BILL")
    request = read(SendBillRequest, {"to": to, "again": again})
    rows, refused = [], []
    with options.open() as organization:
        ids = find_bills(organization, bills)
        author = options.permitted(organization, ("config:update", "bill"), ids)
        check_mail_server(organization)
        for id_ in ids:
            row = {"type": "letter", "bill": id_[:ID_DIGITS], "id": id_}
            try:
                letter = send_bill(organization, author, id_, request)
                row |= {"to": letter["to"], "status": letter["status"]}
            except MeterlakeError as error:
                refused.append(error)
                row |= {"status": "REFUSED", "error": str(error)}
            rows.append(row)
    if options.json:
        for row in rows:
            options.output.line(row)
    else:
        options.output.rows(rows, _COLUMNS)
    for each in refused:
        error_line(type(each).__name__, str(each), json=options.json)
    return 1 if refused else 0
