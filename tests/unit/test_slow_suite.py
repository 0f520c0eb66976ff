"""The slow tests are all run in ten days, what fails counts at its second try, and what did not run is told."""

import os
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.slow_suite import ROOT, Outcomes, Runner, Suite, in_parts, of_day, read_outcomes

TESTS = [f"tests/{name}.py::test_{number}" for name in "abcde" for number in range(200)]
MONDAY = date(2026, 11, 23)


def test_in_any_ten_days_each_test_has_its_turn_once():
    days = [of_day(TESTS, MONDAY + timedelta(days=number)) for number in range(10)]

    assert sorted(test for day in days for test in day) == sorted(TESTS)
    assert all(50 < len(day) < 200 for day in days)
    assert of_day(TESTS, MONDAY + timedelta(days=10)) == days[0]


def test_parts_are_files_and_another_one_is_last_each_day():
    parts = in_parts(TESTS, 1)

    assert sorted(test for part in parts for test in part) == sorted(TESTS)
    assert all(len({test.partition("::")[0] for test in part}) == 1 for part in parts)
    assert len({in_parts(TESTS, seed)[-1][0] for seed in range(20)}) == 5


def test_small_files_share_a_process():
    parts = in_parts(TESTS, 1, 300)

    assert [len(part) for part in parts] == [400, 400, 200]
    assert sorted(test for part in parts for test in part) == sorted(TESTS)
    assert all(part[:200] == sorted(part[:200], key=TESTS.index) for part in parts)


def test_a_test_that_began_and_did_not_end_brought_its_process_down_or_was_stopped(tmp_path):
    path = tmp_path / "outcomes"
    path.write_text('{"what": "began", "test": "t"}\n{"what": "wrong", "test": "w"}\n')

    assert read_outcomes(path, stopped=False).of == {"t": "died"}
    assert read_outcomes(path, stopped=True).of == {"t": "stopped"}
    assert read_outcomes(path, stopped=True).wrong == ["w"]


def test_what_did_not_run_is_listed_and_what_failed_once_does_not_count():
    found = Outcomes({"a": "passed", "b": "failed", "c": "died", "d": "stopped", "e": "skipped"})
    found.reasons["e"] = "no server"
    second = Outcomes({"b": "passed", "c": "failed"})
    suite = Suite(Runner(Path()), list("abcdef"), found, second)

    assert suite.failures() == ["c"]
    assert suite.not_run() == {"f": "not begun", "d": "stopped: no time left"}
    assert suite.report().splitlines() == [
        "slow tests: 6 chosen, 2 passed, 1 skipped, 1 failed, 2 did not run",
        "skipped:",
        "  1 x no server",
        "failed first and passed alone:",
        "  b",
        "did not run:",
        "  f (not begun)",
        "  d (stopped: no time left)",
        "failed:",
        "  c",
    ]


SLOW = """
import os, time
from pathlib import Path
import pytest
pytestmark = pytest.mark.slow

def test_good(): pass
def test_bad(): assert False
def test_flaky():
    seen = Path("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError
def test_abort(): os.abort()
def test_skipped(): pytest.skip("no server")
def test_after_all_that(): pass
"""


@pytest.fixture
def runner(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src")]))
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.outcomes"]\n')
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    return Runner(tmp_path, ["-p", "no:randomly", "-p", "no:cacheprovider"], tmp_path)


@pytest.mark.slow
def test_all_of_a_part_is_run_whatever_a_test_does_to_its_process(runner, tmp_path):
    (tmp_path / "test_slow.py").write_text(SLOW)
    chosen, every = runner.collect()
    suite = Suite(runner, chosen)
    suite.first_try(in_parts(chosen, 1), 2, time.monotonic() + 120, 120)
    suite.second_try(time.monotonic() + 120)

    assert len(every) == len(chosen) == 6
    outcomes = {test.partition("::test_")[2]: what for test, what in suite.found.of.items()}
    assert outcomes == {
        "good": "passed",
        "bad": "failed",
        "flaky": "failed",
        "abort": "died",
        "skipped": "skipped",
        "after_all_that": "passed",
    }
    assert suite.failures() == ["test_slow.py::test_bad", "test_slow.py::test_abort"]
    assert suite.not_run() == {}


@pytest.mark.slow
def test_a_part_that_takes_too_long_is_stopped_and_says_where(runner, tmp_path):
    (tmp_path / "test_slow.py").write_text(
        SLOW.replace("def test_bad(): assert False", "def test_long(): time.sleep(600)")
    )
    chosen, _ = runner.collect()
    suite = Suite(runner, chosen)
    suite.first_try(in_parts(chosen, 1), 1, time.monotonic() + 60, 600)

    not_run = suite.not_run()
    assert not_run["test_slow.py::test_long"] == "stopped: no time left"
    assert len(not_run) == 5
    assert suite.found.of["test_slow.py::test_good"] == "passed"


KILLS = """
import subprocess, sys

def die(step):
    done = subprocess.run([sys.executable, "-c", f"from tests.killing import die; die({step!r})"])
    assert done.returncode == -9
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_fails_if_a_test_that_passed_did_not_kill_at_its_step(tmp_path, workers):
    """Steps of the real code; two files, so that two workers see one each."""
    conftest = 'pytest_plugins = ["tests.killed_steps"]\n'
    (tmp_path / "conftest.py").write_text(conftest)
    for name, step in (("a", "commit.done"), ("b", "commit.locked")):
        body = f"{KILLS}\ndef test_it(): die({step!r})\n"
        (tmp_path / f"test_{name}.py").write_text(body)
    listed = tmp_path / "list"

    def run(*more):
        command = [sys.executable, "-m", "pytest", "-n", workers, "--dist", "loadfile"]
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        done = subprocess.run(
            [*command, f"--killed-steps={listed}", *more],
            cwd=tmp_path,
            env=env,
            check=False,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout

    listed.write_text("")
    assert run("--record-kills")[0] == 0
    truth = "commit.done test_a.py::test_it\ncommit.locked test_b.py::test_it\n"
    assert listed.read_text() == truth
    assert run()[0] == 0
    (tmp_path / "test_b.py").write_text(f"{KILLS}\ndef test_it(): pass  # SIGKILL, zygote\n")
    code, said = run()
    assert code == 1
    assert "ERROR test_b.py::test_it killed no process at commit.locked" in said
    assert run("test_a.py")[0] == 0


def test_outcomes_of_the_whole_are_read_as_those_of_a_run(tmp_path):
    found = Outcomes({"a": "passed", "b": "failed", "c": "failed"}, wrong=["w"])
    suite = Suite(Runner(Path()), list("abcd"), found, Outcomes({"b": "passed"}))
    path = tmp_path / "outcomes"
    path.write_text(suite.outcomes())

    read = read_outcomes(path, stopped=False)

    assert read.of == {"a": "passed", "b": "passed", "c": "failed", "d": "failed"}
    assert read.wrong == ["w"]
