"""Flows as commands: `python flows/ingest.py --home ... --org ...`."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.integration.flows.conftest import drop

ROOT = Path(__file__).parents[3]


def run(
    name: str, *arguments: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """As a user does, in a process of its own; Prefect alone takes four seconds to import."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, str(ROOT / "flows" / f"{name}.py"), *arguments],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens")
def test_every_option_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here(monkeypatch, "ingest", "--help")

    shown = capsys.readouterr().out
    for words in ("--home", "--org", "--file", "--mapping", "Files and folders to ingest"):
        assert words in shown


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
@pytest.mark.filterwarnings("ignore")
def test_the_outcome_is_printed(home: Path) -> None:
    from prefect.settings import get_current_settings

    server = get_current_settings().to_environment_variables(exclude_unset=True)
    drop(home, "acme", "a.csv", "egress,acme,1,2026-10-01T00:00:00Z,5,eu")

    done = run("ingest", "--home", str(home), "--org", "acme", environment=server)

    assert done.returncode == 0, done.stderr
    assert "accepted      1\n" in done.stdout


@pytest.mark.long
@pytest.mark.usefixtures("prefect")
@pytest.mark.filterwarnings("ignore")
def test_a_failure_is_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as exit_:
        run_here(monkeypatch, "bill", "--home", str(home), "--org", "nobody")

    # The interpreter writes a text to stderr, and returns 1.
    assert str(exit_.value.code).startswith("bill: no organization 'nobody'")
    assert "\n" not in str(exit_.value.code)


def run_here(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: Any) -> None:
    """The same in this process, which has imported Prefect already."""

    from flows.command import run_as_command

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", [f"flows/{name}.py", *arguments])
    run_as_command(getattr(import_module(f"flows.{name}"), name))
