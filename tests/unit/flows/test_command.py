"""Flows as commands: `python flows/ingest.py --home ... --org ...`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.flows.conftest import drop

ROOT = Path(__file__).parents[3]
VERBS = ("ingest", "bill", "export", "publish", "maintain", "check")


def run(
    name: str, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, str(ROOT / "flows" / f"{name}.py"), *arguments],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_option_is_explained() -> None:
    done = run("ingest", "--help")

    assert done.returncode == 0
    for words in ("--home", "--org", "--file", "--mapping", "Files and folders to ingest"):
        assert words in done.stdout


@pytest.mark.usefixtures("prefect")
@pytest.mark.filterwarnings("ignore")
def test_the_outcome_is_printed_and_a_failure_is_one_line(home: Path) -> None:
    from prefect.settings import get_current_settings

    server = get_current_settings().to_environment_variables(exclude_unset=True)
    drop(home, "acme", "a.csv", "egress,acme,1,2026-10-01T00:00:00Z,5,eu")

    done = run("ingest", "--home", str(home), "--org", "acme", environment=server)
    failed = run("bill", "--home", str(home), "--org", "nobody", environment=server)

    assert done.returncode == 0, done.stderr
    assert "accepted      1\n" in done.stdout
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].startswith("bill: no organization 'nobody'")
