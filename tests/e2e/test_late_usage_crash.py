"""kill -9 while scheduled billing applies a policy for late usage: each difference is carried once."""

import pytest

from tests.e2e import late_usage
from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.every_lake import IN_S3_TOO
from tests.homes import new_home, open_home

pytestmark = IN_S3_TOO
WORKS = {"CARRY_FORWARD": late_usage.carrying, "RECALCULATE": late_usage.recalculating}
CHANGED = "CHANGED"
ALL = pytest.mark.parametrize("policy", WORKS)
DECISIONS = pytest.mark.parametrize("policy", [*WORKS, CHANGED])


@pytest.fixture(scope="module")
def lives(lake_location, tmp_path_factory):  # noqa: ARG001
    """The lives of a home, by its policy."""
    folder = tmp_path_factory.mktemp("late")
    with zygote() as processes:
        found = {}
        for policy, prepare in {**WORKS, CHANGED: late_usage.changing_policy}.items():
            path = folder / policy / "template"
            org_id = new_home(path)
            with open_home(path, org_id) as home:
                prepare(home)
            found[policy] = Lives(processes, path, org_id, "tests.e2e.late_usage:scheduled")
        yield found


@pytest.mark.slow
def test_the_work_meets_every_step_of_late_usage(lives):
    reached = {name for each in lives.values() for name in each.undisturbed["reached"]}

    for module in ("apply", "taking_back"):
        assert marked(f"pipeline/billing/late_usage/{module}.py") <= reached
    assert lives["CARRY_FORWARD"].undisturbed["reached"].count("late.decided") == 2
    carried = lives["CARRY_FORWARD"].undisturbed["state"]
    # 1 more and 7 less of acme, and 5 more of bolt; October has 3 and 31 of acme.
    assert carried["late"] == [["acme", "CARRIED", "-6", 1], ["bolt", "CARRIED", "5", 1]]
    assert [each[2:] for each in carried["lines"] if each[:2] == ["acme", "2026-11-01"]] == [
        ["CREDIT_MEMO", "-6"],
        ["STANDING_CHARGE", "31"],
        ["USAGE", "3"],
    ]
    again = lives["RECALCULATE"].undisturbed["state"]
    assert [each[1:3] for each in again["late"]] == [
        ["RECALCULATED", "-6"],
        ["RECALCULATED", "5"],
    ]

    changed = lives[CHANGED].undisturbed["state"]
    # 6 less was carried; then the bill is made again with that and with 2 more: 4 less.
    assert changed["late"] == [
        ["acme", "CARRIED", "-6", 1],
        ["acme", "CARRIED", "6", 1],
        ["acme", "RECALCULATED", "-4", 0],
        ["bolt", "CARRIED", "5", 1],
    ]


@pytest.mark.slow
@DECISIONS
def test_no_death_around_a_decision_loses_or_repeats_a_cent(lives, policy):
    assert lives[policy].broken(lives[policy].outer_steps("late.")) == []


@pytest.mark.slow
@ALL
def test_no_death_at_any_step_loses_or_repeats_a_cent(lives, policy, lake_location):
    assert lives[policy].broken(lives[policy].chosen_steps(lake_location, "")) == []
