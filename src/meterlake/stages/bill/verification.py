"""A stored bill against what its calculation gives now: byte for byte, or value by value."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, Final, NamedTuple

from meterlake.model.bills.differences import differing_members
from meterlake.model.bills.verification import SHOWN_MAX, BillDifference, DifferenceSubject
from meterlake.model.values import wire
from meterlake.model.values.ids import derived_id

_VERSIONS: Final = "versions."


class LineTexts(NamedTuple):
    """A line as it is stored."""

    key: str
    body: str
    pins: str


class BillTexts(NamedTuple):
    """A bill as it is stored: the columns of its row, and its lines in their order."""

    id: str
    period: str
    currency: str
    total: str
    body: str
    pins: str
    lines: Sequence[LineTexts]


def compare_bills(
    stored: BillTexts, calculated: BillTexts, *, is_same_code: bool
) -> list[BillDifference]:
    """What differs of a bill, the first twenty things of it.

    Args:
        stored: As it is stored.
        calculated: As it comes out.
        is_same_code: Whether the code that calculated is the code that made it: then every byte
            counts, else what the values mean, and nothing of what the bill pins.
    """
    found = _Comparison(stored, calculated, is_same_code=is_same_code).differences()
    return list(islice(found, SHOWN_MAX))


class _Comparison:
    """Two sides of a bill."""

    def __init__(self, stored: BillTexts, calculated: BillTexts, *, is_same_code: bool) -> None:
        self.stored = stored
        self.calculated = calculated
        self.is_same_code = is_same_code

    def differences(self) -> Iterator[BillDifference]:
        before = {each.key: each for each in self.stored.lines}
        now = {each.key: each for each in self.calculated.lines}
        for key in dict.fromkeys((*before, *now)):
            yield from self._of_line(key, before.get(key), now.get(key))
        yield from self._of_header()
        if before.keys() == now.keys() and [*before] != [*now]:
            yield self._difference(
                DifferenceSubject.BILL, self.stored.id, "lines", [*before], [*now]
            )

    def _of_header(self) -> Iterator[BillDifference]:
        id_ = self.stored.id
        for name in ("period", "currency", "total"):
            before, now = getattr(self.stored, name), getattr(self.calculated, name)
            if before != now and (self.is_same_code or not _are_equal(before, now)):
                yield self._difference(DifferenceSubject.BILL, id_, name, before, now)
        for path, *sides in self._members(self.stored.body, self.calculated.body):
            yield self._difference(DifferenceSubject.BILL, id_, path, *sides)
        if self.is_same_code:
            for path, *sides in self._members(self.stored.pins, self.calculated.pins):
                subject, name = DifferenceSubject.BILL, id_
                if path.startswith(_VERSIONS):
                    subject, name = DifferenceSubject.ENTITY, path.removeprefix(_VERSIONS)
                yield self._difference(subject, name, f"pins.{path}", *sides)

    def _of_line(
        self, key: str, stored: LineTexts | None, calculated: LineTexts | None
    ) -> Iterator[BillDifference]:
        if stored is None or calculated is None:
            bodies = (each and each.body for each in (stored, calculated))
            yield self._difference(DifferenceSubject.LINE, key, "", *bodies)
            return
        for path, *sides in self._members(stored.body, calculated.body):
            yield self._difference(DifferenceSubject.LINE, key, path, *sides)
        if self.is_same_code:
            for path, *sides in self._members(stored.pins, calculated.pins):
                yield self._difference(DifferenceSubject.LINE, key, f"pins.{path}", *sides)

    def _members(self, stored: str, calculated: str) -> Iterator[tuple[str, Any, Any]]:
        if stored == calculated:
            return
        try:
            sides = wire.loads(stored), wire.loads(calculated)
        except ValueError:
            yield "", stored, calculated
            return
        found = list(differing_members(*sides))
        if not found and self.is_same_code:
            # The values are the same, and written in another way.
            found = [("", stored, calculated)]
        yield from found

    def _difference(
        self, subject: DifferenceSubject, name: str, field: str, stored: Any, calculated: Any
    ) -> BillDifference:
        line_id = derived_id(self.stored.id, name) if subject is DifferenceSubject.LINE else None
        return BillDifference(
            subject=subject,
            name=name,
            field=field,
            stored=stored,
            calculated=calculated,
            bill_id=self.stored.id,
            line_id=line_id,
        )


def _are_equal(stored: str, calculated: str) -> bool:
    try:
        return Decimal(stored) == Decimal(calculated)
    except ArithmeticError:
        return False
