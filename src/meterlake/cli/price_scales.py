"""`meterlake config scale-prices`: prices of many plans multiplied from a day on."""

import csv
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from meterlake.cli.change_proposals import propose_documents
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.model.errors import Invalid, Required
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meterlake.model.configuration.price_scales import PriceScale
    from meterlake.stages.config.scale_prices import ScaledPrices

_COLUMNS: Final = frozenset({"plan", "aggregation", "by", "price", "above"})
# The columns with numbers, and what the API calls them.
_NUMBERS: Final = {"by": "by", "price": "unitPrice", "above": "lowerLimit"}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Scale:
    """Which prices change, and how.

    Attributes:
        plans: The codes of plans and plan templates, with commas.
        from_: The first day of the new prices, such as 2027-01-01.
        by: The factor, such as 1.07.
        table: A CSV file: a row decides for what it names, and --by for the rest. Its columns are by or
            price, the new price of a unit; plan or aggregation or both; and above, the lower limit of
            the band whose price it is, for prices of several bands.
        decimals: How many decimals new prices have; without it, two more than the old ones. They
            round half up.
    """

    plans: Annotated[str, Parameter(show_default=False)]
    from_: Annotated[str, Parameter(name="--from", show_default=False)]
    by: Annotated[str | None, Parameter(show_default=False)] = None
    table: Annotated[Path | None, Parameter(show_default=False)] = None
    decimals: Annotated[int | None, Parameter(show_default=False)] = None

    def read(self) -> "PriceScale":
        """What the options say.

        Raises:
            Required: Neither a factor nor a table is given.
            Invalid: An option is none.
        """
        from meterlake.model.configuration.price_scales import PriceScale
        from meterlake.model.values.problems import read

        if self.by is None and self.table is None:
            raise Required("--by or --table")
        document = {
            "plans": [each.strip() for each in self.plans.split(",") if each.strip()],
            "from": self.from_,
            "by": None if self.by is None else _number("--by", self.by),
            "factors": [] if self.table is None else list(_rows(self.table)),
            "decimals": self.decimals,
        }
        return read(PriceScale, document)


def scale_prices(
    scale: Scale,
    *,
    effect: Annotated[str | None, Parameter(show_default=False)] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    propose: Annotated[str | None, Parameter(show_default=False)] = None,
    reason: Annotated[str | None, Parameter(show_default=False)] = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Multiply the prices of plans from a day on, all or none, and show old and new prices.

    A price in force on the day ends there, and one with the new bands begins. A plan has its own
    prices; name its template, too, to change those that its plans share. Prices that begin later,
    credits, standing charges and minimum spends stay as they are.

    Example: `meterlake config scale-prices --by 1.07 --plans pro,enterprise --from 2027-01-01 --effect 2026-11 --dry-run`

    Args:
        effect: Show what the new prices would have done to the bills of this month, such as 2026-11.
        dry_run: Show the changes, and make none.
        propose: Propose the changes for a review under this name, and make none.
        reason: Why you propose them.
    """
    from meterlake.model.values.period import Month
    from meterlake.pipeline.billing.what_if.price_change import price_effect
    from meterlake.pipeline.config.scale_prices import apply_prices, propose_prices

    asked = scale.read()
    month = None if effect is None else Month.parse(effect)
    with options.open() as organization:
        found = propose_prices(organization, asked)
        done = None if month is None else price_effect(organization, asked, month)
        if propose is not None:
            if reason is None or dry_run:
                rule = "give --reason with it, and no --dry-run: a proposal changes no price"
                raise Invalid("--propose", propose, rule)
            propose_documents(organization, options, (propose, reason), found.documents())
        elif not dry_run:
            for action in ("config:create", "config:update"):
                author = options.permitted(organization, (action, "pricing"))
            apply_prices(organization, author, asked, found.review)
    if options.json:
        options.output.line({**found.to_wire(), **({} if done is None else {"effect": done})})
        return
    _show(found, done, options, dry_run=dry_run or propose is not None)
    if propose is not None:
        options.output.note(f"You proposed {propose}: a reviewer approves it, and it is applied.")


def _rows(table: Path) -> "Iterator[dict[str, Any]]":
    """The rows of a table of factors.

    Raises:
        Invalid: It has other columns, or is no CSV file.
    """
    try:
        with table.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(
            "--table", str(table), f"it must be a CSV file that one can read: {error}"
        ) from None
    for number, row in enumerate(rows, start=2):
        if not ({"by", "price"} & set(row)) or not set(row) <= _COLUMNS:
            rule = (
                "it must have the columns by or price, and plan or aggregation or both;"
                " it may have above"
            )
            raise Invalid("--table", str(table), rule)
        named = {name: text for name in ("plan", "aggregation") if (text := row.get(name))}
        numbers = {
            field: _number(f"{table}:{number}: {name}", text)
            for name, field in _NUMBERS.items()
            if (text := row.get(name))
        }
        yield {**named, **numbers}


def _number(name: str, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise Invalid(name, text, "it must be a number such as 1.07") from None


def _show(
    found: "ScaledPrices", effect: dict[str, Any] | None, options: Options, *, dry_run: bool
) -> None:
    output = options.output
    rows = [row for each in found.changed for row in _band_rows(each.to_wire())]
    columns = ("!plan", "!priced", "above", "old", "new", "?fixed", "?new fixed", "currency")
    output.rows(rows, columns)
    for each in found.unchanged:
        output.note(f"{each.plan} {each.priced}: {each.reason}")
    if effect is not None:
        totals = [{"currency": code, **each} for code, each in effect["totals"].items()]
        title = f"Bills of {effect['months']['first']}"
        output.rows(totals, ("currency", "before", "after", "difference"), title)
    output.note(f"New prices are rounded {found.rounding}.")
    done = counted(len(found.changed), "price changes", "prices change")
    output.note(f"{done} on {found.day}{' (dry run: nothing was written)' if dry_run else ''}")


def _band_rows(price: dict[str, Any]) -> "Iterator[dict[str, Any]]":
    for band in (*price["bands"], *price["overageBands"]):
        yield {
            "plan": price["plan"],
            "priced": price["priced"],
            "above": band["lowerLimit"],
            "old": band["unitPrice"]["old"],
            "new": band["unitPrice"]["new"],
            "fixed": band["fixedPrice"]["old"],
            "new fixed": band["fixedPrice"]["new"],
            "currency": price["currency"],
        }
