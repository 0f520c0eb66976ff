"""kill -9 while bills are made again that commitments and balances pay for.

Whoever died where: who goes on ends with the same bills, the same postings and the same amounts, and
the second month is made again, also if the one died who had made the first.
"""

import pytest

from tests.e2e.billing import prepared_to_pay
from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives
from tests.every_lake import IN_S3_TOO
from tests.homes import new_home, open_home

pytestmark = [IN_S3_TOO, pytest.mark.slow]


@pytest.fixture(scope="module")
def lives(lake_location, tmp_path_factory):  # noqa: ARG001
    path = tmp_path_factory.mktemp("paid") / "template"
    org_id = new_home(path)
    with open_home(path, org_id) as home:
        prepared_to_pay(home)
    with zygote() as processes:
        yield Lives(processes, path, org_id, "tests.e2e.billing:paid_for")


def by_month(state):
    return {(code, period): (version, total) for code, period, version, _, total, _ in state}


@pytest.mark.slow
def test_the_work_makes_both_months_again(lives):
    state = lives.undisturbed["state"]
    old, new = by_month(state["seen"]), by_month(state["bills"])

    # 38 USD, then 43, of which 20 are prepaid and the balance pays the rest.
    assert old["acme", "2026-08"] == (1, "0")
    assert new["acme", "2026-08"] == (2, "0")
    assert old["acme", "2026-09"][0] < new["acme", "2026-09"][0]
    assert new["bolt", "2026-08"] == old["bolt", "2026-08"]
    assert lives.undisturbed["reached"].count("bill.stored") > 1


@pytest.mark.slow
def test_no_death_around_a_store_loses_or_repeats_a_cent(lives, lake_location):
    """Also between the first month and the second one, which has to follow."""
    steps = lives.chosen_steps(lake_location, "bill.stored", "bill.made")

    assert _broken(lives, steps) == []


@pytest.mark.slow
def test_no_death_at_any_step_loses_or_repeats_a_cent(lives, lake_location):
    assert _broken(lives, lives.chosen_steps(lake_location, "")) == []


def _broken(lives, deaths):
    expected = lives.undisturbed["state"]
    return lives.broken(deaths, [name for name in expected if name != "seen"])
