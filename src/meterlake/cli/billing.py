"""`meterlake bill`: amounts of a month."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from meterlake.cli.configuration import AUTHOR
from meterlake.cli.options import NO_OPTIONS, Options
from meterlake.cli.output import error_line

if TYPE_CHECKING:
    from meterlake.cli.output import Output
    from meterlake.model.unbilled import Unpriced
    from meterlake.pipeline.billing.run import Billed, BillResult

MonthText = Annotated[str, Parameter(name="--month")]


def register(app: App) -> None:
    """Add the command."""
    app.command(bill)


def bill(
    *,
    month: MonthText,
    account: tuple[str, ...] = (),
    approve: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> int:
    """Make the bills of a month, and report usage that no bill charges for.

    These are the bills whose last day is in the month: a plan whose bills are of the 15th is billed
    until the 15th, one of quarters in the last month of a quarter.

    Doing it again changes nothing; a bill that comes out differently is at its next version and
    PENDING again, a locked one is left alone. With --json every line has a `type`: bill,
    unpriced, failure, noBill.

    Example: `meterlake bill --month 2026-10`

    Args:
        month: Such as 2026-10.
        account: Only this account, by code; can be given several times.
        approve: Approve the bills right away.
    """
    from meterlake.model.period import Month
    from meterlake.pipeline.billing.jobs import bill as make

    with options.open() as (stores, organization):
        result = make(
            stores,
            organization.id,
            Month.parse(month),
            approve=approve,
            accounts=account or None,
            author=AUTHOR,
        )
    show_bills(result, options.output)
    if result.failures:
        codes = ", ".join(each.account_code for each in result.failures)
        message = f"{len(result.failures)} accounts could not be billed: {codes}"
        error_line("Unbilled", message, json=options.json)
    return 1 if result.failures else 0


def show_bills(result: "BillResult", output: "Output") -> None:
    """Print what billing a month came to."""
    bills = [_bill(each) for each in result.bills]
    unpriced = [{"type": "unpriced", **each.to_wire()} for each in result.unpriced]
    without = [{"type": "noBill", **each.to_wire()} for each in result.without]
    failures = [
        {"type": "failure", "account": each.account_code, "reason": each.reason}
        for each in result.failures
    ]
    if output.json:
        for line in (*bills, *unpriced, *failures, *without):
            output.line(line)
        return
    from meterlake.cli.tables import Digits

    shown = [line | {"total": Digits(f"{line['total']:,f}")} for line in bills]
    output.rows(
        shown, ("account", "billDate=bill date", "lines", "total", "currency", "status", "outcome")
    )
    if unpriced:
        columns = (
            *("accountCode=account", "meterCode=meter", "aggregationCode=aggregation"),
            *("quantity", "units=units to price", "measurements", "reason"),
        )
        rows = [_unpriced_row(each) for each in result.unpriced]
        output.rows(rows, columns, "Usage that no bill charges for")
    if failures:
        output.rows(failures, ("account", "reason"), "Not billed")
    if without:
        output.rows(without, ("account", "reason"), "No bill of this month")
    sums = ", ".join(f"{total:,f} {code}" for code, total in result.totals.items())
    counts = Counter(str(line["outcome"]) for line in bills)
    became = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    output.note(f"{result.days}: {len(bills)} bills ({became or 'none'}), {sums or '0'}")


def _unpriced_row(found: "Unpriced") -> dict[str, Any]:
    """Usage with its quantity and the units that a price would be for, each with its own unit."""
    from meterlake.cli.tables import Digits
    from meterlake.model.quantity_unit import quantity_text, units_text

    return {
        **found.to_wire(),
        "quantity": Digits(quantity_text(found.quantity, found.quantity_unit) or ""),
        "units": Digits(units_text(found.units, found.unit) or ""),
        "reason": found.why,
    }


def _bill(billed: "Billed") -> dict[str, Any]:
    return {
        "type": "bill",
        "id": billed.bill_id,
        "account": billed.account_code,
        "billDate": billed.bill_date,
        "lines": billed.lines,
        "total": billed.total,
        "currency": billed.currency,
        "status": str(billed.status),
        "outcome": str(billed.stored),
    }
