"""`pytest --outcomes FILE` writes what becomes of each test at once, so that nothing is lost with a process.

Each line is a JSON object: what was `collected` or `deselected`, what `began`, how it ended
(`passed`, `failed`, `skipped`, with its seconds), and what the run itself found wrong.
"""

import json
from pathlib import Path
from typing import Any

import pytest

_WORSE = ("passed", "skipped", "failed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, help="append the outcome of each test to a file")


def pytest_configure(config: pytest.Config) -> None:
    """Write for this process; under xdist, that is the one that hears of all tests."""
    path = config.getoption("--outcomes")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(path), "outcomes")


class Outcomes:
    """Writes a line for each thing that happens.

    Args:
        path: The file; it may exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcome = "passed"
        self._seconds = 0.0
        self._reason = ""

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        for item in items:
            self.tell("deselected", item.nodeid)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self.tell("collected", item.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._outcome, self._seconds, self._reason = "passed", 0.0, ""
        self.tell("began", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds += report.duration
        self._outcome = max(self._outcome, report.outcome, key=_WORSE.index)
        if report.skipped and isinstance(report.longrepr, tuple):
            self._reason = report.longrepr[2].removeprefix("Skipped: ")
        if report.when == "teardown":
            seconds = round(self._seconds, 1)
            self.tell(self._outcome, report.nodeid, seconds=seconds, reason=self._reason)

    def tell(self, what: str, test: str, **more: Any) -> None:
        """Write a line.

        Args:
            what: What happened.
            test: To which test.
            more: What else there is to say.
        """
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"what": what, "test": test, **more}) + "\n")
