"""Commands whose database or disk does not answer: one line with the reason, and soon."""

import os
import socket
import subprocess
import time

import pytest

from meterlake.cli import run
from meterlake.model.errors import Unavailable
from meterlake.pipeline.home.setup import initialize
from meterlake.stores.home_settings import change
from meterlake.stores.state import State
from tests.homes import settings

# Five seconds are promised (docs/operations.md), of a machine that has them to give. Nobody would
# ever be told where nothing bounds the wait.
AT_MOST_S = 60
COMMANDS = (
    ("status",),
    ("bill", "--month", "2026-01"),
    ("keys", "rotate"),
    ("sql", "SELECT 1"),
    ("late",),
    ("serve", "--no-flows", "--port", "1"),
)


@pytest.fixture
def silent():
    """The address of a server that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"postgresql://nobody:secret@127.0.0.1:{listener.getsockname()[1]}/x"


def seconds_until_told(capsys, *tokens):
    """How long a command takes to fail, and what it says."""
    start = time.monotonic()
    assert run(tokens) == 1
    return time.monotonic() - start, capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    "command", [COMMANDS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in COMMANDS[1:])]
)
def test_a_silent_database_is_told_soon(tmp_path, monkeypatch, capsys, silent, command):
    initialize(settings(tmp_path / "home"), "Acme")
    change(settings(tmp_path / "home"), "state", silent)
    monkeypatch.setenv("METERLAKE_STATE", silent)

    took, told = seconds_until_told(capsys, *command, "--home", str(tmp_path / "home"))

    assert told.count("\n") == 1
    at = silent.rpartition("@")[2].removesuffix("/x")
    assert f"the State database at {at} is unavailable: connection timeout expired" in told
    assert "secret" not in told
    assert took < AT_MOST_S


def test_the_url_may_ask_for_more_patience(tmp_path, silent):
    start = time.monotonic()
    with pytest.raises(Unavailable, match="timeout"):
        State.open(settings(tmp_path, state=f"{silent}?connect_timeout=3"))

    assert time.monotonic() - start >= 3


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own with 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can make a file system, and not everywhere")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder):
    with (folder / "filling").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return


@pytest.mark.parametrize("state_is_open", [False, True])
def test_a_full_disk_is_told_soon_and_by_its_name(small_disk, capsys, state_is_open):
    home = small_disk / "home"
    initialize(settings(home), "Acme")
    tokens = ("status", "--home", str(home))
    if state_is_open:  # As beside a server: then the lake is what cannot be opened.
        with State.open(settings(home)) as state:
            state.organizations()
            fill(small_disk)
            took, told = seconds_until_told(capsys, *tokens)
    else:
        fill(small_disk)
        took, told = seconds_until_told(capsys, *tokens)

    assert f"the disk is full: {home}" in told
    assert told.count("\n") == 1
    assert took < AT_MOST_S
