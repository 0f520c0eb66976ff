"""`meterlake bill`: bills of a month, of a date, or chosen ones again; and what is done with bills."""

import shlex
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.billing import (
    bill_emails,
    changes,
    diff,
    document,
    explanation,
    memos,
    review,
    verification,
    what_if,
)
from meterlake.cli.billing import bills as listed_bills
from meterlake.cli.billing.document import statement
from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.options import (
    NO_ORGANIZATION_OPTIONS,
    OrganizationOptions,
    as_options,
)
from meterlake.cli.shell.output import error_line, show_organizations
from meterlake.model.errors import Invalid, Required
from meterlake.model.values.ids import UNNAMED
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meterlake.cli.shell.amounts import AmountText
    from meterlake.cli.shell.output import Output
    from meterlake.model.bills.jobs import BillOrder
    from meterlake.model.bills.unbilled import Unpriced
    from meterlake.pipeline.billing.run import Billed, BillResult
    from meterlake.stores import Organization


Frequency = Literal["daily", "weekly", "monthly", "annually"]
Several = Annotated[
    tuple[str, ...], Parameter(negative="", show_default=False, consume_multiple=True)
]
Accounts = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--account", "--accounts"],
        negative="",
        show_default=False,
        consume_multiple=True,
    ),
]
Text = Annotated[str | None, Parameter(show_default=False)]
MonthText = Annotated[str | None, Parameter(name="--month", show_default=False)]
# What the API's fields are called here.
_FIELDS: Final = {
    "billDate": "--date",
    "billIds": "--recalculate",
    "billingFrequency": "--frequency",
}


BILL_COLUMNS: Final = (
    *("!bill", "!account", "billDate=bill date", "total", "status", "outcome"),
    *("?lines", "+!id"),
)


def register(app: App) -> None:
    """Add the commands."""
    bills = App(name="bill")
    bills.default(bill)
    listed_bills.register(bills)
    changes.register(bills)
    bills.command(recalculate)
    memos.register(bills)
    review.register(bills)
    verification.register(bills)
    what_if.register(bills)
    diff.register(bills)
    explanation.register(bills)
    bill_emails.register(bills)
    bills.command(statement)
    document.register(bills)
    app.command(bills)


@Parameter(name="*")
@dataclass(frozen=True)
class BillChoice:
    """Which bills are made.

    Attributes:
        month: Such as 2026-10.
        date: A bill date, the day after the last one of the periods, such as 2026-11-01.
        frequency: Only bills of plans with this frequency.
        account: Only these accounts, by code.
        recalculate: Make these bills again, and no others: each by its id or the first eight digits
            of it, by its invoice number, or by the code of its account and the month.
    """

    month: MonthText = None
    date: Text = None
    frequency: Annotated[Frequency | None, Parameter(show_default=False)] = None
    account: Accounts = ()
    recalculate: Several = ()


_NO_CHOICE: Final = BillChoice()


def bill(
    *,
    choice: BillChoice = _NO_CHOICE,
    approve: Annotated[bool, Parameter(negative="")] = False,
    change_approved: Annotated[bool, Parameter(negative="")] = False,
    options: OrganizationOptions = NO_ORGANIZATION_OPTIONS,
) -> int:
    """Make bills, and report usage that no bill charges for.

    With a month, you make the bills whose last day is in it: for bills of the 15th those until the
    15th, for quarters those that end with the month. The command refuses a month that has not
    begun. With a date, you make the bills of that date, also of one to come. With a frequency
    alone, you make the bills that end the periods which are open today.

    If you run it again, nothing changes. If a PENDING bill has another result, it gets its next
    version. An approved or a locked bill stays as it is, and you see its new result and the
    differences. With --json every line has a `type`: bill, unpriced, failure, noBill; and with
    --month and --approve, open.

    With --approve you calculate nothing: you approve the bills of the month or the date that this
    command has shown to you as they are. A bill that changed since, or that it never showed, waits.

    Example: `meterlake bill --month 2026-10`

    Example: `meterlake bill --month 2026-10 --approve`

    Args:
        approve: Approve the bills that you have seen, and calculate none.
        change_approved: Change approved bills, too; they are PENDING again. Locked ones never change.
    """
    from meterlake.pipeline.billing.jobs.jobs import bill_order
    from meterlake.pipeline.billing.named_bills import find_bills
    from meterlake.pipeline.config.months import refuse_future_month

    review.check_words(
        approve=approve,
        change_approved=change_approved,
        recalculate=bool(choice.recalculate),
        has_days=not choice.month is choice.date is None,
    )
    if options.all_orgs:
        return _bill_all(choice, options, approve=approve, change_approved=change_approved)

    with options.open() as organization, as_options(str, **_FIELDS):
        if choice.recalculate:
            _refuse_others(choice)
            named = find_bills(organization, choice.recalculate)
            choice = replace(choice, recalculate=tuple(named))
        order = _order(choice, change_approved=change_approved)
        if choice.account:
            order = of_accounts(organization, order, choice.account)
        to = ("config:update", "bill") if approve else ("config:create", "billjob")
        author = options.permitted(organization, to)
        if approve:
            outcome = review.approve(organization, order, author)
        else:
            refuse_future_month(organization, order.days)
            result = bill_order(organization, order, author, shown=True)
        amounts = AmountText.read(organization)
    if approve:
        show_bills(outcome.result, amounts, options.output)
        return review.show_outcome(outcome, _making(choice), options.output)
    show_bills(result, amounts, options.output)
    review.show_next_step(result, _making(choice), options.output)
    if result.failures:
        codes = ", ".join(each.account_code for each in result.failures)
        message = f"{counted(len(result.failures), 'account')} could not be billed: {codes}"
        error_line("Unbilled", message, json=options.json)
    return 1 if result.failures else 0


