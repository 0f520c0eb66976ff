"""Bills of random homes explained: after changes and later usage each tree is still that of its bill.

The SQL of each quantity gives it again, and the measurements that are listed sum up to it.
"""

import random
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.pipeline.billing.explanation.explain import ExplanationRequest, explain_bill
from meterlake.pipeline.publish.query import query
from meterlake.stages.usage.aggregate.reducers import narrow
from tests.billing_oracle.worlds import FEATURES, random_world
from tests.explained_trees import as_node, check_tree, walk
from tests.integration.pipeline.billing.test_kept_bills import CHANGES, bill_world
from tests.integration.pipeline.billing.verification.test_verify import run_sql
from tests.stored_worlds import store_world

ALL_ROWS = 1000


def answer_of(world, node):
    """What the SQL of a quantity gives, as the numbers that its tree has."""
    with query(world.organization, node["facts"]["statement"]) as found:
        [row] = found.rows
    if node["facts"]["kind"] == "TIME_WEIGHTED_AVERAGE":
        return [narrow(row[0]["sum"]), row[0]["count"]]
    return list(row[:2]) if node["facts"]["kind"] == "MEAN" else [row[0]]


def check_quantity(world, node):
    numbers = [Decimal(each["value"]) for each in node.get("children", [node])]
    assert answer_of(world, node) == numbers, node
    rows = node.get("measurements", [])
    assert len(rows) == node["facts"]["measurementCount"], node
    if node["facts"]["kind"] == "SUM":
        assert sum(Decimal(str(each["value"])) for each in rows) == numbers[0], node


def check_world(folder, seed, features, bills, quantities):
    """Explain some bills of a home that was billed, changed, and billed again."""
    rng, described = random.Random(seed), random_world(seed, features)
    with store_world(described, folder) as world:
        world.clock.time = datetime(2022, 12, 2, tzinfo=UTC)
        bill_world(world)
        for change in rng.choices(CHANGES, k=2):
            change(world, described, rng)
        world.clock.time = max(world.clock.time, datetime(2022, 12, 3, tzinfo=UTC))
        bill_world(world)
        stored = run_sql(world, "SELECT id, total FROM bill ORDER BY id")
        checked = 0
        for row in rng.sample(stored, min(bills, len(stored))):
            request = ExplanationRequest(row["id"], rows=ALL_ROWS)
            found = explain_bill(world.organization, request)
            tree = as_node(found.root)
            check_tree(tree)
            assert found.differences == []
            assert Decimal(tree["value"]) == Decimal(row["total"])
            measured = [each for each in walk(tree) if "statement" in each.get("facts", {})]
            for node in rng.sample(measured, min(quantities, len(measured))):
                check_quantity(world, node)
                checked += 1
        return checked


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_trees_of_many_homes_are_those_of_their_bills(tmp_path, seed):
    features = random.Random(seed).sample(sorted(FEATURES), 8)
    assert check_world(tmp_path, seed, features, 6, 6) >= 0


@pytest.mark.slow
def test_trees_of_pools_and_segments_are_those_of_their_bills(tmp_path):
    assert check_world(tmp_path, 4, ("hierarchy", "segments"), 4, 4) > 4
