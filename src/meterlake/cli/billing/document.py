"""Files of a bill: `bill document` for its receiver, `bill template`, and `bill statement` of its usage."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.billing.bills import BillMonth, BillName, bill_named
from meterlake.cli.shell.controls import CONTROLS
from meterlake.cli.shell.files import format_named, write_file
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.model.errors import Invalid, Required

Format = Annotated[Literal["pdf", "html", "json"] | None, Parameter(show_default=False)]
Usage = Literal["auto", "day", "week", "month", "total", "none"]
OptionalPath = Annotated[Path | None, Parameter(show_default=False)]
OptionalBill = Annotated[str | None, Parameter(name="BILL", show_default=False)]
TextFormat = Annotated[Literal["json", "csv"] | None, Parameter(show_default=False)]
_STATEMENT_ENDINGS: Final = {"json": (".json",), "csv": (".csv",)}


def register(app: App) -> None:
    """Add the commands."""
    app.command(document)
    app.command(xero)
    app.command(template)


@Parameter(name="*")
@dataclass(frozen=True)
class DocumentChoice:
    """How a document is made.

    Attributes:
        format: The format; if you leave it out, the ending of --to decides, else PDF.
        to: The file to write, ending in .pdf, .html or .json; without it, the command prints the
            document.
        template: A template of your own, or a folder with bill.html and bill.typ.
        fonts: A folder with fonts, beside those of packages.
        usage: How finely the appendix shows usage; auto: none in long bills.
    """

    format: Format = None
    to: OptionalPath = None
    template: OptionalPath = None
    fonts: OptionalPath = None
    usage: Usage = "auto"


_NO_CHOICE: Final = DocumentChoice()
_ENDINGS: Final = {"pdf": (".pdf",), "html": (".html", ".htm"), "json": (".json",)}


def document(
    bill: OptionalBill = None,
    month: BillMonth = None,
    /,
    *,
    of_month: Annotated[str | None, Parameter(name="--month", show_default=False)] = None,
    zip: Annotated[bool, Parameter(negative="")] = False,
    choice: DocumentChoice = _NO_CHOICE,
    options: Options = NO_OPTIONS,
) -> int:
    """Write a bill for its receiver: a PDF, a page, or the data of templates as JSON.

    With --month you write all bills of a month: one PDF, or with --zip an archive of PDFs.

    The same bill gives the same bytes. The command refuses a bill whose numbers do not add up. If
    you have not approved the bill, the document is a draft and says so.

    Example: `meterlake bill document acme 2026-10 --to bill.pdf`

    Args:
        bill: The bill: its id or the first eight digits of it, its invoice number, or its account's
            code.
        month: If you name the bill by an account: the month of its last day, such as 2026-10.
        of_month: The month of whose bills you want all documents, such as 2026-10.
        zip: Whether these are files of an archive, instead of one PDF.
    """
    from meterlake.model.bills.document import AppendixDetail, DocumentFormat
    from meterlake.pipeline.documents.render import make_document, options_of

    if of_month is not None:
        if bill is not None:
            raise Invalid("--month", of_month, "leave it out when you name a bill")
        return _write_month(of_month, choice, options, zipped=zip)
    if bill is None:
        raise Required("BILL or --month")
    if zip:
        raise Invalid("--zip", True, "leave it out when you name a bill")
    name = format_named(choice.format, choice.to, _ENDINGS, "pdf")
    if choice.to is None and name == "pdf" and sys.stdout.isatty():
        raise Required("--to", None, "a PDF cannot be printed; name a file, such as --to bill.pdf")
    format_, detail = DocumentFormat(name), AppendixDetail(choice.usage)
    with options.open() as organization:
        id_ = bill_named(organization, bill, month)
        found = options_of(
            organization.settings, organization.code, format_, choice.template, choice.fonts
        )
        made = make_document(organization, id_, format_, detail, found)
    if choice.to is None:
        sys.stdout.buffer.write(made.data)
        sys.stdout.flush()
        return 0
    write_file(choice.to, made.data)
    shown = {"bill": id_, "format": name, "file": str(choice.to), "bytes": len(made.data)}
    options.output.record(shown, "Document")
    return 0


def _write_month(month: str, choice: DocumentChoice, options: Options, *, zipped: bool) -> int:
    """Write the documents of all bills of a month."""
    from meterlake.cli.shell.bars import count_bar
    from meterlake.model.bills.document import AppendixDetail, BundleFormat, DocumentFormat
    from meterlake.model.values.period import Month
    from meterlake.pipeline.documents.bundle import bills_of_documents, make_bundle
    from meterlake.pipeline.documents.render import options_of

    format_ = BundleFormat.ZIP if zipped else BundleFormat.PDF
    if choice.to is None:
        raise Required("--to", None, f"name a file, such as --to bills.{format_}")
    if choice.format not in {None, "pdf"} or choice.to.suffix.lower() != f".{format_}":
        rule = f"the documents of a month are PDFs: its name must end in .{format_}"
        raise Invalid("--to", str(choice.to), rule)
    with options.open() as organization:
        ids = bills_of_documents(organization, Month.parse(month))
        found = options_of(
            organization.settings,
            organization.code,
            DocumentFormat.PDF,
            choice.template,
            choice.fonts,
        )
        detail = AppendixDetail(choice.usage)
        with count_bar("documents", len(ids)) as tell:
            made = make_bundle(organization, ids, format_, detail, found, tell)
    write_file(choice.to, made.data)
    shown = {"month": month, "bills": len(ids), "file": str(choice.to), "bytes": len(made.data)}
    options.output.record(shown, "Documents")
    return 0


def xero(
    *,
    month: Annotated[str, Parameter(name="--month")],
    to: OptionalPath = None,
    approved_only: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> int:
    """Write the bills of a month as the CSV file that Xero imports as sales invoices.

    Each line of a bill is a row, with the customer's name, the invoice number and the codes of
    products. A bill without an invoice number has ACCOUNT-DAY in its place, such as
    acme-2026-10-31.

    Example: `meterlake bill xero --month 2026-10 --to october.csv`

    Args:
        month: The month of the last day of the bills, such as 2026-10.
        to: The file to write, ending in .csv; without it, the command prints the lines.
        approved_only: Leave out bills that are not approved yet.
    """
    from meterlake.cli.shell.files import check_ending, check_target
    from meterlake.model.bills.requests import ExternalSystem
    from meterlake.model.errors import NotFound
    from meterlake.model.values.period import Month
    from meterlake.pipeline.billing.bill_csv import bill_lines, bills_of_month

    if to is not None:
        check_target("--to", to)
        check_ending("--to", to, "csv")
    meant = Month.parse(month)
    with options.open() as organization, organization.reading() as reader:
        filters = bills_of_month(meant, approved_only=approved_only)
        lines = list(bill_lines(reader, ExternalSystem.XERO, filters))
    if len(lines) == 1:
        if approved_only:
            raise NotFound("approved bills of", str(meant), "; approve them first")
        raise NotFound("bills of", str(meant), "; make them first")
    if to is None:
        sys.stdout.writelines(lines)
        return 0
    data = "".join(lines).encode()
    write_file(to, data)
    shown = {"month": str(meant), "rows": len(lines) - 1, "file": str(to), "bytes": len(data)}
    options.output.record(shown, "Invoices for Xero")
    return 0


def template(folder: Path, /, *, options: Options = NO_OPTIONS) -> int:
    """Write meterlake's own templates into a folder, where you change them.

    Then `meterlake bill document BILL --template FOLDER` uses them.

    Example: `meterlake bill template ./templates`

    Args:
        folder: The folder; the command makes it if you have none. An existing file stays as it is.
    """
    from meterlake.pipeline.documents.render import own_templates
    from meterlake.stores.files.durable import disk

    if folder.exists() and not folder.is_dir():
        raise Invalid("folder", str(folder), "it must be a folder, or none yet")
    found = {folder / name: data for name, data in own_templates().items()}
    for path in found:
        if path.exists():
            raise Invalid("folder", str(folder), f"it must be a folder without {path.name}")
    with disk():
        folder.mkdir(parents=True, exist_ok=True)
    for path, data in found.items():
        write_file(path, data)
    rows = [{"file": str(path), "bytes": len(data)} for path, data in found.items()]
    options.output.rows(rows, ("file", "bytes"), "Templates")
    return 0


def statement(
    bill: BillName,
    month: BillMonth = None,
    /,
    *,
    format: TextFormat = None,
    to: OptionalPath = None,
    options: Options = NO_OPTIONS,
) -> int:
    """Print the statement of a bill: its lines, and the usage behind each by time and dimensions.

    The command makes it unless the bill has a current one. With the statement definition of the
    account, else that of the organization, you choose its contents.

    Example: `meterlake bill statement acme 2026-10 --format csv`

    Args:
        bill: The bill: its id or the first eight digits of it, its invoice number, or its account's
            code.
        month: If you name the bill by an account: the month of its last day, such as 2026-10.
        format: The format; if you leave it out, the ending of --to decides, else JSON.
        to: The file to write, ending in .json or .csv; without it, you see the statement on the
            screen.
    """
    from meterlake.model.bills.statements import StatementFormat, StatementOrder
    from meterlake.pipeline.statements.files import read_file
    from meterlake.pipeline.statements.jobs import ensure_statement

    name = format_named(format, to, _STATEMENT_ENDINGS, "json")
    wanted = StatementFormat(name)
    with options.open() as organization:
        id_ = bill_named(organization, bill, month)
        order = StatementOrder(id_, csv=wanted is StatementFormat.CSV)
        options.permitted(organization, ("config:retrieve", "bill"), [id_])
        author = options.permitted(organization, ("config:create", "statementjob"))
        file = ensure_statement(organization, author, order)[wanted]
        data = read_file(organization.stores, file)
    if to is None:
        # Print a file: to a program as it is, to people without what controls a terminal.
        text = data.decode()
        lines = text.splitlines(keepends=True) if sys.stdout.isatty() else [text]
        for line in lines:
            shown_line = (
                line.rstrip("\n").translate(CONTROLS) + "\n" if sys.stdout.isatty() else line
            )
            sys.stdout.write(shown_line)
        sys.stdout.flush()
        return 0
    write_file(to, data)
    shown = {"bill": file.bill_id, "format": name, "file": str(to), "bytes": file.size}
    options.output.record(shown | {"sha256": file.sha256}, "Statement")
    return 0
