"""Which tests share a worker of xdist: those of a file, and all that need the server of Prefect.

It takes 20 seconds to start. What each worker starts for itself, each of them pays for.
"""

from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling

_FLOWS: Final = "tests/integration/flows"


class ByFile(LoadFileScheduling):
    """Gives a worker all tests of a file, or of all files of flows."""

    def _split_scope(self, nodeid: str) -> str:
        return shared(super()._split_scope(nodeid))


def shared(file: str) -> str:
    """What shares a worker with a file: nothing but itself, except for the tests of flows."""
    return _FLOWS if file.startswith(f"{_FLOWS}/") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile | None:
    """Leave other ways to distribute tests to xdist."""
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None
