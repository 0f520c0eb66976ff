"""Differences of bills with several causes at once: parts, shares, and what undoing really removes.

What is expected is calculated here, in plain Python, from what was done to the home: a bill of two
bands and a standing charge at a rate. Nothing of it is the code of meterlake.
"""

import random
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal

import pytest

from meterlake.model.catalog.plans import PlanTemplate, Pricing
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from tests.bill_diffs import change, compare, make_bills, parts_of, retract, revert
from tests.bills import a_home_to_bill, use
from tests.homes import configure

CENT = Decimal("0.01")


@dataclass(frozen=True)
class Facts:
    """All that the bill of acme depends on; its first file is that of the home."""

    files: tuple = (("1.csv", Decimal("42.5")),)
    prices: tuple = (Decimal(1), Decimal(0))
    standing: Decimal = Decimal(31)
    rate: Decimal = Decimal(2)

    def total(self):
        used = sum((gb for _, gb in self.files), Decimal(0))
        first, second = self.prices
        usage = min(used, 100) * first + max(used - 100, 0) * second
        lines = [usage] if self.files else []
        return sum(
            (each * self.rate).quantize(CENT, ROUND_HALF_UP) for each in [*lines, self.standing]
        )


@dataclass
class Late:
    """A file that comes late; undone, it is withdrawn."""

    rng: random.Random
    number: int
    rank: int = 0

    def __post_init__(self):
        self.gb = Decimal(self.rng.randrange(1, 12_000)) / 100
        self.name = f"late{self.number}.csv"

    def effect(self, facts):
        return replace(facts, files=(*facts.files, (self.name, self.gb)))

    def do(self, home):
        home.clock.advance(minutes=1)
        use(home, (f"late{self.number}", "acme", self.gb))

    def undo(self, home):
        retract(home, self.name, f"undo-{self.number}")


@dataclass
class Withdrawn:
    """A file of before that is withdrawn; undone, it is brought back."""

    rng: random.Random
    number: int
    rank: int = 4
    name: str = field(init=False)

    def __post_init__(self):
        self.name = f"backfill fix-{self.number}"

    def effect(self, facts):
        return replace(facts, files=tuple(each for each in facts.files if each[0] != "1.csv"))

    def do(self, home):
        retract(home, "1.csv", f"fix-{self.number}")

    def undo(self, home):
        revert(home, f"fix-{self.number}")


class _Written:
    """A value of the configuration; undone, it is written as it was."""

    def __init__(self, rng, number):
        del number
        self.value = self.draw(rng)

    def do(self, home):
        self.write(home, self.value)

    def undo(self, home):
        self.write(home, self.read(Facts()))


class Priced(_Written):
    rank, name = 2, "Pricing sent"

    def draw(self, rng):
        return tuple(Decimal(rng.randrange(1, 300)) / 100 for _ in range(2))

    def read(self, facts):
        return facts.prices

    def effect(self, facts):
        return replace(facts, prices=self.value)

    def write(self, home, prices):
        bands = [
            {"lowerLimit": limit, "fixedPrice": 0, "unitPrice": price}
            for limit, price in zip((0, 100), prices, strict=True)
        ]
        change(home, Pricing, "sent", pricingBands=bands)


class Standing(_Written):
    rank, name = 1, "PlanTemplate cloud"

    def draw(self, rng):
        return Decimal(rng.randrange(3200, 9000)) / 100

    def read(self, facts):
        return facts.standing

    def effect(self, facts):
        return replace(facts, standing=self.value)

    def write(self, home, amount):
        change(home, PlanTemplate, "cloud", standingCharge=amount)


class Rate(_Written):
    rank, name = 3, "USD to EUR"

    def draw(self, rng):
        return Decimal(rng.randrange(201, 400)) / 100

    def read(self, facts):
        return facts.rate

    def effect(self, facts):
        return replace(facts, rate=self.value)

    def write(self, home, rate):
        rates = [{"from": "USD", "to": "EUR", "multiplier": rate}]
        change(home, OrganizationConfig, None, currencyConversions=rates)


CAUSES = (Late, Late, Priced, Standing, Rate, Withdrawn)


def total_with(causes):
    facts = Facts()
    for each in sorted(causes, key=lambda cause: (cause.rank, cause.name)):
        facts = each.effect(facts)
    return facts.total()


def expected(causes):
    """Name, part and what goes if it is undone, of every cause that does something."""
    ordered = sorted(causes, key=lambda cause: (cause.rank, cause.name))
    for place, each in enumerate(ordered):
        part = total_with(ordered[: place + 1]) - total_with(ordered[:place])
        undone = total_with(ordered) - total_with([other for other in ordered if other != each])
        if part or undone:
            yield each.name, part, undone


def shares(causes):
    """By how much a cause changes the part of a later one."""
    ordered = sorted(causes, key=lambda cause: (cause.rank, cause.name))
    for place, each in enumerate(ordered):
        for later in range(place + 1, len(ordered)):
            others = [other for other in ordered if other != each]
            part = total_with(ordered[: later + 1]) - total_with(ordered[:later])
            alone = total_with(others[:later]) - total_with(others[: later - 1])
            if part != alone:
                yield each.name, ordered[later].name, part - alone


def check(found, causes):
    assert found.is_explained
    assert found.whole("EUR") == total_with(causes) - total_with([])
    parts = [each for each in found.parts if each.amount or each.if_undone]
    assert [(each.name, each.amount, each.if_undone) for each in parts] == [*expected(causes)]
    shared = [(part.name, each.name, each.amount) for part in parts for each in part.shared]
    assert shared == [*shares(causes)]


def prepare(home):
    """The bill is in euros."""
    configure(home.organization, currencies=[{"code": "EUR", "name": "Euro"}])
    Rate(random.Random(0), 0).write(home, Facts().rate)
    change(home, Account, "acme", currency="EUR")
    return make_bills(home)["acme"]


def check_three_causes(folder, seed):
    rng = random.Random(seed)
    kinds = rng.sample(CAUSES, 3)
    causes = [kind(rng, number) for number, kind in enumerate(kinds)]
    with a_home_to_bill(folder) as home:
        bill_id = prepare(home)
        for each in causes:
            each.do(home)
        found = compare(home, bill_id)
        check(found, causes)
        while causes:
            gone = causes.pop(rng.randrange(len(causes)))
            [undone] = [each.if_undone for each in found.parts if each.name == gone.name] or [0]
            gone.undo(home)
            after = compare(home, bill_id)
            assert after.whole("EUR") == found.whole("EUR") - undone, (seed, gone.name)
            assert gone.name not in [name for _, name, _ in parts_of(after)]
            check(after, causes)
            found = after
        assert found.is_same


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_three_causes_have_parts_that_add_up_and_undoing_one_removes_what_it_says(tmp_path, seed):
    check_three_causes(tmp_path, seed)


@pytest.mark.long
def test_two_causes_that_build_on_each_other_have_parts_as_calculated_by_hand(tmp_path):
    rng = random.Random(3)
    causes = [Late(rng, 1), Priced(rng, 2)]
    with a_home_to_bill(tmp_path) as home:
        bill_id = prepare(home)
        for each in causes:
            each.do(home)
        found = compare(home, bill_id)
    check(found, causes)
    assert [*shares(causes)]
