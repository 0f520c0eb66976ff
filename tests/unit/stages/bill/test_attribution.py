"""Differences are attributed exactly, whatever changes do to each other: laws over random bills.

A bill here is a table: for each set of changes what its lines come to, or that it cannot be
calculated. Nothing of it is regular, so that nothing of the attribution may rely on it.
"""

from decimal import Decimal
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from meterlake.stages.bill.attribution import (
    BillFigures,
    attribute,
    changed_header,
    changed_lines,
    total_change,
)

KEYS = ("a", "b")
AMOUNTS = st.sampled_from([*map(Decimal, ("0", "1", "-1", "0.05", "7.10")), None])


def subsets(count):
    numbers = range(count)
    found = (combinations(numbers, size) for size in range(count + 1))
    return [frozenset(each) for each in chain.from_iterable(found)]


def figures(amounts):
    lines = {
        key: {"convertedSubtotal": amount}
        for key, amount in zip(KEYS, amounts, strict=True)
        if amount is not None
    }
    return BillFigures("USD", lines)


@st.composite
def tables(draw, *, total=False):
    """For each set of changes a bill; some cannot be calculated, but for none and all of them."""
    count = draw(st.integers(0, 4))
    ends = {frozenset(), frozenset(range(count))}
    bills = st.tuples(*(AMOUNTS for _ in KEYS)).map(figures)
    table = {
        each: draw(bills if total or each in ends else st.one_of(bills, st.none()))
        for each in subsets(count)
    }
    return count, table


@given(tables(), st.sets(st.integers(0, 3)))
def test_parts_add_up_line_by_line_and_cover_what_lies_between(world, certain):
    count, table = world
    steps, last = attribute(count, certain, table.__getitem__)
    first = table[frozenset()]
    assert last == table[frozenset(range(count))]
    assert sum(total_change(each.before, each.after) for each in steps) == total_change(first, last)
    for key in KEYS:
        parts = ((each.after.amount(key) or 0) - (each.before.amount(key) or 0) for each in steps)
        assert sum(parts) == (last.amount(key) or 0) - (first.amount(key) or 0)
    places = [number for each in steps for number in each.changes]
    assert places == sorted(set(places))


@given(tables())
def test_undoing_a_step_removes_exactly_what_it_says(world):
    count, table = world
    steps, _ = attribute(count, range(count), table.__getitem__)
    everything = frozenset(range(count))
    for each in steps:
        assert each.without == table[everything.difference(each.changes)]
        if each.without is None:
            assert each.shares is None


@given(tables(total=True))
def test_what_is_undone_is_the_own_part_and_the_shares_of_later_ones(world):
    """And without a change every earlier part is what it was, every later one less by its share."""
    count, table = world
    steps, last = attribute(count, range(count), table.__getitem__)
    for place, step in enumerate(steps):
        [number] = step.changes
        own = total_change(step.before, step.after)
        gone = total_change(step.without, last)
        if step.shares:
            hidden = gone - own - sum(step.shares.values())
            assert hidden == 0 or len(steps) < count
        for later_place, later in enumerate(steps):
            if later_place <= place or len(steps) < count or not step.shares:
                continue
            [after] = later.changes
            before = frozenset(range(after)) - {number}
            alone = total_change(table[before], table[before | {after}])
            part = total_change(later.before, later.after)
            assert part - step.shares.get(later_place, 0) == alone


@given(tables(total=True))
def test_changes_that_are_certain_are_never_joined(world):
    count, table = world
    steps, _ = attribute(count, range(count), table.__getitem__)
    assert all(len(each.changes) == 1 for each in steps)
    for number in set(range(count)).difference(n for each in steps for n in each.changes):
        everything = frozenset(range(count))
        assert table[everything] == table[everything - {number}]


def test_few_calculations_find_the_one_of_many_that_does_something():
    asked = []

    def calculate(applied):
        asked.append(applied)
        return figures((Decimal(5 if 617 in applied else 3), None))

    [step], last = attribute(1000, (), calculate)
    assert step.changes == (617,)
    assert (last.total, step.without.total) == (5, 3)
    assert len(asked) == 13


def test_a_change_that_a_later_one_needs_is_named_although_it_does_nothing_by_itself():
    def calculate(applied):
        return figures((Decimal(5 if applied == {0, 1} else 3), None))

    first, second = attribute(2, (0, 1), calculate)[0]
    assert total_change(first.before, first.after) == 0
    assert first.without.total == second.without.total == 3
    assert (first.shares, second.shares) == ({1: Decimal(2)}, {})


def test_lines_and_headers_that_differ_are_listed_in_the_order_of_the_bill():
    before = BillFigures("USD", {"a": {"x": 1}, "b": {"x": 1}}, {"due": 1, "zone": "UTC"})
    after = BillFigures("USD", {"c": {"x": 1}, "b": {"x": 1}}, {"due": 2, "zone": "UTC"})
    assert changed_lines(before, after) == ["c", "a"]
    assert changed_header(before, after) == ["due"]
    assert changed_header(BillFigures(), after) == []
