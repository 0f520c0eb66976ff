"""`meterlake bill diff` and `bill versions`: what a bill said, and why it says something else."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.billing.bills import BillMonth, BillName, bill_named
from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.output import error_line
from meterlake.model.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meterlake.cli.shell.output import Output
    from meterlake.model.bills.differences import BillDiff, ComparedContent, DifferencePart
    from meterlake.pipeline.billing.differences.compared_contents import DiffChoice

Version = Annotated[int | None, Parameter(show_default=False)]
_COLUMNS: Final = (
    *("cause", "name", "what", "?who", "amount=by"),
    *("?when", "?version", "?lines"),
)
_UNDONE: Final = "undone=if undone"
_LINE_COLUMNS: Final = ("cause", "?type", "description", "before", "after", "amount=by")


def register(app: App) -> None:
    """Add the commands."""
    app.command(diff)
    app.command(versions)
    app.command(compare)


def diff(  # noqa: PLR0913 - a command has as many options as it has
    bill: BillName,
    month: BillMonth = None,
    /,
    *,
    from_: Annotated[Version, Parameter(name="--from")] = None,
    to: Version = None,
    against: Annotated[Literal["now"] | None, Parameter(show_default=False)] = None,
    lines: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> int:
    """Show why two contents of a bill differ, cause by cause.

    The command applies the causes to the former content one after the other: late usage by source,
    changed entities, rates, corrections, other bills, credits spent elsewhere, and lines of people.
    So their parts add up to the whole exactly. "if undone" is the amount that goes if you undo this
    cause alone: it is another amount if later causes build on it.

    Without versions, you compare the last two contents; or, if the bill had only one, that one with
    the present result. The command stores nothing. If a difference has no known cause, it ends with
    1.

    Example: `meterlake bill diff acme 2026-10 --against now`

    Args:
        bill: The bill: its id or the first eight digits of it, its invoice number, or its account's
            code.
        month: If you name the bill by an account: the month of its last day, such as 2026-10.
        from_: The version of the former content.
        to: The version of the later content.
        against: Compare with the present result of the bill.
        lines: Show what each cause does to each line.
    """
    from meterlake.pipeline.access.named_people import names_of_authors
    from meterlake.pipeline.billing.differences.diff import diff_bill

    choice = _choice(from_, to, against)
    with options.open() as organization:
        id_ = bill_named(organization, bill, month)
        found = diff_bill(organization, id_, choice)
        causes = (part.causes[-1] for part in found.parts)
        authors = {each.author for each in causes if each.author is not None}
        # The command that compares the same contents.
        words = ["meterlake bill diff", found.bill_id]
        words += [] if choice.first is None else [f"--from {choice.first}"]
        if choice.last is not None:
            words.append("--against now" if choice.last == "now" else f"--to {choice.last}")
        again = " ".join(words)
        text = _DiffText(
            found,
            AmountText.read(organization),
            again,
            names_of_authors(organization, authors),
        )
    text.show(options.output, lines=lines)
    return 0 if found.is_explained else 1


def versions(bill: BillName, month: BillMonth = None, /, *, options: Options = NO_OPTIONS) -> None:
    """List the contents that a bill has had: each with its total and its author.

    An approval or a lock is a version with the content of the one before it, so the list leaves it
    out.

    Example: `meterlake bill versions 5d9d4a3e`

    Args:
        bill: The bill: its id or the first eight digits of it, its invoice number, or its account's
            code; for a deleted bill, its whole id.
        month: If you name the bill by an account: the month of its last day, such as 2026-10.
    """
    from meterlake.pipeline.access.named_people import names_of_authors
    from meterlake.pipeline.billing.differences.compared_contents import list_bill_versions

    with options.open() as organization:
        id_ = bill_named(organization, bill, month)
        found = list_bill_versions(organization, id_)
        amounts = AmountText.read(organization)
        names = names_of_authors(organization, {each["modifiedBy"] for each in found})
    columns = ("version", "total", "modified=made", "modifiedBy=by", "?replaced", "?code")
    if not options.json:
        found = [
            each
            | {
                "total": amounts.money(each["total"], each["currency"]),
                "modifiedBy": names.get(each["modifiedBy"], each["modifiedBy"]),
            }
            for each in found
        ]
    options.output.rows(found, columns)
    if len(found) > 1:
        options.output.note(f"Why do they differ? `meterlake bill diff {id_}`")


def compare(
    bill: BillName,
    month: BillMonth = None,
    /,
    *,
    with_: Annotated[str | None, Parameter(name="--with", show_default=False)] = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Show a bill beside the customer's bill before it: what costs more, and why.

    "by quantity" is what the change of the quantity costs at the former average price, "by price"
    the rest. Together they are the change, exactly.

    Example: `meterlake bill compare acme 2026-10`

    Args:
        bill: The bill: its id or the first eight digits of it, its invoice number, or its account's
            code.
        month: If you name the bill by an account: the month of its last day, such as 2026-10.
        with_: Another bill to compare with, by its id or invoice number.
    """
    from meterlake.pipeline.billing.comparison import compare_bills

    with options.open() as organization:
        other = None if with_ is None else bill_named(organization, with_, None)
        found = compare_bills(organization, bill_named(organization, bill, month), other)
        amounts = AmountText.read(organization)
    if options.json:
        options.output.record(found)
        return
    money = ("before", "after", "difference", "byQuantity", "byPrice")
    rows = [
        {"what": each["description"]}
        | {name: amounts.money(each[name], found["currency"]) for name in money if name in each}
        for each in [*found["lines"], {"description": "Total", **found}]
    ]
    columns = (
        "what",
        "before",
        "after",
        "difference=change",
        "?byQuantity=by quantity",
        "?byPrice=by price",
    )
    options.output.rows(rows, columns)


