"""`meterlake bill verify`: whether bills still are what comes out of what they were made from."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.output import error_line
from meterlake.model.errors import Invalid
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.model.bills.verification import BillVerification
    from meterlake.pipeline.billing.verification.verify import VerifyChoice

_SAID_MAX: Final = 20


def register(app: App) -> None:
    """Add the command."""
    app.command(verify)


def verify(
    *bills: Annotated[str, Parameter(show_default=False)],
    month: Annotated[str | None, Parameter(show_default=False)] = None,
    all_: Annotated[bool, Parameter(name="--all", negative="")] = False,
    former: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> int:
    """Calculate bills again from their pinned inputs, and compare every byte.

    The command reads the configuration, the ledger, locked bills and measurements as they were. It
    names a changed line, a missing file, another rate or another posting, with the stored value and
    the new result. If it finds a difference, it ends with 1. It stores nothing.

    It compares bills of other code by their values. It counts bills of a version without these
    pins, which you cannot verify until you make them again.

    Example: `meterlake bill verify --month 2026-10`

    Args:
        bills: These bills: each by its id or the first eight digits of it, by its invoice number, or
            by the code of its account and the month.
        month: The bills whose last day is in this month, such as 2026-10.
        all_: All bills.
        former: Also their former contents, and those of deleted bills of the month, if the lake
            still has the snapshot that they came from.
    """
    from meterlake.pipeline.billing.named_bills import find_bills
    from meterlake.pipeline.billing.verification.verify import verify_bills

    choice = _choice(bills, month, everything=all_)
    with options.open() as organization:
        named = tuple(find_bills(organization, bills))
        choice = replace(choice, bill_ids=named, former=former)
        found = verify_bills(organization, choice)
    if options.json:
        options.output.line(found.to_wire())
    else:
        options.output.note(_sentence(found))
        rows = [
            {**each.to_wire(), "bill": (each.bill_id or "")[:8], "id": each.bill_id or ""}
            for each in found.differences[:_SAID_MAX]
        ]
        columns = ("!bill", "subject", "name", "?field", "?version", "stored", "calculated", "+!id")
        options.output.rows(rows, columns)
    if not found.is_same:
        message = (
            f"{counted(len(found.differences), 'difference')}, the first: {found.differences[0]}"
        )
        error_line("Different", message, json=options.json)
    return 0 if found.is_same else 1


def _choice(bills: tuple[str, ...], month: str | None, *, everything: bool) -> "VerifyChoice":
    """Which bills the options mean.

    Raises:
        Invalid: They contradict each other, or one breaks a rule.
        Required: They say nothing.
    """
    from meterlake.model.errors import Required
    from meterlake.model.values.period import Month
    from meterlake.pipeline.billing.verification.verify import VerifyChoice

    if month is not None and bills:
        raise Invalid("--month", month, "leave it out when you give bills")
    if everything and (bills or month is not None):
        raise Invalid("--all", True, "leave it out when you give bills or --month")
    if not (bills or month is not None or everything):
        raise Required("BILL, --month or --all")
    return VerifyChoice(
        month=None if month is None else Month.parse(month),
    )


def _sentence(found: "BillVerification") -> str:
    differ = len({each.bill_id for each in found.differences if each.bill_id is not None})
    more = f", {found.other_code:,} of them by values: other code made them"
    unpinned = f"; {len(found.unpinned):,} cannot be verified: a version without pins made them"
    before = f"; {counted(found.former or 0, 'former content')}" + (
        f", and {found.expired:,} not, whose snapshot is gone" if found.expired else ""
    )
    return (
        f"{counted(found.verified, 'bill')} verified{more if found.other_code else ''},"
        f" {counted(differ, 'differs', 'differ')}"
        f"{unpinned if found.unpinned else ''}{'' if found.former is None else before}"
    )
