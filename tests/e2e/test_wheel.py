"""The built wheel works on its own: in another folder, without HOME, without a network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# No proxy that leads nowhere is asked for anything: whoever tried the network would fail.
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")


def run(*command: str, **options) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr[-4000:]
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    [wheel] = folder.glob("*.whl")
    site = folder / "site"
    pip = ("-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target", str(site))
    run(sys.executable, *pip, str(wheel))
    return site


def meterlake(site: Path, folder: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), **NO_NETWORK}
    program = "from meterlake.cli import main; main()"
    return run(sys.executable, "-c", program, *arguments, cwd=folder, env=environment).stdout


def test_the_wheel_carries_the_flows_and_the_sample_data(installed):
    assert (installed / "flows" / "ingest.py").exists()
    assert (installed / "sample_data" / "measurements" / "01-llm-week-1.csv").exists()
    assert (installed / "meterlake" / "py.typed").exists()


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel_in_another_folder(installed, tmp_path):
    lines = meterlake(installed, tmp_path, "demo", "--json").splitlines()
    steps = [json.loads(line) for line in lines]
    assert len(steps) > 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_the_code_that_runs_is_the_wheels(installed, tmp_path):
    where = "import meterlake, flows, sample_data; print(meterlake.__file__, flows.__file__)"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed)}
    out = run(sys.executable, "-c", where, cwd=tmp_path, env=environment).stdout
    assert all(path.startswith(str(installed)) for path in out.split())