def _choice(first: int | None, last: int | None, against: str | None) -> "DiffChoice":
    """Which contents the options mean.

    Raises:
        Invalid: They contradict each other, or one is no version.
    """
    from meterlake.pipeline.billing.differences.compared_contents import DiffChoice

    if against is not None and last is not None:
        raise Invalid("--against", against, "leave it out when you give --to")
    for name, version in (("--from", first), ("--to", last)):
        if version is not None and version < 1:
            raise Invalid(name, version, "it must be 1 or more")
    return DiffChoice(first, last if against is None else "now")


@dataclass(frozen=True, slots=True)
class _DiffText:
    """What people read of a difference.

    Attributes:
        again: The command that finds it.
        names: What people call authors.
    """

    found: "BillDiff"
    amounts: AmountText
    again: str
    names: "Mapping[str, str]"

    def show(self, output: "Output", *, lines: bool) -> None:
        """Print it, and what has no known cause as an error."""
        if output.json:
            output.line(self.found.to_wire())
        else:
            self._show_parts(output, lines=lines)
        if not self.found.is_explained:
            self._report_unexplained(json=output.json)

    def _show_parts(self, output: "Output", *, lines: bool) -> None:
        found = self.found
        contents = " → ".join(map(self._content, (found.before, found.after)))
        output.note(f"Bill of {found.account_code} of {found.bill_date}: {contents}")
        if found.is_same:
            output.note("no difference")
            return
        rows = [self._part_row(each) for each in found.parts]
        undone = (_UNDONE,) if any(row["undone"] not in {"", row["amount"]} for row in rows) else ()
        rows += [
            {
                "cause": "whole",
                "amount": self.amounts.money(self.found.whole(each), each, sign=True),
            }
            for each in found.currencies
        ]
        output.rows(rows, (*_COLUMNS[:5], *undone, *_COLUMNS[5:]))
        for part in found.parts:
            for each in part.shared:  # It goes with this cause and with later ones.
                amount = self.amounts.money(abs(each.amount), part.currency)
                change = "less" if each.amount > 0 else "more"
                output.note(f"Without {part.name}, {each.name} would add {amount} {change}.")
        if lines:
            listed = [row for part in found.parts for row in self._line_rows(part)]
            output.rows(listed, _LINE_COLUMNS, "By line")
        else:
            output.note(f"Line by line: `{self.again} --lines`")

    def _report_unexplained(self, *, json: bool) -> None:
        from meterlake.model.bills.differences import CauseKind

        parts = [each for each in self.found.parts if each.causes[0].kind is CauseKind.UNKNOWN]
        first = parts[0]
        amount = self.amounts.write(first.amount, first.currency, sign=True)
        message = f"{amount} {first.currency} has no known cause: {first.causes[0].detail}"
        error_line("Unexplained", message, json=json)

    def _content(self, content: "ComparedContent") -> str:
        totals = content.totals.items()
        amounts = " ".join(f"{self.amounts.write(total, code)} {code}" for code, total in totals)
        if content.version is None:
            return f"now, {amounts or 'no bill'}"
        return f"version {content.version} of {_second(content.at)}, {amounts or 'no lines'}"

    def _part_row(self, part: "DifferencePart") -> dict[str, Any]:
        cause = part.causes[-1]
        versions_ = [each for each in (cause.before, cause.after) if each is not None]
        header = f"{len(part.lines)} + header" if part.header else part.lines and len(part.lines)
        return {
            "cause": cause.kind.value,
            "name": part.name,
            "what": cause.detail,
            "version": " → ".join(versions_),
            "who": self.names.get(cause.author or "", cause.author or ""),
            "when": "" if cause.at is None else _second(cause.at),
            "lines": header or "",
            "amount": self.amounts.money(part.amount, part.currency, sign=True),
            "undone": self._optional(part.if_undone, part.currency, sign=True),
        }

    def _line_rows(self, part: "DifferencePart") -> Iterator[dict[str, Any]]:
        for each in part.lines:
            yield {
                "cause": part.name,
                "type": each.type,
                "description": each.description,
                "before": self._optional(each.before, part.currency),
                "after": self._optional(each.after, part.currency),
                "amount": self.amounts.money(each.amount, part.currency, sign=True),
            }

    def _optional(self, amount: Decimal | None, currency: str, *, sign: bool = False) -> str:
        return "" if amount is None else self.amounts.money(amount, currency, sign=sign)


def _second(instant: datetime) -> str:
    """An instant without fractions of a second."""
    from meterlake.model.values.period import format_instant

    return format_instant(instant.replace(microsecond=0))
