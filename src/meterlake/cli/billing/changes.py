"""`meterlake bill approve`, `unapprove`, `lock` and `delete`: what is done to bills by name."""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.billing.bills import ID_DIGITS
from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.output import confirm, error_line, require_somebody
from meterlake.model.errors import Required

if TYPE_CHECKING:
    from meterlake.cli.shell.output import Output
    from meterlake.pipeline.billing.bill_actions import BillAction, BillChange
    from meterlake.stores import Organization

BillNames = Annotated[str, Parameter(name="BILL", required=True)]
DryRun = Annotated[bool, Parameter(negative="")]
Yes = Annotated[bool, Parameter(negative="")]
_COLUMNS: Final = (
    *("!bill", "!account", "billDate=bill date", "total", "was", "outcome"),
    *("?!invoice", "+!id"),
)
# More bills than these no command names.
_NAMED_MAX: Final = 5


def register(app: App) -> None:
    """Add the commands."""
    for command in (approve, unapprove, lock, delete):
        app.command(command)


def approve(*bills: BillNames, dry_run: DryRun = False, options: Options = NO_OPTIONS) -> int:
    """Approve bills, and calculate none.

    You name a bill by its id or the first eight digits of it, by its invoice number, or as
    ACCOUNT/MONTH. If one bill is refused, you see why, the others are approved, and the command
    ends with 1. To approve all bills of a month that you have seen: `meterlake bill --approve`.

    Example: `meterlake bill approve acme/2026-10 INV-17`

    Args:
        bills: The bills.
        dry_run: Show what would become of each, and change nothing.
    """
    from meterlake.pipeline.billing.bill_actions import BillAction, open_points_of
    from meterlake.pipeline.billing.named_bills import find_bills

    with options.open() as organization:
        ids = find_bills(organization, bills)
        open_points = open_points_of(organization, ids)
        changes = _change(organization, BillAction.APPROVE, ids, options, dry_run=dry_run)
        code = _show(organization, changes, options.output, dry_run=dry_run)
    _show_open_points(open_points, options.output)
    _show_way_back("bill unapprove", "To take the approval back:", changes, options.output, dry_run)
    return code


def unapprove(*bills: BillNames, dry_run: DryRun = False, options: Options = NO_OPTIONS) -> int:
    """Take back the approval of bills: they wait for it again.

    If one bill is refused, as locked bills are, you see why, the others change, and the command
    ends with 1.

    Example: `meterlake bill unapprove acme/2026-10`

    Args:
        bills: The bills, each by its id or the first eight digits of it, by its invoice number, or
            as ACCOUNT/MONTH.
        dry_run: Show what would become of each, and change nothing.
    """
    from meterlake.pipeline.billing.bill_actions import BillAction
    from meterlake.pipeline.billing.named_bills import find_bills

    with options.open() as organization:
        ids = find_bills(organization, bills)
        changes = _change(organization, BillAction.UNAPPROVE, ids, options, dry_run=dry_run)
        code = _show(organization, changes, options.output, dry_run=dry_run)
    _show_way_back("bill approve", "To approve again:", changes, options.output, dry_run)
    return code


def lock(
    *bills: BillNames, dry_run: DryRun = False, yes: Yes = False, options: Options = NO_OPTIONS
) -> int:
    """Lock approved bills for ever: nothing and nobody changes or deletes them any more.

    The command shows the bills and asks you first. If one bill is refused, you see why, the others
    are locked, and the command ends with 1. You correct a locked bill with a credit or a debit on a
    later one: `meterlake bill credit`.

    Example: `meterlake bill lock acme/2026-10 --dry-run`

    Args:
        bills: The bills, each by its id or the first eight digits of it, by its invoice number, or
            as ACCOUNT/MONTH.
        dry_run: Show what would become of each, and change nothing.
        yes: Lock without asking, in scripts.
    """
    from meterlake.pipeline.billing.bill_actions import BillAction

    return _change_for_ever(BillAction.LOCK, bills, options, dry_run=dry_run, yes=yes)