def recalculate(
    *bills: changes.BillNames,
    dry_run: changes.DryRun = False,
    options: OrganizationOptions = NO_ORGANIZATION_OPTIONS,
) -> int:
    """Make bills again, approved or not; if a bill comes out as another one, it waits for approval.

    Later bills that draw from the same balances and commitments are made again with them, if less
    or more is left. To see which these are: --dry-run. To see what would change of one bill:
    `meterlake bill diff BILL --against now`.

    Example: `meterlake bill recalculate acme/2026-10`

    Args:
        bills: The bills, each by its id or the first eight digits of it, by its invoice number, or
            as ACCOUNT/MONTH.
        dry_run: List the other bills that this touches, and make none.
    """
    if dry_run:
        return _list_touched(bills, options)
    return bill(choice=BillChoice(recalculate=bills), options=options)


_TOUCHED: Final = {
    ("DRAWS_AFTER", True): "made again if less or more is left for it",
    ("DRAWS_AFTER", False): "locked: it stays",
    ("SAME_FAMILY", False): "of the parent or a child: not made again",
}


def _list_touched(names: "Sequence[str]", options: OrganizationOptions) -> int:
    """List the other bills that a calculation of some bills touches."""
    from meterlake.pipeline.billing.jobs.recalculation import check_recalculation
    from meterlake.pipeline.billing.named_bills import find_bills

    with options.open() as organization:
        options.permitted(organization, ("config:create", "billjob"))
        found = check_recalculation(organization, find_bills(organization, names))["data"]
        amounts = AmountText.read(organization)
    rows = [
        {
            "type": "touchedBill",
            "bill": each["billId"][: listed_bills.ID_DIGITS],
            "account": each["accountCode"],
            "billDate": each["billDate"],
            "total": each["billTotal"],
            "currency": each["currency"],
            "status": each["status"],
            "becomes": _TOUCHED[each["relation"], each["recalculated"]],
            "id": each["billId"],
        }
        for each in found
    ]
    if not options.json:
        rows = [row | {"total": amounts.money(row["total"], row["currency"])} for row in rows]
    columns = ("!bill", "!account", "billDate=bill date", "total", "status", "becomes", "+!id")
    options.output.rows(rows, columns)
    if not rows:
        options.output.note("No other bill is touched.")
    options.output.note("Dry run: nothing was calculated.")
    return 0


def _making(choice: BillChoice) -> str:
    """The command that makes the bills of a choice."""
    words = {"--month": choice.month, "--date": choice.date, "--frequency": choice.frequency}
    found = [f"{word} {value}" for word, value in words.items() if value is not None]
    found += [f"--account {shlex.quote(each)}" for each in choice.account]
    return " ".join(["meterlake bill", *found])


def _bill_all(
    choice: BillChoice, options: OrganizationOptions, *, approve: bool, change_approved: bool
) -> int:
    from meterlake.pipeline.home.organizations import approve_organizations, bill_organizations

    if choice.account or choice.recalculate:
        raise Invalid("--all-orgs", True, "leave it out when you give --account or --recalculate")
    work = approve_organizations if approve else bill_organizations
    with as_options(str, **_FIELDS), options.open_all() as stores:
        ends = work(stores, _order(choice, change_approved=change_approved), UNNAMED)
    columns = (
        ("approved", "failed=not shown") if approve else ("bills", "failed", "left=left as is")
    )
    return show_organizations(ends, (*columns, "total"), options.output)


def of_accounts(
    organization: "Organization", order: "BillOrder", codes: "Sequence[str]"
) -> "BillOrder":
    """An order of some accounts only."""
    from meterlake.pipeline.billing.jobs.jobs import account_ids_of

    return replace(order, account_ids=account_ids_of(organization, codes))


