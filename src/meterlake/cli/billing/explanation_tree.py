"""The tree of an explained bill on a terminal: numbers in columns, as wide as it is."""

import sys
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from meterlake.cli.shell.controls import CONTROLS
from meterlake.cli.shell.tables import terminal_width
from meterlake.model.bills.explanation import ExplainedNumber
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.plurals import counted
from meterlake.stages.report.explained_text import ASCII, UNICODE, NumberText, Signs

# Where nobody's terminal limits it, a line is as wide as it needs.
_PIPED_WIDTH: Final = 400
_WIDTH_MIN: Final = 60
_LABEL_MAX: Final = 60
_NOTE_MIN: Final = 8
_UNIT_MAX: Final = 14
# More lines beside the one that is explained are counted alone.
_OTHERS_MAX: Final = 20


class TreeRow(NamedTuple):
    """A line of the drawing."""

    label: str
    value: str
    unit: str
    note: str


def draw_tree(root: ExplainedNumber, text: NumberText, width: int | None = None) -> list[str]:
    """The lines of a tree, each as wide as the terminal at most.

    Args:
        root: The total of a bill.
        text: Writes its numbers.
        width: How many columns there are; those of the terminal if None.
    """
    rows = [_row("", root, text), *_below(root, text, "")]
    columns = max(_WIDTH_MIN, width or terminal_width() or _PIPED_WIDTH)
    value = max(len(each.value) for each in rows)
    unit = min(max(len(each.unit) for each in rows), _UNIT_MAX)
    label = min(max(len(each.label) for each in rows), max(24, min(_LABEL_MAX, columns // 2)))
    return [_line(each, (label, value, unit), columns, text.signs) for each in rows]


def signs_of_terminal() -> Signs:
    """The signs that the standard output can show."""
    try:
        "├─└│…×−".encode(sys.stdout.encoding or "ascii")  # noqa: RUF001 - a minus sign
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def _line(row: TreeRow, widths: tuple[int, int, int], columns: int, signs: Signs) -> str:
    label, value, unit = widths
    named, counted = _cut(row.label, label, signs), _cut(row.unit, unit, signs)
    left = f"{named:<{label}}  {row.value:>{value}} {counted:<{unit}}"
    room = columns - len(left) - 2
    note = _cut(row.note, room, signs) if room >= _NOTE_MIN else ""
    return (f"{left}  {note}" if note else left).rstrip()


def _cut(text: str, width: int, signs: Signs) -> str:
    if len(text) <= width:
        return text
    return text[: width - len(signs.cut)] + signs.cut


def _below(number: ExplainedNumber, text: NumberText, trunk: str) -> Iterator[TreeRow]:
    """What a number follows from, but for plain numbers that its derivation names."""
    shown = [*text.shown_operands(number), *number.beside]
    for each in shown:
        is_last = each is shown[-1]
        signs = text.signs
        yield _row(trunk + (signs.last if is_last else signs.branch), each, text)
        yield from _below(each, text, trunk + ("   " if is_last else signs.trunk))


def _row(trunk: str, number: ExplainedNumber, text: NumberText) -> TreeRow:
    counted = number.facts.get("number")
    name = number.name if counted is None else f"{counted}. {number.name}"
    unit = number.unit.translate(CONTROLS)
    return TreeRow(
        f"{trunk}{name}".translate(CONTROLS),
        text.value(number),
        unit,
        _note(number, text).translate(CONTROLS),
    )


def _note(number: ExplainedNumber, text: NumberText) -> str:
    """How a number follows, and which version of what says so."""
    facts = number.facts
    found = [text.derivation(number)]
    found += [
        f"{each['kind']} {each.get('code', each['id'])} v{each['version']}"
        for each in facts.values()
        if isinstance(each, Mapping) and "version" in each and "lineKey" not in facts
    ]
    if "since" in facts:
        found.append(f"since {facts['since']}")
    if facts.get("child"):
        found.append(f"child {facts['child']}")
    if "unexplained" in facts:
        found.append(f"the bill has {facts['unexplained']}")
    return "; ".join(filter(None, found))


def visible_lines(root: ExplainedNumber, chosen: str) -> tuple[ExplainedNumber, ...]:
    """The lines that are drawn when one of them is explained: all, or it and the sum of many others."""
    others = [each for each in root.operands if each.facts["lineKey"] != chosen]
    if len(others) <= _OTHERS_MAX:
        return root.operands
    with exact():
        rest = sum((each.value or ZERO for each in others), ZERO)
    name = counted(len(others), "other line")
    together = ExplainedNumber(name=name, value=rest, unit=root.unit, facts={"lines": len(others)})
    return (*(each for each in root.operands if each.facts["lineKey"] == chosen), together)
