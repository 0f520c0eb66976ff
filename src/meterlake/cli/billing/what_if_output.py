"""How `meterlake bill what-if` shows amounts: a table, files, and a picture."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Literal

from cyclopts import CycloptsError, Parameter

from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.files import check_ending, check_target, open_target
from meterlake.model.errors import Invalid
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.cli.shell.output import Output
    from meterlake.cli.shell.tables import Digits
    from meterlake.model.bills.what_if import AmountChange, AmountTotal, Movers, WhatIfSummary
    from meterlake.pipeline.billing.what_if import WhatIf

File = Annotated[Path | None, Parameter(show_default=False)]
# Rows of the table for people: those that change most.
_SHOWN_MAX: Final = 40
_NAMED_MAX: Final = 5
_BARS_MAX: Final = 5
# Rows of a group of a Parquet file.
_GROUP: Final = 50_000


@Parameter(name="*")
@dataclass(frozen=True)
class WhatIfForm:
    """How amounts are shown.

    Attributes:
        format: The table has the largest changes; csv, parquet and json have all.
        output: The file to write; without it, you see them on the screen.
        picture: Draw the accounts that pay more and those that pay less into this SVG file.
        by_month: Add amounts up by month, too.
    """

    format: Literal["table", "csv", "parquet", "json"] = "table"
    output: File = None
    picture: File = None
    by_month: Annotated[bool, Parameter(negative="", show_default=False)] = False


TABLE: Final = WhatIfForm()


def check_form(form: WhatIfForm, *, json: bool) -> None:
    """Refuse what contradicts itself, before anything is calculated.

    Raises:
        Invalid: An option makes no sense beside the others.
    """
    if json and form.format not in {"table", "json"}:
        raise CycloptsError(msg=f"--json and --format {form.format} exclude each other")
    is_table = form.format == "table" and not json
    if form.output is not None and is_table:
        raise Invalid("--output", str(form.output), "give --format csv, parquet or json, too")
    if form.format == "parquet" and form.output is None and sys.stdout.isatty():
        raise CycloptsError(msg="--format parquet needs --output: a terminal cannot show it")
    written = "json" if json else form.format
    for name, path, format_ in (
        ("--output", form.output, written),
        ("--picture", form.picture, "svg"),
    ):
        if path is not None:
            check_ending(name, path, format_)
            check_target(name, path)


def show_comparison(
    found: "WhatIf", form: WhatIfForm, amounts: AmountText, output: "Output"
) -> None:
    """Calculate a comparison and show it."""
    from meterlake.model.bills.what_if import Movers

    movers, summary = Movers(), found.summary
    is_table = form.format == "table" and not output.json
    with output.counting("months", found.parts) as advance:
        changes = _watched(found.changes(advance), movers)
        shown = (
            nlargest(
                _SHOWN_MAX,
                filter(lambda change: change.before != change.after, changes),
                key=lambda change: change.difference.copy_abs(),
            )
            if is_table
            else []
        )
        if not is_table:
            _write(form, changes, summary, output)
    if form.picture is not None:
        _draw(form.picture, summary, movers)
    if is_table:
        _show(shown, summary, movers, amounts, output)
    if is_table or form.output is not None:
        for note in _notes(summary):
            output.note(note)
        for path in (form.output, form.picture):
            if path is not None:
                output.note(f"written: {path}")


def _watched(changes: "Iterable[AmountChange]", movers: "Movers") -> "Iterator[AmountChange]":
    for each in changes:
        movers.note(each)
        yield each


# ---- all amounts, for programs ------------------------------------------------------------------


def _write(
    form: WhatIfForm, changes: "Iterable[AmountChange]", summary: "WhatIfSummary", output: "Output"
) -> None:
    with open_target(form.output) as stream:
        if form.format == "csv":
            _write_csv(stream, changes, form)
        elif form.format == "parquet":
            _write_parquet(stream, changes, form)
        else:
            from meterlake.model.values import wire

            amounts = ({"type": "amount", **each.to_wire()} for each in changes)
            stream.writelines(wire.dumps(each) + b"\n" for each in amounts)
            stream.write(wire.dumps({"type": "summary", **summary.to_wire()}) + b"\n")
    if form.output is not None and output.json:
        output.line({"type": "summary", "file": str(form.output), **summary.to_wire()})


def _columns(form: WhatIfForm) -> list[str]:
    key = ["account", "accountId", "product", "productName", "lineItemType", "currency"]
    months = ["month"] if form.by_month else []
    return [*key, *months, "before", "after", "difference"]


def _write_csv(stream: BinaryIO, changes: "Iterable[AmountChange]", form: WhatIfForm) -> None:
    from meterlake.model.values.money import plain
    from meterlake.stages.decode.csv_lines import csv_lines

    columns = _columns(form)

    def rows() -> Iterator[list[str]]:
        yield columns
        for each in changes:
            row = each.to_wire()
            cells = (row[name] for name in columns)
            yield [plain(cell) if isinstance(cell, Decimal) else cell for cell in cells]

    stream.writelines(line.encode() for line in csv_lines(rows()))


def _write_parquet(stream: BinaryIO, changes: "Iterable[AmountChange]", form: WhatIfForm) -> None:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    columns = _columns(form)
    amounts = {"before", "after", "difference"}
    # As many decimals as a currency may have.
    kinds = {True: pa.decimal128(38, 5), False: pa.string()}
    schema = pa.schema([(name, kinds[name in amounts]) for name in columns])
    rows = (each.to_wire() for each in changes)
    with ParquetWriter(stream, schema, compression="zstd") as writer:
        while some := list(islice(rows, _GROUP)):
            writer.write_table(pa.Table.from_pylist(some, schema=schema))


# ---- what people see ----------------------------------------------------------------------------


def _draw(path: Path, summary: "WhatIfSummary", movers: "Movers") -> None:
    from meterlake.stages.report.movers_picture import PictureText, draw_movers
    from meterlake.stores.files.durable import write_durably

    text = PictureText("Who would pay more, who less", f"{_months(summary)}, {_accounts(summary)}")
    picture = draw_movers(text, summary.totals, movers.by_currency())
    with write_durably(path.absolute()) as temporary:
        temporary.write_text(picture, "utf-8")


def _months(summary: "WhatIfSummary") -> str:
    first, last = summary.months
    return f"Bills of {first}" if first == last else f"Bills of {first} to {last}"


def _accounts(summary: "WhatIfSummary") -> str:
    return f"{summary.accounts:,} account{'' if summary.accounts == 1 else 's'}"


def _show(
    shown: "Sequence[AmountChange]",
    summary: "WhatIfSummary",
    movers: "Movers",
    amounts: AmountText,
    output: "Output",
) -> None:
    from meterlake.cli.shell.tables import Bar

    if shown:
        columns = (
            *("!account", "product", "lineItemType=line type", "!month"),
            *("before", "after", "difference", "currency"),
        )
        rows = [
            (each.to_wire() | _written(amounts, each, each.key.currency)) for each in sorted(shown)
        ]
        output.rows(rows, columns, "Amounts that change")
    rest = summary.rows_changed - len(shown)
    if rest > 0:
        output.note(
            f"{counted(rest, 'smaller change is', 'smaller changes are')} not shown; --format csv has all amounts\n"
        )
    totals = [_total_row(code, each, amounts) for code, each in sorted(summary.totals.items())]
    if totals:
        output.rows(totals, ("currency", "before", "after", "difference", "change"), "Totals")
    for code, found in movers.by_currency().items():
        movers_ = [*found.rising[:_BARS_MAX], *reversed(found.falling[:_BARS_MAX])]
        if movers_:
            title = f"{found.more:,} pay more, {found.less:,} pay less ({code})"
            texts = (amounts.write(each.difference, code, sign=True) for each in movers_)
            bars = [
                Bar(e.account, e.difference, text) for e, text in zip(movers_, texts, strict=True)
            ]
            output.bars(bars, title, changes=True)


def _total_row(currency: str, total: "AmountTotal", amounts: AmountText) -> dict[str, Any]:
    from meterlake.cli.shell.tables import Digits

    share = ""
    if total.before:
        share = f"{total.difference / total.before.copy_abs() * 100:+,.2f} %"
    return {
        "currency": currency,
        **_written(amounts, total, currency),
        "change": Digits(share),
    }


def _written(
    amounts: AmountText, of: "AmountChange | AmountTotal", currency: str
) -> "dict[str, Digits]":
    """Amounts before and after, and the difference with its sign."""
    return {
        "before": amounts.write(of.before, currency),
        "after": amounts.write(of.after, currency),
        "difference": amounts.write(of.difference, currency, sign=True),
    }


def _notes(summary: "WhatIfSummary") -> Iterator[str]:
    """What there is to know, in sentences."""
    entities = counted(summary.changed, "changed entity", "changed entities")
    changed = entities if summary.backfill is None else f"backfill {summary.backfill} as if applied"
    yield f"{_months(summary)}: {_accounts(summary)}, {changed}. Nothing was stored."
    if summary.added_accounts:
        yield f"Also calculated, as parents: {_listed(summary.added_accounts)}."
    if summary.left_out:
        named = [f"{e.account} in {e.month} ({e.side}): {e.reason}" for e in summary.not_priced]
        yield f"Left out of both sides, as they cannot be billed: {_listed(named, '; ')}."
    before, after = (summary.unpriced[side] for side in ("before", "after"))  # type: ignore[index]
    if before != after:
        yield f"Usage that no bill charges for: {counted(before, 'entry', 'entries')} before, {after:,} after."
    if summary.earlier:
        yield (
            f"{counted(summary.earlier, 'open bill')} of earlier months would be made again, too:"
            " begin with an earlier month to see that."
        )
    yield from _notes_on_stored(summary)


def _notes_on_stored(summary: "WhatIfSummary") -> Iterator[str]:
    stored = summary.stored
    unequal = stored.differing + stored.calculated_no_more
    if unequal:
        ids = _listed(stored.different)
        yield (
            f"{counted(unequal, 'stored bill differs', 'stored bills differ')} from what is called"
            f" before, which is calculated with the configuration and the usage of now: {ids}. Look at one:"
            f" `meterlake bill diff {stored.different[0]} --against now`"
        )
    if stored.missing:
        yield (
            counted(stored.missing, "bill of these months is not", "bills of these months are not")
            + " made yet."
        )


def _listed(names: Sequence[str], between: str = ", ") -> str:
    rest = len(names) - _NAMED_MAX
    return between.join(names[:_NAMED_MAX]) + (f" and {rest:,} more" if rest > 0 else "")
