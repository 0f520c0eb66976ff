"""`meterlake bill statement`: the usage behind a bill in detail, as JSON or CSV."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from meterlake.cli.configuration import AUTHOR
from meterlake.cli.controls import CONTROLS
from meterlake.cli.files import write_file
from meterlake.cli.options import NO_OPTIONS, Options

Format = Literal["json", "csv"]
File = Annotated[Path | None, Parameter(show_default=False)]


def statement(
    bill: str,
    /,
    *,
    format: Format = "json",
    to: File = None,
    options: Options = NO_OPTIONS,
) -> int:
    """Print the statement of a bill: its lines, and the usage behind each by time and dimensions.

    It is made unless the bill has it as it is now. The statement definition of the account, else
    that of the organization, says how it is made up.

    Example: `meterlake bill statement 2054cfc5-18df-47ce-926c-5817033073b4 --format csv`

    Args:
        bill: The id of the bill.
        format: How it is written.
        to: The file to write; without it, the statement is printed.
    """
    from meterlake.model.bill_statements import StatementFormat, StatementOrder
    from meterlake.model.errors import NotFound
    from meterlake.model.ids import is_id
    from meterlake.pipeline.statements.files import read_file
    from meterlake.pipeline.statements.jobs import ensure_statement

    if not is_id(bill):
        raise NotFound("bill", bill)
    wanted = StatementFormat(format)
    order = StatementOrder(bill.lower(), csv=wanted is StatementFormat.CSV)
    with options.open() as (stores, organization):
        file = ensure_statement(stores, organization.id, AUTHOR, order)[wanted]
        data = read_file(stores, file)
    if to is None:
        _print(data)
        return 0
    write_file(to, data)
    shown = {"bill": file.bill_id, "format": format, "file": str(to), "bytes": file.size}
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
