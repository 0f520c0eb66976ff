"""The command line as a process: start-up time, pipes, signals."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import meterlake

PROGRAM = "import sys; sys.argv[0] = 'meterlake'; from meterlake.cli import main; main()"
HEAVY = ("duckdb", "polars", "pyarrow", "sqlalchemy", "pydantic_settings", "numpy", "prefect")


@pytest.fixture
def environment():
    source = str(Path(meterlake.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source}


def command(*tokens: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *tokens]


def test_help_imports_nothing_heavy(environment):
    check = (
        "import sys; from meterlake.cli import run; run(['--help'])\n"
        f"loaded = sorted(set({HEAVY!r}) & set(sys.modules)); sys.exit(', '.join(loaded) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], env=environment, capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert done.returncode == 0


def test_help_answers_at_once(environment):
    def seconds() -> float:
        start = time.perf_counter()
        subprocess.run(command("--help"), env=environment, check=True, capture_output=True)
        return time.perf_counter() - start

    # The best of a few: the machine has other things to do as well.
    assert min(seconds() for _ in range(3)) < 0.5


def test_a_reader_that_has_seen_enough_is_no_error(environment, sample_home):
    line = command("sql", "FROM range(200000)", "--json", "--home", str(sample_home))
    with subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == '{"range":0}\n'
        process.stdout.close()

        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_watch_stops_when_asked(environment, home, stop):
    line = command("watch", "--home", str(home))
    with subprocess.Popen(
        line, env={**environment, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline().startswith("Watching ")
        process.send_signal(stop)

        assert process.wait(timeout=20) == 0
