"""The difference of two contents of a bill, attributed to changes that are applied one after the other.

Who calls knows the changes in their order, and calculates the bill with any set of them. The part
of a change is what the bill comes to with it and all changes before it, less what it comes to
with those before it. So the parts add up to the whole, whatever the changes do to each other.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from meterlake.model.values.money import ZERO, exact


@dataclass(frozen=True, slots=True)
class BillFigures:
    """A bill as far as contents of it are compared.

    Attributes:
        currency: Of its lines; empty if there is no bill.
        lines: By their keys, as people see them, without their numbers.
        header: Without what follows from the lines.
    """

    currency: str = ""
    lines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    header: Mapping[str, Any] = field(default_factory=dict)

    def amount(self, key: str) -> Decimal | None:
        """What a line adds to the bill; None if it is not there."""
        line = self.lines.get(key)
        return None if line is None else Decimal(line["convertedSubtotal"])

    @property
    def total(self) -> Decimal:
        """The sum of the lines."""
        with exact():
            return sum((Decimal(each["convertedSubtotal"]) for each in self.lines.values()), ZERO)


# Calculates the bill with some changes, by their numbers from 0; None if that is not possible.
Calculate = Callable[[frozenset[int]], BillFigures | None]


@dataclass(frozen=True, slots=True)
class AttributedStep:
    """What changes do together that are applied at once: one of them, if that is possible.

    Attributes:
        changes: Their numbers.
        before: The bill with all changes before them.
        after: With them as well.
        without: With all changes but them; None if that cannot be calculated.
        shares: By how much they change what later steps do, by the places of these among the steps;
            what is left for changes that do nothing otherwise has none. None if nobody can
            calculate it.
    """

    changes: tuple[int, ...]
    before: BillFigures
    after: BillFigures
    without: BillFigures | None
    shares: Mapping[int, Decimal] | None = None


def attribute(
    count: int, certain: Collection[int], calculate: Calculate
) -> tuple[list[AttributedStep], BillFigures]:
    """Apply changes one after the other, and find what each of them does.

    Changes that nobody is sure of are applied together first: those of them that do nothing are
    not looked at singly.

    Args:
        count: How many changes there are.
        certain: The numbers of those that are looked at singly.
        calculate: Without changes it gives the former content.

    Returns:
        The changes that do something, in their order; and the bill with all changes.
    """
    found = _Attribution(count, frozenset(certain), calculate)
    steps = list(found.steps())
    shared = [replace(each, shares=found.shares(each, steps)) for each in steps]
    return shared, found.prefix(count) or BillFigures()


class _Attribution:
    def __init__(self, count: int, certain: frozenset[int], calculate: Calculate) -> None:
        self._all = frozenset(range(count))
        self._certain = certain
        self._calculate = calculate
        self._known: dict[frozenset[int], BillFigures | None] = {}

    def with_changes(self, changes: frozenset[int]) -> BillFigures | None:
        """The bill with some changes."""
        if changes not in self._known:
            self._known[changes] = self._calculate(changes)
        return self._known[changes]

    def prefix(self, length: int) -> BillFigures | None:
        """The bill with the first changes."""
        return self.with_changes(frozenset(range(length)))

    def steps(self) -> Iterator[AttributedStep]:
        start = 0
        # Where single changes, and runs of those that nobody is sure of, end.
        ends: list[int] = []
        for number in sorted(self._all):
            after = number + 1
            if number in self._certain or after in self._certain or after == len(self._all):
                ends.append(after)
        for end in ends:
            if self.prefix(end) is not None:
                yield from self._within(start, end)
                start = end

    def shares(
        self, step: AttributedStep, steps: Sequence[AttributedStep]
    ) -> dict[int, Decimal] | None:
        """By how much a step changes what the steps behind it do."""
        last = self.with_changes(self._all)
        if last is None or step.without is None:
            return None
        if _line_changes(step.before, step.after) == _line_changes(step.without, last):
            return {}
        found: dict[int, Decimal] = {}
        effect = total_change(step.before, step.after)
        for place, later in enumerate(steps):
            if later.changes <= step.changes:
                continue
            before = frozenset(range(later.changes[-1] + 1)).difference(step.changes)
            without = self.with_changes(before)
            if without is None:
                return None
            so_far = total_change(without, later.after)
            with exact():
                share = so_far - effect
            if share:
                found[place] = share
            effect = so_far
        return found

    def _within(self, start: int, end: int) -> Iterator[AttributedStep]:
        """What the changes of a part of the sequence do; the bill is known before and after it."""
        before, after = self.prefix(start), self.prefix(end)
        assert before is not None, start
        assert after is not None, end
        if before == after and self._certain.isdisjoint(range(start, end)):
            return
        # The place near the middle where the bill can be calculated; None if there is none.
        inner = sorted(range(start + 1, end), key=lambda each: abs(2 * each - start - end))
        middle = next((each for each in inner if self.prefix(each) is not None), None)
        if middle is not None:
            yield from self._within(start, middle)
            yield from self._within(middle, end)
            return
        changes = tuple(range(start, end))
        without = self.with_changes(self._all.difference(changes))
        # One that does nothing here may be needed for what a later one does.
        if before != after or without != self.with_changes(self._all):
            yield AttributedStep(changes, before, after, without)


def total_change(before: BillFigures, after: BillFigures) -> Decimal:
    """By how much the lines differ together, whatever their currencies."""
    with exact():
        return after.total - before.total


def _line_changes(before: BillFigures, after: BillFigures) -> dict[str, Decimal]:
    """By how much each line differs."""
    found = {}
    with exact():
        for key in (*before.lines, *after.lines):
            found[key] = (after.amount(key) or ZERO) - (before.amount(key) or ZERO)
    return {key: change for key, change in found.items() if change}


def changed_lines(before: BillFigures, after: BillFigures) -> list[str]:
    """The keys of the lines that differ, in the order of the bill."""
    keys = dict.fromkeys((*after.lines, *before.lines))
    return [each for each in keys if before.lines.get(each) != after.lines.get(each)]


def changed_header(before: BillFigures, after: BillFigures) -> list[str]:
    """The members of the header that differ; none if there is only one header."""
    if not before.header or not after.header:
        return []
    names = dict.fromkeys((*before.header, *after.header))
    return [each for each in names if before.header.get(each) != after.header.get(each)]
