"""`meterlake bill explain`: where each number of a bill comes from, down to file and row."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.billing.bills import BillName
from meterlake.cli.shell.controls import CONTROLS
from meterlake.cli.shell.files import check_ending, check_target, write_file
from meterlake.cli.shell.options import INTEGER, NO_OPTIONS, Options
from meterlake.cli.shell.output import error_line
from meterlake.model.errors import Invalid
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meterlake.cli.shell.output import Output
    from meterlake.model.bills.explanation import BillExplanation, ExplainedNumber
    from meterlake.pipeline.billing.explanation.explain import ExplanationRequest
    from meterlake.stores import Organization

_STREAMED: Final = ("file", "row", "uid", "ts", "value")
_COLUMNS: Final = (*_STREAMED, "microseconds")
# What there may be no room for in a table.
_FLAGS: Final = {"uid": "?"}
Line = Annotated[str | None, Parameter(name="LINE", show_default=False)]
LineOfMonth = Annotated[str | None, Parameter(name="LINE-OF-MONTH", show_default=False)]
Number = Annotated[int | None, INTEGER, Parameter(show_default=False)]


def register(app: App) -> None:
    """Add the command."""
    app.command(explain)


@Parameter(name="*")
@dataclass(frozen=True)
class Depth:
    """How much of a bill is explained.

    Attributes:
        rows: The number of measurements that you want to see of each quantity, at most 1000; 20 if
            you explain a line.
        all_: All measurements of the line, after its tree; as JSON lines with --json.
        version: A version of the bill, if you do not want the newest one.
        html: Write a page to this file instead.
    """

    rows: Number = None
    all_: Annotated[bool, Parameter(name="--all", negative="")] = False
    version: Number = None
    html: Annotated[Path | None, Parameter(show_default=False)] = None


_DEPTH: Final = Depth()


def explain(
    bill: BillName,
    line: Line = None,
    line_of_month: LineOfMonth = None,
    /,
    *,
    depth: Depth = _DEPTH,
    options: Options = NO_OPTIONS,
) -> int:
    """Show how the total of a bill comes about, number by number.

    You see the way from the total down to lines, bands, units and quantities, and for a line to the
    SQL of its quantity, its snapshot, and the measurements with file and row. Each number says how
    it follows from those below it. The command calculates the bill again from its pinned inputs, so
    that later usage and later prices change nothing. If the result differs from the stored bill, it
    names the difference and ends with 1. It stores nothing.

    Example: `meterlake bill explain acme 2026-10`

    Example: `meterlake bill explain 2054cfc5 1 --rows 100`

    Args:
        bill: The bill: its id or the first eight digits of it, its invoice number, or its account's
            code.
        line: The number of a line on the bill, its id, or its description; after the code of an
            account, the month of the bill's last day.
        line_of_month: After a month: the line.
    """
    words = [each for each in (bill, line, line_of_month) if each is not None]
    differences = _explain(words, depth, options).differences
    if differences:
        first = " ".join(str(differences[0].get(name, "")) for name in ("subject", "name", "field"))
        message = (
            f"{counted(len(differences), 'difference')} from what is stored, the first: {first}"
        )
        error_line("Different", message, json=options.json)
    return 1 if differences else 0


def _explain(words: "Sequence[str]", depth: Depth, options: Options) -> "BillExplanation":
    """Print an explanation of a bill, or of the line that is named behind it."""
    from meterlake.pipeline.billing.explanation.explain import ExplanationRequest, explain_bill
    from meterlake.pipeline.billing.named_bills import take_bill

    with options.open() as organization:
        id_, rest = take_bill(organization, words)
        line = rest[0] if rest else None
        _check(depth, line, rest[1:])
        rows = _rows(depth, line, options)
        request = ExplanationRequest(id_, line, depth.version, rows)
        if depth.all_:
            return _show_all(organization, request, options)
        explanation = explain_bill(organization, request)
    _show(explanation, depth, options)
    return explanation


def _check(depth: Depth, line: str | None, more: "Sequence[str]") -> None:
    from meterlake.model.bills.explanation import ROWS_SHOWN_MAX

    if more:
        raise Invalid("LINE", more[0], "leave it out: a line is named before it")
    if depth.rows is not None and not 0 <= depth.rows <= ROWS_SHOWN_MAX:
        raise Invalid("--rows", depth.rows, f"it must be from 0 to {ROWS_SHOWN_MAX}")
    if depth.version is not None and depth.version < 1:
        raise Invalid("--version", depth.version, "it must be 1 or more")
    if depth.all_ and line is None:
        raise Invalid("--all", True, "it is about one line; name that, too")
    if depth.all_ and depth.html is not None:
        raise Invalid("--all", True, "leave it out when you give --html")
    if depth.html is not None:
        check_ending("--html", depth.html, "html")
        check_target("--html", depth.html)


def _rows(depth: Depth, line: str | None, options: Options) -> int:
    """How many measurements are shown: none on a terminal for a whole bill, unless asked for."""
    from meterlake.model.bills.explanation import ROWS_SHOWN

    if depth.rows is not None:
        return depth.rows
    if depth.all_:
        return 0
    is_text = not options.json and depth.html is None
    return 0 if line is None and is_text else ROWS_SHOWN


def _show(explanation: "BillExplanation", depth: Depth, options: Options) -> None:
    if depth.html is not None:
        from meterlake.stages.report.explanation_page import explanation_page

        page = explanation_page(explanation).encode()
        write_file(depth.html, page, "--html")
        options.output.record(
            {"bill": explanation.bill["id"], "file": str(depth.html), "bytes": len(page)}, "Page"
        )
    elif options.json:
        options.output.line(explanation.to_wire())
    else:
        show_tree(explanation, options.output)


def show_tree(explanation: "BillExplanation", output: "Output") -> None:
    """Print the tree of a bill or of one of its lines."""
    from meterlake.cli.billing.explanation_tree import draw_tree, signs_of_terminal, visible_lines
    from meterlake.stages.report.explained_text import NumberText

    bill, root = explanation.bill, explanation.root
    chosen = next((each for each in root.operands if each.facts["id"] == bill["line"]), None)
    text = NumberText(bill["currency"], bill["currencyPlaces"], signs_of_terminal())
    last = bill["pins"]
    same = "" if last["isSameCode"] else f", made by version {last['code']} of meterlake"
    title = (
        f"Bill of {bill['accountCode']} of {bill['billDate']}, version {bill['version']},"
        f" snapshot {last['snapshot']}{same}\n"
    )
    output.text(title)
    if chosen is not None:
        root = replace(root, operands=visible_lines(root, chosen.facts["lineKey"]))
    output.text("\n".join(draw_tree(root, text)))
    measured = [each for each in root.walk() if each.source is not None]
    for each in measured if chosen is not None else ():
        _show_measured(each, output)
    if chosen is None and measured:
        first = next(each for each in root.operands if any(n.source for n in each.walk()))
        number = first.facts["number"]
        output.note("\nThe SQL, and the measurements with file and row, of a line:")
        output.command(f"bill explain {bill['id']} {number}")


def _show_measured(number: "ExplainedNumber", output: "Output") -> None:
    """A quantity: the SQL that gives it, and its first measurements."""
    facts = number.facts
    output.note(f"\n{number.name}, snapshot {facts['snapshot']}:")
    if facts.get("statement"):
        output.text(f"\n{facts['statement']}")
    if number.measurements:
        has = number.measurements[0]
        columns = [f"{_FLAGS.get(each, '')}{each}" for each in _COLUMNS if each in has]
        output.rows(number.measurements, columns, "Measurements")
    deciding = facts.get("decides", {}).get("measurements", ())
    if deciding:
        columns = [f"{_FLAGS.get(each, '')}{each}" for each in _STREAMED]
        output.rows(deciding, columns, f"What decides: {facts['decides']['by']}")
    if number.more:
        count = facts["measurementCount"]
        text = f"The first {len(number.measurements):,} of {count:,}; --rows or --all gives more."
        output.note(text)


def _show_all(
    organization: "Organization", request: "ExplanationRequest", options: Options
) -> "BillExplanation":
    """Print the tree, then all measurements: they are read while they are printed."""
    from meterlake.pipeline.billing.explanation.explain import open_explanation

    stopped: BrokenPipeError | None = None
    with open_explanation(organization, request) as found:
        try:
            _show(found.explanation, _DEPTH, options)
            if not options.json:
                sys.stdout.write("\n" + "\t".join(_STREAMED) + "\n")
            for each in found.stream():
                _write_measurement(each, options)
        except BrokenPipeError as error:
            # It is no failure of the lake.
            stopped = error
    if stopped is not None:
        raise stopped
    return found.explanation


def _write_measurement(found: dict[str, Any], options: Options) -> None:
    if options.json:
        options.output.line(found)
        return
    text = "\t".join(_text(found[name]) for name in _STREAMED)
    sys.stdout.write(text.translate(CONTROLS) + "\n")


def _text(value: Any) -> str:
    from decimal import Decimal

    from meterlake.model.values.money import plain

    if value is None:
        return ""
    return plain(value) if isinstance(value, Decimal) else str(value)
