"""`.ci/all` runs every suite and prints one table."""

import sys

import pytest

from tests import all_suites
from tests.all_suites import Result, main, run_suite, table
from tests.slow_suite import Outcomes

PASSING = """
import unittest
def test_a(): assert True
def test_b(): raise unittest.SkipTest("no server")
"""


def suite_of(tmp_path, monkeypatch, content):
    """A suite that is one file, run by pytest."""
    path = tmp_path / "test_some.py"
    path.write_text(content)
    command = (sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.outcomes", str(path))
    monkeypatch.setitem(all_suites.SUITES, "some", command)


@pytest.mark.long
def test_a_suite_is_a_line_of_the_table(tmp_path, monkeypatch):
    suite_of(tmp_path, monkeypatch, PASSING)

    result = run_suite("some", tmp_path)
    result.seconds = 90

    assert table([result]).splitlines() == [
        "suite  cases  passed  skipped  failed  minutes",
        "some       2       1        1       0      1.5",
        "skipped in some: 1 x no server",
    ]


def test_what_failed_is_named_below_the_table():
    found = Outcomes({"x.py::test_a": "passed", "x.py::test_b": "failed"})

    assert table([Result("some", found, found.failed(), 6)]).splitlines()[1:] == [
        "some       2       1        0       1      0.1",
        "failed in some: x.py::test_b",
    ]


@pytest.mark.long
def test_a_run_without_results_is_a_failure(tmp_path, monkeypatch):
    suite_of(tmp_path, monkeypatch, "import nothing_of_this_name\n")

    assert run_suite("some", tmp_path).failed == ["the run as a whole, with exit status 2"]
    assert main(["some"]) == 1


def test_a_suite_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["fast"])

    assert "'fast' is not one of: quick, default, long, both databases" in capsys.readouterr().err
