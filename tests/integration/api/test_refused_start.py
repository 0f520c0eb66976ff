"""An API server that cannot open its home says why in one line, and ends with an exit code."""

import subprocess
import sys

import pytest

from meterlake.settings import Settings
from meterlake.stores.processes import free_port
from tests.commands import command_environment

WAIT_S = 180
STARTUP_FAILED = 3


def start(settings):
    """Start a server, which must end by itself."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "meterlake.api", "--port", str(free_port())],
        env=command_environment(settings),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"state": "postgresql://nobody@127.0.0.1:9/none"},
            "the State database at 127.0.0.1:9 is unavailable",
        ),
        ({}, "home"),
    ],
)
def test_a_server_that_cannot_open_its_home_says_so_in_one_line(tmp_path, options, reason):
    found = start(Settings(_env_file=None, home=tmp_path, **options))

    first, *others = found.stderr.splitlines()
    assert found.returncode == STARTUP_FAILED
    assert first.startswith("meterlake: ")
    assert reason in first
    assert [line for line in others if line] == ["Application startup failed. Exiting."]
