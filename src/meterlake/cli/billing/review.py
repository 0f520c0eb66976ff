"""`meterlake bill review`: what is open before bills are approved; and `bill --approve`, which approves."""

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from cyclopts import App, Parameter

from meterlake.cli.shell import next_steps
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.output import error_line
from meterlake.model.errors import Invalid
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meterlake.cli.shell.output import Output
    from meterlake.model.bills.jobs import BillOrder
    from meterlake.model.bills.unbilled import ReviewFinding
    from meterlake.pipeline.billing.run import BillResult
    from meterlake.pipeline.billing.shown_bills import Approval
    from meterlake.stores import Organization


_COMMANDS_MAX: Final = 3


def register(app: App) -> None:
    """Add the command."""
    app.command(review)


def review(
    *,
    month: Annotated[str, Parameter(name="--month")],
    options: Options = NO_OPTIONS,
) -> int:
    """List the open points before you approve the bills of a month, one line each.

    These are: expected files that have not come, rejected rows of the month, usage that came after
    its bill, usage without a price, accounts that failed, missing bills, and totals that are far
    from the median of earlier ones. You choose in the organization's configuration which of them
    count. The command bills the month once more, and stores nothing. It ends with 1 if anything is
    open.

    Example: `meterlake bill review --month 2026-10`

    Args:
        month: Such as 2026-10; or `last` or `current`.
    """
    from meterlake.pipeline.closing.bill_review import review_bills
    from meterlake.pipeline.config.months import month_named

    with options.open() as organization:
        meant = month_named(organization, month)
        found = review_bills(organization, meant)
    show_review(found, options.output)
    if not found:
        options.output.note(f"Nothing is open: the bills of {meant} may be approved.")
    return 1 if found else 0


def show_review(found: "Sequence[ReviewFinding]", output: "Output") -> None:
    """Print what is open, one line each."""
    rows = [
        each.to_wire() | {"command": next_steps.command(each.command.removeprefix("meterlake "))}
        for each in found
    ]
    if output.json:
        for row in rows:
            output.line({"type": "open", **row})
        return
    output.rows(rows, ("kind=open", "!subject", "detail", "+!command=look closer"), "Open")
    if found and not output.wide:
        _show_commands(found, output)


def _show_commands(found: "Sequence[ReviewFinding]", output: "Output") -> None:
    """Print the commands that look closer: a few of each kind, as a month may have hundreds."""
    commands: dict[str, dict[str, None]] = {}
    for each in found:
        commands.setdefault(each.kind.value, {})[each.command] = None
    output.note("Look closer:")
    for kind, listed in commands.items():
        for command in list(listed)[:_COMMANDS_MAX]:
            output.command(command.removeprefix("meterlake "))
        if len(listed) > _COMMANDS_MAX:
            more = len(listed) - _COMMANDS_MAX
            output.note(f"  and {more:,} more of {kind}: --wide shows the command of each")


class Outcome(NamedTuple):
    """What became of an approval, and what is open about the bills."""

    approval: "Approval"
    result: "BillResult"
    found: "Sequence[ReviewFinding]"


def check_words(*, approve: bool, change_approved: bool, recalculate: bool, has_days: bool) -> None:
    """Refuse words that contradict each other.

    Raises:
        Invalid: They do.
    """
    if change_approved and approve:
        rule = "leave it out when you give --approve, which calculates nothing"
        raise Invalid("--change-approved", True, rule)
    if recalculate and (approve or change_approved):
        word = "--approve" if approve else "--change-approved"
        rule = "leave it out when you give --recalculate"
        if approve:
            rule += ": make the bills again, look at them, and approve them with --month or --date"
        raise Invalid(word, True, rule)
    if approve and not has_days:
        raise Invalid("--approve", True, "give it with --month or --date")


def approve(organization: "Organization", order: "BillOrder", author: str) -> Outcome:
    """Approve the bills of an order that were shown, and look for what is open about them."""
    from meterlake.model.values.period import Month
    from meterlake.pipeline.billing.shown_bills import approve_shown_bills, days_of
    from meterlake.pipeline.closing.bill_review import review_approval

    approval, days = approve_shown_bills(organization, order, author), days_of(order)
    found: Sequence[ReviewFinding] = []
    if isinstance(days, Month):
        found = review_approval(organization, days, approval)
    return Outcome(approval, approval.result(days), found)


def show_outcome(outcome: Outcome, making: str, output: "Output") -> int:
    """Print what is open, and what was not approved; the exit code.

    Args:
        outcome: Of the approval.
        making: The command that makes the bills, and shows them.
        output: Where to.
    """
    approval = outcome.approval
    show_review(outcome.found, output)
    if approval.before:
        output.note(f"Approved before, and left as they are: {approval.before:,}")
    if not approval.not_shown:
        return 0
    bills = counted(len(approval.not_shown), "bill was", "bills were")
    message = f"{bills} changed since shown, or never shown: run `{making}`, look, and approve then"
    error_line("NotShown", message, json=output.json)
    return 1


def show_next_step(result: "BillResult", making: str, output: "Output") -> None:
    """Say how an approved bill is changed that would be another one."""
    if any(str(each.stored) == "kept" for each in result.bills):
        output.note("Approved bills are kept as they are. To change them:")
        output.command(f"{making.removeprefix('meterlake ')} --change-approved")
