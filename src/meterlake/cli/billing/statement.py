"""`meterlake bill statement`: the usage behind a bill in detail, as JSON or CSV."""

import sys
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from meterlake.cli.billing.bills import BillMonth, BillName, bill_named
from meterlake.cli.shell.controls import CONTROLS
from meterlake.cli.shell.files import format_named, write_file
from meterlake.cli.shell.options import NO_OPTIONS, Options

Format = Annotated[Literal["json", "csv"] | None, Parameter(show_default=False)]
_ENDINGS: Final = {"json": (".json",), "csv": (".csv",)}
File = Annotated[Path | None, Parameter(show_default=False)]


def statement(
    bill: BillName,
    month: BillMonth = None,
    /,
    *,
    format: Format = None,
    to: File = None,
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
    from meterlake.model.bills.statement_orders import StatementFormat, StatementOrder
    from meterlake.pipeline.statements.files import read_file
    from meterlake.pipeline.statements.jobs import ensure_statement

    name = format_named(format, to, _ENDINGS, "json")
    wanted = StatementFormat(name)
    with options.open() as (stores, organization):
        id_ = bill_named(stores, organization.id, bill, month)
        order = StatementOrder(id_, csv=wanted is StatementFormat.CSV)
        file = ensure_statement(
            stores, organization.id, options.author(stores, organization.id), order
        )[wanted]
        data = read_file(stores, file)
    if to is None:
        _print(data)
        return 0
    write_file(to, data)
    shown = {"bill": file.bill_id, "format": name, "file": str(to), "bytes": file.size}
    options.output.record(shown | {"sha256": file.sha256}, "Statement")
    return 0


def _print(data: bytes) -> None:
    """Print a file: to a program as it is, to people without what controls a terminal."""
    text = data.decode()
    lines = text.splitlines(keepends=True) if sys.stdout.isatty() else [text]
    for line in lines:
        shown = line.rstrip("\n").translate(CONTROLS) + "\n" if sys.stdout.isatty() else line
        sys.stdout.write(shown)
    sys.stdout.flush()
