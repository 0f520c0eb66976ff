"""Which line of a bill somebody means: by its id, its number, or what it is called."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from meterlake.model.errors import Invalid
from meterlake.stores.state.billing.memos.lines import line_id
from meterlake.stores.state.billing.stored_bills import LineContent

_LISTED: Final = 20


class NamedLine(NamedTuple):
    """A line with its number on the bill, from 1."""

    number: int
    id: str
    line: LineContent

    @property
    def names(self) -> Iterator[str]:
        """What people may call it."""
        body = self.line.body
        yield from (self.id, str(self.number), self.line.key)
        yield from (body["lineItemType"], body["description"])
        yield f"{body['lineItemType']} {body['description']}"

    def __str__(self) -> str:
        body = self.line.body
        return f"{self.number} ({body['lineItemType']} {body['description']})"


def name_lines(bill_id: str, lines: Sequence[LineContent]) -> list[NamedLine]:
    """The lines of a bill with what they are called."""
    return [
        NamedLine(number, line_id(bill_id, each.key), each)
        for number, each in enumerate(lines, start=1)
    ]


def find_line(lines: Sequence[NamedLine], text: str) -> NamedLine:
    """The line that a text means.

    Raises:
        Invalid: It means none, or several; the rule lists the lines.
    """
    name = text.strip().casefold()
    for level in range(len(list(lines[0].names)) if lines else 0):
        found = [each for each in lines if list(each.names)[level].casefold() == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise Invalid("line", text, f"it must be one of the lines {_list(found)}")
    raise Invalid(
        "line",
        text,
        f"it must be one of the lines {_list(lines)}"
        if lines
        else "the bill has no lines; leave it out",
    )


def _list(lines: Sequence[NamedLine]) -> str:
    shown = ", ".join(map(str, lines[:_LISTED]))
    more = len(lines) - _LISTED
    return f"{shown} and {more:,} more" if more > 0 else shown
