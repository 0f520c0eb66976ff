"""Each test that may skip says why, and `tests/skips.toml` where it runs all the same."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS = tomllib.loads((ROOT / "tests" / "skips.toml").read_text("utf-8"))["need"]
MACHINE = (ROOT / ".ci" / "machine").read_text("utf-8")
SKIPS = re.compile(r"pytest\.skip\(|mark\.skipif\(|importorskip\(|mark\.skip\b")


def test_whatever_skips_is_listed():
    skipping = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if SKIPS.search(path.read_text("utf-8")) and path != Path(__file__)
    }

    assert skipping == {test for need in NEEDS for test in need["tests"]}


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: need["what"])
def test_what_is_needed_is_installed_where_it_runs(need):
    [packages] = re.findall(r"^packages=\((.*?)\)$", MACHINE, re.MULTILINE)
    installed = {*packages.split(), *re.findall(r"packages\+=\((\w+)\)", MACHINE)}
    tools = (ROOT / ".ci" / "tools.txt").read_text("utf-8")
    programs = {*re.findall(r"^([\w-]+)==", tools, re.MULTILINE)}
    programs |= set(re.findall(r"([@\w/]+)@[\d.]+", MACHINE))

    assert need["runs"].startswith((".ci/run", ".ci/slow"))
    assert set(need.get("packages", ())) <= installed
    assert set(need.get("programs", ())) <= programs


def test_ci_installs_what_tests_need_before_they_run():
    ci = (ROOT / ".ci" / "run").read_text("utf-8")

    assert ci.index(".ci/machine") < ci.index("\npytest ")
