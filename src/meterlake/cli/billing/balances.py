"""`meterlake balance`: what customers have paid ahead, what came of it, and top-ups."""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.amounts import AmountText, read_amount
from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options, as_options

if TYPE_CHECKING:
    from meterlake.stores import Organization

Text = Annotated[str | None, Parameter(show_default=False)]
Account = Annotated[str, Parameter(name="ACCOUNT", required=True)]
Balance = Annotated[str, Parameter(name="BALANCE", required=True)]
_PAGE: Final = 100
_BALANCES: Final = (*("!account", "!code", "amount", "start", "end", "?name", "+!id"),)
_TRANSACTIONS: Final = ("when", "amount", "description", "by", "?type", "+!id")
_FIELDS: Final = {
    "amount": "--amount",
    "paid": "--paid",
    "appliedDate": "--date",
    "transactionTypeId": "--type",
}


def register(app: App) -> None:
    """Add the commands."""
    balance = App(name="balance", help="Balances: what customers have paid ahead, and top-ups.")
    balance.command(list_, name="list")
    balance.command(show)
    balance.command(top_up)
    app.command(balance)


def list_(*, account: Text = None, limit: Limit = _PAGE, options: Options = NO_OPTIONS) -> None:
    """List balances with what each of them holds now, the newest first.

    Example: `meterlake balance list --account acme`

    Args:
        account: Only those of this account, by its code, name or id.
        limit: The largest number that you want to see.
    """
    from meterlake.pipeline.billing.balances.named_balances import list_named

    with options.open() as organization:
        found = list_named(organization, account, limit)
        amounts = AmountText.read(organization)
    if options.json:
        options.output.rows(found, ())
        return
    rows = [_row(each, amounts) for each in found]
    empty = "No balances: `meterlake create balance` makes one."
    options.output.rows(rows, _BALANCES, empty=empty)
    if len(found) == limit:
        options.output.note(f"The first {limit:,}; --limit gives more.")


def show(
    account: Account, balance: Balance, /, *, limit: Limit = _PAGE, options: Options = NO_OPTIONS
) -> None:
    """Show a balance, and its transactions, the newest first.

    Example: `meterlake balance show acme prepaid`

    Args:
        account: The code, name or id of the account.
        balance: The code, name or id of its balance.
        limit: The largest number of transactions that you want to see.
    """
    from meterlake.pipeline.billing.balances.named_balances import (
        find_balance,
        list_transactions_of,
        shown_balance,
    )

    with options.open() as organization:
        id_ = find_balance(organization, account, balance)
        found, transactions = (
            shown_balance(organization, id_),
            list_transactions_of(organization, id_, limit),
        )
        amounts = AmountText.read(organization)
        if not options.json:
            transactions = _with_authors(organization, transactions)
    if options.json:
        options.output.line({**found, "transactions": transactions})
        return
    options.output.record(_row(found, amounts))
    currency = found["currency"]
    rows = [
        {
            **each,
            "when": (each.get("appliedDate") or each["dtCreated"]).replace(microsecond=0),
            "amount": amounts.money(Decimal(each["amount"]), currency, sign=True),
        }
        for each in transactions
    ]
    options.output.rows(rows, _TRANSACTIONS, "Transactions", empty="No transactions.")


@Parameter(name="*")
@dataclass(frozen=True)
class TopUp:
    """What comes into a balance.

    Attributes:
        amount: How much, in the currency of the balance, such as 500; less than 0 takes out.
        description: What it is for.
        paid: What the customer paid for it, if that is another amount.
        type: The code or the name of one of the organization's transaction types.
        date: From when on it counts, such as 2026-10-01: only bills that are dated later draw it. If
            you leave it out, it counts from the first day of the balance.
        dry_run: Show what would change, and change nothing.
    """

    amount: Annotated[str, Parameter(required=True, allow_leading_hyphen=True)]
    description: Text = None
    paid: Text = None
    type: Text = None
    date: Text = None
    dry_run: Annotated[bool, Parameter(negative="")] = False


def top_up(
    account: Account,
    balance: Balance,
    /,
    *,
    money: TopUp,
    options: Options = NO_OPTIONS,
) -> None:
    """Put money into a balance of an account.

    Bills that wait and can draw it are made again by the next billing. To undo it, take the same
    amount out.

    Example: `meterlake balance top-up acme prepaid --amount 500 --description "Invoice 17 paid"`

    Args:
        account: The code, name or id of the account.
        balance: The code, name or id of its balance.
    """
    from meterlake.pipeline.billing.balances.named_balances import (
        TopUpOrder,
        find_balance,
        order_top_up,
        shown_balance,
    )

    amount = read_amount("--amount", money.amount)
    paid = None if money.paid is None else read_amount("--paid", money.paid)
    order = TopUpOrder(amount, money.description, paid, money.type, money.date)
    with options.open() as organization, as_options(str, **_FIELDS):
        id_ = find_balance(organization, account, balance)
        author = options.permitted(organization, ("config:create", "balancetransaction"))
        before = shown_balance(organization, id_)
        changed = organization.rehearsed() if money.dry_run else organization
        booked = order_top_up(changed, author, id_, order)
        after = shown_balance(organization, id_)
        amounts = AmountText.read(organization)
    if options.json:
        options.output.line(booked)
        return
    currency = before["currency"]
    shown = {
        "account": before["account"],
        "balance": before["code"],
        "transaction": booked["id"],
        "amount": amounts.money(amount, currency, sign=True),
        "held before": amounts.money(Decimal(before["amount"]), currency),
    }
    if money.dry_run:
        options.output.record(shown)
        options.output.note("Dry run: nothing was written.")
        return
    held = amounts.money(Decimal(after["amount"]), currency)
    options.output.record({**shown, "held after": held})
    ends = before.get("rolloverEndDate") or before["endDate"]
    if money.date is not None and booked["appliedDate"] >= ends:
        options.output.note(
            "It counts only after the balance has ended: only bills that are dated later and charge"
            " for time before can draw it. If you mean bills that exist already, take it back and"
            " leave out --date."
        )


def _row(balance: dict[str, Any], amounts: AmountText) -> dict[str, Any]:
    return {
        "account": balance["account"],
        "code": balance["code"],
        "name": balance["name"],
        "amount": amounts.money(Decimal(balance["amount"]), balance["currency"]),
        "start": balance["start"],
        "end": balance["end"],
        "id": balance["id"],
    }


def _with_authors(
    organization: "Organization", transactions: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Transactions with who or what made each, as people read it."""
    from meterlake.pipeline.access.named_people import with_names

    causes = {"USER", "SERVICE_USER"}
    named = [
        each | {"by": each["createdBy"] if each["entityType"] in causes else each["entityType"]}
        for each in transactions
    ]
    return with_names(organization, named, "by")
