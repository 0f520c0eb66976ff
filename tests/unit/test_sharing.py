"""The tests that take longest come first, so that workers end together."""

from pathlib import Path

from tests.sharing import SECONDS, longest, shared

ROOT = Path(__file__).parents[2]


def test_every_file_that_takes_long_is_there():
    assert [file for file in SECONDS if not (ROOT / file).exists()] == []


def test_one_long_test_comes_before_many_short_ones():
    long, many, few = "tests/e2e/test_crash.py", "tests/unit/test_many.py", "tests/unit/test_few.py"
    assert longest({few: 3, many: 100, long: 1}) == long
    assert longest({few: 3, many: 100}) == many


def test_the_tests_of_flows_share_a_worker_and_come_first():
    flows = {shared(f"tests/unit/flows/{name}.py") for name in ("test_runner", "test_export")}
    assert len(flows) == 1
    assert longest(dict.fromkeys([*SECONDS, *flows], 1)) in flows
