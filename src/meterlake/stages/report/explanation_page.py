"""An explained bill as one page: everything is in it, and nothing is fetched from elsewhere."""

from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from typing import Any, Final

from meterlake.model.bills.explanation import BillExplanation, DerivationRule, ExplainedNumber
from meterlake.model.values.money import plain
from meterlake.stages.report.explained_text import NumberText, facts_of

_STYLE: Final = "explanation.css"
_COLUMNS: Final = ("file", "row", "part", "uid", "ts", "receivedAt", "value", "microseconds")
_HEADINGS: Final = {"ts": "time", "receivedAt": "received at", "microseconds": "holds for (µs)"}
_NUMBERS: Final = frozenset({"row", "part", "value", "microseconds"})
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p class="total">{total} <span>{currency}</span></p>
{head}
</header>
{differences}<main>
{tree}</main>
<footer>{footer}</footer>
</body>
</html>
"""
_FOOTER: Final = (
    "Each number says how it follows from those below it. The bill was calculated again from what"
    " it pins: later usage and later prices change nothing here."
)


def explanation_page(explanation: BillExplanation) -> str:
    """The page of an explained bill."""
    bill = explanation.bill
    text = NumberText(bill["currency"], bill["currencyPlaces"])
    title = f"Bill of {bill['accountCode']} of {bill['billDate']}"
    style = files(__package__).joinpath(_STYLE).read_text("utf-8")
    pins = bill["pins"]
    days = f"{bill.get('startDate', '')} to {bill.get('endDate', '')}"
    head = [
        ("bill", bill["id"]),
        ("version", str(bill["version"])),
        ("period", f"{days}, {bill.get('timezone', '')}"),
        ("snapshot", str(pins["snapshot"])),
        ("made by", f"meterlake {pins['code']}"),
    ]
    return _PAGE.format(
        title=escape(title),
        style=style,
        total=escape(text.value(explanation.root)),
        currency=escape(bill["currency"]),
        head=_facts(head),
        differences=_differences(explanation),
        tree="".join(_node(explanation.root, text, is_open=True)),
        footer=escape(_FOOTER),
    )


def _facts(pairs: list[tuple[str, str]]) -> str:
    if not pairs:
        return ""
    rows = "".join(f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>" for n, v in pairs)
    return f"<dl>{rows}</dl>\n"


def _differences(explanation: BillExplanation) -> str:
    if not explanation.differences:
        return ""
    items = "".join(f"<li>{escape(_difference(each))}</li>" for each in explanation.differences)
    text = "What is stored is not what comes out:"
    return f'<section class="differences"><p>{text}</p><ul>{items}</ul></section>\n'


def _difference(found: Mapping[str, Any]) -> str:
    names = (found["subject"], found["name"], found.get("field", ""))
    sides = (f"{side} {found.get(side, 'nothing')}" for side in ("stored", "calculated"))
    return f"{' '.join(filter(None, names))}: {', '.join(sides)}"


def _node(
    number: ExplainedNumber, text: NumberText, *, is_open: bool, is_chosen: bool = False
) -> Iterator[str]:
    """A number with all below it; what has nothing below it is one row.

    Args:
        number: The number.
        text: Writes it.
        is_open: Whether one sees what is below it.
        is_chosen: Whether it belongs to the one line that is explained.
    """
    details = [*_details(number, facts_of(number))]
    below = [*text.shown_operands(number), *number.beside]
    counted = number.facts.get("number")
    name = number.name if counted is None else f"{counted}. {number.name}"
    how = escape(text.derivation(number))
    if number.rule is DerivationRule.SAME:
        how = f'<a href="#{_anchor(number.options["of"])}">{how}</a>'
    anchor = f' id="{_anchor(number.key)}"' if number.key else ""
    summary = (
        f'<span class="name"{anchor}>{escape(name)}</span> <span class="how">{how}</span>'
        f' <span class="value">{escape(text.value(number))}</span>'
        f' <span class="unit">{escape(number.unit)}</span>'
    )
    if not below and not details:
        yield f'<div class="leaf">{summary}</div>\n'
        return
    yield f"<details{' open' if is_open else ''}><summary>{summary}</summary>\n<div>\n"
    yield from details
    explained = [each for each in below if each.operands]
    for each in below:
        chosen = is_chosen or (number.key == "total" and explained == [each])
        yield from _node(each, text, is_open=chosen, is_chosen=chosen)
    yield "</div></details>\n"


def _anchor(key: str) -> str:
    return escape("".join(each if each.isalnum() else "-" for each in key))


def _details(number: ExplainedNumber, facts: list[tuple[str, str]]) -> Iterator[str]:
    yield from filter(None, [_facts(facts)])
    statement = number.facts.get("statement")
    if statement:
        yield f"<pre><code>{escape(statement)}</code></pre>\n"
    decides = number.facts.get("decides", {})
    if number.measurements:
        caption = "Measurements"
        if number.more:
            count = number.facts["measurementCount"]
            caption = f"The first {len(number.measurements):,} of {count:,} measurements"
        yield _table(number.measurements, caption)
    if decides.get("measurements"):
        yield _table(decides["measurements"], f"What decides: {decides['by']}")


def _table(rows: Any, caption: str) -> str:
    columns = [each for each in _COLUMNS if each in rows[0]]
    heads = "".join(f"<th{_class(each)}>{_HEADINGS.get(each, each)}</th>" for each in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td{_class(each)}>{_cell(row[each])}</td>" for each in columns)
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="table"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )


def _class(column: str) -> str:
    return ' class="number"' if column in _NUMBERS else ""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return escape(plain(value) if hasattr(value, "as_tuple") else str(value))
