"""`meterlake bill credit`, `bill debit` and `bill delete-line`: lines that people put on bills."""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.billing.bills import ID_DIGITS, BillMonth, BillName, bill_named
from meterlake.cli.shell.amounts import AmountText, read_amount
from meterlake.cli.shell.options import NO_OPTIONS, Options, as_options
from meterlake.model.values.ids import is_id

if TYPE_CHECKING:
    from meterlake.model.bills.memos import MemoLineItem

Text = Annotated[str | None, Parameter(show_default=False)]
_PERMISSION: Final = ("config:create", "bill")


@Parameter(name="*")
@dataclass(frozen=True)
class MemoOptions:
    """What a credit or a debit says.

    Attributes:
        amount: How much, in the currency of the bill, such as 12.50.
        reason: The code or the name of one of the organization's reasons.
        description: What the customer reads; the name of the reason if you leave it out.
        about: The bill that it corrects, such as a locked one of an earlier month; by default the
            bill that it stands on.
        line: The number of the line that it corrects, as `bill show` has it; by default the one
            with the largest amount.
        dry_run: Show what would change, and change nothing.
    """

    amount: Annotated[str, Parameter(required=True)]
    reason: Text = None
    description: Text = None
    about: Text = None
    line: Text = None
    dry_run: Annotated[bool, Parameter(negative="")] = False


def register(app: App) -> None:
    """Add the commands."""
    app.command(credit)
    app.command(debit)
    app.command(delete_line)


def credit(
    bill: BillName,
    month: BillMonth = None,
    /,
    *,
    memo: MemoOptions,
    options: Options = NO_OPTIONS,
) -> None:
    """Put a credit on a bill: it is lower by the amount, and waits for approval again.

    A locked bill takes no credit: put it on a later one, with `--about` the locked bill.

    Example: `meterlake bill credit acme/2026-10 --amount 12.50 --reason goodwill`

    Args:
        bill: The bill: its id or the first eight digits of it, its invoice number, ACCOUNT/MONTH,
            or its account's code.
        month: If you name the bill by an account: the month of its last day, such as 2026-10.
    """
    from meterlake.model.bills.memos import CreditLineItem

    _put(CreditLineItem, (bill, month), memo, options)


def debit(
    bill: BillName,
    month: BillMonth = None,
    /,
    *,
    memo: MemoOptions,
    options: Options = NO_OPTIONS,
) -> None:
    """Put a debit on a bill: it is higher by the amount, and waits for approval again.

    A locked bill takes no debit: put it on a later one, with `--about` the locked bill.

    Example: `meterlake bill debit acme/2026-10 --amount 40 --description "Set-up"`

    Args:
        bill: The bill: its id or the first eight digits of it, its invoice number, ACCOUNT/MONTH,
            or its account's code.
        month: If you name the bill by an account: the month of its last day, such as 2026-10.
    """
    from meterlake.model.bills.memos import DebitLineItem

    _put(DebitLineItem, (bill, month), memo, options)


def delete_line(
    bill: BillName,
    line: Annotated[str, Parameter(name="LINE", required=True)],
    /,
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> None:
    """Take a credit or a debit from a bill again; the bill waits for approval.

    Example: `meterlake bill delete-line acme/2026-10 7`

    Args:
        bill: The bill: its id or the first eight digits of it, its invoice number, or
            ACCOUNT/MONTH.
        line: The number of the line, as `bill show` has it, or its id.
        dry_run: Show what would change, and change nothing.
    """
    from meterlake.pipeline.billing.bills import get_bill
    from meterlake.pipeline.billing.memos import named_line, take_back_memo

    with options.open() as organization:
        id_ = bill_named(organization, bill)
        author = options.permitted(organization, ("config:delete", "bill"), [id_])
        before = get_bill(organization, id_)
        difference = -Decimal(named_line(before, line)["convertedSubtotal"])
        changed = organization.rehearsed() if dry_run else organization
        gone = take_back_memo(changed, author, id_, line)
        shown = _changed_total(before, gone, difference, AmountText.read(organization))
    _show(gone, shown, options, dry_run=dry_run)


def _put(
    kind: "type[MemoLineItem]",
    named: tuple[str, str | None],
    memo: MemoOptions,
    options: Options,
) -> None:
    from meterlake.model.bills.memos import CreditLineItem
    from meterlake.pipeline.billing.bills import get_bill
    from meterlake.pipeline.billing.memos import MemoOrder, order_memo

    amount = read_amount("--amount", memo.amount)
    reason_ids = ("reasonId", "creditReasonId", "debitReasonId")
    fields = dict.fromkeys(reason_ids, "--reason") | {"amount": "--amount"}

    def known_by(text: str) -> str:
        return memo.reason or text if is_id(text) else text

    with options.open() as organization, as_options(known_by, **fields):
        id_ = bill_named(organization, *named)
        about = None if memo.about is None else bill_named(organization, memo.about)
        author = options.permitted(organization, _PERMISSION, [id_])
        order = MemoOrder(kind, id_, amount, memo.reason, memo.description, about, memo.line)
        changed = organization.rehearsed() if memo.dry_run else organization
        before = get_bill(organization, id_)
        made = order_memo(changed, author, order)
        difference = -amount if kind is CreditLineItem else amount
        shown = _changed_total(before, made, difference, AmountText.read(organization))
    _show(made, shown, options, dry_run=memo.dry_run)
    if not memo.dry_run:
        options.output.note("To take it from the bill again:")
        options.output.command(f"bill delete-line {id_[:ID_DIGITS]} {made['id']}")


def _changed_total(
    bill: dict[str, Any], memo: dict[str, Any], difference: Decimal, amounts: AmountText
) -> dict[str, Any]:
    """A line that came or went as people read it, and what it does to the total of its bill."""
    from meterlake.model.values.money import exact

    before, currency = Decimal(bill["billTotal"]), bill["currency"]
    with exact():
        after = before + difference
    return {
        "bill": bill["id"][:ID_DIGITS],
        "account": bill.get("accountCode"),
        "line": memo["id"],
        "description": memo["description"],
        "difference": amounts.money(difference, currency, sign=True),
        "total before": amounts.money(before, currency),
        "total after": amounts.money(after, currency),
    }


def _show(memo: dict[str, Any], shown: dict[str, Any], options: Options, *, dry_run: bool) -> None:
    if options.json:
        options.output.line(memo)
        return
    options.output.record(shown)
    done = "Dry run: nothing was written." if dry_run else "The bill waits for approval."
    options.output.note(done)