def delete(
    *bills: BillNames, dry_run: DryRun = False, yes: Yes = False, options: Options = NO_OPTIONS
) -> int:
    """Delete bills; what they drew from balances and commitments goes back to them.

    The command shows the bills and asks you first. Their invoice numbers are not given again. If
    one bill is refused, as locked bills are, you see why, the others are deleted, and the command
    ends with 1.

    Example: `meterlake bill delete acme/2026-10 --dry-run`

    Args:
        bills: The bills, each by its id or the first eight digits of it, by its invoice number, or
            as ACCOUNT/MONTH.
        dry_run: Show what would become of each, and change nothing.
        yes: Delete without asking, in scripts.
    """
    from meterlake.pipeline.billing.bill_actions import BillAction

    return _change_for_ever(BillAction.DELETE, bills, options, dry_run=dry_run, yes=yes)


def _change_for_ever(
    action: "BillAction", bills: Sequence[str], options: Options, *, dry_run: bool, yes: bool
) -> int:
    """Do what nobody can undo: somebody looks at what would become of the bills, and agrees."""
    from meterlake.pipeline.billing.bill_actions import BillAction, open_points_of
    from meterlake.pipeline.billing.named_bills import find_bills

    with options.open() as organization:
        ids = find_bills(organization, bills)
        if action is BillAction.LOCK:
            open_points = open_points_of(organization, ids, also_approved=True)
            _show_open_points(open_points, options.output)
        if not (dry_run or yes):
            rule = "nobody can be asked here; add it, or look with --dry-run"
            require_somebody(options.output, Required("--yes", None, rule))
            found = _change(organization, action, ids, options, dry_run=True)
            _show(organization, found, options.output, dry_run=True)
            which = "this bill" if len(ids) == 1 else f"these {len(ids):,} bills"
            if not confirm(f"{str(action).capitalize()} {which}?", options.output):
                return 1
        changes = _change(organization, action, ids, options, dry_run=dry_run)
        return _show(organization, changes, options.output, dry_run=dry_run)


def _show_open_points(open_points: str, output: "Output") -> None:
    if open_points:
        output.note(f"{open_points[0].upper()}{open_points[1:]}")


def _change(
    organization: "Organization",
    action: "BillAction",
    ids: Sequence[str],
    options: Options,
    *,
    dry_run: bool,
) -> "list[BillChange]":
    """What becomes of bills, or would."""
    from meterlake.pipeline.billing.bill_actions import change_bills

    author = options.permitted(organization, (action.permission, "bill"), ids)
    changed = organization.rehearsed() if dry_run else organization
    return list(change_bills(changed, author, action, ids))


def _show(
    organization: "Organization",
    changes: "Sequence[BillChange]",
    output: "Output",
    *,
    dry_run: bool,
) -> int:
    """Print what became of bills, and why some stay; the exit code."""
    amounts = AmountText.read(organization)
    rows = [_row(each) for each in changes]
    if output.json:
        output.rows(rows, ())
    else:
        shown = [
            row | {"total": amounts.money(Decimal(row["total"]), row["currency"])} for row in rows
        ]
        output.rows(shown, _COLUMNS)
        if dry_run:
            output.note("Dry run: nothing was written.")
    refused = [each for each in changes if each.error is not None]
    for each in refused:
        name = f"{each.bill.get('accountCode')}, bill date {each.bill['billDate']}"
        error_line(type(each.error).__name__, f"{name}: {each.error}", json=output.json)
    return 1 if refused else 0


def _row(change: "BillChange") -> dict[str, Any]:
    bill = change.bill
    return {
        "type": "bill",
        "id": bill["id"],
        "bill": bill["id"][:ID_DIGITS],
        "account": bill.get("accountCode"),
        "invoice": bill.get("sequentialInvoiceNumber"),
        "billDate": bill["billDate"],
        "total": bill["billTotal"],
        "currency": bill["currency"],
        "was": "LOCKED" if bill["locked"] else bill["status"],
        "outcome": str(change.outcome),
        "reason": None if change.error is None else str(change.error),
    }


def _show_way_back(
    words: str, told: str, changes: "Sequence[BillChange]", output: "Output", dry_run: bool
) -> None:
    """Say how a change is undone, if there was one."""
    from meterlake.pipeline.billing.bill_actions import BillChangeOutcome

    unchanged = {BillChangeOutcome.REFUSED, BillChangeOutcome.UNCHANGED}
    done = [each.bill["id"][:ID_DIGITS] for each in changes if each.outcome not in unchanged]
    if done and not dry_run:
        output.note(told)
        output.command(f"{words} {' '.join(done if len(done) <= _NAMED_MAX else ['BILL…'])}")
