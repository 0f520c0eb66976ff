"""The command line as a process: start-up time, pipes, signals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import meterlake
from tests.homes import HEADER, csv_row

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


@pytest.mark.benchmark
def test_help_answers_at_once(environment):
    def seconds() -> float:
        start = time.perf_counter()
        subprocess.run(command("--help"), env=environment, check=True, capture_output=True)
        return time.perf_counter() - start

    # The best of a few: the machine has other things to do as well.
    assert min(seconds() for _ in range(3)) < 0.5


@pytest.mark.long
def test_an_empty_variable_is_not_set(environment, sample_home, tmp_path):
    def ran(*options, **variables):
        return subprocess.run(
            command("bill", "list", *options),
            env=environment | variables,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    listed = ran("--home", str(sample_home), METERLAKE_USER="")
    assert (listed.returncode, listed.stderr) == (0, "")
    # The home is the usual one, not the folder where the command is given.
    assert ran(METERLAKE_HOME="").stderr == ran().stderr


@pytest.mark.long
def test_a_reader_that_has_seen_enough_is_no_error(environment, sample_home):
    line = command("sql", "FROM range(200000)", "--json", "--home", str(sample_home))
    with subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == '{"range":0}\n'
        process.stdout.close()

        assert process.stderr.read() == ""
    assert process.returncode == 141


@contextmanager
def started(
    line: list[str], environment: dict[str, str], patience_s: float = 120
) -> Iterator["subprocess.Popen[str]"]:
    """A command whose standard output is read.

    One that neither says anything nor ends would keep the whole suite waiting: it is aborted, and
    tells on standard error what its threads were doing.
    """
    told = {**environment, "PYTHONFAULTHANDLER": "1"}
    with subprocess.Popen(line, env=told, stdout=subprocess.PIPE, text=True) as process:
        patience = threading.Timer(patience_s, process.send_signal, [signal.SIGABRT])
        patience.start()
        try:
            yield process
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
            patience.cancel()


def test_a_command_that_never_ends_is_aborted_and_says_what_it_did(capfd, environment):
    program = [sys.executable, "-c", "import time\ndef endless():\n time.sleep(999)\nendless()"]
    with started(program, environment, 2) as process:
        assert process.stdout.readline() == ""

    assert process.returncode == -signal.SIGABRT
    assert "in endless" in capfd.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    "stop", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_watch_stops_when_asked(environment, home, stop):
    line = command("watch", "--home", str(home))
    with started(line, {**environment, "PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout.readline().startswith("Watching ")
        process.send_signal(stop)

        assert process.wait() == 0


@pytest.mark.slow
def test_watch_stops_between_two_files(environment, home):
    """What waits stays in the inbox, and the file at hand is finished."""
    inbox = home / "drop" / "halvorsen-cloud" / "inbox"
    names = [f"{number:02}.csv" for number in range(30)]
    inbox.mkdir(parents=True, exist_ok=True)
    for name in names:
        (inbox / name).write_text(HEADER + csv_row(name))
    line = command("watch", "--home", str(home), "--json")
    environment = {**environment, "METERLAKE_SETTLE_SECONDS": "0"}
    with started(line, environment) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        done = [json.loads(each)["name"] for each in [first, *process.stdout]]

        assert process.wait(timeout=60) == 0
    assert done == names[: len(done)]
    assert len(done) < 5
    assert sorted(path.name for path in inbox.iterdir()) == names[len(done) :]
    assert list((inbox.parent / "claimed").iterdir()) == []
    assert len(list((inbox.parent / "done").iterdir())) == len(done)


@pytest.mark.long
def test_the_shell_learns_to_complete_commands(environment, tmp_path):
    done = subprocess.run(
        command("--install-completion", "--shell", "bash"),
        env=environment | {"HOME": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    [script] = (path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".bashrc")
    asked = (
        f". {script}; COMP_WORDS=(meterlake exp); COMP_CWORD=1;"
        ' f=$(complete -p meterlake | sed "s/.*-F \\([^ ]*\\).*/\\1/");'
        ' $f meterlake exp meterlake; echo "${COMPREPLY[@]}"'
    )
    offered = subprocess.run(["bash", "-c", asked], check=True, capture_output=True, text=True)

    assert str(script) in done.stdout
    assert str(script) in (tmp_path / ".bashrc").read_text()
    assert sorted(offered.stdout.split()) == ["explain", "export"]
