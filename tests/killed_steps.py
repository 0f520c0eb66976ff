"""Which declared steps processes were really killed at, seen while the tests run.

`tests/killed_steps.txt` says for each step that the code declares which test kills a process
there. A run of tests fails if one of these tests passes and killed nothing at its step: the list
is held to what happened, not to what a file contains. It is so with any choice of tests, and with
any number of workers. Of several tests that kill at a step, the list names the quickest kind.

`pytest --record-kills` writes what was seen to the list, for the tests that ran.
"""

import ast
import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest
from filelock import FileLock

import meterlake
from tests.killing import VARIABLE

LIST: Final = Path(__file__).with_suffix(".txt")
_KILLED: Final = "killed"
_OFFSET: Final = pytest.StashKey[int]()


def declared_steps() -> set[str]:
    """The steps that the code declares.

    Raises:
        ValueError: One has no name of its own.
    """
    package = Path(meterlake.__file__).parent
    calls = [
        (path, node)
        for path in sorted(package.rglob("*.py"))
        if "mark_step(" in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "mark_step"
    ]
    names = set()
    for path, node in calls:
        match node.args:
            case [ast.Constant(value=str(name))]:
                names.add(name)
            case _:
                raise ValueError(f"{path}:{node.lineno}: a step needs a name that is written there")
    return names


def read_list(path: Path = LIST) -> dict[str, str]:
    """The test that kills at each step, by step."""
    lines = path.read_text("utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if line)


def unkept(promised: dict[str, str], killed: dict[str, set[str]]) -> list[str]:
    """What the list says of tests that passed, and they did not do.

    Args:
        promised: The test of each step.
        killed: The steps at which each test killed that passed.
    """
    return [
        f"{test} killed no process at {step}"
        for step, test in sorted(promised.items())
        if test in killed and step not in killed[test]
    ]


def recorded(
    promised: dict[str, str], killed: dict[str, set[str]], slow: set[str]
) -> dict[str, str]:
    """The list after a run: the tests that ran keep only what they did, and one is found for each.

    A quick test is better than a slow one, and the one that is named stays if it is as good.
    """
    kept = {
        step: test for step, test in promised.items() if test not in killed or step in killed[test]
    }
    for test in sorted(killed):
        for step in killed[test]:
            named = kept.get(step)
            if named is None or (named in slow and test not in slow):
                kept[step] = test
    return kept


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-kills", action="store_true", help="write the list of killed steps")
    parser.addoption("--killed-steps", type=Path, default=LIST, help="the list of killed steps")


def pytest_configure(config: pytest.Config) -> None:
    """Give the processes of this one a file for their last words."""
    handle, name = tempfile.mkstemp(prefix="meterlake-killed-")
    os.close(handle)
    os.environ[VARIABLE] = name
    config.stash[_OFFSET] = 0
    config.add_cleanup(lambda: Path(name).unlink(missing_ok=True))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Ledger(config), "killed-steps")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Have the report of a test say at which steps its processes died."""
    if call.when != "call":
        return
    text = Path(os.environ[VARIABLE]).read_text()
    new = text[item.config.stash[_OFFSET] :]
    item.config.stash[_OFFSET] = len(text)
    kind = "slow" if item.get_closest_marker("slow") else "quick"
    item.user_properties += [(_KILLED, f"{kind} {step}") for step in sorted(set(new.split()))]


class _Ledger:
    """What all workers saw."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.list: Path = config.getoption("--killed-steps")
        self.killed: dict[str, set[str]] = defaultdict(set)
        self.slow: set[str] = set()
        self.wrong: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" or not report.passed:
            return
        found = self.killed[report.nodeid]
        for name, value in report.user_properties:
            if name == _KILLED:
                kind, _, step = str(value).partition(" ")
                found.add(step)
                if kind == "slow":
                    self.slow.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.config.getoption("--record-kills"):
            self._record()
            return
        promised = read_list(self.list)
        self.wrong = unkept(promised, self.killed)
        outcomes = self.config.pluginmanager.get_plugin("outcomes")
        for line in self.wrong if outcomes else ():
            outcomes.tell("wrong", line)
        if self.wrong and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _record(self) -> None:
        with FileLock(self.list.with_suffix(".lock")):
            found = recorded(read_list(self.list), self.killed, self.slow)
            lines = [f"{step} {found[step]}\n" for step in sorted(found.keys() & declared_steps())]
            self.list.write_text("".join(lines), "utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        declared = read_list(self.list).keys()
        seen = declared & set().union(*self.killed.values())
        if seen:
            terminalreporter.write_line(
                f"processes were killed at {len(seen)} of {len(declared)} declared steps"
            )
        for line in self.wrong:
            terminalreporter.write_line(f"ERROR {line}; see tests/killed_steps.py", red=True)
