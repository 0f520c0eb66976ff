"""Random worlds with three changes that reach one bill, and what the bill comes to with any of them.

What it comes to is what the billing oracle says, which shares no code with meterlake.
"""

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations, count, pairwise
from typing import Any, Final

from tests.billing_oracle.world import CannotBill, World
from tests.billing_oracle.worlds import random_world
from tests.stored_worlds import BillName, amounts_of_oracle

# In the order in which differences apply them: a late measurement, a price, a withdrawn measurement.
CAUSES: Final = ("usage", "entity", "correction")
SUBSETS: Final = [frozenset(each) for n in range(4) for each in combinations(CAUSES, n)]
ALL: Final = frozenset(CAUSES)
# Members of the wire, at any depth, that can be raised by 1.
NUMBERS: Final = (
    *("unitPrice", "fixedPrice", "standingCharge", "minimumSpend", "amount", "value"),
    *("quantityPerUnit", "daysBeforeBillDue", "standingChargeInterval"),
)
# How many changes of a kind are tried in a world, and how many combinations of three.
TRIED: Final = 20
COMBINED: Final = 40
Bills = dict[BillName, tuple[Decimal, Any]]


@dataclass(frozen=True)
class ChangedWorld:
    """A world, three changes, and a bill that each of them reaches.

    Attributes:
        late: A measurement that comes late.
        pricing: A pricing with another number.
        withdrawn: The uid of a measurement that is withdrawn.
        bill: The first bill of its account that changes.
        totals: What it comes to, by the kinds of the causes that are there.
        others: The other bills that change.
    """

    world: World
    late: Mapping[str, Any]
    pricing: Mapping[str, Any]
    withdrawn: str
    bill: BillName
    totals: Mapping[frozenset[str], Decimal]
    others: Collection[BillName]


def raise_a_number(document: Mapping[str, Any], rng: random.Random) -> dict[str, Any] | None:
    """A document with one of its numbers raised by 1; None if it has none."""
    found = [name for name in NUMBERS if isinstance(document.get(name), (int, Decimal))]
    if found:
        name = rng.choice(found)
        return {**document, name: document[name] + 1}
    for name, value in document.items():
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict):
            raised = raise_a_number(value[0], rng)
            if raised:
                return {**document, name: [raised, *value[1:]]}
    return None


def make_changed_world(seed: int, features: Collection[str]) -> ChangedWorld:
    """The first world of a seed in which a bill has all three causes."""
    rng = random.Random(seed)
    for number in count():
        found = _find_changes(random_world(seed + 1000 * number, features), rng)
        if found is not None:
            return found
    raise AssertionError


def _find_changes(world: World, rng: random.Random) -> ChangedWorld | None:
    base = amounts_of_oracle(world)
    singles = []
    for kind, candidates in zip(CAUSES, _candidates(world, rng), strict=True):
        chosen = rng.sample(candidates, min(TRIED, len(candidates)))
        reached = [(each, _reached(world, base, kind, each)) for each in chosen]
        singles.append([each for each in reached if each[1]])
    triples = [
        ((late, price, gone), name)
        for late, first in singles[0]
        for price, second in singles[1]
        for gone, third in singles[2]
        for name in sorted(first & second & third)
    ]
    for changes, name in rng.sample(triples, min(COMBINED, len(triples))):
        found = _combine(world, changes, name)
        if found is not None:
            return found
    return None


def _candidates(world: World, rng: random.Random) -> Iterator[list[Any]]:
    """Changes of each kind."""
    yield [late for row in world.measurements for late in _late_ones(row)]
    raised = [raise_a_number(each, rng) for each in world.pricings]
    yield [each for each in raised if each is not None]
    yield [each["uid"] for each in world.measurements]


def _late_ones(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Measurements beside another one: a greater one, and a smaller one with another text."""
    number = row["measure"]["n"]
    yield {**row, "uid": "late", "measure": {"n": number * 2 + 1}}
    yield {**row, "uid": "late", "measure": {"n": number / 4 - 1}, "what": {"s": "four"}}


def _reached(world: World, base: Bills, kind: str, change: Any) -> set[BillName]:
    """The bills whose totals a change alone changes."""
    try:
        bills = amounts_of_oracle(_apply(world, {kind: change}))
    except CannotBill:
        return set()
    return {name for name in base.keys() & bills.keys() if base[name][0] != bills[name][0]}


def _apply(world: World, changes: Mapping[str, Any]) -> World:
    """The world with changes, by their kinds."""
    rows = list(world.measurements)
    if "usage" in changes:
        rows.append(changes["usage"])
    if "correction" in changes:
        rows = [each for each in rows if each["uid"] != changes["correction"]]
    price = changes.get("entity", {})
    pricings = [price if each["id"] == price.get("id") else each for each in world.pricings]
    return replace(world, measurements=rows, pricings=pricings)


def _combine(world: World, changes: tuple[Any, ...], name: BillName) -> ChangedWorld | None:
    """The three together; None if one of them does nothing beside the others.

    An earlier bill of the account must stay as it is: its draws are those that are stored.
    """
    by_kind = dict(zip(CAUSES, changes, strict=True))
    try:
        made = {
            each: amounts_of_oracle(_apply(world, {kind: by_kind[kind] for kind in each}))
            for each in SUBSETS
        }
    except CannotBill:
        return None
    names = {each for bills in made.values() for each in bills}
    altered = {
        each for each in names if len({repr(bills.get(each)) for bills in made.values()}) > 1
    }
    if any(each[0] == name[0] and each[1] <= name[1] for each in altered - {name}):
        return None
    if any(name not in bills for bills in made.values()):
        return None
    totals = {each: bills[name][0] for each, bills in made.items()}
    prefixes = [totals[frozenset(CAUSES[:number])] for number in range(4)]
    parts = [after - before for before, after in pairwise(prefixes)]
    undone = [totals[ALL] - totals[ALL - {each}] for each in CAUSES]
    if not all(parts) or not all(undone):
        return None
    return ChangedWorld(world, *changes, name, totals, sorted(altered - {name}))
