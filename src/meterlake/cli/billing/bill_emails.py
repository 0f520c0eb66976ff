"""`meterlake bill send`: bills to their customers by e-mail."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from meterlake.cli.billing.bills import ID_DIGITS
from meterlake.cli.billing.changes import BillNames, DryRun
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.output import error_line

if TYPE_CHECKING:
    from meterlake.model.bills.requests import SendBillRequest

_COLUMNS: Final = ("!bill", "!to", "status", "?error", "+!id")


def register(app: App) -> None:
    """Add the command."""
    app.command(send)


def send(
    *bills: BillNames,
    to: Annotated[str | None, Parameter(show_default=False)] = None,
    again: Annotated[bool, Parameter(negative="")] = False,
    dry_run: DryRun = False,
    options: Options = NO_OPTIONS,
) -> int:
    """Send the documents of approved bills by e-mail.

    The worker sends them; it tries again while the mail server does not take them. A bill that was
    sent is not sent again unless you say so. If one bill is refused, you see why, the others are
    sent, and the command ends with 1. Set METERLAKE_SMTP_URL and METERLAKE_SMTP_FROM first. You set
    the words with `meterlake edit organization-config --set billLetterText=…`.

    Example: `meterlake bill send acme/2026-10 INV-17`

    Args:
        bills: The bills, each by its id or the first eight digits of it, by its invoice number, or
            as ACCOUNT/MONTH.
        to: The address; the e-mail address of each bill's account by default.
        again: Whether bills that were sent are sent once more.
        dry_run: Show what the e-mails say, and send none.
    """
    from meterlake.model.bills.requests import SendBillRequest
    from meterlake.model.errors import MeterlakeError, Required
    from meterlake.model.values.problems import read
    from meterlake.pipeline.billing.named_bills import find_bills
    from meterlake.pipeline.documents.bill_emails import check_mail_server, send_bill

    if not bills:
        raise Required("BILL")
    request = read(SendBillRequest, {"to": to, "again": again})
    if dry_run:
        return _preview(bills, request, options)
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


def _preview(names: Sequence[str], request: "SendBillRequest", options: Options) -> int:
    """Show what the letters of bills say."""
    from meterlake.model.bills.requests import PreviewLetterRequest
    from meterlake.pipeline.billing.named_bills import find_bills
    from meterlake.pipeline.documents.bill_emails import preview_letter

    with options.open() as organization:
        ids = find_bills(organization, names)
        options.permitted(organization, ("config:retrieve", "bill"), ids)
        letters = [preview_letter(organization, id_, PreviewLetterRequest()) for id_ in ids]
    for id_, letter in zip(ids, letters, strict=True):
        shown = {"type": "letter", "bill": id_[:ID_DIGITS], "id": id_, **letter}
        options.output.record(shown | {"to": request.to or letter["to"]}, "E-mail")
    options.output.note("Dry run: nothing was sent.")
    return 0
