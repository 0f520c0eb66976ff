"""`meterlake late`: what came after its period was closed, and what was done about it."""

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meterlake.cli.shell.output import Output
    from meterlake.model.bills.late_usage import LateUsage
    from meterlake.pipeline.usage.late import Late
    from meterlake.stores import Organization

Text = Annotated[str | None, Parameter(show_default=False)]
Accounts = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--account", "--accounts"], negative="", show_default=False, consume_multiple=True
    ),
]
_SOURCES_MAX: Final = 2
# What people read of a status.
_DONE: Final = {
    "OPEN": "to be decided",
    "RECALCULATED": "made again",
    "CARRIED": "carried",
    "WAITING": "waits",
    "REPORTED": "reported",
    "UNCHANGED": "nothing to do",
    "FAILED": "failed",
}


def register(app: App) -> None:
    """Add the command."""
    app.command(late)


def late(
    *,
    month: Text = None,
    account: Accounts = (),
    apply: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> None:
    """List late usage of closed periods, and the decision about each.

    The first table has the late usage of bills: its sources, the difference of the bill, and the
    decision by your policy for late usage. Scheduled billing finds it and applies the policy; with
    --apply you do that now. The second table has the closed periods that you have still to
    aggregate or bill again.

    With --json, the lines of the first table have the `type` lateUsage.

    Example: `meterlake late`

    Example: `meterlake late --month 2026-09 --account acme`

    Args:
        month: Only bills whose last day is in this month, such as 2026-09, and its periods.
        account: Only these accounts, by code.
        apply: Look for late usage now, and apply your policy.
    """
    from meterlake.model.values.period import Month

    period = None if month is None else str(Month.parse(month))
    with options.open() if apply else options.looked_at() as organization:
        if apply:
            from meterlake.model.bills.jobs import NO_DAYS, BillOrder
            from meterlake.pipeline.billing.jobs.jobs import bill_order

            author = options.permitted(organization, ("config:create", "billjob"))
            bill_order(organization, BillOrder(days=NO_DAYS, late_usage=True), author)
        found, periods = _find_late(organization, period, account)
        amounts = AmountText.read(organization)
    if options.json:
        for each in found:
            options.output.line({"type": "lateUsage", **each.to_wire()})
        for late_period in periods:
            options.output.line(late_period.to_wire())
    else:
        if not found and not periods:
            options.output.note("Nothing came late for a closed period.")
        if found:
            show_late_usage(found, amounts, options.output)
        if periods:
            show_late(periods, options.output)


def _find_late(
    organization: "Organization", period: str | None, accounts: "Sequence[str]"
) -> "tuple[Sequence[LateUsage], Sequence[Late]]":
    """The late usage of bills; and the closed periods with late measurements that it lacks."""
    from meterlake.pipeline.billing.late_usage.lists import list_all_late
    from meterlake.pipeline.usage.late import late as look

    found = list_all_late(organization, period=period, account_codes=accounts or None)
    late = (
        each for each in found if (each.is_open or each.decided is None) and not each.is_correction
    )
    known = {(each.period, each.account_code) for each in late}
    periods = [
        each
        for each in look(organization)
        if (period is None or each.period == period)
        and (not accounts or each.accounts.intersection(accounts))
        # Late usage of bills is in the first table where nobody decided it.
        and not (
            each.closed_by == "bills"
            and all((each.period, account) in known for account in each.accounts)
        )
    ]
    return found, periods


def show_late_usage(found: "Sequence[LateUsage]", amounts: AmountText, output: "Output") -> None:
    """Print the late usage of bills as a table, and what can be done about what is open."""
    columns = (
        *("!account", "!period", "came=what came", "difference", "done", "where"),
        *("?billDate=bill date", "?when", "?measurements", "+!bill"),
    )
    output.rows([_row(each, amounts) for each in found], columns, "Late usage of bills")
    open_: dict[str, list[LateUsage]] = defaultdict(list)
    for each in found:
        if each.is_open:
            open_[each.status.value].append(each)
    for status, late in open_.items():
        output.note(f"{_STATES[status]}: {len(late):,}{_together(late, amounts)}.")
        _show_steps(status, late, output)


def _row(late: "LateUsage", amounts: AmountText) -> dict[str, Any]:
    amount = late.difference
    names = list(
        dict.fromkeys(
            f"backfill {each.id[:8]}: {each.name}" if each.kind == "backfill" else each.name
            for each in late.sources
        )
    )
    shown = ", ".join(names[:_SOURCES_MAX])
    more = len(names) - _SOURCES_MAX
    sources = f"{shown} and {more} more" if more > 0 else shown
    return {
        "account": late.account_code,
        "period": late.period,
        "billDate": late.bill_date,
        "came": sources,
        "when": min(each.first for each in late.sources).replace(microsecond=0),
        "measurements": late.measurements,
        "difference": None if amount is None else amounts.money(amount, late.currency, sign=True),
        "bill": late.bill_id,
        "done": _DONE[late.status.value],
        "where": _where(late),
    }


def _where(late: "LateUsage") -> str:
    if late.new_version is not None:
        return f"version {late.new_version} of the bill"
    dates = sorted({str(each) for each in late.carriers.values()})
    memos = [each for each in late.lines if each.memo_id is not None]
    if memos:
        return (
            f"{counted(len(memos), 'memo')} on the bill of {', '.join(dates) or 'a deleted bill'}"
        )
    return late.reason or ""


def _together(late: "Iterable[LateUsage]", amounts: AmountText) -> str:
    """What differences come to in each currency; nothing of those that nobody has compared yet."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for each in late:
        if each.difference is not None:
            sums[each.currency] += each.difference
    if not sums:
        return ""
    return f", together {amounts.sums(dict(sorted(sums.items())), sign=True)}"


def _show_steps(status: str, late: "Sequence[LateUsage]", output: "Output") -> None:
    """Print the next commands to type."""
    if status == "OPEN":
        output.note("Next:")
        output.command("late --apply")
    if status == "REPORTED":
        # A reason is there only if the bill cannot be made again.
        unlocked = next((each.bill_id for each in late if each.reason is None), None)
        if unlocked is not None:
            output.note("To make a bill again that is not locked:")
            output.command(f"bill --recalculate {unlocked}")
        output.note("To carry all of it forward, change the policy and apply it:")
        output.command("config apply /dev/stdin", f"echo '{_CARRY_FORWARD}' |")
        output.command("late --apply")


_CARRY_FORWARD: Final = "organizationConfig: {lateUsage: CARRY_FORWARD}"
_STATES: Final = {
    "OPEN": "To be decided",
    "WAITING": "Waiting for a later bill of their accounts",
    "REPORTED": "On no bill",
    "FAILED": "Could not be compared",
}


def show_late(found: "Sequence[Late]", output: "Output") -> None:
    """Print the closed periods that late measurements touch as a table."""
    rows = [
        {
            **each.to_wire(),
            "accounts": len(each.accounts),
            "firstReceived": each.first_received and each.first_received.replace(microsecond=0),
            "lastReceived": each.last_received and each.last_received.replace(microsecond=0),
        }
        for each in found
    ]
    columns = (
        *("!period", "closedBy=closed by", "meters", "accounts", "measurements"),
        *("?firstReceived=first received", "?lastReceived=last received"),
    )
    output.rows(rows, columns, "Late for closed periods")
