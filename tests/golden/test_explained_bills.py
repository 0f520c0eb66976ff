"""Bills explained: every number of every golden bill follows from those below it.

Each file of `explanations/` is what people see of the bills of a golden file. To write them anew after
a change that is meant, run this file as a program.
"""

from pathlib import Path

import pytest

from meterlake.model.bills.bill import LineItemType
from tests.billing_world import note_draws
from tests.explained_trees import as_node, check_bill, check_tree, drawn_trees, explained, walk
from tests.golden.test_bills import CASES, built, read

DRAWN = Path(__file__).parent / "explanations"
# Together they have a line of every type that a calculation makes.
SHOWN = (
    *("worked_seats", "worked_commitment", "worked_rollover", "worked_minimum", "worked_upgrade"),
    *("worked_currencies", "charges", "usage_credits", "hierarchies", "compound", "tiered"),
    *("overage_of_shares_without_units", "tiers_span_plan", "refund_and_seats_ahead"),
)
# No golden bill has them: random worlds do, people enter memos, and nothing makes the last one.
ELSEWHERE = {"BALANCE_FEE", "CREDIT_MEMO", "DEBIT_MEMO", "MANUAL_ADJUSTMENT", "CREDIT_DEDUCTION"}


def explain_case(path):
    """The bills of a golden file with their trees, month by month."""
    case = read(path)
    world = built(case)
    for month in case.get("months") or [case["month"]]:
        terms = world.terms(month)
        found = list(explained(terms, world.usage(terms), world.movements))
        yield from found
        note_draws(world.movements, world.configuration, [bill for bill, _ in found])


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem, marks=[] if path.stem.startswith("worked") else [pytest.mark.slow]
        )
        for path in CASES
    ],
)
def test_every_number_of_a_golden_bill_adds_up(path):
    found = list(explain_case(path))
    for bill, root in found:
        assert check_bill(bill, root) >= 1
    if path.stem in SHOWN:
        assert drawn_trees(found) == (DRAWN / f"{path.stem}.txt").read_text("utf-8")


def test_a_number_that_does_not_follow_is_found():
    [path] = [each for each in CASES if each.stem == "worked_commitment"]
    found = 0
    for _, root in explain_case(path):
        tree = as_node(root)
        for node in walk(tree):
            if node["rule"] not in {"given", "measured", "calculation"}:
                value, node["value"] = node["value"], "7.77"
                with pytest.raises(AssertionError):
                    check_tree(tree)
                node["value"] = value
                found += 1
    assert found > 20


def test_the_drawn_trees_have_lines_of_every_type():
    text = "".join(path.read_text("utf-8") for path in sorted(DRAWN.glob("*.txt")))
    missing = {each.value for each in LineItemType if f". {each.value} " not in text}
    assert missing - ELSEWHERE == set()


if __name__ == "__main__":
    for each in CASES:
        if each.stem in SHOWN:
            (DRAWN / f"{each.stem}.txt").write_text(drawn_trees(explain_case(each)), "utf-8")
