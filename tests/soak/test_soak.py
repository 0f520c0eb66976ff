"""A soak: in short with every kind of fault, for three minutes, and what decides what goes wrong."""

import threading
import time

import pytest

from tests.soak.chaos import KINDS, schedule
from tests.soak.load import Pace
from tests.soak.report import as_text
from tests.soak.run import Plan, soak
from tests.soak.servers import missing

MACHINES = ["north", "south"]


@pytest.fixture
def servers():
    reason = missing()
    if reason:
        pytest.skip(reason)


@pytest.mark.parametrize("seconds", [45, 600, 3600])
def test_a_seed_decides_what_goes_wrong_and_each_kind_has_its_turn(seconds):
    faults = schedule(7, seconds, MACHINES, set())

    assert faults == schedule(7, seconds, MACHINES, set())
    assert faults != schedule(8, seconds, MACHINES, set())
    assert {fault.kind for fault in faults} == set(KINDS)
    assert all(0 < fault.at_s <= seconds - fault.seconds for fault in faults)


def test_what_cannot_be_had_is_left_out():
    faults = schedule(7, 600, MACHINES, {"pull cable", "kill Dask worker"})

    assert {fault.kind for fault in faults} == set(KINDS) - {"pull cable", "kill Dask worker"}


def test_a_pace_is_kept_over_all_who_ask():
    pace, ended, rows = Pace(1000), threading.Event(), 0
    until = time.monotonic() + 0.5
    while time.monotonic() < until and pace.wait(50, ended):
        rows += 50
    ended.set()

    assert 50 <= rows <= 600
    assert not pace.wait(50, ended)


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_every_kind_of_fault_once_loses_nothing_and_doubles_nothing(tmp_path):
    found = soak(tmp_path, Plan(seconds=60, seed=11, rows=50, capacity_s=0, pace=100))

    assert found["findings"] == [], as_text(found)
    assert found["verified"]["rows"] > 0
    absent = set(found["absent"])
    # No command, and no flow of a worker, may run when one is to be killed.
    assert set(KINDS) - absent - {"kill command", "kill flow run"} <= set(found["faults"])


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_three_minutes_at_half_the_capacity_lose_nothing_and_double_nothing(tmp_path):
    """`python -m tests.soak` soaks for as long as it is told."""
    found = soak(tmp_path, Plan(seconds=180, seed=17, capacity_s=20))

    assert found["findings"] == [], as_text(found)
    assert found["load"]["rows"] > 0
    assert set(KINDS) - set(found["absent"]) <= set(found["faults"])