def _order(choice: BillChoice, *, change_approved: bool) -> "BillOrder":
    """What the options ask for.

    Raises:
        Invalid: They contradict each other, or one breaks a rule.
        Required: They say nothing.
    """
    from meterlake.model.bills.jobs import BillJobRecalculateRequest, BillJobRequest, BillOrder
    from meterlake.model.values.period import Month
    from meterlake.model.values.problems import read

    if choice.recalculate:
        chosen = read(BillJobRecalculateRequest, {"billIds": list(choice.recalculate)})
        # Whoever names a bill means that it is made again, approved or not.
        return BillOrder(bill_ids=chosen.bill_ids)
    if choice.month is not None and choice.date is not None:
        raise Invalid("--date", choice.date, "leave it out when you give --month")
    if choice.month is choice.date is choice.frequency is None:
        raise Required("--month, --date, --frequency or --recalculate")
    frequency = None if choice.frequency is None else choice.frequency.upper()
    request = read(BillJobRequest, {"billDate": choice.date, "billingFrequency": frequency})
    days = None if choice.month is None else Month.parse(choice.month)
    return BillOrder(request=request, days=days, keep_approved=not change_approved)


def _refuse_others(choice: BillChoice) -> None:
    """Bills that are chosen by id are chosen by nothing else."""
    others = {
        "--month": choice.month,
        "--date": choice.date,
        "--frequency": choice.frequency,
        "--account": next(iter(choice.account), None),
    }
    for option, value in others.items():
        if value is not None:
            raise Invalid(option, value, "leave it out when you give --recalculate")


def show_bills(result: "BillResult", amounts: AmountText, output: "Output") -> None:
    """Print what billing a month came to."""
    bills = [
        {
            "type": "bill",
            "id": each.bill_id,
            "account": each.account_code,
            "billDate": each.bill_date,
            "lines": each.lines,
            "total": each.total,
            "currency": each.currency,
            "status": str(each.status),
            "outcome": str(each.stored),
            **would_be(each),
        }
        for each in result.bills
    ]
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
    shown = [
        {
            **line,
            "bill": line["id"][: listed_bills.ID_DIGITS],
            "total": amounts.money(line["total"], line["currency"]),
        }
        for line in bills
    ]
    output.rows(shown, BILL_COLUMNS)
    show_left_bills(result.bills, amounts, output)
    columns = (
        *("!accountCode=account", "aggregationCode=aggregation", "quantity", "reason"),
        *("?meterCode=meter", "?units=units to price", "?measurements"),
    )
    rows = [_unpriced_row(each) for each in result.unpriced]
    output.rows(rows, columns, "Usage that no bill charges for")
    output.rows(failures, ("!account", "reason"), "Not billed")
    output.rows(without, ("!account", "reason"), "No bill")
    sums = amounts.sums(result.totals)
    counts = Counter(str(line["outcome"]) for line in bills)
    became = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    output.note(f"{result.days}: {counted(len(bills), 'bill')} ({became or 'none'}), {sums}")


def _unpriced_row(found: "Unpriced") -> dict[str, Any]:
    """Usage with its quantity and the units that a price would be for, each with its own unit."""
    from meterlake.cli.shell.tables import Digits
    from meterlake.model.usage.quantity import quantity_text, units_text

    return {
        **found.to_wire(),
        "quantity": Digits(quantity_text(found.quantity, found.quantity_unit) or ""),
        "units": Digits(units_text(found.units, found.unit) or ""),
        "reason": found.why,
    }


def would_be(billed: "Billed") -> dict[str, Any]:
    """What a bill would come to that was left alone, and what differs; nothing of one that is what was calculated."""
    if billed.would_be is None:
        return {}
    return {
        "wouldBe": billed.would_be.total,
        "wouldBeCurrency": billed.would_be.currency,
        "differs": [each.to_wire() for each in billed.differs],
    }


def show_left_bills(bills: "Iterable[Billed]", amounts: "AmountText", output: "Output") -> None:
    """Print the bills that were left alone as a table, each with what it is, what it would be, and what differs."""
    rows = [_row(each, amounts) for each in bills if each.would_be is not None]
    columns = (
        *("!account", "billDate=bill date", "total", "wouldBe=would be", "status"),
        "differs=what differs",
    )
    output.rows(rows, columns, "Left as they were")


def _row(billed: "Billed", amounts: "AmountText") -> dict[str, Any]:
    assert billed.would_be is not None
    return {
        "account": billed.account_code,
        "billDate": billed.bill_date,
        "total": amounts.money(billed.total, billed.currency),
        "wouldBe": amounts.money(*billed.would_be),
        "status": str(billed.stored),
        "differs": billed.difference,
    }
