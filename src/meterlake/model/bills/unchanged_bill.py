"""What differs between a bill that was left as it was and what it would be now."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.bills.differences import differing_members
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.model.values.plurals import first_of

# More of one bill say nothing more.
_KEPT_MAX: Final = 20
_TOLD_MAX: Final = 3
# The columns beside it show them.
_AMOUNTS: Final = frozenset({"total", "currency"})
_DRAWN: Final = "draws"


class LeftDifference(NamedTuple):
    """One member that would be another one.

    Attributes:
        member: Its path: `dueDate`, or `units` of a line; empty of a line that is new or gone.
        stored: What it is.
        calculated: What it would be.
        line: The line that it is of: its description, else its key; None of the bill itself.
    """

    member: str
    stored: Any = None
    calculated: Any = None
    line: str | None = None

    @property
    def follows_total(self) -> bool:
        """Whether it says nothing more where the total is another one: an amount, or of a line."""
        is_amount = isinstance(self.stored, Decimal | int) or isinstance(
            self.calculated, Decimal | int
        )
        return self.line is not None or self.member == _DRAWN or is_amount

    def to_wire(self) -> dict[str, Any]:
        """As plain data."""
        found = {"line": self.line} if self.line is not None else {}
        return {**found, "member": self.member, "is": self.stored, "wouldBe": self.calculated}

    def __str__(self) -> str:
        if self.member == _DRAWN and self.line is None:
            return "what it draws from commitments and balances"
        of_line = "" if self.line is None else f"line {self.line}"
        if not self.member:
            return f"{of_line} would be {'new' if self.stored is None else 'gone'}"
        words = "".join(f" {each.lower()}" if each.isupper() else each for each in self.member)
        name = f"{of_line} {words}".strip()
        if isinstance(self.stored, list | dict) or isinstance(self.calculated, list | dict):
            return name
        return f"{name} {_value(self.stored)}, would be {_value(self.calculated)}"


def left_differences(
    stored: Mapping[str, str],
    calculated: Mapping[str, str],
    lines: tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]]],
    *,
    draws: bool,
) -> tuple[LeftDifference, ...]:
    """What differs, the bill's own members first; the first twenty things.

    Args:
        stored: The columns of the bill as it is; `body` is JSON.
        calculated: The same as they would be.
        lines: The keys and bodies of its lines, as they are and as they would be.
        draws: Whether it would draw something else from commitments and balances.
    """
    of_columns: list[LeftDifference] = []
    for path, *sides in differing_members(
        wire.loads(stored["body"]), wire.loads(calculated["body"])
    ):
        of_columns.append(LeftDifference(path, *sides))
    for name, text in calculated.items():
        if name != "body" and stored[name] != text:
            of_columns.append(LeftDifference(name, stored[name], text))
    found = [*of_columns, *_of_lines(*map(dict, lines))]
    if draws:
        found.append(LeftDifference(_DRAWN))
    return tuple(found[:_KEPT_MAX])


def describe_left(differences: Iterable[LeftDifference], *, has_totals: bool) -> str:
    """What differs but for the total, as people read it.

    Args:
        differences: All of it.
        has_totals: Whether two totals stand beside it: lines then say nothing more.
    """
    texts = [
        str(each)
        for each in differences
        if each.member not in _AMOUNTS or each.line is not None
        if not (has_totals and each.follows_total)
    ]
    return first_of(texts, _TOLD_MAX)


def _of_lines(stored: Mapping[str, str], calculated: Mapping[str, str]) -> Iterator[LeftDifference]:
    for key in dict.fromkeys((*stored, *calculated)):
        before, now = (
            wire.loads(side[key]) if key in side else None for side in (stored, calculated)
        )
        name = str((before or now or {}).get("description") or key)
        if before is None or now is None:
            yield LeftDifference("", before, now, line=name)
            continue
        for path, is_now, would_be in differing_members(before, now):
            yield LeftDifference(path, is_now, would_be, name)


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    return plain(value) if isinstance(value, Decimal) else str(value)
