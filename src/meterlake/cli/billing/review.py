"""`meterlake bill review`: what somebody should look at before the bills of a month are approved."""

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from meterlake.cli.shell import next_steps
from meterlake.cli.shell.options import NO_OPTIONS, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meterlake.cli.shell.output import Output
    from meterlake.model.bills.review import ReviewFinding

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
    from meterlake.pipeline.config.months import month_named
    from meterlake.pipeline.home.bill_review import review_bills

    with options.open() as (stores, organization):
        meant = month_named(stores, organization.id, month)
        found = review_bills(stores, organization.id, meant)
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
