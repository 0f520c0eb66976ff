"""Random organizations with three causes at once: everything that bills may have is on their bills.

Hierarchies, compounds, segments, contracts, credits, fees and overage: each cause has the part that
the billing oracle says, nothing is left without a cause, and undoing one removes exactly what the
difference said.
"""

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from meterlake.model.bills.differences import CauseKind
from meterlake.model.catalog.plans import Pricing
from meterlake.model.customers.accounts import Account
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from tests.bill_diffs import compare
from tests.billing_oracle.worlds import FEATURES
from tests.changed_worlds import ALL, CAUSES, make_changed_world
from tests.integration.pipeline.billing.test_kept_bills import SOURCES, bill_world, stored_bills
from tests.stored_worlds import store_world

WORLDS = 6
# Only what all of these causes do to a bill is compared: other changes are none of them.
KINDS = {CauseKind.USAGE: "usage", CauseKind.ENTITY: "entity", CauseKind.CORRECTION: "correction"}


class Changes:
    """A late file, a price and a correction, each done and undone."""

    def __init__(self, world, changed):
        self.world, self.changed = world, changed
        self.names = {"usage": "measurements.csv", "correction": "backfill fix"}

    def do_usage(self):
        self.world._ingest(replace(self.changed.world, measurements=[self.changed.late]))
        self.world.clock.time = datetime(2022, 12, 3, tzinfo=UTC)

    def undo_usage(self):
        self._retract("late", "undo")

    def do_entity(self):
        self.former = self._write_pricing(self.changed.pricing)
        self.names["entity"] = f"Pricing {self.former['code']}"

    def undo_entity(self):
        self._write_pricing(self.former)

    def do_correction(self):
        self._retract(self.changed.withdrawn, "fix")

    def undo_correction(self):
        backfill.revert(self.world.organization, "fix", "test")

    def _write_pricing(self, fields):
        with self.world.organization.transaction("test") as transaction:
            record = transaction.get(Pricing, self.changed.pricing["id"])
            entity = Pricing.from_wire({name: fields[name] for name in fields if name != "id"})
            transaction.update(record.id, record.version, entity)
        return record.entity.to_wire()

    def _retract(self, uid, id):
        spec = BackfillSpec(Mode.RETRACT, reason="wrong", uids=(uid,))
        backfill.start(self.world.organization, Order(spec, "test", id))
        backfill.apply(self.world.organization, id, "test")


def expected_parts(totals, causes):
    """Kind, part and what goes if it is undone, of each cause that does something."""
    for place, kind in enumerate(causes):
        part = totals[frozenset(causes[: place + 1])] - totals[frozenset(causes[:place])]
        undone = totals[frozenset(causes)] - totals[frozenset(causes) - {kind}]
        if part or undone:
            yield kind, part, undone


def check_parts(found, changes, causes):
    """The difference has the causes that are left, each under its name, with the oracle's parts."""
    parts = [each for each in found.parts if each.amount or each.if_undone]
    assert all(len(each.causes) == 1 for each in parts), found
    shown = [(KINDS[part.causes[0].kind], part.amount, part.if_undone) for part in parts]
    assert shown == [*expected_parts(changes.changed.totals, causes)]
    assert [each.name for each in parts] == [changes.names[kind] for kind, _, _ in shown]


def find_bills(world, changed, rng):
    """The ids of the bill that all causes reach, and of another one that changes."""
    with world.organization.reading() as reader:
        codes = {each.id: each.entity.code for each in reader.all(Account)}
    by_name = {
        (codes[key.account_id], key.bill_date, key.frequency, key.interval): each.id
        for each in stored_bills(world)
        for key in [each.content.key]
    }
    others = [by_name[each] for each in changed.others if each in by_name]
    return by_name[changed.bill], rng.sample(others, min(1, len(others)))


def check_undone(before, after, kind):
    """What went with a cause is what the difference before said of it."""
    gone = [each for each in before.parts if KINDS.get(each.causes[0].kind) == kind]
    assert len(gone) <= 1
    [currency] = before.currencies
    undone = sum(each.if_undone for each in gone)
    assert after.whole(currency) == before.whole(currency) - undone
    assert kind not in {KINDS.get(part.causes[0].kind) for part in after.parts}


def check_world(folder, seed, features):
    rng, changed = random.Random(seed), make_changed_world(seed, features)
    with store_world(changed.world, folder) as world:
        world.clock.time = datetime(2022, 12, 2, tzinfo=UTC)
        bill_world(world)
        changes, left = Changes(world, changed), list(CAUSES)
        for kind in rng.sample(CAUSES, 3):
            getattr(changes, f"do_{kind}")()
        bill_id, others = find_bills(world, changed, rng)
        found = {each: compare(world, each) for each in (bill_id, *others)}
        check_parts(found[bill_id], changes, left)
        assert len(found[bill_id].parts) == len(ALL)
        for kind in rng.sample(CAUSES, 3):
            getattr(changes, f"undo_{kind}")()
            left.remove(kind)
            after = {each: compare(world, each) for each in found}
            check_parts(after[bill_id], changes, left)
            for id_, before in found.items():
                assert after[id_].is_explained, (seed, after[id_])
                check_undone(before, after[id_], kind)
            found = after
        assert all(each.is_same for each in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(WORLDS))
def test_three_causes_at_once_in_a_random_organization(tmp_path, seed):
    drawn = sorted(random.Random(seed).sample(sorted(FEATURES), 5))
    check_world(tmp_path, seed, (SOURCES, drawn, sorted(FEATURES))[seed % 3])
