"""`meterlake bill list` and `bill show`: the bills that there are, and what one of them says."""

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.cli.shell.output import Output
    from meterlake.stores import Organization

ID_DIGITS: Final = 8
_PAGE: Final = 100
_COLUMNS: Final = (
    *("!bill", "!account", "billDate=bill date", "total", "status", "!invoice", "?locked"),
    *("?frequency", "?due", "+!id"),
)
_LINE_COLUMNS: Final = (
    *("number=line", "description", "quantity", "amount"),
    *("?type", "?product", "?period", "+!id"),
)
_HEADER: Final = {
    **{name: name for name in ("id", "account", "invoice")},
    "billDate": "bill date",
    "due": "due",
    "period": "period",
    "status": "status",
    "approvedBy": "approved by",
    "locked": "locked",
    "lockedBy": "locked by",
    "total": "total",
}
# A bill as people name it, and the month that belongs to the code of an account.
BillName = Annotated[str, Parameter(name="BILL", required=True)]
BillMonth = Annotated[str | None, Parameter(name="MONTH", show_default=False)]
Text = Annotated[str | None, Parameter(show_default=False)]


def register(app: App) -> None:
    """Add the commands."""
    app.command(list_bills, name="list")
    app.command(show)


def bill_named(organization: "Organization", bill: str, month: str | None = None) -> str:
    """The id of the bill that a command's arguments name."""
    from meterlake.pipeline.billing.named_bills import find_bills, take_bill

    words = [bill] if month is None else [bill, month]
    if month is None:
        return find_bills(organization, words)[0]
    id_, rest = take_bill(organization, words)
    if rest:
        from meterlake.model.errors import Invalid

        raise Invalid(
            "MONTH", month, "it must be a month such as 2026-10, beside the code of an account"
        )
    return id_


def list_bills(
    *,
    month: Text = None,
    account: Annotated[
        tuple[str, ...],
        Parameter(name=["--account", "--accounts"], negative="", consume_multiple=True),
    ] = (),
    status: Annotated[Literal["pending", "approved"] | None, Parameter(show_default=False)] = None,
    limit: Limit = _PAGE,
    options: Options = NO_OPTIONS,
) -> None:
    """List bills, those with the latest date first, and what they come to; it calculates none.

    In other commands you name a bill by its id or the first eight digits of it, by its invoice
    number, or by the code of its account and the month of its last day: `acme 2026-10`, or
    `acme/2026-10`.

    Example: `meterlake bill list --month 2026-10`

    Args:
        month: Only bills whose last day is in this month, such as 2026-10; or `last` or `current`.
        account: Only bills of these accounts, by code.
        status: Only bills that wait for your approval, or only approved ones.
        limit: The largest number that you want to see.
    """
    from meterlake.pipeline.billing.bills import list_bills_by_date
    from meterlake.pipeline.billing.jobs.jobs import account_ids_of
    from meterlake.pipeline.config.months import month_named

    with options.open() as organization:
        meant = None if month is None else month_named(organization, month)
        ids = account_ids_of(organization, account) if account else ()
        found, totals = list_bills_by_date(organization, meant, ids, status, limit)
        amounts = AmountText.read(organization)
    if options.json:
        options.output.rows(found, ())
        return
    empty = "No bills: `meterlake bill --month MONTH` makes them."
    options.output.rows([_row(each, amounts) for each in found], _COLUMNS, empty=empty)
    if found:
        count = sum(number for number, _ in totals.values())
        sums = amounts.sums({currency: total for currency, (_, total) in totals.items()})
        options.output.note(f"{counted(count, 'bill')}, {sums}")
    if len(found) < sum(number for number, _ in totals.values()):
        options.output.note(f"The first {limit:,} are listed; --limit gives more.")


def show(bill: BillName, month: BillMonth = None, /, *, options: Options = NO_OPTIONS) -> None:
    """Show a bill with its lines.

    Example: `meterlake bill show acme 2026-10`

    Args:
        bill: The bill: its id or the first eight digits of it, its invoice number, or its account's
            code.
        month: If you name the bill by an account: the month of its last day, such as 2026-10.
    """
    with options.open() as organization:
        id_ = bill_named(organization, bill, month)
        show_bill(organization, id_, options.output)
    options.output.note("Where a number comes from, and the bill as its customer gets it:")
    options.output.command(f"bill explain {id_[:ID_DIGITS]}")
    options.output.command(f"bill document {id_[:ID_DIGITS]} --to bill.pdf")


def show_bill(organization: "Organization", id: str, output: "Output") -> None:
    """Print a bill with its lines."""
    from meterlake.pipeline.access.named_people import names_of_authors
    from meterlake.pipeline.billing.bills import get_bill

    found, amounts = get_bill(organization, id), AmountText.read(organization)
    if output.json:
        output.line(found)
        return
    row = _row(found, amounts)
    people = [found[name] for name in ("approvedBy", "lockedBy") if found.get(name)]
    row |= {
        name: names_of_authors(organization, people).get(found[name], found[name])
        for name in ("approvedBy", "lockedBy")
        if found.get(name)
    }
    output.record({text: row[name] for name, text in _HEADER.items() if row.get(name) is not None})
    lines = [_line(each, found["currency"], amounts) for each in found["lineItems"]]
    output.rows(lines, _LINE_COLUMNS, "Lines", empty="It has no lines.")


def _row(bill: dict[str, Any], amounts: AmountText) -> dict[str, Any]:
    interval = bill["billFrequencyInterval"]
    last_day = bill["billDate"] - timedelta(days=1)
    return {
        **bill,
        "bill": bill["id"][:ID_DIGITS],
        "account": bill.get("accountCode"),
        "total": amounts.money(Decimal(bill["billTotal"]), bill["currency"]),
        "invoice": bill.get("sequentialInvoiceNumber"),
        "due": bill.get("dueDate"),
        "frequency": f"{interval} × " * (interval > 1) + bill["billingFrequency"],
        "period": f"{bill['startDate']} to {last_day}" if "startDate" in bill else None,
    }


def _line(line: dict[str, Any], currency: str, amounts: AmountText) -> dict[str, Any]:
    from meterlake.cli.shell.tables import Digits
    from meterlake.model.usage.quantity import units_text

    start, end = (line.get(f"servicePeriod{side}Date", "") for side in ("Start", "End"))
    amount, units = line.get("convertedSubtotal"), line.get("units")
    return {
        **line,
        "number": line["sequenceNumber"],
        "quantity": Digits(
            units_text(None if units is None else Decimal(units), line.get("unit")) or ""
        ),
        "amount": None if amount is None else amounts.money(Decimal(amount), currency),
        "type": line["lineItemType"],
        "product": line.get("productCode"),
        "period": f"{start} to {end}" if start else None,
    }
